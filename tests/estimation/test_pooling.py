"""Several releases of one data set determine together what none does alone."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from chains import chains_of, gaussian
from command import document
from conjugate import normal_mean_model, sample_normal_mean

import bayesrecon
from bayesrecon import Metric
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws, from_posteriordb

KIDIQ_POSTERIORS = [
    "kidiq-kidscore_momhs",
    "kidiq-kidscore_momiq",
    "kidiq-kidscore_momhsiq",
    "kidiq-kidscore_interaction",
    "kidiq_with_mom_work-kidscore_interaction_c",
    "kidiq_with_mom_work-kidscore_interaction_c2",
    "kidiq_with_mom_work-kidscore_interaction_z",
    "kidiq_with_mom_work-kidscore_mom_work",
]


@pytest.mark.slow
def test_halves_pool_to_the_whole(kidiq):
    whole = bayesrecon.recover(kidiq)
    numbers = np.unique(np.asarray(kidiq.chain))
    assert len(numbers) >= 4
    half = len(numbers) // 2
    pooled = bayesrecon.recover([chains_of(kidiq, numbers[:half]), chains_of(kidiq, numbers[half:])])
    assert pooled.draws == whole.draws == 4000
    assert [row.name for row in pooled] == [row.name for row in whole]
    for one, other in zip(whole, pooled, strict=True):
        assert abs(one.estimate - other.estimate) < 0.25 * one.se, one.name
        assert other.se == pytest.approx(one.se, rel=0.1)
        assert other.floor == pytest.approx(one.floor, rel=0.1)
        assert other.lower < other.estimate < other.upper


@pytest.mark.slow
def test_targets_add(kidiq):
    """In one fixed metric, the sum of the embeddings of two parts of a file is the embedding of the file."""
    numbers = np.unique(np.asarray(kidiq.chain))
    whole = bayesrecon.recover(kidiq, metric=Metric("identity"))
    parts = [chains_of(kidiq, numbers[:1]), chains_of(kidiq, numbers[1:])]
    for one, other in zip(whole, bayesrecon.recover(parts, metric=Metric("identity")), strict=True):
        assert other.estimate == pytest.approx(one.estimate, rel=1e-7)
        assert other.floor == pytest.approx(one.floor, rel=0.01)


@pytest.mark.slow
def test_releases_determine_together_what_neither_does_alone():
    """One model sees the total of a, the other that of b, with common knowledge of nothing but their fields."""

    def seeing(name):
        def program(a, b):
            mu = numpyro.sample("mu", dist.Normal(0, 10))
            with numpyro.plate("records", a.shape[0]):
                numpyro.sample("seen", dist.Normal(mu, 1.0), obs={"a": a, "b": b}[name])

        return from_numpyro(program, {"a": (), "b": ()}, name=f"sees_{name}")

    rng = np.random.default_rng(11)
    data = {"a": rng.normal(2, 1, 40), "b": rng.normal(-1, 1, 40)}
    releases = [
        from_draws({"mu": gaussian(np.ones((40, 1)), data[k], 4000, rng)[..., 0]}, seeing(k)) for k in ("a", "b")
    ]
    either = {"both": lambda record: record["a"] + record["b"]}
    for release in releases:
        assert bayesrecon.recover(release, statistics=either)["total(both)"].verdict != "determined"
    both = bayesrecon.recover(releases, statistics=either)["total(both)"]
    assert both.verdict == "determined"
    assert abs(both.estimate - (data["a"] + data["b"]).sum()) < 4.5 * both.se


@pytest.mark.slow
def test_releases_of_different_data_contradict_each_other():
    rng, model = np.random.default_rng(1), normal_mean_model()
    releases = [from_draws(sample_normal_mean(rng.normal(2, 1, n), 2000, rng), model) for n in (50, 500)]
    with pytest.raises(bayesrecon.BayesreconError, match="the releases contradict each other on n: "):
        bayesrecon.recover(releases)
    with pytest.raises(bayesrecon.BayesreconError, match="at least two"):
        bayesrecon.recover(releases[:1])


@pytest.mark.slow
def test_several_names_are_pooled(run, database):
    names = KIDIQ_POSTERIORS[:2]
    found = document(run("recover", *names, "--draws", 1000, "--json"))
    expected = bayesrecon.recover([from_posteriordb(name, draws=1000) for name in names]).to_dict()
    assert {k: v for k, v in found.items() if k != "seconds"} == {k: v for k, v in expected.items() if k != "seconds"}
    assert (found["draws"], found["release"]) == (2000, " + ".join(names))


@pytest.mark.slow
def test_eight_releases_of_one_survey(run, database):
    found = document(run("recover", *KIDIQ_POSTERIORS, "--json"))
    rows = {row["name"]: row for row in found["statistics"]}
    assert rows["n"]["estimate"] == pytest.approx(434.4, abs=0.05)
    assert rows["n"]["se"] == pytest.approx(1.3, abs=0.05)
    assert found["draws"] == 80_000
    assert found["release"].split(" + ") == KIDIQ_POSTERIORS
