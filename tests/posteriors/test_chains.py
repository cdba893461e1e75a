"""NUTS in two programs: what is compiled for one call serves the next, however chains are moved; the law is right."""

import os
import subprocess
import sys

import conjugate
import jax
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from parts import slow_then_large
from scipy import stats

from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_numpyro, load
from bayesrecon.posteriors import nuts
from bayesrecon.posteriors.fitting.nuts import BLOCK, blocks_of
from bayesrecon.precision import x64

COIN = {"n": [10], "k": [7]}
FEW = {"chains": 2, "draws": 30, "warmup": 40}


@pytest.fixture
def compiled():
    """Names of the programs that XLA compiles, or takes from its cache."""
    names = []

    def listen(event, seconds, **rest):
        if event.endswith("backend_compile_duration"):
            names.append(rest.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.slow
def test_a_chain_is_two_programs_and_the_next_call_compiles_none(compiled):
    model = load("Rate_1_model")
    nuts(model, COIN, key=1, **FEW)
    assert [name for name in compiled if "start" in name or "walk" in name] in ([], ["jit(start)", "jit(walk)"])
    compiled.clear()
    nuts(model, {"n": [12], "k": [3]}, key=2, **FEW)
    assert compiled == []
    nuts(model, COIN, key=3, **{**FEW, "draws": 20, "chains": 3}, thinning=2)  # one a chain, for any number of draws
    assert not {name for name in compiled if "start" in name or "walk" in name}


@pytest.mark.slow
def test_chains_are_the_same_one_after_the_other_and_at_once():
    model = load("Rate_1_model")
    one, *others = (
        nuts(model, COIN, key=jax.random.key(4), chain_method=method, **FEW).theta
        for method in ("sequential", "parallel", "auto")
    )
    assert len(np.unique(np.asarray(one))) > 50  # of 60: the two chains are not one
    for other in others:
        np.testing.assert_array_equal(other, one)
    other = nuts(model, COIN, key=5, chain_method="sequential", **FEW).theta
    assert not np.array_equal(other, one)


@pytest.mark.slow
def test_one_draw_in_so_many_is_kept():
    model = load("Rate_1_model")
    all_of_them = nuts(model, COIN, key=1, chains=1, draws=3 * BLOCK + 60, warmup=40).theta
    every = nuts(model, COIN, key=1, chains=1, draws=BLOCK + 20, thinning=3, warmup=40).theta
    np.testing.assert_array_equal(every, np.asarray(all_of_them)[2::3])


def test_blocks_are_all_iterations():
    parts = list(blocks_of(BLOCK + 1, 2 * BLOCK + 3, 4))
    assert sum(count for count, every, _ in parts if every == 1) == BLOCK + 1
    assert sum(count for count, every, _ in parts if every == 4) == 2 * BLOCK + 3
    assert parts[-1][2] == BLOCK + 1 + 4 * (2 * BLOCK + 3)
    assert max(count for count, _, _ in parts) <= BLOCK
    assert list(blocks_of(0, 1, 1)) == [(1, 1, 1)]


def test_constrained_coordinates_are_refused():
    with pytest.raises(BayesreconError, match="constrained coordinates"):
        nuts(load("Rate_1_model").in_constrained_coordinates, COIN, **FEW)


def funnel():
    """Its scale varies from one of its corners to the other, where transitions diverge."""

    def program(y):
        width = numpyro.sample("width", dist.Normal(0, 3))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(0, 1), obs=y)
        numpyro.sample("x", dist.Normal(0, jax.numpy.exp(width / 2)).expand([9]).to_event(1))

    return from_numpyro(program, {"y": ()})


@pytest.mark.slow
def test_divergent_transitions_are_counted_where_they_are_not_kept():
    runs = [nuts(funnel(), {"y": [0.0]}, chains=2, draws=50, thinning=20, warmup=300, key=key) for key in range(6)]
    said = [note for release in runs for note in release.notes if "divergent" in note]
    assert sum(int(note.split()[0]) for note in said) > 5


