"""`bayesrecon audit`: report, cleaned copy, exit codes."""

import json
import pickle
import re

import fits
import numpy as np
import pytest
import xarray as xr
from audited import arviz_tree
from command import Outcome
from kidscore import DRAWS

from bayesrecon.digits import round_to


def audit_file(tmp_path, everything):
    tree = arviz_tree(source="/home/alice/kids.csv")
    tree["sample_stats"] = xr.DataTree(xr.Dataset({"lp": (("chain", "draw"), everything["__log_density__"])}))
    path = tmp_path / "posterior.nc"
    tree.to_netcdf(path, engine="h5netcdf")
    return path


@pytest.mark.slow
def test_command_with_report_and_cleaned_copy(run, tmp_path, everything):
    path = audit_file(tmp_path, everything)
    options = ("--model", "kidscore_momiq", "--no-remedies", "--fix", "safe.nc", "--keep-draws", 200, "--digits", 4)
    outcome = run("audit", path, *options, "--html", "report.html", "--out", "audit.json", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["severity"] == "high"
    assert found["fixed"]["severity"] == "low"
    assert [f["kind"] for f in found["fixed"]["findings"]] == ["draws"]
    assert found["files"][0]["path"] == str(path)
    assert json.loads((tmp_path / "audit.json").read_text()) == found
    assert (tmp_path / "report.html").stat().st_size > 5_000
    with xr.open_datatree(tmp_path / "safe.nc", engine="h5netcdf") as safe:
        assert list(safe.children) == ["posterior"]
        assert set(safe["posterior"].data_vars) == {"beta", "sigma"}
        assert safe["posterior"].sizes["chain"] * safe["posterior"].sizes["draw"] == 200
        assert not safe["posterior"].attrs
        sigma = safe["posterior"]["sigma"].values
        np.testing.assert_array_equal(sigma, round_to(sigma, 4))


def test_exit_codes(run, tmp_path, everything):
    path = audit_file(tmp_path, everything)
    table = run("audit", path)
    assert table.code == 3
    assert "high" in table.out
    assert run("audit", path, "--fail-on", "high").code == 1
    np.savez(tmp_path / "clean.npz", **DRAWS)
    model = ("--model", "kidscore_momiq", "--no-remedies")
    assert run("audit", "clean.npz", *model).code == 0
    assert run("audit", "clean.npz", *model, "--fail-on", "medium").code == 0
    assert run("audit", "clean.npz", *model, "--fail-on", "low").code == 1
    both = run("audit", "clean.npz", path, "--json")
    assert json.loads(both.out)["name"] == "clean.npz, posterior.nc"


@pytest.mark.slow
def test_nothing_is_cleared_without_a_model(run, tmp_path, everything):
    """A netCDF file with `lp` and `energy`, and CmdStan's `lp__`: findings, a verdict and an exit code."""
    rng = np.random.default_rng(0)
    density = everything["__log_density__"]
    stats = {"lp": (("chain", "draw"), density), "energy": (("chain", "draw"), rng.gamma(3, size=(2, 300)) - density)}
    draws = {"beta": (("chain", "draw", "k"), DRAWS["beta"]), "sigma": (("chain", "draw"), DRAWS["sigma"])}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(draws), "sample_stats": xr.Dataset(stats)})
    tree.to_netcdf(tmp_path / "trace.nc", engine="h5netcdf")
    outcome = run("audit", "trace.nc", "--html", "report.html")
    assert outcome.code == 3
    assert "incomplete, 3 not run; 1 medium, 2 low" in outcome.out
    assert "pass the model: --model NAME" in outcome.out
    page = (tmp_path / "report.html").read_text()
    assert "Not cleared. Most severe: " in page
    assert "The audit is incomplete: 3 attacks were not run; pass the model: --model NAME" in page
    assert "<h2>Not run</h2>" in page
    assert "Nothing was found" not in page
    assert run("audit", "trace.nc", "--fail-on", "low").code == 1
    assert run("audit", "trace.nc", "--fail-on", "high").code == 3
    document = json.loads(run("audit", "trace.nc", "--json").out)
    assert document["verdict"] == "incomplete"
    assert {f["kind"]: f["severity"] for f in document["findings"]} == {
        "log-density": "medium",
        "energy": "low",
        "draws": "low",
    }
    chains = fits.write_cmdstan(tmp_path, {"lp__": density, **fits.scalar_columns(**DRAWS)}, digits=8)
    assert run("audit", *chains, "--fail-on", "medium").code == 1
    assert run("audit", *chains, "--fail-on", "high").code == 3


