"""Bad input of any kind is one line on stderr and exit code 2."""

import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from command import KIDIQ, NAMED, PROGRAM, document, draws, one_line


def change(value):
    def edit(array):
        array[0, 3] = value
        return array

    return edit


def first(count):
    return {name: lambda array: array[:1, :count] for name in ("beta", "sigma")}


def a_file(name, content, *arguments):
    def write(folder):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return arguments

    return write


def model_file(content, function="make"):
    def write(folder):
        (folder / "own.py").write_text(content)
        return [*draws()(folder)[:3], f"own.py:{function}"]

    return write


def known(name, content, *arguments):
    def write(folder):
        (folder / name).write_text(content)
        return [*draws()(folder), "--known", name, *arguments]

    return write


def with_options(*options):
    return lambda folder: [*draws()(folder), *options]


def a_folder(name, *options):
    def write(folder):
        (folder / name).mkdir()
        return with_options(*options)(folder)

    return write


def zipped(content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("beta.npy", content)
    return buffer.getvalue()


MODEL = ("--model", "kidscore_momiq")
FIT = ("fit", "linear_regression", "table.csv", "-o", "fit.nc")
FEW = ("--chains", "1", "--draws-per-chain", "2", "--warmup", "2")
TABLE = "x,y\n1,2\n2,4.5\n3,5.5\n"
BAD_INPUT = {
    # draws
    "nan": (draws(sigma=change(np.nan)), "draws of sigma hold 1 missing or infinite values"),
    "infinite": (draws(beta=change(np.inf)), "draws of beta hold 2 missing or infinite values"),
    "outside the support": (draws(sigma=change(-1.0)), r"1 draws of sigma lie outside its support \[0, inf\], e.g. -1"),
    "on the boundary": (draws(sigma=np.zeros_like), "800 of 800 draws lie on or outside the support"),
    "one draw": (draws(**first(1)), "1 draw is too few"),
    "as many draws as parameters": (draws(**first(3)), "3 draws are too few for the covariance of 3 parameters"),
    "hardly more draws than parameters": (draws(**first(5)), "5 draws"),
    "missing parameter": (draws(beta=lambda array: None), "lack parameter beta of model kidscore_momiq"),
    "unknown parameter": (draws(tau=lambda array: array), "the draws hold tau, which model kidscore_momiq does not"),
    "wrong shape": (draws(beta=lambda array: array[..., :1]), r"\(2, 400, 1\), expected \(chains, draws, 2\)"),
    "text": (draws(sigma=lambda array: array.astype(str)), "lack parameter sigma"),
    "constant": (draws(sigma=np.ones_like), "parameter sigma takes one value in all draws"),
    "singular": (draws(beta=lambda array: array[..., :1] * [1, 2]), "their covariance is singular"),
    "too large": (draws(beta=lambda array: 1e200 * array), ""),
    "no model": (lambda folder: draws()(folder)[:2], "does not name its model.*--model NAME"),
    # files
    "no such file": (lambda folder: ["recover", "none.nc"], "none.nc: no such file"),
    "unknown suffix": (
        a_file("draws.doc", "1", "recover", "draws.doc"),
        r"unknown suffix '.doc'; known suffixes: .*\.nc",
    ),
    "corrupt archive": (
        a_file("a.npz", zipped("junk"), "recover", "a.npz", *MODEL),
        "a.npz: cannot be read as an .npz",
    ),
    "not an archive": (a_file("a.npz", b"PK\3\4junk", "recover", "a.npz", *MODEL), "a.npz: not an .npz file"),
    "corrupt csv": (
        a_file("a.csv", "sigma,beta.1,beta.2\n1,2,3\n4,5\n", "recover", "a.csv", *MODEL),
        "a.csv: line 3 has 2 fields under a header of 3",
    ),
    "csv of words": (a_file("a.csv", "sigma\nhigh\n", "recover", "a.csv", *MODEL), "a.csv: .*high"),
    "corrupt netcdf": (a_file("a.nc", "text", "recover", "a.nc"), "a.nc: cannot be read as a netCDF file"),
    "two kinds of files": (
        lambda folder: a_file("b.nc", "", *a_file("a.csv", "", "recover", "a.csv", "b.nc")(folder))(folder),
        "b.nc: several files must be CmdStan",
    ),
    "one file twice": (lambda folder: [*draws()(folder), "draws.npz"], "draws.npz is given twice"),
    # model
    "unknown model": (with_options("--model", "kidscore_momi"), "no shipped model 'kidscore_momi'; did you mean"),
    "another model": (with_options("--model", "mesquite"), "shape"),
    "no model file": (with_options("--model", "none.py:make"), "none.py: no such file"),
    "no function named": (with_options("--model", "own.py:"), "as file.py:name"),
    "model file of another kind": (
        lambda folder: [*a_file("own.txt", "", *draws()(folder))(folder), "--model", "own.txt:make"],
        "own.txt is not a Python file",
    ),
    "model with a syntax error": (model_file("def make(:"), "own.py cannot be imported: SyntaxError"),
    "model with a missing import": (model_file("import not_there"), "No module named 'not_there'; install it in"),
    "model of an extra": (
        model_file("raise ModuleNotFoundError(\"No module named 'pymc'\", name='pymc')"),
        r"No module named 'pymc'; pip install 'bayesrecon\[pymc\]'",
    ),
    "model that imports within": (
        model_file("def make():\n    raise ModuleNotFoundError(\"No module named 'pymc'\", name='pymc')"),
        r"make\(\) failed: .*No module named 'pymc'; pip install 'bayesrecon\[",
    ),
    "model file that exits": (model_file("raise SystemExit(0)"), "own.py cannot be imported: SystemExit"),
    "model without the function": (model_file("x = 1"), "own.py has no model or function make"),
    "model that is no function": (model_file("make = 1"), "cannot make a model of a int"),
    "model of another type": (model_file("def make(): return 1"), "cannot make a model of a int"),
    "model that fails": (model_file("def make(): return 1 / 0"), r"make\(\) failed: ZeroDivisionError"),
    "model that exits": (model_file("def make(): raise SystemExit(0)"), r"make\(\) failed: SystemExit"),
    "model that is refused": (
        model_file(PROGRAM.replace("mu, scale", "mu, scale + y.std()")),
        "own: the likelihood is not a product over records",
    ),
    # options
    "settings that are not JSON": (with_options("--settings", "{"), "--settings is not JSON"),
    "settings that are a list": (with_options("--settings", "[1]"), "--settings must be a JSON object"),
    "unknown settings": (with_options("--settings", '{"depth": 3}'), "settings of model 'kidscore_momiq'.*depth"),
    "settings without a model": (
        lambda folder: [*draws(__attributes__=lambda _: NAMED)(folder)[:2], "--settings", "{"],
        "--settings is not JSON",
    ),
    "metric": (with_options("--metric", "euclid"), "--metric euclid: expected 'covariance' or 'identity'"),
    "coordinates": (with_options("--coordinates", "polar"), "expected 'unconstrained' or 'constrained'"),
    "no draws": (with_options("--draws", "0"), "--draws 0 is not between 1 and 800"),
    "too many draws": (with_options("--draws", "801"), "--draws 801 is not between 1 and 800"),
    "draws that cut a chain": (with_options("--draws", "500"), "--draws 500 would split a chain of 400 draws"),
    "seed": (with_options("--seed", "-1"), "seed|key"),
    "total": (with_options("--total", "nan"), "--total nan"),
    "domain without a field": (with_options("--domain", "positive"), "'positive': expected FIELD=NAME, FIELD=LOW:HIGH"),
    "domain of words": (with_options("--domain", "mom_iq=low,high"), "'mom_iq=low,high': expected FIELD=NAME"),
    "domain of another name": (with_options("--domain", "mom_iq=posative"), "'posative' is not one of real, positive"),
    "domain that is empty": (with_options("--domain", "mom_iq=3:2"), r"an interval is \(low, high\) with low < high"),
    "domain of another field": (with_options("--domain", "iq=0:1"), "'iq' is not a field .*did you mean mom_iq"),
    "unit that is not known": (with_options("--unit", "mom_iq"), "--unit mom_iq must be one of the known fields"),
    "out in no folder": (with_options("--out", "none/a.json"), "the folder none does not exist"),
    "out of another kind": (with_options("--out", "a.pdf"), "--out a.pdf: the name must end in .nc or .json or .csv"),
    "out without a suffix": (with_options("--out", "a"), "--out a: the name must end in"),
    "plot in no folder": (with_options("--plot", "none/a.png"), "the folder none does not exist"),
    "plot of another kind": (with_options("--plot", "a.json"), "--plot a.json: the name must end in"),
    "out that is a folder": (a_folder("a.json", "--out", "a.json"), "(?i)directory"),
    # what is known
    "no known file": (with_options("--known", "none.csv"), "none.csv: no such file"),
    "known without a field": (known("a.csv", "iq\n1\n"), r"none of its columns \(iq\) is a field of kidscore_momiq"),
    "known of another kind": (known("a.txt", "mom_iq\n1\n"), "read from .csv, .json and .npz files"),
    "known that is empty": (known("a.csv", ""), "a.csv: the file is empty"),
    "known that is not JSON": (known("a.json", "{"), "a.json: cannot be read as JSON"),
    "known that is a list": (known("a.json", "[1]"), "a.json: expected a JSON object of arrays"),
    "known words": (known("a.csv", "mom_iq\nhigh\n"), "'mom_iq' holds values that are not numbers"),
    "known with a gap": (known("a.csv", "mom_iq,b\n1,1\n,2\n"), "'mom_iq' holds missing or infinite values"),
    "known that is ragged": (
        known("a.json", '{"mom_iq": [1, [2, 3]]}'),
        "'mom_iq': its lists are not all equally long",
    ),
    "unit that repeats": (known("a.csv", "mom_iq\n100\n100\n", "--unit", "mom_iq"), "its known values repeat"),
    "total against known": (known("a.csv", "mom_iq\n100\n101\n", "--total", "3"), "--total 3.* contradicts the 2 rows"),
    "data that are ragged": (
        known("a.json", '{"mom_iq": [[1, 2], [3]]}'),
        "'mom_iq': its lists are not all",
    ),
    "a table of what no number holds": (
        a_file("e.csv", "name,estimate,std. error\nx,1e400,1\nsigma,1,1\n", "recover", "e.csv", "--model", "ols"),
        "the cell '1e400' is not a finite number",
    ),
    "a table of data": (
        a_file("people.csv", "id,name\n1,Ann\n2,Bob\n", "recover", "people.csv", *MODEL),
        "line 2 holds 'Ann', which is not a number.*or a table of data",
    ),
    # fit
    "fit of no file": (lambda folder: FIT, "table.csv: no such file"),
    "fit of an unknown model": (a_file("table.csv", TABLE, "fit", "linear", *FIT[2:]), "no shipped model 'linear'"),
    "fit into no folder": (a_file("table.csv", TABLE, *FIT[:3], "-o", "none/a.nc"), "the folder none does not exist"),
    "fit into another file": (a_file("table.csv", TABLE, *FIT[:3], "-o", "a.csv"), "the name must end in .nc"),
    "fit without the response": (a_file("table.csv", TABLE, *FIT, "--response", "z"), r"no column 'z' \(it has x, y\)"),
    "fit without a covariate": (a_file("table.csv", TABLE, *FIT, "--covariates", "x,z"), "no column 'z'"),
    "fit without a field": (a_file("table.csv", TABLE, "fit", "kidscore_momiq", *FIT[2:]), "lacks 'kid_score'"),
    "fit of words": (a_file("table.csv", "x,y\n1,a\n2,b\n", *FIT), "'y' holds values that are not numbers"),
    "fit with a gap": (a_file("table.csv", "x,y\n1,\n2,3\n", *FIT), "'y' holds missing or infinite values"),
    "fit of no rows": (a_file("table.csv", "x,y\n", *FIT), "table.csv|record|row"),
    "fit outside the domain": (
        a_file("table.csv", TABLE, "fit", "logistic_regression", *FIT[2:]),
        "'y' holds 2; its domain is",
    ),
    "fit without draws": (
        a_file("table.csv", TABLE, *FIT, "--draws-per-chain", "0"),
        "draws and thinning must be at least 1",
    ),
    "fit with an impossible rate": (a_file("table.csv", TABLE, *FIT, "--target-accept", "2", *FEW), "accept"),
    "fit by an unknown method": (a_file("table.csv", TABLE, *FIT, "--chain-method", "magic"), "--chain-method magic"),
    # usage
    "draws that are no number": (with_options("--draws", "many"), "--draws takes a whole number"),
    "unknown option": (with_options("--colour", "red"), "--colour"),
    "nothing to recover": (lambda folder: ["recover"], "(?i)release"),
    "unknown command": (lambda folder: ["uncover"], "uncover"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input(run, tmp_path, case):
    prepare, match = BAD_INPUT[case]
    arguments = prepare(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    one_line(run(*arguments), match)
    assert [
        path for path in sorted(tmp_path.rglob("*")) if path.suffix != ".pyc" and path.name != "__pycache__"
    ] == before


@pytest.mark.parametrize(
    "name, options, match",
    [
        ("kidiq-kidscore_momi", (), f"posteriordb has no posterior 'kidiq-kidscore_momi'; did you mean {KIDIQ}"),
        ("zzz", (), "posteriordb has no posterior 'zzz'"),
        ("Rate_1_data-Rate_1_model", ("--model", "Rate_1_model"), "no reference draws for Rate_1_data-Rate_.*fit"),
        ("a/b", (), "'a/b' is not a name"),
        ("../../etc/passwd", (), "etc/passwd"),
        (
            "mnist-nn_rbm1bJ100",
            (),
            "its own program cannot be used: the data mnist .*--model",
        ),
        (KIDIQ, ("--model", "mesquite"), "sigma|beta"),
        ("eight_schools-eight_schools_noncentered", ("--model", "kidscore_momiq"), "lack parameter beta"),
        (
            "eight_schools-eight_schools_noncentered",
            ("--coordinates", "constrained"),
            "density of tau does not vanish at its lower bound.*use --coordinates unconstrained",
        ),
    ],
)
def test_bad_input_with_posteriordb(run, database, tmp_path, name, options, match):
    one_line(run("recover", name, *options, "--json", "--out", "result.json"), match)
    assert list(tmp_path.iterdir()) == []


def test_corrupt_database(run, database, tmp_path, monkeypatch):
    source, copy = Path(database.path), tmp_path / "copy"
    draws_file = f"reference_posteriors/draws/draws/{KIDIQ}.json.zip"
    for file in (f"posteriors/{KIDIQ}.json", "data/info/kidiq.info.json", draws_file):
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, copy / file)
    monkeypatch.setenv("POSTERIOR_DB_PATH", str(copy))
    assert document(run("recover", KIDIQ, "--draws", 1000, "--json"))["release"] == KIDIQ
    whole = (copy / draws_file).read_bytes()
    for content in (whole[:-100], b"", whole[:5000] + bytes(200) + whole[5200:]):
        (copy / draws_file).write_bytes(content)
        one_line(run("recover", KIDIQ), f"{KIDIQ}.json.zip: cannot be read as zipped JSON")
    (copy / draws_file).unlink()
    one_line(run("recover", KIDIQ), f"the reference draws of {KIDIQ} are not in this copy of posteriordb")
    (copy / f"posteriors/{KIDIQ}.json").write_text("{")
    one_line(run("recover", KIDIQ), f"the description of {KIDIQ}: cannot be read as JSON")


def test_no_database(run, monkeypatch, tmp_path):
    monkeypatch.delenv("POSTERIOR_DB_PATH", raising=False)
    for arguments in (
        ["recover", KIDIQ],
        ["posteriors"],
        ["posteriors", "--json"],
        ["fit", "arK", "arK", "-o", "a.nc"],
    ):
        one_line(run(*arguments), "no copy of posteriordb was found: set POSTERIOR_DB_PATH")
    monkeypatch.setenv("POSTERIOR_DB_PATH", str(tmp_path))
    one_line(run("recover", KIDIQ), "is not a posterior database")
