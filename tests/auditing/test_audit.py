"""`audit`: findings, remedies, scores."""

import json

import fits
import numpy as np
import pytest
import xarray as xr
from audited import by_kind
from kidscore import DATA, DRAWS, MODEL

import bayesrecon
from bayesrecon.auditing.assembly import merge
from bayesrecon.errors import BayesreconError
from bayesrecon.results.findings import Item, Thresholds


def test_every_channel_is_found(full):
    kinds = by_kind(full)
    assert set(kinds) == {"log-likelihood", "predictive", "log-density", "draws"}
    assert kinds["log-likelihood"].severity == "high"
    assert kinds["log-density"].severity == "medium"
    assert [f.severity for f in full] == sorted((f.severity for f in full), key=["high", "medium", "low"].index)
    assert full.severity == "high"
    assert full.fails("high")
    assert full.fails("low")
    assert full.warnings == ()
    assert (full.verdict, full.not_run) == ("findings", ())


def test_findings_are_scored(full):
    kinds = by_kind(full)
    score = kinds["log-likelihood"].score
    assert (score.matched, score.total) == (fits.SIZE, fits.SIZE)
    assert score.null < 0.5 < score.lower
    assert set(score.median_error) == set(DATA)
    for item in kinds["log-density"].evidence:
        assert abs(item.estimate - item.truth) < 4.5 * item.se
    for item in kinds["draws"].evidence:
        assert abs(item.estimate - item.truth) < 6 * item.se


def test_without_data_nothing_is_scored(everything):
    found = bayesrecon.audit({k: v for k, v in everything.items() if k != "kid_score_rep"}, MODEL, remedies=False)
    assert all(f.score is None for f in found)
    assert all(item.truth is None for f in found for item in f.evidence)


@pytest.mark.slow
def test_the_data_do_not_change_the_attack(everything, full):
    """Wrong private data score differently; what was recovered is the same to the last bit."""
    wrong = {k: v + 100 for k, v in DATA.items()}
    other = by_kind(bayesrecon.audit(everything, MODEL, data=wrong, remedies=False))
    for kind, finding in by_kind(full).items():
        assert [(i.name, i.estimate, i.se) for i in finding.evidence] == [
            (i.name, i.estimate, i.se) for i in other[kind].evidence
        ]
    assert other["log-likelihood"].score.matched == 0


def test_results_are_plain(full):
    document = json.loads(json.dumps(full.to_dict(), allow_nan=False))
    assert document["version"] == bayesrecon.__version__
    assert document["thresholds"]["exact_count"] == 0.5
    assert document["settings"]["model"] == "kidscore_momiq"
    assert len(document["findings"]) == len(full)
    # The document is no second copy of the data.
    assert all(len(v) <= 10 for f in document["findings"] for v in f["records"].values())
    frame = full.to_dataframe()
    assert list(frame["severity"]) == [f.severity for f in full]
    assert "log densities" in full._repr_html_()
    assert full.plot() is not None


def tried(finding):
    return [r for r in finding.remedies if r.measured is not None]


@pytest.mark.slow
def test_remedies_are_tried(everything):
    found = by_kind(bayesrecon.audit(everything, MODEL, remedies="full"))
    for kind in ("log-likelihood", "log-density"):
        assert len(tried(found[kind])) >= 4
        for r in tried(found[kind]):
            assert r.measured > r.before * 0.9
            assert 0.75 < r.predicted / r.measured < 1.25
    assert any(
        r.action == "publish neither draws nor their mean and covariance, which reveal the same statistics"
        for r in found["draws"].remedies
    )


@pytest.mark.slow
@pytest.mark.large
def test_remedies_of_an_ordinary_file(tmp_path):
    """A NumPyro fit in single precision, saved by ArviZ: predictions hold against the private data."""
    import arviz
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    from bayesrecon.models import from_numpyro

    def program(x, y=None):
        intercept = numpyro.sample("intercept", dist.Normal(0, 100))
        slope, sigma = numpyro.sample("slope", dist.Normal(0, 10)), numpyro.sample("sigma", dist.HalfNormal(20))
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", dist.Normal(intercept + slope * x, sigma), obs=y)

    rng = np.random.default_rng(0)
    x = rng.normal(50, 10, 60).round(1)
    data = {"x": x, "y": (3 + 0.5 * x + rng.normal(0, 4, 60)).round(1)}
    mcmc = MCMC(
        NUTS(program), num_warmup=500, num_samples=500, num_chains=2, chain_method="sequential", progress_bar=False
    )
    mcmc.run(jax.random.key(0), **data, extra_fields=("potential_energy",))
    arviz.from_numpyro(mcmc, log_likelihood=True).to_netcdf(str(tmp_path / "fit.nc"))
    found = by_kind(
        bayesrecon.audit(tmp_path / "fit.nc", from_numpyro(program, {"x": (), "y": ()}), data=data, remedies="full")
    )
    remedies = [r for kind in ("log-likelihood", "log-density", "draws") for r in tried(found[kind])]
    assert len(remedies) >= 20
    # Errors that fewer draws leave share the file's own, which is one draw of a random number.
    ratios = {(r.action, r.statistic): r.predicted / r.measured for r in remedies}
    assert all(0.75 < q < 1.25 for (action, _), q in ratios.items() if "digits" in action), ratios
    assert np.mean([0.75 < q < 1.25 for q in ratios.values()]) > 0.9, ratios


