"""The command line: one JSON object on stdout, everything else on stderr, one line for bad input."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import h5netcdf
import numpy as np
import pandas as pd
import pytest
from command import Outcome, document
from typer.main import get_command

import bayesrecon
from bayesrecon.cli.main import app
from bayesrecon.evaluate import true_statistics
from bayesrecon.models import find, load, shipped
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.posteriors.database import posterior_names, read_data, read_reference_draws

KIDIQ = "kidiq-kidscore_momiq"
KEYS = {"version", "release", "model", "draws", "metric", "coordinates", "rank", "seconds", "statistics"}
NUMBERS = ("estimate", "se", "lower", "upper", "floor")
NAMED = np.array('{"bayesrecon_model": "kidscore_momiq"}')
QUICK = ("--chains", "2", "--draws", "100", "--warmup", "150", "--seed", "1")


SIZE = 300
RNG = np.random.default_rng(0)
X = RNG.normal(2, 1, SIZE)
Y = 1 + 0.5 * X + RNG.normal(0, 0.1, SIZE)


def exact_draws(chains=2, length=400):
    """Draws of kidscore_momiq's posterior given X and Y, whose noise is small next to the prior's scale of 2.5."""
    rng = np.random.default_rng(1)
    design = np.column_stack([np.ones(SIZE), X])
    mean, (residual,), _, _ = np.linalg.lstsq(design, Y)
    sigma = np.sqrt(residual / 2 / rng.gamma((SIZE - 3) / 2, size=(chains, length)))
    root = np.linalg.inv(np.linalg.cholesky(design.T @ design))
    return {"beta": mean + sigma[..., None] * (rng.normal(size=(chains, length, 2)) @ root), "sigma": sigma}


def statistics(found):
    return {row["name"]: row for row in found["statistics"]}


def without_time(found):
    return {key: value for key, value in found.items() if key != "seconds"}


def one_line(outcome, match):
    """Exit code 2, one line on stderr, nothing on stdout."""
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("bayesrecon: ")
    assert outcome.err.count("\n") == 1
    assert outcome.err.endswith("\n")
    assert re.search(match, outcome.err), outcome.err


# Results


def test_recover_as_json(run, database):
    outcome = run("recover", KIDIQ, "--json")
    found = document(outcome)
    assert outcome.err == ""
    assert found.keys() >= KEYS
    assert (found["version"], found["release"], found["model"]) == (bayesrecon.__version__, KIDIQ, "kidscore_momiq")
    assert (found["draws"], found["metric"], found["coordinates"]) == (10_000, "covariance", "unconstrained")
    assert found["rank"] == 6
    assert found["seconds"] > 0
    rows = statistics(found)
    truth = true_statistics(load("kidscore_momiq"), find("kidscore_momiq").records(read_data(database, "kidiq")))
    assert set(rows) == {"n", *(f"{f}({x})" for f in ("mean", "var") for x in ("mom_iq", "kid_score"))} | {
        "cov(mom_iq,kid_score)"
    }
    for name, row in rows.items():
        assert row.keys() >= {"name", *NUMBERS, "visibility", "verdict"}
        assert row["verdict"] == "determined"
        assert row["visibility"] == pytest.approx(1)
        assert row["lower"] < row["estimate"] < row["upper"]
        assert abs(row["estimate"] - truth[name]) < 5 * row["se"]
        assert 0.5 < row["se"] / row["floor"] < 2
    assert without_time(found) == without_time(bayesrecon.recover(from_posteriordb(KIDIQ)).to_dict())


def test_last_draws(run, database):
    found = document(run("recover", KIDIQ, "--draws", 1000, "--json"))
    assert found["draws"] == 1000
    expected = bayesrecon.recover(from_posteriordb(KIDIQ, draws=1000))
    assert without_time(found) == without_time(expected.to_dict())


@pytest.mark.parametrize("option, value", [("metric", "identity"), ("coordinates", "constrained")])
def test_another_metric_or_other_coordinates(run, database, option, value):
    found = document(run("recover", KIDIQ, f"--{option}", value, "--draws", 1000, "--json"))
    assert found[option] == value
    assert abs(statistics(found)["n"]["estimate"] - 434) < 5 * statistics(found)["n"]["se"]
    default = document(run("recover", KIDIQ, "--draws", 1000, "--json"))
    assert statistics(found)["n"]["estimate"] != statistics(default)["n"]["estimate"]


def test_numbers_are_null_where_nothing_is_determined(run, database):
    found = document(run("recover", "sblrc-blr", "--draws", 1000, "--json"))
    verdicts = {name: row["verdict"] for name, row in statistics(found).items()}
    assert verdicts["n"] == "determined"
    assert verdicts["mean(y)"] == verdicts["var(X[1])"] == "undetermined"  # a regression without an intercept
    assert verdicts["mean(y*y)"] == "determined"
    for row in found["statistics"]:
        assert 0 <= row["visibility"] <= 1
        assert {row[key] is None for key in NUMBERS} == {row["verdict"] == "undetermined"}


def test_what_is_known_is_used(run, database):
    data = read_data(database, "kidiq")
    pd.DataFrame({"mom_iq": data["mom_iq"], "other": 0}).to_csv("design.csv", index=False)
    rows = statistics(document(run("recover", KIDIQ, "--known", "design.csv", "--draws", 1000, "--json")))
    assert rows["n"]["estimate"] == pytest.approx(434)
    assert rows["n"]["se"] == 0
    assert "mean(mom_iq)" not in rows
    assert abs(rows["mean(kid_score)"]["estimate"] - np.mean(data["kid_score"])) < 5 * rows["mean(kid_score)"]["se"]
    total = statistics(document(run("recover", KIDIQ, "--total", 434, "--draws", 1000, "--json")))
    assert total["n"]["estimate"] == pytest.approx(434)
    assert total["n"]["lower"] == total["n"]["upper"] == total["n"]["estimate"]


def test_everything_known(run, database):
    """Nothing is left to recover but the number of records; a table that cannot be the data is no reason to crash."""
    data = read_data(database, "kidiq")
    table = pd.DataFrame({name: data[name] for name in ("mom_iq", "kid_score")})
    table.to_csv("all.csv", index=False)
    table[:2].to_csv("two.csv", index=False)
    found = document(run("recover", KIDIQ, "--known", "all.csv", "--draws", 1000, "--json"))
    assert [(row["name"], row["se"]) for row in found["statistics"]] == [("n", 0.0)]
    assert found["statistics"][0]["estimate"] == pytest.approx(434)
    outcome = run("recover", KIDIQ, "--known", "two.csv", "--draws", 1000, "--json")
    if outcome.code:
        one_line(outcome, "known")
    else:
        assert statistics(document(outcome))["n"]["estimate"] == pytest.approx(2)


def test_saved_results(run, database, tmp_path):
    files = {suffix: tmp_path / f"result{suffix}" for suffix in (".nc", ".json", ".csv", ".png")}
    options = ("--draws", 1000, "--json")
    found = document(run("recover", KIDIQ, *options, "--out", files[".nc"]))
    assert bayesrecon.load_result(files[".nc"]).to_dict() == found
    found = document(run("recover", KIDIQ, *options, "-o", files[".json"], "--plot", files[".png"]))
    assert json.loads(files[".json"].read_text()) == found
    assert files[".png"].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    found = document(run("recover", KIDIQ, *options, "--out", files[".csv"]))
    table = pd.read_csv(files[".csv"], index_col="name")
    for name, row in statistics(found).items():
        assert [table.loc[name, key] for key in NUMBERS] == pytest.approx([row[key] for key in NUMBERS], rel=1e-14)
    assert sorted(tmp_path.iterdir()) == sorted(files.values())
    umask = os.umask(0)
    os.umask(umask)
    assert {file.stat().st_mode & 0o777 for file in files.values()} == {0o666 & ~umask}


def test_the_same_draws_from_other_files(run, database):
    """An archive and CmdStan's CSV files hold the draws of posteriordb: the same numbers to the last digit."""
    options = ("--model", "kidscore_momiq", "--json")
    expected = without_time(document(run("recover", KIDIQ, "--draws", 2000, "--json")))
    values = read_reference_draws(database, KIDIQ, draws=2000).values
    np.savez(f"{KIDIQ}.npz", **values)
    np.savez("named.npz", **values, __attributes__=NAMED)
    table = np.concatenate([values["sigma"][..., None], values["beta"]], axis=2)
    files = [f"{KIDIQ}-{chain}.csv" for chain in (1, 2)]
    for file, rows in zip(files, table.tolist(), strict=True):
        lines = [",".join(map(repr, row)) for row in rows]
        Path(file).write_text("\n".join(["sigma,beta.1,beta.2", *lines, ""]))
    assert without_time(document(run("recover", f"{KIDIQ}.npz", *options))) == expected
    assert without_time(document(run("recover", "named.npz", "--json"))) == {**expected, "release": "named"}
    assert without_time(document(run("recover", *files, *options))) == expected
    one = document(run("recover", files[-1], *options))
    assert one["statistics"] == document(run("recover", KIDIQ, "--draws", 1000, "--json"))["statistics"]