KEPT = """
import json, sys
import jax
found = []
jax.monitoring.register_event_listener(lambda event, **rest: found.append(event.rpartition("/")[2]))
def settings():
    kept = "compilation_cache_dir", "persistent_cache_min_compile_time_secs", "persistent_cache_min_entry_size_bytes"
    return [getattr(jax.config, f"jax_{name}") for name in (*kept, "logging_level")]


before = settings()
from bayesrecon.models import load
from bayesrecon.posteriors import nuts
model = load("Rate_1_model")
release = nuts(model, {"n": [10], "k": [7]}, chains=2, draws=30, warmup=40)
assert before == settings()
print(found.count("cache_hits"), found.count("cache_misses"), float(release.theta.sum()))
"""


@pytest.mark.slow
def test_the_next_process_compiles_no_chain(tmp_path):
    settled = {"JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "TF_CPP_MIN_LOG_LEVEL"}
    fresh = {name: value for name, value in os.environ.items() if name not in settled}

    def said(**more):
        environment = {**fresh, "BAYESRECON_CACHE": str(tmp_path), **more}
        done = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stderr) == (0, "")
        hits, misses, total = done.stdout.split()
        return int(hits), int(misses), total

    first, second = said(), said()
    assert (first[:2], second[:2]) == ((0, 2), (2, 0))
    assert said(BAYESRECON_COMPILE_CACHE="0") == (0, 0, first[2])
    assert second[2] == first[2]


@pytest.mark.parametrize("method", slow_then_large("sequential", "vectorized"))
def test_ranks_of_the_truth_are_uniform(method):
    """Simulation-based calibration (Talts et al. 2018): a parameter drawn from the prior is any of the draws from the
    posterior of data that it made."""
    runs, kept, rng = 150, 99, np.random.default_rng(0)
    model, x = conjugate.regression_model(), rng.normal(size=(12, 1))
    ranks = []
    for key in range(runs):
        variance = conjugate.RATE / rng.gamma(conjugate.SHAPE)
        beta = rng.normal(0, conjugate.PRIOR_SCALE * np.sqrt(variance), 2)
        y = beta[0] + x @ beta[1:] + rng.normal(0, np.sqrt(variance), 12)
        release = nuts(
            model, {"x": x, "y": y}, key=key, chains=3, draws=kept // 3, thinning=3, warmup=150, chain_method=method
        )
        with x64():
            true = np.asarray(model.unconstrain({"variance": variance, "beta": beta}))
        ranks.append((np.asarray(release.theta) < true).sum(axis=0))
    for one in np.array(ranks).T:  # three of them, and two methods: one alarm in ten thousand runs of this test
        assert stats.kstest((one + rng.uniform(size=runs)) / (kept + 1), "uniform").pvalue > 2e-5


@pytest.mark.slow
@pytest.mark.large
def test_draws_are_worth_what_those_of_numpyro_are():
    """NumPyro's own driver: as many effective draws, and as many gradients, of one transition as of the other."""
    from numpyro.infer import MCMC, NUTS

    rng = np.random.default_rng(1)
    model, x = conjugate.regression_model(), rng.normal(3, 2, size=(60, 1))
    records = {"x": x, "y": 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, 60)}
    theta = np.asarray(nuts(model, records, key=1, chains=4, draws=2000, warmup=700).theta)
    with x64():
        theirs = MCMC(
            NUTS(model.program, dense_mass=True),
            num_warmup=700,
            num_samples=2000,
            num_chains=4,
            chain_method="sequential",
            progress_bar=False,
        )
        theirs.run(jax.random.key(1), **records)
        other = np.asarray(jax.vmap(model.unconstrain)(theirs.get_samples()))
    chain = np.repeat(np.arange(4), 2000)
    ours, numpyros = (effective_sample_size(values, chain) for values in (theta, other))
    assert (np.abs(np.log(ours / numpyros)) < 0.5).all()
    error = np.sqrt(theta.var(axis=0) / ours + other.var(axis=0) / numpyros)
    assert (np.abs(theta.mean(axis=0) - other.mean(axis=0)) < 5 * error).all()
