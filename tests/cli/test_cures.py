"""Forty mistakes, each answered by one line that says what to do."""

import numpy as np
import pytest
from command import PROGRAM, exact_draws, one_line

MODEL = ("--model", "kidscore_momiq")
DRAWS = ("recover", "draws.npz", *MODEL)
FIT = ("fit", "linear_regression", "table.csv")
FILES = {
    "own.py": PROGRAM,
    "two.py": PROGRAM + "\n\n\na = make()\nb = make(2.0)\n",
    "people.csv": "id,name\n1,Ann\n2,Bob\n",
    "table.csv": "x,y\n1,2\n2,4.5\n3,5.5\n",
    "words.csv": "x,y\n1,no\n2,yes\n3,no\n",
    "gap.csv": "x,y\n1,\n2,3\n",
    "estimates.csv": "term,estimate,std. error\nx,0.5,0.1\nsigma,1.0,\n",
    "notes.txt": "hello\n",
    "fit.doc": "1",
    "bad.nc": "text",
    "empty.nc": "",
    "bad.rds": "text",
    "iq.csv": "iq\n1\n",
    "high.csv": "mom_iq\nhigh\nlow\n",
    "gaps.csv": "mom_iq,b\n1,1\n,2\n",
    "twice.csv": "mom_iq\n100\n100\n",
    "nothing.stan": "parameters {real mu;} model {mu ~ normal(0,1);}\n",
}
CURES = {
    "a mistyped command": (["adit", "draws.npz"], "did you mean audit"),
    "a missing argument": (["deletion", "draws.npz"], "for example: bayesrecon deletion before.npz after.npz"),
    "a missing option": (["sanitise", "draws.npz"], "for example: bayesrecon sanitise .* -o safe.nc"),
    "a mistyped option": (["recover", "draws.npz", "--modle", "x"], "--model"),
    "a mistyped file": (["recover", "drwas.npz"], "did you mean draws.npz"),
    "a file in no folder": (["recover", "none/a.nc"], "check the path: the folder none does not exist"),
    "a file of another kind": (["recover", "fit.doc"], r"known suffixes: \.npz"),
    "no model": (["recover", "draws.npz"], "pass one .*--model NAME or file.py:name"),
    "a mistyped model": (["recover", "draws.npz", "--model", "kidscore_momi"], "did you mean kidscore_momiq"),
    "a file of two models": (["recover", "draws.npz", "--model", "two.py"], "name one, two.py:a, two.py:b"),
    "a mistyped model file": (["recover", "draws.npz", "--model", "onw.py"], "did you mean own.py"),
    "another model": (["recover", "draws.npz", "--model", "mesquite"], "draws of another model"),
    "a table of data": (["recover", "people.csv", *MODEL], "data go to --data or --known"),
    "a table without its model": (["recover", "estimates.csv"], "name its model, --model ols or logit or poisson"),
    "a table with R's name": (
        ["audit", "estimates.csv", "--model", "lm"],
        "--model lm is not one of ols, logit, poisson",
    ),
    "a damaged file": (["audit", "bad.nc"], "is the file complete"),
    "an empty file": (["audit", "empty.nc"], "empty.nc: the file is empty; export it again"),
    "a damaged file of R": (["audit", "bad.rds"], r"write it with saveRDS\(fit, file\)"),
    "a text": (["audit", "notes.txt"], "draws are a line of names and rows of numbers"),
    "a domain without ends": ([*DRAWS, "--domain", "mom_iq"], "e.g. age=positive, age=18:90, sex=0,1"),
    "a domain of no field": ([*DRAWS, "--domain", "iq=0:1"], "did you mean mom_iq"),
    "a domain turned around": ([*DRAWS, "--domain", "mom_iq=3:2"], "low < high"),
    "columns of other names": ([*DRAWS, "--known", "iq.csv"], "name the columns like the fields"),
    "words for numbers": ([*DRAWS, "--known", "high.csv"], "words are coded as the fit coded them .*'high' 0, 'low' 1"),
    "gaps": ([*DRAWS, "--known", "gaps.csv"], "leave these rows out or fill them in"),
    "a unit that repeats": ([*DRAWS, "--known", "twice.csv", "--unit", "mom_iq"], "name more fields"),
    "settings that are not JSON": ([*DRAWS, "--settings", "{"], "for example --settings"),
    "draws that cut a chain": ([*DRAWS, "--draws", "500"], "take 400 or 800"),
    "a result of another kind": ([*DRAWS, "--out", "a.pdf"], "must end in .nc or .json"),
    "a result in no folder": ([*DRAWS, "--out", "none/a.json"], "the folder none does not exist"),
    "a result over its source": ([*DRAWS, "--out", "draws.npz"], "name another file"),
    "a report of another kind": (["audit", "draws.npz", "--html", "r.pdf"], "must end in .html"),
    "an unknown level": (["audit", "draws.npz", "--fail-on", "bad"], "expected low, medium or high"),
    "digits without a copy": (["audit", "draws.npz", "--digits", "3"], "need --fix FILE"),
    "one file twice": (["audit", "draws.npz", "draws.npz"], "name each file once"),
    "a list that is not there": (["audit", "draws.npz", "--public", "@a.txt"], "a text file with one name per line"),
    "a game without a column": (["game", "table.csv"], r"--response COLUMN \(x, y\)"),
    "a mistyped game": (["game", "iris-logistc"], "did you mean iris-logistic"),
    "a gap in a game": (["game", "gap.csv", "--response", "x"], "drop these rows or fill them in"),
    "a fit to no file": ([*FIT], "--out FILE.nc is needed"),
    "a fit of no column": ([*FIT, "-o", "f.nc", "--response", "z"], "name the response with --response"),
    "a fit of a folder": (["fit", "linear_regression", ".", "-o", "f.nc"], "it is a folder: name a file in it"),
    "a fit of words": (["fit", "linear_regression", "words.csv", "-o", "f.nc"], "code categories as numbers"),
    "a mistyped attack": (["reconstruct", "draws.npz", *MODEL, "--attack", "x"], "weighted-records, single-records"),
    "an option of another attack": (
        ["reconstruct", "draws.npz", *MODEL, "--attack", "weighted-records", "--rate", "0.1"],
        "it belongs to score-matching",
    ),
    "bounds without a domain": (["diagnose", "draws.npz", *MODEL, "--bound"], "--domain mom_iq=LOW:HIGH"),
    "a program without data": (["recover", "draws.npz", "--model", "nothing.stan"], "declare data in the data block"),
    "too little worth": (["sanitise", "draws.npz", *MODEL, "-o", "s.nc", "--worth", "2"], "use --worth 100"),
}


@pytest.fixture
def files(tmp_path):
    np.savez(tmp_path / "draws.npz", **exact_draws())
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


def test_there_are_forty():
    assert len(CURES) >= 40


@pytest.mark.parametrize("mistake", CURES)
def test_one_line_says_what_to_do(run, files, mistake):
    arguments, cure = CURES[mistake]
    one_line(run(*arguments), cure)