def test_recover_without_posteriordb(run, monkeypatch):
    monkeypatch.delenv("POSTERIOR_DB_PATH", raising=False)
    np.savez("draws.npz", **exact_draws())
    outcome = run("recover", "draws.npz", "--model", "kidscore_momiq", "--json")
    rows = statistics(document(outcome))
    assert outcome.err == ""
    assert abs(rows["n"]["estimate"] - SIZE) < 5 * rows["n"]["se"]
    assert abs(rows["mean(mom_iq)"]["estimate"] - X.mean()) < 5 * rows["mean(mom_iq)"]["se"]
    assert abs(rows["var(kid_score)"]["estimate"] - Y.var()) < 5 * rows["var(kid_score)"]["se"]


def test_recover_as_a_table(run, database):
    outcome = run("recover", KIDIQ, "--draws", 1000)
    assert (outcome.code, outcome.err) == (0, "")
    for word in ("mean(mom_iq)", "cov(mom_iq,kid_score)", "determined", "95 % interval", "1000 draws"):
        assert word in outcome.out


def test_fit_then_recover(run, tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame({"height": rng.normal(size=80), "weight": rng.normal(size=80)}).to_csv("people.csv", index=False)
    outcome = run("fit", "linear_regression", "people.csv", "-o", "fit.nc", "--response", "weight", *QUICK)
    assert outcome.code == 0
    assert "NUTS on linear_regression: 80 records, 3 parameters, 2 chains" in outcome.err
    assert "bayesrecon recover fit.nc" in outcome.err
    assert "NUTS" not in outcome.out
    for word in ("alpha", "beta[1]", "sigma", "R-hat", "200 draws"):
        assert word in outcome.out
    with h5netcdf.File("fit.nc", "r") as file:  # draws and nothing of the data
        assert (list(file.groups), list(file.variables)) == (["posterior"], [])
        assert set(file["posterior"].variables) == {"alpha", "beta", "sigma", "chain", "draw"}
        assert file["posterior"].attrs["bayesrecon_model"] == "linear_regression"
    found = document(run("recover", "fit.nc", "--json"))
    assert (found["release"], found["model"], found["draws"]) == ("fit", "linear_regression", 200)
    rows = statistics(found)
    assert abs(rows["n"]["estimate"] - 80) < 5 * rows["n"]["se"]
    assert {"mean(height)", "mean(weight)", "cov(height,weight)"} < set(rows)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.nc", "people.csv"]


PROGRAM = """
import numpyro
import numpyro.distributions as dist

from bayesrecon.models import from_numpyro


def make(scale=1.0):
    def program(y):
        mu = numpyro.sample("mu", dist.Normal(0, 10))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mu, scale), obs=y)

    return from_numpyro(program, {"y": ()}, name="own", settings={"scale": scale})
"""


def test_fit_and_recover_with_a_program_of_ones_own(run):
    Path("own.py").write_text(PROGRAM)
    pd.DataFrame({"y": np.random.default_rng(0).normal(3, 1, 50)}).to_csv("data.csv", index=False)
    found = document(run("fit", "own.py:make", "data.csv", "-o", "fit.nc", *QUICK, "--json"))
    assert (found["model"], found["draws"], found["out"]) == ("own", 200, "fit.nc")
    assert [row["name"] for row in found["parameters"]] == ["mu"]
    one_line(run("recover", "fit.nc", "--json"), "no shipped model 'own'.*file.py:function")
    rows = statistics(document(run("recover", "fit.nc", "--model", "own.py:make", "--json")))
    assert abs(rows["n"]["estimate"] - 50) < 5 * rows["n"]["se"]
    assert rows["var(y)"]["verdict"] == "undetermined"
    one_line(run("recover", "fit.nc", "--model", "own.py:make", "--settings", '{"size": 1}'), r"make\(\) failed.*size")


def test_warnings_go_to_stderr(run):
    right = exact_draws()
    np.savez("wrong.npz", **{**right, "beta": 2 * right["beta"]})
    outcome = run("recover", "wrong.npz", "--model", "kidscore_momiq", "--json")
    found = document(outcome)
    assert found["warnings"]
    lines = outcome.err.splitlines()
    assert lines == [f"warning: {warning}" for warning in found["warnings"]]
    assert any("draws and model disagree" in line for line in lines)


def test_models(run):
    found = document(run("models", "--json"))
    assert [entry["name"] for entry in found] == list(shipped())
    (entry,) = (e for e in found if e["name"] == "kidscore_momiq")
    assert entry["posteriors"] == [KIDIQ]
    outcome = run("models")
    assert (outcome.code, outcome.err) == (0, "")
    assert all(name in outcome.out for name in shipped())


def test_posteriors(run, database):
    found = document(run("posteriors", "--json"))
    assert [entry["name"] for entry in found] == posterior_names(database)
    entries = {entry["name"]: entry for entry in found}
    assert entries[KIDIQ] == {"name": KIDIQ, "reference_draws": True, "model": "kidscore_momiq"}
    assert entries["wells_data-wells_dist"]["reference_draws"] is False
    outcome = run("posteriors")
    assert (outcome.code, outcome.err) == (0, "")
    assert KIDIQ in outcome.out


def test_version_and_help(run):
    assert run("--version") == (0, f"bayesrecon {bayesrecon.__version__}\n", "")
    assert run("--help").code == 0
    group = get_command(app)
    for command in group.list_commands(None):
        outcome = run(command, "--help")
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out


def module(*arguments, **environment):
    command = [sys.executable, "-m", "bayesrecon", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300)


def test_as_a_process(database):
    done = module("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"bayesrecon {bayesrecon.__version__}\n", "")
    done = module("recover", KIDIQ, "--draws", "1000", "--json")
    found = document(Outcome(done.returncode, done.stdout, done.stderr))
    assert (found["model"], done.stderr) == ("kidscore_momiq", "")


def test_bad_input_as_a_process():
    done = module("recover", "nothing.nc")
    one_line(Outcome(done.returncode, done.stdout, done.stderr), "nothing.nc: no such file")


# Bad input


def draws(**changes):
    """Arguments for an archive of draws of kidscore_momiq, with some arrays changed."""

    def write(folder):
        arrays = exact_draws()
        for name, edit in changes.items():
            arrays[name] = edit(arrays.get(name, arrays["sigma"]))
        np.savez(folder / "draws.npz", **{name: value for name, value in arrays.items() if value is not None})
        return ["recover", "draws.npz", "--model", "kidscore_momiq"]

    return write


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
FEW = ("--chains", "1", "--draws", "2", "--warmup", "2")
TABLE = "x,y\n1,2\n2,4.5\n3,5.5\n"
BAD_INPUT = {
    # draws
    "nan": (draws(sigma=change(np.nan)), "draws of sigma hold 1 missing or infinite values"),
    "infinite": (draws(beta=change(np.inf)), "draws of beta hold 2 missing or infinite values"),
    "outside the support": (draws(sigma=change(-1.0)), r"1 draws of sigma lie outside its support \[0, inf\], e.g. -1"),
    "on the boundary": (draws(sigma=np.zeros_like), "800 of 800 draws lie on or outside the support"),
    "one draw": (draws(**first(1)), "1 draw is not a sample"),
    "as many draws as parameters": (draws(**first(3)), "3 draws are too few for the covariance of 3 parameters"),
    "hardly more draws than parameters": (draws(**first(5)), "5 draws"),
    "missing parameter": (draws(beta=lambda array: None), "lack parameter beta of model kidscore_momiq"),
    "unknown parameter": (draws(tau=lambda array: array), "the draws hold tau, which model kidscore_momiq does not"),
    "wrong shape": (draws(beta=lambda array: array[..., :1]), r"\(2, 400, 1\), expected \(chains, draws, 2\)"),
    "text": (draws(sigma=lambda array: array.astype(str)), "lack parameter sigma"),
    "constant": (draws(sigma=np.ones_like), "parameter sigma takes one value in all draws"),
    "singular": (draws(beta=lambda array: array[..., :1] * [1, 2]), "their covariance is singular"),
    "too large": (draws(beta=lambda array: 1e200 * array), ""),
    "no model": (lambda folder: draws()(folder)[:2], "does not say which model it belongs to.*--model NAME"),
    # files
    "no such file": (lambda folder: ["recover", "none.nc"], "none.nc: no such file"),
    "unknown suffix": (a_file("draws.txt", "1", "recover", "draws.txt"), r"unknown suffix '.txt'; known are .*\.nc"),
    "corrupt archive": (
        a_file("a.npz", zipped("junk"), "recover", "a.npz", *MODEL),
        "a.npz: cannot be read as an .npz",
    ),
    "not an archive": (a_file("a.npz", b"PK\3\4junk", "recover", "a.npz", *MODEL), "a.npz: not an .npz file"),
    "corrupt csv": (
        a_file("a.csv", "sigma,beta.1,beta.2\n1,2,3\n4,5\n", "recover", "a.csv", *MODEL),
        "a.csv: the number of columns changed from 3 to 2",
    ),
    "csv of words": (a_file("a.csv", "sigma\nhigh\n", "recover", "a.csv", *MODEL), "a.csv: .*high"),
    "corrupt netcdf": (a_file("a.nc", "text", "recover", "a.nc"), "a.nc: cannot be read as a netCDF-4 file"),
    "two kinds of files": (lambda folder: ["recover", "a.csv", "b.nc"], "b.nc: several files are read as CmdStan"),
    "one file twice": (lambda folder: [*draws()(folder), "draws.npz"], "draws.npz is given twice"),
    # model
    "unknown model": (with_options("--model", "kidscore_momi"), "no shipped model 'kidscore_momi'; did you mean"),
    "another model": (with_options("--model", "blr"), "shape"),
    "no model file": (with_options("--model", "none.py:make"), "there is no file none.py"),
    "no function named": (with_options("--model", "own.py"), "as file.py:function"),
    "model file of another kind": (
        lambda folder: [*a_file("own.txt", "", *draws()(folder))(folder), "--model", "own.txt:make"],
        "own.txt is not a Python file",
    ),
    "model with a syntax error": (model_file("def make(:"), "own.py does not import: SyntaxError"),
    "model with a missing import": (model_file("import not_there"), "own.py does not import: ModuleNotFoundError"),
    "model file that exits": (model_file("raise SystemExit(0)"), "own.py does not import: SystemExit"),
    "model without the function": (model_file("x = 1"), "own.py has no function make"),
    "model that is no function": (model_file("make = 1"), "own.py has no function make"),
    "model of another type": (model_file("def make(): return 1"), r"make\(\) must return a Model .*got int"),
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
    "metric": (with_options("--metric", "euclid"), "metric='euclid': expected 'covariance' or 'identity'"),
    "coordinates": (with_options("--coordinates", "polar"), "expected 'unconstrained' or 'constrained'"),
    "no draws": (with_options("--draws", "0"), "draws=0 is not between 1 and 800"),
    "too many draws": (with_options("--draws", "801"), "draws=801 is not between 1 and 800"),
    "draws that cut a chain": (with_options("--draws", "500"), "draws=500 would cut a chain of 400 in two"),
    "seed": (with_options("--seed", "-1"), "seed|key"),
    "total": (with_options("--total", "nan"), "total=nan"),
    "unit that is not known": (with_options("--unit", "mom_iq"), "unit='mom_iq' must be one of the known fields"),
    "out in no folder": (with_options("--out", "none/a.json"), "the folder none does not exist"),
    "out of another kind": (with_options("--out", "a.pdf"), "--out a.pdf: the name must end in .nc or .json or .csv"),
    "out without a suffix": (with_options("--out", "a"), "--out a: the name must end in"),
    "plot in no folder": (with_options("--plot", "none/a.png"), "the folder none does not exist"),
    "plot of another kind": (with_options("--plot", "a.json"), "--plot a.json: the name must end in"),
    "out that is a folder": (a_folder("a.json", "--out", "a.json"), "(?i)directory"),
    # what is known
    "no known file": (with_options("--known", "none.csv"), "there is no file none.csv"),
    "known without a field": (known("a.csv", "iq\n1\n"), r"none of its columns \(iq\) is a field of kidscore_momiq"),
    "known of another kind": (known("a.txt", "mom_iq\n1\n"), "read from .csv, .json and .npz files"),
    "known that is empty": (known("a.csv", ""), "a.csv cannot be read as CSV"),
    "known that is not JSON": (known("a.json", "{"), "a.json cannot be read as JSON"),
    "known that is a list": (known("a.json", "[1]"), "a.json: expected a JSON object of arrays"),
    "known words": (known("a.csv", "mom_iq\nhigh\n"), "'mom_iq' holds values that are not numbers"),
    "known with a gap": (known("a.csv", "mom_iq,b\n1,1\n,2\n"), "'mom_iq' holds missing or infinite values"),
    "known that is ragged": (known("a.json", '{"mom_iq": [1, [2, 3]]}'), "'mom_iq' holds values that are not numbers"),
    "unit that repeats": (known("a.csv", "mom_iq\n100\n100\n", "--unit", "mom_iq"), "its known values repeat"),
    "total against known": (known("a.csv", "mom_iq\n100\n101\n", "--total", "3"), "total=3.* contradicts the 2 rows"),
    # fit
    "fit of no file": (lambda folder: FIT, "there is no file table.csv"),
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
        "'y' holds 2, which is outside its domain",
    ),
    "fit without draws": (a_file("table.csv", TABLE, *FIT, "--draws", "0"), "draws and thinning must be at least 1"),
    "fit with an impossible rate": (a_file("table.csv", TABLE, *FIT, "--target-accept", "2", *FEW), "accept"),
    "fit by an unknown method": (a_file("table.csv", TABLE, *FIT, "--chain-method", "magic"), "--chain-method magic"),
    # usage
    "draws that are no number": (with_options("--draws", "many"), "--draws.*many|--draws.*integer"),
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
        ("wells_data-wells_dist", ("--model", "wells_dist"), "no reference draws for wells_data-wells_dist; .*fit"),
        ("a/b", (), "'a/b' is not a name"),
        ("../../etc/passwd", (), "etc/passwd"),
        ("mnist-nn_rbm1bJ100", (), "its model nn_rbm1bJ100 is not shipped.*--model"),
        (KIDIQ, ("--model", "blr"), "sigma|beta"),
        ("eight_schools-eight_schools_noncentered", ("--model", "kidscore_momiq"), "lack parameter beta"),
        (
            "eight_schools-eight_schools_noncentered",
            ("--coordinates", "constrained"),
            "density of tau does not vanish at its lower bound.*use coordinates='unconstrained'",
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
        ["fit", "blr", "sblrc", "-o", "a.nc"],
    ):
        one_line(run(*arguments), "no copy of posteriordb is known: set POSTERIOR_DB_PATH")
    monkeypatch.setenv("POSTERIOR_DB_PATH", str(tmp_path))
    one_line(run("recover", KIDIQ), "is not a posterior database")


def test_a_write_that_fails_leaves_nothing(run, tmp_path, monkeypatch):
    arguments = [*draws()(tmp_path), "--out", "result.csv"]

    def fail(frame, path):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "No space left on device" in outcome.err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["draws.npz"]