def test_labels_are_not_the_only_thing_to_remedy(run, tmp_path):
    """A file without side channels, but with clinics' names: its draws stay, and nobody attacked them."""
    names = [f"clinic {place}" for place in ("Bern", "Basel", "Chur", "Sion")]
    draws = {"mean": (("chain", "draw", "clinic"), np.random.default_rng(0).normal(size=(2, 50, 4)))}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(draws, {"clinic": names})})
    tree.to_netcdf(tmp_path / "stripped.nc", engine="h5netcdf")
    outcome = run("audit", "stripped.nc", "--html", "report.html")
    assert outcome.code == 3
    assert "the draws themselves are in the file" in outcome.out
    assert "remedies below" not in outcome.out + (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.nc",), "missing.nc"),
        (("clean.npz", "--fail-on", "awful"), "low, medium or high"),
        (("clean.npz", "--html", "a.pdf"), ".html"),
        (("clean.npz", "--fix", "clean.npz"), "name another"),
        (("clean.npz", "--keep-draws", "5"), "need --fix"),
        (("clean.npz", "--settings", "{}", "--total", "5"), "pass the --model behind clean"),
        (("clean.npz", "clean.npz"), "given twice"),
        (("clean.npz", "--model", "eight_schools_noncentered"), "eight_schools_noncentered"),
    ],
)
def test_bad_input_is_one_line(run, tmp_path, arguments, words):
    np.savez(tmp_path / "clean.npz", **DRAWS)
    code, out, err = run("audit", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("bayesrecon: ")
    assert err.count("\n") == 1
    assert words in err


def test_nothing_half_written(run, tmp_path):
    np.savez(tmp_path / "clean.npz", **DRAWS)
    outcome: Outcome = run("audit", "clean.npz", "--fix", "safe.nc", "--keep-draws", "100000")
    assert outcome.code == 2
    assert not (tmp_path / "safe.nc").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["clean.npz"]


def test_the_copy_is_an_allow_list_and_is_audited_before_it_is_written(run, tmp_path):
    """Without a model, what is named stays: not all that varies, which a linear predictor does as well."""
    fitted = DRAWS["beta"][..., :1] + DRAWS["beta"][..., 1:] * np.random.default_rng(3).normal(100, 15, 12)
    np.savez(tmp_path / "fit.npz", fitted=fitted, **DRAWS)
    told = run("audit", "fit.npz", "--fix", "safe.npz", "--keep", "beta")
    assert (told.code, "draws or records? say --draws or --records" in told.err) == (2, True)
    told = run("audit", "fit.npz", "--fix", "safe.npz", "--draws")
    assert "--keep NAME, which may have wildcards (fitted, beta, sigma), or --model" in told.err
    outcome = run(
        "audit", "fit.npz", "--no-remedies", "--fix", "safe.npz", "--draws", "--keep", "b*", "--keep", "sigma"
    )
    assert "auditing the cleaned copy before it is written" in outcome.err
    with np.load(tmp_path / "safe.npz") as safe:
        assert set(safe.files) == {"beta", "sigma"}


def test_what_is_declared_public_is_recognised(run, tmp_path):
    tree = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset({"sigma": (("chain", "draw"), DRAWS["sigma"])}, attrs={"remark": "of 2026"}),
            "constant_data": xr.Dataset({"weights": ("i", [3.25, 1.75, 2.125])}),
        }
    )
    tree.to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
    (tmp_path / "names.txt").write_text("# what may stay\nweights\n")
    bare = json.loads(run("audit", "fit.nc", "--json").out)
    assert set(bare["unrecognised"]) == {"@posterior/remark", "constant_data/weights"}
    told = json.loads(run("audit", "fit.nc", "--json", "--public", "remark", "--public", "@names.txt").out)
    assert told["unrecognised"] == []
    assert run("audit", "fit.nc", "--public", "@nowhere.txt").code == 2


