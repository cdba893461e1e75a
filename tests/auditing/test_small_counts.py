"""Audits of tables with factors: what is known, what is presumed, and counts below a threshold."""

import json

import numpy as np
import pandas as pd
import pytest

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.results.findings import Thresholds

sm = pytest.importorskip("statsmodels.api")

ANALYSIS = "term,estimate,std. error\nconst,-0.4481,0.5129\ng1,1.8580,0.8270\ng2,1.5865,1.1469\nsigma,1.4507,\n"
ODDS = "term,estimate,std. error\nconst,-2.3979,0.4671\nx,1.5506,0.5807\n"


@pytest.fixture
def analysis(tmp_path):
    path = tmp_path / "analysis.csv"
    path.write_text(ANALYSIS)
    return path


@pytest.fixture
def odds(tmp_path):
    path = tmp_path / "odds.csv"
    path.write_text(ODDS)
    return path


def small(found):
    return {f.evidence[0].name: f.evidence[0].upper for f in found if f.kind == "small-count"}


def test_an_audit_finds_what_recover_finds(odds):
    found = bayesrecon.audit(odds, "logit", domain={"x": "binary"}, remedies=False)
    recovered = bayesrecon.recover(bayesrecon.posteriors.from_table(odds, "logit"), domain={"x": "binary"})
    evidence = {item.name: item.estimate for item in found.findings[0].evidence}
    assert evidence == {row.name: row.estimate for row in recovered if row.estimate is not None}
    assert (evidence["n"], evidence["n[x=1]"], evidence["n[x=1,y=1]"], evidence["n[x=0,y=1]"]) == (100, 40, 12, 5)
    assert small(found) == {"n[x=0,y=1]": 5}
    assert found.to_dict()["settings"]["domain"] == ["x"]


def test_a_presumption_is_tried_and_said(odds, analysis):
    found = bayesrecon.audit(odds, "logit", remedies=False)
    assert found.findings[0].title.endswith("exactly, if x is 0 or 1")
    assert found.findings[0].needs == "the model, and that x is 0 or 1"
    assert small(found) == {"n[x=0,y=1]": 5}
    found = bayesrecon.audit(analysis, "ols", remedies=False)
    assert small(found) == {"n[g=2]": 2, "n[g=1]": 5, "n[g=baseline]": 8}
    assert all(f.needs.endswith("g1, g2 are levels of one factor") for f in found)


def test_a_presumption_that_no_data_print_is_contradicted(odds):
    odds.write_text(ODDS.replace("0.5807", "0.4100"))
    found = bayesrecon.audit(odds, "logit", remedies=False)
    assert len(found) == 0
    assert found.verdict == "incomplete"


def test_the_threshold_is_the_stewards(analysis):
    known = {"factors": {"g": ["g1", "g2"]}, "remedies": False}
    found = bayesrecon.audit(analysis, "ols", thresholds=Thresholds(small_count=5), **known)
    assert small(found) == {"n[g=2]": 2}
    found = bayesrecon.audit(analysis, "ols", thresholds=Thresholds(small_count=20), **known)
    assert small(found)["residual degrees of freedom"] == 12


