"""Posteriors that are built here: what the cache holds, when it is used, and what it says of their quality."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from scipy import stats

from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_numpyro, load
from bayesrecon.posteriors import fitted, from_draws, from_posteriordb, nuts
from bayesrecon.posteriors.fitting.fitted import NutsRun, cache_folder, cache_path
from bayesrecon.posteriors.fitting.nuts import check_records, convergence
from bayesrecon.posteriors.fitting.programs import served_by
from bayesrecon.posteriors.readers import from_npz
from bayesrecon.precision import x64

COIN = {"n": [10], "k": [7]}
FEW = NutsRun(chains=2, draws=400, warmup=200)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("BAYESRECON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def sampler(monkeypatch):
    """Exact draws of the coin's posterior in place of NUTS, which takes seconds to compile; a list of the calls. The
    last chain of the first `stuck` of them is elsewhere."""
    calls = []

    def sample(model, records, *, key, chains, draws, name, **_):
        calls.append(key)
        values = np.random.default_rng(len(calls)).beta(8, 4, size=(chains, draws))
        if len(calls) <= sample.stuck:
            values[-1] = 0.999 - 0.001 * values[-1] * len(calls)
        release = from_draws({"theta": values}, replace(model, prepare=None), name=name)
        state = convergence(release, divergences=2)
        return replace(release, model=model, notes=state.warnings), state

    sample.stuck = 0
    monkeypatch.setattr(sys.modules["bayesrecon.posteriors.fitting.fitted"], "sample", sample)
    return SimpleNamespace(calls=calls, sample=sample)


def build(records=COIN, run=FEW, name="coins-coin", **options):
    lines = []
    release = fitted(name, load("Rate_1_model"), records, run, say=lines.append, **options)
    return release, lines


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("BAYESRECON_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("BAYESRECON_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "bayesrecon"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "bayesrecon"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "bayesrecon"


@pytest.mark.slow
def test_built_once_then_read(cache, sampler):
    built, lines = build()
    (path,) = cache.iterdir()
    assert re.match(r"coins-[0-9a-f]{16}\.npz", path.name)
    assert "NUTS with 2 chains of 200 + 400 iterations, 1 record, 1 parameters" in lines[0]
    assert re.search(r"800 draws in \d+ s", lines[1])
    assert re.search(r"largest R-hat 1\.0\d\d, smallest bulk ESS \d+, 2 divergences", lines[2])
    again, lines = build()
    last, _ = build(draws=100)
    with pytest.raises(BayesreconError, match="draws=500 would split a chain"):
        build(draws=500)
    assert sampler.calls == [0]
    assert re.search(r"coins-coin: 800 draws from .*npz; largest R-hat", lines[0])
    np.testing.assert_array_equal(again.theta, built.theta)
    np.testing.assert_array_equal(last.theta, np.asarray(built.theta)[-100:])
    assert again.model is load("Rate_1_model")
    # The archive is one that other commands read, and it says how it was made.
    assert np.allclose(from_npz(path, load("Rate_1_model")).theta, built.theta)
    with np.load(path, allow_pickle=False) as archive:
        said = json.loads(str(archive["__attributes__"]))
    assert said["bayesrecon_seed"] == "0"
    assert {"bayesrecon_version_jax", "bayesrecon_version_numpyro", "bayesrecon_version_bayesrecon"} < said.keys()


@pytest.mark.slow
def test_the_key_is_the_run_the_data_the_program_and_the_versions(cache, monkeypatch):
    model = load("Rate_1_model")
    records = {k: np.array(v) for k, v in COIN.items()}
    path = cache_path("coins-coin", model, records, {"seed": 0})
    assert path == cache_path("coins-coin", model, dict(reversed(records.items())), {"seed": 0})
    assert path == cache_path("coins-other_name_of_the_same_program", load("Rate_3_model"), records, {"seed": 0})
    others = [
        cache_path("coins-coin", model, records, {"seed": 1}),
        cache_path("coins-coin", model, {**records, "k": np.array([6])}, {"seed": 0}),
        cache_path("coins-coin", load("Rate_4_model"), records, {"seed": 0}),
    ]
    monkeypatch.setattr("bayesrecon.posteriors.fitting.fitted.version", lambda _: "99")
    others.append(cache_path("coins-coin", model, records, {"seed": 0}))
    assert len({path, *others}) == 5


def test_a_number_inside_the_program_is_part_of_the_key(cache):
    records = {"row": np.array([1]), "y": np.array([0.5])}
    one, two = (cache_path("trend", load("prophet", tau=tau), records, {}) for tau in (0.05, 0.06))
    assert one != two


def test_warnings_stay_with_the_draws(cache, sampler):
    run = NutsRun(chains=2, draws=20, warmup=2)
    built, lines = build(run=run)
    assert any("few effective draws" in note for note in built.notes)
    assert any("warning: few effective draws" in line for line in lines)
    again, lines = build(run=run)
    assert again.notes == built.notes
    assert "2 divergent transitions" in again.notes[-1]
    assert lines[-1] == f"coins-coin: warning: {again.notes[-1]}"
    assert sampler.calls == [0]


@pytest.mark.parametrize("stuck", [1, 2])
def test_a_chain_in_a_corner_is_sampled_again_once(cache, sampler, stuck):
    sampler.sample.stuck = stuck
    release, lines = build()
    assert len(sampler.calls) == 2
    assert not np.array_equal(jax.random.key_data(sampler.calls[1]), jax.random.key_data(jax.random.key(FEW.seed)))
    assert "R-hat of theta" in lines[2]
    assert "once more with another key" in lines[2]
    assert (convergence(release).r_hat.max() > 1.1) == (stuck == 2)
    said = any("a run with another key was discarded: NUTS did not converge" in note for note in release.notes)
    assert said or any("NUTS did not converge" in note for note in release.notes)
    assert said == (stuck == 1)
    assert build()[0].notes == release.notes
    assert len(sampler.calls) == 2


def test_refresh_builds_again(cache, sampler):
    for refresh in (False, True, False):
        build(run=NutsRun(seed=4), refresh=refresh)
    assert sampler.calls == [4, 4]
    build(run=NutsRun(seed=5))
    assert sampler.calls == [4, 4, 5]
    assert len(list(cache.iterdir())) == 2


def test_a_damaged_file_says_what_to_do(cache, sampler):
    few = NutsRun(chains=1, draws=20, warmup=20)
    build(run=few)
    (path,) = cache.iterdir()
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(BayesreconError, match=r"coins-\w+\.npz: not an \.npz file; delete this cached file"):
        build(run=few)


def test_a_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path, sampler):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BAYESRECON_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(BayesreconError, match=r"cannot write .*set BAYESRECON_CACHE"):
        build(run=NutsRun(chains=1, draws=20, warmup=20))


def test_lines_go_to_stderr(cache, sampler, capsys):
    fitted("coins-coin", load("Rate_1_model"), COIN, NutsRun(chains=1, draws=20, warmup=20))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("coins-coin: no draws yet; NUTS with 1 chains")


@pytest.mark.slow
def test_nuts_and_the_cache_give_the_same_draws(cache):
    model = load("Rate_1_model")
    direct = nuts(model, COIN, key=3, chains=1, draws=30, warmup=30, target_accept=0.9)
    release, _ = build(run=NutsRun(seed=3, chains=1, draws=30, warmup=30))
    np.testing.assert_allclose(release.theta, direct.theta, rtol=1e-12)


@pytest.mark.slow
def test_by_name_on_the_command_line(cache, database, capsys):
    from bayesrecon.cli.main import app

    small = ("--chains", "2", "--draws-per-chain", "50", "--warmup", "50")
    app(["fit", "Rate_2_data-Rate_2_model", *small, "--json"], standalone_mode=False)
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert (found["model"], found["draws"], found["out"]) == ("Rate_2_model", 100, None)
    assert [row["name"] for row in found["parameters"]] == ["theta1", "theta2"]
    assert "no draws yet" in captured.err
    assert len(list(cache.iterdir())) == 1
    for arguments, match in (
        (["kidiq-kidscore_momiq"], "reference draws of kidiq-kidscore_momiq: there is nothing to sample"),
        (
            ["mnist-nn_rbm1bJ100"],
            "its own program cannot be used: the data mnist are not",
        ),
        (["Rate_2_data-Rate_2_model", "--response", "k"], "need DATA"),
        (["arK", "arK"], "--out FILE.nc is needed"),
    ):
        with pytest.raises(BayesreconError, match=match):
            app(["fit", *arguments], standalone_mode=False)


@pytest.mark.slow
def test_from_posteriordb_builds_what_has_no_draws(cache, database):
    lines = []
    release = from_posteriordb("Rate_1_data-Rate_1_model", say=lines.append)
    assert release.theta.shape == (10_000, 1)
    assert "Rate_1_data-Rate_1_model: no draws yet" in lines[0]
    theta = 1 / (1 + np.exp(-np.asarray(release.theta)[:, 0]))
    exact = stats.beta(6, 6)
    assert abs(theta.mean() - exact.mean()) < 5 * exact.std() / np.sqrt(1000)
    with pytest.raises(BayesreconError, match="no reference draws for Rate_1_data"):
        from_posteriordb("Rate_1_data-Rate_1_model", build=False)
    few = from_posteriordb("Rate_1_data-Rate_1_model", draws=1000, say=lines.append)
    np.testing.assert_array_equal(few.theta, np.asarray(release.theta)[-1000:])


@pytest.mark.slow
def test_score_of_the_private_data_is_zero_in_built_draws(cache, database):
    """Integration by parts at the truth over draws built here: data, density and sampler agree (5 standard errors)."""
    name = "surgical_data-surgical_model"
    release = from_posteriordb(name, say=lambda _: None)
    model, records = release.model, check_records(release.model, served_by(database, name).records())

    def log_posterior(theta):
        terms = jax.vmap(model.log_lik, (None, 0))(theta, records)
        return terms.sum() + model.log_prior(theta) + model.log_det(theta)

    with x64():
        scores = np.asarray(jax.jit(jax.vmap(jax.grad(log_posterior)))(release.theta))
    ess = effective_sample_size(scores, np.asarray(release.chain))
    assert np.abs(scores.mean(axis=0) / (scores.std(axis=0) / np.sqrt(ess))).max() < 5


@pytest.mark.slow
def test_records_that_cannot_be_are_one_line():
    """A value that no parameter allows."""

    def never(y):
        p = numpyro.sample("p", dist.Normal(0, 1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.factor("y", jnp.where(y < 50, -((y - p) ** 2), -jnp.inf))

    with pytest.raises(BayesreconError, match="no starting point where the density is finite"):
        nuts(from_numpyro(never, {"y": ()}), {"y": [99.0]}, chains=1, draws=5, warmup=5)
