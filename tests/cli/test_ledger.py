"""`bayesrecon ledger`: what was published is entered, listed and withdrawn, and judges what comes next."""

import json
import time

import numpy as np
import pandas as pd
import pytest

from bayesrecon.posteriors.printed.footers import cell

ALL = "name,coef,std err\nIntercept,20.1852,3.44215\nage,0.490695,0.0671696\nsigma,6.66755,\nN,111,\n"
LESS = "name,coef,std err\nIntercept,19.7264,2.47118\nage,0.491053,0.0482142\nsigma,4.78594,\nN,110,\n"
OPTIONS = ("--model", "ols", "--domain", "age=0:120")


@pytest.fixture
def there(tmp_path):
    (tmp_path / "all.csv").write_text(ALL)
    (tmp_path / "less.csv").write_text(LESS)
    return tmp_path, ("--account", "Trial", "--ledger", str(tmp_path / "book" / "ledger.json"))


def test_a_table_is_judged_by_what_was_published_before(there, run):
    path, book = there
    assert run("ledger", "add", path / "all.csv", *OPTIONS, *book).code == 0
    listed = json.loads(run("ledger", "list", *book, "--json").out)
    assert [(one["id"], one["name"], one["kind"]) for one in listed["published"]] == [
        ("1", "all.csv", "table of estimates")
    ]
    assert run("ledger", "withdraw", "1", *book).code == 0
    audit = json.loads(run("audit", path / "less.csv", *OPTIONS, *book, "--no-remedies", "--json").out)
    (finding,) = (f for f in audit["findings"] if f["kind"] == "difference of releases")
    assert finding["severity"] == "high"
    assert finding["summary"].startswith("if all.csv of ")
    assert any(line.startswith("account trial: 1 published") for line in audit["notes"])
    (together,) = (f for f in audit["findings"] if f["kind"] == "outputs together")
    assert together["summary"].startswith("1 earlier output is of other records (")
    again = json.loads(run("audit", path / "all.csv", *OPTIONS, *book, "--no-remedies", "--json").out)
    assert not any(f["kind"] == "difference of releases" for f in again["findings"])  # it is the entry itself
    elsewhere = json.loads(
        run("audit", path / "less.csv", *OPTIONS, "--account", "x", *book[2:], "--no-remedies", "--json").out
    )
    assert any("knows no release of account x; its accounts: trial" in line for line in elsewhere["warnings"])


@pytest.mark.slow
def test_a_table_says_with_the_earlier_ones_what_all_of_them_determine(there, run):
    """The earlier table is kept as it is, with its options: the same is found as in an audit of both at once."""
    path, book = there
    assert run("ledger", "add", path / "all.csv", *OPTIONS, *book).code == 0
    (path / "mean.csv").write_text("name,coef,std err\nIntercept,44.9025,0.768879\nsigma,8.10065,\nN,111,\n")
    outcome = run("audit", path / "mean.csv", "--model", "ols", *book, "--json")
    (together,) = (f for f in json.loads(outcome.out)["findings"] if f["kind"] == "outputs together")
    assert "6 of 6 statistics are determined; this output alone determines 3" in together["summary"]
    two = run("ledger", "add", path / "all.csv", *OPTIONS, *book, "--column", "1", "--column", "2")
    assert (two.code, "ledger add takes one --column" in two.err) == (2, True)


@pytest.mark.slow
def test_draws_are_entered_and_a_thinned_copy_counts_once(there, run):
    path, book = there
    rng = np.random.default_rng(0)
    z = np.column_stack([np.ones(100), rng.normal(size=100)])
    covariance = np.linalg.inv(z.T @ z)
    for name, step in (("one", 1), ("two", 1), ("thinned", 4)):
        if name != "thinned":
            b = covariance @ z.T @ (z @ (1, 2) + rng.normal(size=100))
            b = b + rng.normal(size=(4, 500, 2)) @ np.linalg.cholesky(covariance).T
        np.savez(path / f"{name}.npz", intercept=b[:, ::step, :1].round(5), coef=b[:, ::step, 1:, None].round(5))
    model = ("--model", "linear_predictor")
    assert run("ledger", "add", path / "two.npz", *model, *book).code == 0
    for name, told in (("one", "if they are of the same records"), ("thinned", "with the earlier output of the same")):
        found = json.loads(run("audit", path / f"{name}.npz", *model, *book, "--no-remedies", "--json").out)["findings"]
        (together,) = (f for f in found if f["kind"] == "outputs together")
        assert together["summary"].startswith(told)
        assert ("counts once" in together["summary"]) is (name == "thinned")


def test_who_is_in_a_file_that_was_published_can_be_stated(there, run):
    path, book = there
    assert run("ledger", "add", path / "all.csv", *OPTIONS, *book).code == 0
    (path / "who.csv").write_text("all.csv,less.csv\nall.csv,the clinic\n")
    stated = run("audit", path / "less.csv", *OPTIONS, *book, "--membership", path / "who.csv", "--json")
    assert any("of the clinic" in f["title"] for f in json.loads(stated.out)["findings"])


def test_bad_input_is_refused_in_a_line(there, run):
    path, book = there
    for words, message in {
        ("remove", "1"): "ledger remove: expected add, list, withdraw",
        ("add",): "ledger add: name what to add",
        ("list", "x.csv"): "ledger list takes no file",
        ("withdraw", "1"): "account trial has no entry 1; its entries: none",
        ("add", str(path / "nothing.csv")): "nothing.csv",
    }.items():
        code, _, err = run("ledger", *words, *book)
        assert code == 2
        assert message in err
    (path / "published").mkdir()
    assert "name a file that was published, or a folder" in run("ledger", "add", path / "published", *book).err
    (path / "published/one.csv").write_text(ALL)
    (path / "published/two.csv").write_text("name,coef,std err\nage,much,little\n")
    several = run("ledger", "add", path / "published", *OPTIONS, *book)
    assert (several.code, "nothing is entered, because of two.csv" in several.err) == (2, True)
    assert json.loads(run("ledger", "list", *book, "--json").out)["published"] == []
    beside = run("ledger", "add", path / "all.csv", *OPTIONS, "--ledger", path / "ledger.json")
    assert "never keep the ledger beside a release" in beside.err


@pytest.mark.slow
def test_a_hundred_releases_of_an_account_take_a_minute_at_most(there, run):
    """Monthly refits of a changing population."""
    path, book = there
    (path / "out").mkdir()
    rng, x = np.random.default_rng(0), np.random.default_rng(1).normal(50, 9, 400)
    y = 20 + 0.5 * x + rng.normal(0, 5, 400)
    began = time.process_time()
    for month in range(100):
        at = slice(month, 200 + month + int(rng.integers(5)))
        z = np.column_stack([np.ones(len(x[at])), x[at]])
        b = np.linalg.lstsq(z, y[at], rcond=None)[0]
        s = np.sqrt(((y[at] - z @ b) ** 2).sum() / (len(z) - 2))
        se = s * np.sqrt(np.diag(np.linalg.inv(z.T @ z)))
        rows = [[cell(v, 6), cell(e, 6)] for v, e in zip(b, se, strict=True)] + [[cell(s, 6), ""], [str(len(z)), ""]]
        pd.DataFrame(rows, ["const", "age", "sigma", "N"], ["coef", "se"]).to_csv(path / "out" / f"{month}.csv")
    added = run("ledger", "add", path / "out", *OPTIONS, *book).err
    assert " ".join(added.split()).count("determines 6 statistics") == 100
    assert run("audit", path / "less.csv", *OPTIONS, *book, "--no-remedies").code == 0
    assert time.process_time() - began < 60
