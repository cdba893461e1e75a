"""Results of dynesty: weighted draws in memory and in files of arrays."""

import json

import numpy as np
import pytest
from written import refused

from bayesrecon.auditing.audit import audit
from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.posteriors.weights import weights_among


def arrays(count=40):
    """What `Results.asdict()` of a static run has one number a draw of."""
    rng = np.random.default_rng(0)
    volume = -np.arange(1, count + 1) / 10
    likelihood = np.sort(rng.normal(-50, 9, count))
    return {
        "samples": rng.normal(size=(count, 2)), "samples_u": rng.uniform(size=(count, 2)), "logl": likelihood,
        "logvol": volume, "logwt": likelihood + volume, "logz": np.cumsum(rng.uniform(size=count)),
        "samples_it": np.arange(count), "ncall": np.ones(count, int), "samples_bound": np.arange(7),
    }  # fmt: skip


@pytest.mark.parametrize("suffix", ["npz", "json"])
def test_files_of_its_arrays(tmp_path, suffix):
    made, path = arrays(), tmp_path / f"run.{suffix}"
    if suffix == "npz":
        np.savez(path, **made)
    else:
        path.write_text(json.dumps({**{key: value.tolist() for key, value in made.items()}, "nlive": 10, "blob": None}))
    draws = read_draws(path)
    np.testing.assert_array_equal(draws.values["x"][0], made["samples"])
    weights = weights_among(draws.values, ["x"])
    want = np.exp(made["logwt"] - made["logwt"].max())
    np.testing.assert_allclose(weights.values[0], want, rtol=1e-12)
    found = read_contents(path)
    held = {v.where for v in found.variables} | {entry.where for entry in found.entries}
    assert held >= {"posterior/x", "sample_stats/logl", "sample_stats/samples_u", "samples_bound"}
    report = audit(path)
    assert any("sample_stats/logl" in f.where for f in report if f.severity == "medium")
    assert not {"samples_bound", "nlive"} & set(report.unrecognised)


def test_weights_of_another_number(tmp_path):
    made = arrays()
    np.savez(tmp_path / "run.npz", **{**made, "logwt": made["logwt"][:-1]})
    refused("39 weights of 40 draws", read_draws, tmp_path / "run.npz")
    np.savez(tmp_path / "run.npz", **{**made, "samples": made["samples"][:, 0]})
    refused("not .draws, dimensions.", read_draws, tmp_path / "run.npz")


@pytest.mark.slow
def test_a_run_in_memory(tmp_path):
    dynesty = pytest.importorskip("dynesty", reason="dynesty is not installed")
    sampler = dynesty.NestedSampler(
        lambda x: -0.5 * np.sum(x**2), lambda u: 20 * u - 10, 2, nlive=50, rstate=np.random.default_rng(0)
    )
    sampler.run_nested(print_progress=False)
    own = sampler.results
    draws = read_draws(own)
    np.testing.assert_array_equal(draws.values["x"][0], own["samples"])
    weights = weights_among(draws.values, ["x"]).values[0]
    np.testing.assert_allclose(weights / weights.sum(), own.importance_weights(), rtol=1e-9)
    assert {v.where for v in read_contents(own).variables} >= {"posterior/x", "sample_stats/logl"}