def test_a_table_of_estimates(run, tmp_path):
    (tmp_path / "table.csv").write_text("name,coef,se\nconst,25.80,5.917\nmom_iq,0.6100,0.05852\nsigma,18.27,\n")
    outcome = run("audit", "table.csv")
    assert outcome.code == 2
    assert "name its model" in outcome.err
    outcome = run("audit", "table.csv", "--model", "ols")
    assert outcome.code == 3
    assert "correlations" in outcome.out + outcome.err
    outcome = run("audit", "table.csv", "--model", "ols", "--fix", "clean.nc")
    assert outcome.code == 2
    assert "--fix does not apply" in outcome.err


def test_ctrl_c_shows_what_was_found(run, tmp_path, everything, monkeypatch):
    """In the attack on the draws of the first of two files: the report so far, and exit code 130."""
    from bayesrecon.auditing import opened

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(opened, "recovered_with_problem", stop)
    path = audit_file(tmp_path, everything)
    np.savez(tmp_path / "other.npz", **DRAWS)
    outcome = run("audit", path, "other.npz", "--model", "kidscore_momiq", "--html", "report.html", "--json")
    assert outcome.code == 130
    assert "interrupted: these are the findings so far" in outcome.err
    assert "wrote report.html" in outcome.err
    document = json.loads(outcome.out)
    assert document["verdict"] == "incomplete"
    assert document["not_run"][-1]["attack"].endswith("other.npz")
    assert {f["kind"] for f in document["findings"]} >= {"log-density", "draws"}
    assert "Not cleared" in document["advice"] or "Do not publish" in document["advice"]


TYPED = {
    "--known": ("design.csv",),
    "--total": (40,),
    "--domain": ("y=0,1",),
    "--model": ("kidscore_momiq",),
    "--public": ("beta",),
    "--correlations": ("related.csv",),
    "--draws": (),
    "--records": (),
}
"""What is typed behind an option that a cure names."""


def logit(tmp_path):
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    y = rng.integers(0, 2, 40)
    np.savetxt(tmp_path / "design.csv", np.column_stack([x, y]), delimiter=",", header="x[1],x[2],y", comments="")
    (tmp_path / "logit.pickle").write_bytes(pickle.dumps(linear_model.LogisticRegression().fit(x, y)))
    return "logit.pickle", ()


def rows(tmp_path):
    np.savez(tmp_path / "rows.npz", **{name: values[:1] for name, values in DRAWS.items()})
    return "rows.npz", ()


def table(tmp_path):
    (tmp_path / "table.csv").write_text("name,coef,std err\nconst,25.80,5.917\nmom_iq,0.6100,0.05852\nsigma,18.27,\n")
    (tmp_path / "related.csv").write_text(",const,mom_iq\nconst,1,-0.9890\nmom_iq,-0.9890,1\n")
    return "table.csv", ("--model", "ols")


@pytest.mark.slow
@pytest.mark.parametrize("make", [logit, rows, table])
def test_each_cure_can_be_typed_where_it_is_printed(run, tmp_path, make):
    path, how = make(tmp_path)
    outcome = run("audit", path, *how, "--no-remedies", "--json")
    found = json.loads(outcome.out)
    assert found["not_run"]
    told = [n["remedy"] for n in found["not_run"]] + [r["action"] for f in found["findings"] for r in f["remedies"]]
    assert not any(re.search(r"\b\w+=", cure) for cure in told), "keywords of Python cannot be typed"
    options = {option for cure in told for option in re.findall(r"--[a-z][a-z-]+", cure)}
    assert options
    for option in sorted(options):
        again = run("audit", path, *(() if option == "--model" else how), "--no-remedies", option, *TYPED[option])
        assert again.code in (0, 3), again.err
