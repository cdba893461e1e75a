"""What a user types: one word for one thing, and a wrong word answered with the right one."""

import subprocess
import sys

import numpy as np
import pytest
from command import NAMED, PROGRAM, document, exact_draws, one_line, statistics

import bayesrecon
from bayesrecon.results.row import Row

WRONG = {
    "a command": (["adit", "fit.nc"], "there is no command 'adit'; did you mean audit"),
    "a command like none": (["zzzz"], "the commands are audit, deletion"),
    "an argument": (
        ["deletion", "before.npz"],
        r"AFTER is missing .*example: bayesrecon deletion before.npz after.npz",
    ),
    "an option's value": (["sanitise", "draws.nc"], "--out.*for example: bayesrecon sanitise"),
    "an option": (["recover", "draws.nc", "--domian", "x=0:1"], "--domain"),
    "an option like none": (["recover", "draws.nc", "--qqq"], "see bayesrecon recover --help"),
    "an option before the command": (["-X"], "; see bayesrecon --help"),
    "a word for a number": (["recover", "draws.nc", "--total", "many"], "recover --total takes a number"),
    "half a draw": (["recover", "draws.nc", "--draws", "1.5"], "recover --draws takes a whole number"),
    "a file": (["recover", "drawz.nc", "--model", "ols"], "drawz.nc: no such file"),
    "a file of an option": (["audit", "kidiq", "--correlations", "nothere.csv"], "nothere.csv: no such file"),
    "a model's file": (["recover", "kidiq", "--model", "owm.py:model"], "owm.py: no such file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_word_is_answered_with_the_right_one(run, case):
    arguments, match = WRONG[case]
    one_line(run(*arguments), match)


def test_completion_is_offered_once(run):
    assert "--install-completion" in run("--help").out
    for command in ("recover", "audit", "game", "fit"):
        assert "completion" not in run(command, "--help").out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("recover", "x.nc", "--model", "kidscore_momh"), {"kidscore_momhs", "kidscore_momhsiq"}),
        (("reconstruct", "x.nc", "--attack", "weighted"), {"weighted-records"}),
        (("game", "t.csv", "--learner", "ridg"), {"ridge"}),
    ],
)
def test_completion_offers_what_there_is(monkeypatch, words, offered):
    monkeypatch.setenv("_BAYESRECON_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(("bayesrecon", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    asked = "import sys; sys.argv = ['bayesrecon']; import bayesrecon.cli.main as m; m.main()"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert set(done.stdout.split()) == offered


@pytest.fixture
def draws(tmp_path):
    np.savez(tmp_path / "draws.npz", bayesrecon=NAMED, **exact_draws())


OWN = "\n\n\nmodel = make()\n"


@pytest.mark.slow
def test_a_file_with_one_model_needs_no_name(run, tmp_path):
    mu = np.random.default_rng(0).normal(3, 0.1, (2, 200))
    np.savez(tmp_path / "mu.npz", mu=mu)
    (tmp_path / "own.py").write_text(PROGRAM + OWN)
    named = statistics(document(run("recover", "mu.npz", "--model", "own.py:model", "--json")))
    assert statistics(document(run("recover", "mu.npz", "--model", "own.py", "--json"))) == named
    (tmp_path / "function.py").write_text(PROGRAM)  # a function that returns one
    assert statistics(document(run("recover", "mu.npz", "--model", "function.py", "--json"))) == named
    (tmp_path / "two.py").write_text(PROGRAM + OWN + "other = make(2.0)\n")
    one_line(run("recover", "mu.npz", "--model", "two.py"), "several; name one, two.py:model, two.py:other")
    (tmp_path / "none.py").write_text("x = 1\n")
    one_line(run("recover", "mu.npz", "--model", "none.py"), "the file does not define the model")
    one_line(run("recover", "mu.npz", "--model", "own.py:modle"), "no model or function modle; did you mean model")


def test_audit_takes_a_release_as_the_other_verbs_do(regression):
    _, release = regression
    found = bayesrecon.audit(release, remedies=False)
    assert found.model == release.model.name
    assert found.findings[0].kind == "draws"


def test_a_row_prints_as_a_person_would_write_it():
    row = Row("n", 91.63137305535402, 4.4012, 83.0051, 100.2576, 4.3, 1.0, "determined", 812.5)
    assert repr(row) == str(row) == "n: 91.6 ± 4.4, 95 % interval 83.0 to 100.3, determined"
    assert repr(Row("mean(y)", visibility=0.1)) == "mean(y): undetermined"
    assert repr(Row("mean(z)", 1.5, visibility=1.0, verdict="determined")) == "mean(z): 1.5, determined"
    assert repr(Row("n", 14123.8, 310.0, 13516.2, 14731.4, verdict="partly")).startswith("n: 14120 ± 310, ")
    assert repr(Row("n\x1b[31m", 2.0)) == "n\\x1b[31m: 2, undetermined"


SEMICOLONS = "mom_iq;kid_score\n100,5;80\n95,25;71\n110,75;90\n"


def test_a_table_apart_by_semicolons(run, tmp_path):
    from bayesrecon.posteriors.tables import read_table

    (tmp_path / "european.csv").write_text(SEMICOLONS)
    found = read_table(str(tmp_path / "european.csv"))
    assert found["mom_iq"].tolist() == [100.5, 95.25, 110.75]
    assert found["kid_score"].tolist() == [80, 71, 90]
    (tmp_path / "tabs.csv").write_text("a\tb\n1.5\t2\n")
    assert read_table(str(tmp_path / "tabs.csv"))["a"].tolist() == [1.5]
    (tmp_path / "quoted.csv").write_text('a,"b;c;d"\n1,2\n')
    assert list(read_table(str(tmp_path / "quoted.csv"))) == ["a", "b;c;d"]


def test_a_printed_table_apart_by_semicolons(run, tmp_path):
    rows = [("Intercept", 25.8, 5.9), ("mom_iq", 0.61, 0.06), ("sigma", 18.3, None), ("N", 434, None)]
    for name, sign, point in (("comma.csv", ",", "."), ("semicolon.csv", ";", ",")):
        lines = [sign.join(("term", "estimate", "std. error"))]
        lines += [sign.join("" if v is None else str(v).replace(".", point) for v in row) for row in rows]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    one, other = (run("recover", name, "--model", "ols", "--json") for name in ("comma.csv", "semicolon.csv"))
    assert statistics(document(one)) == statistics(document(other))


def test_words_in_public_records_say_how_they_are_coded():
    from sklearn.linear_model import LogisticRegression

    from bayesrecon.attacks.deletion.hrec import HRec

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    y = np.where(x[:, 0] + rng.normal(size=200) > 0, "yes", "no")
    before, after = (bayesrecon.posteriors.from_sklearn(LogisticRegression().fit(x[i:150], y[i:150])) for i in (0, 1))
    pair = bayesrecon.deletion(before, after)
    with pytest.raises(bayesrecon.BayesreconError, match="classes_ from 0: 'no' 0, 'yes' 1"):
        bayesrecon.reconstruct(pair, attack=HRec(public={"x": x[150:], "y": y[150:]}))
    found = bayesrecon.reconstruct(pair, attack=HRec(public={"x": x[150:], "y": (y[150:] == "yes").astype(int)}))
    assert set(found.doubts) <= set(found.warnings)
    few = HRec(public={"x": x[150:154], "y": np.zeros(4, int)})  # no record of the other label
    assert any("no public record has label" in line for line in bayesrecon.reconstruct(pair, attack=few).doubts)


def test_what_long_work_says_is_an_action(regression):
    """Each message begins with what is being done, and names no part of the code."""
    _, release = regression
    said = set()
    bayesrecon.recover(release, progress=lambda label, fraction: said.add(label))
    assert said - {"done"}
    assert all(label.split()[0].endswith("ing") for label in said - {"done"}), said


@pytest.mark.slow
def test_a_report_needs_no_extra():
    """jinja2 comes with the package: an audit of minutes must not end without its page."""
    from importlib.metadata import requires

    assert any(line.startswith("jinja2") and "extra" not in line for line in requires("bayesrecon"))
    asked = "import sys, bayesrecon.plots.report; print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.stdout.strip() == "False"  # which a run without a report does not load


SPECIALISTS = ("floor", "visibility", "metric", "coordinates", "eigen", "rank")


@pytest.mark.parametrize(
    "command", [("recover",), ("diagnose",), pytest.param(("reconstruct", "-n", 8), marks=pytest.mark.slow)]
)
def test_first_tables_have_no_words_of_specialists(run, draws, command):
    call = (command[0], "draws.npz", "--model", "kidscore_momiq", *command[1:])
    outcome = run(*call)
    assert outcome.code == 0, outcome.err
    assert not [word for word in SPECIALISTS if word in outcome.out], outcome.out
    assert "--details" in outcome.out
    detailed = run(*call, "--details").out
    assert sum(word in detailed for word in SPECIALISTS) >= 2


def test_a_result_in_python_begins_with_what_everybody_reads(regression):
    _, release = regression
    found = bayesrecon.recover(release)
    for shown in (repr(found), found._repr_html_()):
        assert not [word for word in SPECIALISTS if word in shown]
    assert {"floor", "visibility"} <= set(found.to_dataframe())
