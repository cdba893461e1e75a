"""Shipped models as they were measured before: log likelihoods and log priors at two points, kept in a file."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayesrecon.models import load
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.inspection import typical_values
from bayesrecon.precision import x64

pytestmark = pytest.mark.usefixtures("hardly_optimised")

KEPT = json.loads((Path(__file__).resolve().parents[1] / "fixtures" / "catalogue.json").read_text())
QUICK = {"Rate_1_model", "seeds_centered_model", "kidscore_momiq"}  # others with the slow tests


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in KEPT])
def test_densities_are_what_they_were(name):
    model = load(name)
    rng = np.random.default_rng(0)
    records = {k: typical_values(f.domain, rng, (3, *f.shape)) for k, f in model.fields.items()}
    with x64():
        terms = jax.jit(jax.vmap(model.log_lik, (None, 0)))
        for seed, kept, prior in zip((1, 2), KEPT[name]["records"], KEPT[name]["prior"], strict=True):
            theta = np.random.default_rng(seed).normal(size=model.dimension) * 0.3
            np.testing.assert_allclose(terms(theta, records), kept, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(model.log_prior(theta), prior, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_numpyro_is_loaded_when_a_program_runs_and_not_before():
    script = (
        "import sys; from bayesrecon.models import load, shipped; shipped(); assert 'numpyro' not in sys.modules; "
        "load('Rate_1_model'); assert 'numpyro' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)


def counted(unit, n, k=None, *, units=3, scale=1.0):
    """Counts by unit."""
    rate = numpyro.sample("rate", dist.HalfNormal(scale).expand((units,)).to_event(1))
    with numpyro.plate("records", unit.shape[0]):
        numpyro.sample("k", dist.Poisson(rate[unit - 1] * n), obs=k)


def test_a_program_is_its_entry():
    entry = from_program(
        counted,
        "counts",
        domain=lambda units: {"unit": list(range(1, units + 1)), "n": "positive"},
        prepare=lambda draws, *, scale: {k: v * scale for k, v in draws.items()},
        posteriors=("counts-counted",),
    )
    assert (entry.name, entry.posteriors) == ("counted", ("counts-counted",))
    model = entry.build(units=2, scale=np.float64(3.0))
    assert tuple(model.fields) == ("unit", "n", "k")
    assert model.fields["unit"].domain.levels == (1, 2)
    assert model.fields["k"].domain.words == "whole numbers from 0 on"
    assert model.settings == {"units": 2, "scale": 3.0}
    assert model.coordinates == ("rate[1]", "rate[2]")
    np.testing.assert_array_equal(model.prepare({"rate": np.ones(2)})["rate"], 3.0)
    assert entry.build().settings == {"units": 3, "scale": 1.0}
