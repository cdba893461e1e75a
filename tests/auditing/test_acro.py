"""Results of ACRO: its regressions are audited as the tables that would be released."""

import json

import pytest

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.printed.acro import is_acro, read_acro

ABOVE = """Dep. Variable:,y,R-squared:,0.051
No. Observations:,85,F-statistic:,2.207
Df Residuals:,82,Log-Likelihood:,-114.92
"""
TABLE = """,coef,std err,t,P>|t|,[0.025,0.975]
Intercept,0.0773,0.123,0.629,0.531,-0.167,0.322
C(g)[T.b],0.1693,0.241,0.701,0.485,-0.311,0.65
C(g)[T.c],-0.9222,0.492,-1.875,0.064,-1.9,0.056
"""


def output(kind, method, files, status="pass", summary=""):
    names = [{"name": name, "sdc": {}} for name in files]
    return {"status": status, "type": kind, "properties": {"method": method}, "files": names, "summary": summary}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "output_0_0.csv").write_text(ABOVE)
    (tmp_path / "output_0_1.csv").write_text(TABLE)
    (tmp_path / "output_1_0.csv").write_text("g,u,v\na,21,3\nb,23,12\n")
    results = {
        "output_0": output("regression", "olsr", ("output_0_0.csv", "output_0_1.csv"), summary="MinimumDoFCheck: pass"),
        "output_1": output(
            "table", "crosstab", ("output_1_0.csv",), "fail", "FrequencyTable : MinimumThresholdCheck: fail"
        ),
        "output_2": output("plot", "", ()),
    }
    (tmp_path / "results.json").write_text(json.dumps({"tool": {"name": "ACRO"}, "results": results}))
    return tmp_path


def test_a_regression_that_passes_has_a_level_of_four_records(folder):
    found = bayesrecon.audit(folder / "results.json", remedies=False)
    small = {f.evidence[0].name: (f.evidence[0].upper, f.where) for f in found if f.kind == "small-count"}
    assert small == {"n[g=c]": (4, ("output_0: output_0",)), "n[g=a,column=v]": (3, ("output_1: output_1",))}
    assert "output_0: ACRO: pass (MinimumDoFCheck: pass)" in found.warnings
    assert [n.attack for n in found.not_run] == ["output_2: table"]  # of the others everything is told


def test_zeros_that_were_lost_are_of_coefficients_alone(folder):
    table = read_acro(folder)[0].table
    assert table.loc["C(g)[T.c]"].tolist() == ["-0.9222", "0.492"]
    assert table.loc["Log-Likelihood", "estimate"] == "-114.92"
    (folder / "output_0_1.csv").write_text(TABLE.replace("0.123", "0.12").replace("0.0773", "0.07"))
    table = read_acro(folder)[0].table
    assert table.loc["Intercept"].tolist() == ["0.0700", "0.120"]


def test_files_outside_of_the_folder_are_refused(folder):
    path = folder / "results.json"
    path.write_text(path.read_text().replace("output_0_0.csv", "../output_0_0.csv"))
    with pytest.raises(BayesreconError, match="is not in this folder"):
        read_acro(path)


def test_other_json_is_none(folder):
    (folder / "draws.json").write_text('[{"mu": [1.0, 2.0]}]')
    assert not is_acro(folder / "draws.json")
    assert is_acro(folder)


def test_on_the_command_line(folder, run):
    code, out, _ = run("audit", folder, "--no-remedies", "--threshold", "5", "--json")
    assert code == 3
    cells = [f["evidence"][0]["name"] for f in json.loads(out)["findings"] if f["kind"] == "small-count"]
    assert sorted(cells) == ["n[g=a,column=v]", "n[g=c]"]