def test_what_knowing_the_number_of_records_would_tell_comes_first(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("name,coef,std err\nconst,25.80,5.917\nmom_iq,0.6100,0.05852\nsigma,18.27,\n")
    found = bayesrecon.audit(path, "ols", remedies=False)
    assert found.warnings[0].startswith(
        "if an attacker knows n (total=): var(mom_iq), var(y), cov(mom_iq,y) are determined"
    )
    known = bayesrecon.audit(path, "ols", remedies=False, total=434)
    assert {"var(mom_iq)", "var(y)"} <= {item.name for item in known.findings[0].evidence}


@pytest.mark.slow
def test_a_level_of_one_record_is_the_record():
    level = np.repeat([0, 1, 2], [20, 1, 14])
    design = pd.DataFrame(np.eye(3)[level][:, 1:], columns=["g[T.b]", "g[T.c]"])
    y = np.random.default_rng(0).normal(size=35)
    found = bayesrecon.audit(sm.OLS(y, sm.add_constant(design)).fit(), remedies=False)
    (single,) = (f for f in found if f.kind == "small-count")
    assert "g=b" in single.title
    assert single.evidence[0].estimate == pytest.approx(1, abs=1e-6)
    table = pd.DataFrame({"estimate": ["0.1234"], "std. error": ["0.1000"]}, index=["const"])
    rows = [["0.1000", "0.2000"], ["0.5000", "0.9165"], ["0.3000", "0.3055"], ["0.8944", ""]]
    table = pd.DataFrame(rows, ["const", "g[T.b]", "g[T.c]", "sigma"], ["estimate", "std. error"])
    found = bayesrecon.audit(table, "ols", remedies=False)
    assert found.severity == "high"
    assert found.findings[0].title == "records with g=b: 1, below 10"
    assert "its fitted value is the record's own response" in found.findings[0].summary


@pytest.mark.slow
def test_a_fit_of_statsmodels_by_what_is_known():
    rng = np.random.default_rng(5)
    x = (rng.random(60) < 0.2).astype(float)
    y = (rng.random(60) < 0.4).astype(float)
    fit = sm.Logit(y, sm.add_constant(pd.DataFrame({"x": x}))).fit(disp=0)
    found = bayesrecon.audit(fit, domain={"x": "binary"}, remedies=False)
    evidence = {item.name: item.estimate for item in found.findings[0].evidence}
    assert evidence["n"] == pytest.approx(60)
    assert evidence["mean(x)"] == pytest.approx(x.mean())


def test_who_knows_all_other_records_of_an_estimator():
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    y = x @ [1.0, -2.0] + rng.normal(size=50)
    fit = linear_model.Ridge(1.0).fit(x, y)
    known = {"x": x[:-1], "y": y[:-1]}
    found = bayesrecon.audit(fit, known=known, remedies=False)
    assert (found.severity, found.findings[0].kind) == ("high", "missing record")
    assert [item.estimate for item in found.findings[0].evidence][:2] == pytest.approx(x[-1].tolist())


def test_on_the_command_line(analysis, odds, run):
    code, out, _ = run("audit", odds, "--model", "logit", "--domain", "x=binary", "--no-remedies", "--json")
    document = json.loads(out)
    (item,) = (f["evidence"][0] for f in document["findings"] if f["kind"] == "small-count")
    assert code == 0
    assert (item["name"], item["lower"], item["upper"]) == ("n[x=0,y=1]", 5, 5)
    known = ("--factor", "g=g1,g2", "--threshold", "5", "--no-remedies", "--json")
    code, out, _ = run("audit", analysis, "--model", "ols", *known)
    assert [f["title"] for f in json.loads(out)["findings"]][1:] == ["records with g=2: 2, below 5"]
    code, out, _ = run("recover", analysis, "--model", "ols", "--formula", "y ~ C(g)", "--json")
    counts = {s["name"]: s["estimate"] for s in json.loads(out)["statistics"]}
    assert [counts[f"n[g={level}]"] for level in ("baseline", "1", "2")] == [8, 5, 2]
    code, _, err = run("recover", analysis, "--model", "ols", "--factor", "g")
    assert code == 2
    assert "expected NAME=COLUMN" in err
    code, out, _ = run("audit", "--help")
    assert out.count("What an attacker knows") == 1


def test_factors_of_what_is_no_table():
    with pytest.raises(BayesreconError, match="is not a field"):
        bayesrecon.audit(pd.DataFrame({"coef": ["1.0"], "se": ["0.1"]}, ["const"]), "logit", factors={"g": ["g2"]})


def test_what_is_printed_below_does_not_stop_presumptions(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("term,coef,std err\nconst,-0.1984,0.1348\ng,0.2962,0.2270\nsigma,1.0000,\nN,85,\n")
    found = bayesrecon.audit(path, "ols", remedies=False)
    assert any(f.needs == "the model, and that g is 0 or 1" for f in found)