def test_thresholds_decide(everything):
    plain = {k: v for k, v in everything.items() if k in ("beta", "sigma", "__log_density__")}
    strict = Thresholds(exact_count=1e-9)
    found = by_kind(bayesrecon.audit(plain, MODEL, remedies=False, thresholds=strict))
    assert found["log-density"].title == "log densities give statistics of the data"


@pytest.mark.slow
def test_log_densities_of_another_model_are_a_warning(everything):
    rng = np.random.default_rng(0)
    wrong = {**DRAWS, "__log_density__": everything["__log_density__"] + np.round(rng.normal(size=(2, 300)), 3)}
    found = bayesrecon.audit(wrong, MODEL, remedies=False)
    assert by_kind(found)["log-density"].title == "log densities are in the file"
    assert by_kind(found)["log-density"].evidence == ()
    assert any("not the log density of kidscore_momiq" in w for w in found.warnings)
    (untried,) = found.not_run
    assert (untried.attack, untried.where) == ("log densities", ("sample_stats/lp",))
    assert "pass the model that made them" in untried.remedy
    assert found.verdict == "incomplete"


def test_a_model_that_does_not_match_is_told(everything):
    """The score identity fails: which parameters, and by how much."""
    skewed = np.random.default_rng(0).exponential(0.1, DRAWS["beta"].shape)
    found = bayesrecon.audit({"beta": skewed, "sigma": DRAWS["sigma"]}, MODEL, remedies=False)
    told = " ".join(n.reason for n in found.not_run if n.attack == "draws")
    assert "draws and model disagree" in told
    assert "beta[1]" in told
    assert found.verdict == "incomplete"
    with pytest.raises(BayesreconError, match="lack parameter"):
        bayesrecon.audit({"alpha": DRAWS["sigma"]}, MODEL)


def test_without_a_model_columns_are_looked_at(everything):
    found = bayesrecon.audit({k: everything[k] for k in ("beta", "sigma", "log_lik")}, rows="draws")
    finding, draws = found.findings
    assert (finding.kind, finding.severity) == ("log-likelihood", "high")
    assert finding.evidence[0] == Item("n", float(fits.SIZE), 0.0)
    assert draws.kind == "draws"
    assert [n.attack for n in found.not_run] == ["log likelihoods", "draws"]
    assert "without a model" in found.warnings[0]


def test_what_is_held_is_as_severe_with_a_model_as_without(everything, full):
    """But for predictive draws, which only the attack can judge."""
    bare = bayesrecon.audit(everything)
    assert bare.verdict == "incomplete"
    assert set(by_kind(bare)) == set(by_kind(full))
    severities = [{k: f.severity for k, f in by_kind(found).items() if k != "predictive"} for found in (bare, full)]
    assert severities[0] == severities[1]
    assert all("--model" in n.remedy for n in bare.not_run)
    document = json.loads(json.dumps(bare.to_dict(), allow_nan=False))
    assert document["verdict"] == "incomplete"
    assert {n["attack"] for n in document["not_run"]} == {"log likelihoods", "log densities", "predictions", "draws"}
    assert "not run: draws: no model was given; pass the model: --model" in repr(bare)


@pytest.mark.slow
def test_log_densities_under_another_name_are_attacked(everything):
    """As nutpie writes them, and as R exports them among the draws."""
    density = everything["__log_density__"]
    among = bayesrecon.audit({**DRAWS, "lp__": density}, MODEL, remedies=False)
    beside = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(
                {"beta": (("chain", "draw", "k"), DRAWS["beta"]), "sigma": (("chain", "draw"), DRAWS["sigma"])}
            ),
            "sample_stats": xr.Dataset({"logp": (("chain", "draw"), density)}),
        }
    )
    for found in (among, bayesrecon.audit(beside, MODEL, remedies=False)):
        assert by_kind(found)["log-density"].title == "log densities give statistics of the data exactly"
        assert found.verdict == "findings"


@pytest.mark.slow
def test_an_attack_that_fails_leaves_its_finding(everything):
    """Gaps in the log densities: they are not cleared, and what to do stands beside it; other terms are solved for."""
    gaps = everything["__log_density__"].copy()
    gaps[0, 0] = np.nan
    columns = everything["log_lik"].copy()
    columns[0, 0, 0] = np.inf
    source = {**DRAWS, "__log_density__": gaps, "log_lik": columns}
    found = bayesrecon.audit(source, MODEL, remedies=False)
    assert found.verdict == "incomplete"
    assert {n.attack: n.remedy for n in found.not_run} == {"log densities": "drop sample_stats/lp"}
    assert by_kind(found)["log-likelihood"].summary.startswith(f"{fits.SIZE - 1} of {fits.SIZE - 1} records")
    kinds = {k: f.severity for k, f in by_kind(found).items()}
    assert kinds == {"log-likelihood": "high", "log-density": "medium", "draws": "low"}


def test_merged_audits_are_incomplete_where_one_is():
    one, two = bayesrecon.audit(DRAWS, MODEL, remedies=False), bayesrecon.audit(DRAWS, name="other", rows="draws")
    assert (one.verdict, two.verdict) == ("findings", "incomplete")
    both = merge([one, two])
    assert both.verdict == "incomplete"
    assert [n.attack for n in both.not_run] == ["other: draws"]
