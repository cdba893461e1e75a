"""Data that lie hidden in a file are found or not recognised; files in which none do raise no alarm."""

import hiding
import numpy as np
import pytest
import xarray as xr
from hiding_found import FOUND
from quick import quick

import bayesrecon

MODEL = hiding.model()
BY_ID = {(f.kind, f.id): f for f in [*hiding.FILES, *FOUND]}
CLEARED = "Little is disclosed"

SOME = [
    ("honest", "nc: log density as sample_stats/target_log_prob"),
    ("honest", "nc: log density as sample_stats/minuslogpost"),
    ("honest", "nc: log density as sample_stats/deviance"),
    ("honest", "nc: pointwise terms as sample_stats/ll_i"),
    ("honest", "nc: pointwise terms as scalars"),
    ("honest", "nc: gradients under another name"),
    ("honest", "nc: Deterministic: mu"),
    ("honest", "nc: Deterministic: logit"),
    ("honest", "nc: Deterministic: residuals"),
    ("honest", "nc: a table at the root"),
    ("honest", "nc: data groups of a nested study"),
    ("honest", "nc: labels of records: patients"),
    ("honest", "nc: sample_stats, the same in all draws: one-hot"),
    ("honest", "nc: attribute of the posterior: a sentence about somebody"),
    ("honest", "zarr: a file beside: patients.csv"),
    ("honest", "zarr: copied metadata of a group that was deleted"),
    ("honest", "npz: names of patients"),
    ("honest", "csv: a remark in a comment"),
    ("honest", "nc: effects by patient number"),
    ("honest", "nc: the mean prediction"),
    ("honest", "nc: a digest of the data"),
    ("honest", "json: data beside"),
    ("malice", "nc: step_size runs through the response"),
    ("malice", "nc: diverging runs through bits"),
    ("malice", "nc: names of arrays carry values"),
    ("malice", "nc: the attribute created_at holds the response"),
    ("malice", "nc: bytes after the end"),
    ("malice", "npz: comment of the archive"),
    ("malice", "csv: rows after line 2,000"),
]
DEAR = {
    ("honest", "nc: log density as sample_stats/minuslogpost"),
    ("honest", "nc: pointwise terms as scalars"),
    ("honest", "nc: pointwise terms as sample_stats/ll_i"),
    ("honest", "nc: labels of records: patients"),
    ("malice", "nc: names of arrays carry values"),
    ("honest", "nc: Deterministic: logit"),
    ("honest", "nc: Deterministic: residuals"),
    ("honest", "nc: data groups of a nested study"),
    ("honest", "nc: effects by patient number"),
    ("honest", "nc: gradients under another name"),
    ("honest", "nc: log density as sample_stats/deviance"),
    ("honest", "nc: log density as sample_stats/target_log_prob"),
    ("honest", "nc: sample_stats, the same in all draws: one-hot"),
    ("honest", "zarr: copied metadata of a group that was deleted"),
    ("malice", "nc: diverging runs through bits"),
}
HARMLESS = [
    "nothing", "50 states", "years", "units", "predictions on a grid", "centred effects", "statistics of PyMC",
    "a curve", "another unit",
]  # fmt: skip
STATISTICS = ["nothing", "statistics of PyMC", "statistics of nutpie"]


@pytest.mark.parametrize("name", quick(SOME, set(SOME) - DEAR), ids=lambda name: name[1])
def test_what_is_hidden_is_not_cleared(name, tmp_path):
    """Without anything, and with the model and the data."""
    path = BY_ID[name].make(tmp_path)
    for model, data in ((None, None), (MODEL, hiding.DATA)):
        found = bayesrecon.audit(path, model, data=data, remedies=False)
        told = [f for f in found if f.kind != "draws" and f.severity != "info"]
        assert told or found.unrecognised
        assert not found.advice.startswith(CLEARED)


@pytest.mark.slow
@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_file_raises_no_alarm(name, tmp_path):
    path = BY_ID["harmless", f"nc: {name}"].make(tmp_path)
    bare = bayesrecon.audit(path, remedies=False)
    compared = bayesrecon.audit(path, data=hiding.DATA, remedies=False)
    full = bayesrecon.audit(path, MODEL, remedies=False)
    assert {f.severity for f in (*bare, *compared, *full)} <= {"low", "info"}


@pytest.mark.parametrize("name", STATISTICS)
def test_a_clean_file_is_cleared_and_everything_in_it_accounted_for(name, tmp_path):
    found = bayesrecon.audit(BY_ID["harmless", f"nc: {name}"].make(tmp_path), MODEL, remedies=False)
    assert found.unrecognised == ()
    assert found.verdict == "findings"
    assert found.advice.startswith(CLEARED)


@pytest.mark.slow
def test_a_log_density_gives_the_number_of_records_whatever_its_name(tmp_path):
    for name in ("target_log_prob", "minuslogpost", "deviance", "log_likelihood"):
        path = BY_ID["honest", f"nc: log density as sample_stats/{name}"].make(tmp_path)
        found = bayesrecon.audit(path, MODEL, remedies=False)
        (finding,) = (f for f in found if f.kind == "log-density")
        count = next(item for item in finding.evidence if item.name == "n")
        assert abs(count.estimate - hiding.SIZE) < 1e-6


@pytest.mark.slow
def test_terms_give_every_record_wherever_they_lie(tmp_path):
    path = BY_ID["honest", "nc: pointwise terms as sample_stats/ll_i"].make(tmp_path)
    found = bayesrecon.audit(path, MODEL, data=hiding.DATA, remedies=False)
    (finding,) = (f for f in found if f.kind == "log-likelihood")
    assert (finding.severity, finding.score.matched) == ("high", hiding.SIZE)


def test_a_linear_predictor_gives_its_rows_without_a_model(tmp_path):
    path = BY_ID["honest", "nc: Deterministic: mu"].make(tmp_path)
    (finding,) = (f for f in bayesrecon.audit(path) if f.kind == "combination")
    assert (finding.severity, finding.drop) == ("high", ("posterior/mu",))
    assert abs(finding.records["coef[1]"] - hiding.AGE).max() < 1e-6


def test_what_is_public_is_no_finding(tmp_path):
    path = BY_ID["honest", "nc: constant_data with a covariate"].make(tmp_path)
    assert bayesrecon.audit(path).severity == "high"
    assert bayesrecon.audit(path, public=["constant_data/*"]).severity == "low"


@pytest.mark.parametrize("model", [None, MODEL], ids=["without a model", "with it"])
def test_texts_among_the_draws_are_not_recognised(model, tmp_path):
    path = BY_ID["harmless", "nc: nothing"].make(tmp_path)
    with xr.open_datatree(path) as opened:
        tree = opened.load()
    names = np.resize(hiding.PATIENT, (hiding.CHAINS, hiding.LENGTH)).astype(object)
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().assign(who=(hiding.DRAW, names)))
    tree.to_netcdf(tmp_path / "texts.nc")
    assert bayesrecon.audit(tmp_path / "texts.nc", model, remedies=False).unrecognised == ("posterior/who",)
