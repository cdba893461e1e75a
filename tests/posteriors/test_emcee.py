"""Draws of emcee, written by emcee."""

import numpy as np
import pytest
from written import refused

from bayesrecon.auditing.audit import audit
from bayesrecon.posteriors.formats import read_contents, read_draws

emcee = pytest.importorskip("emcee")


@pytest.fixture
def sampler(tmp_path):
    backend = emcee.backends.HDFBackend(str(tmp_path / "chain.h5"))
    made = emcee.EnsembleSampler(8, 2, lambda x: -0.5 * np.sum(x**2), backend=backend)
    made.random_state = np.random.RandomState(0).get_state()
    made.run_mcmc(np.random.default_rng(0).normal(size=(8, 2)), 20)
    return made


def test_the_file_of_its_backend(sampler, tmp_path):
    draws = read_draws(tmp_path / "chain.h5")
    np.testing.assert_array_equal(draws.values["x"], sampler.get_chain().swapaxes(0, 1))
    assert draws.log_density is None
    found = read_contents(tmp_path / "chain.h5")
    assert {v.where for v in found.variables} == {"posterior/x", "sample_stats/log_prob", "sample_stats/accepted"}
    assert "@mcmc/version" in {entry.where for entry in found.entries}
    assert "walker" in found.notes[1]


def test_a_sampler_in_memory(sampler):
    np.testing.assert_array_equal(read_draws(sampler).values["x"], sampler.get_chain().swapaxes(0, 1))
    (density,) = read_contents(sampler.backend).group("sample_stats")
    np.testing.assert_array_equal(density.values, sampler.get_log_prob().T.ravel())
    refused("has it run", read_draws, emcee.EnsembleSampler(8, 2, lambda x: 0.0))


def test_other_data_in_the_file_are_audited(sampler, tmp_path):
    import h5py

    with h5py.File(tmp_path / "chain.h5", "a") as file:
        file["mcmc/ages"] = np.array([41.0, 17.0, 63.0, 28.0, 35.0, 52.0])
        file["more/ages"] = np.array([41.0, 17.0, 63.0, 28.0, 35.0, 52.0])
    found = audit(str(tmp_path / "chain.h5"))
    assert any("mcmc/ages" in finding.where for finding in found.findings)
    assert any(missed.where == ("more",) for missed in found.not_run)


def test_steps_that_were_not_done_are_no_draws(sampler, tmp_path):
    import h5py

    with h5py.File(tmp_path / "chain.h5", "a") as file:
        file["mcmc"].attrs["iteration"] = 12
    assert read_draws(tmp_path / "chain.h5").length == 12
    with h5py.File(tmp_path / "chain.h5", "a") as file:
        file["mcmc"].attrs["iteration"] = 21
    refused("21 of 20 steps", read_draws, tmp_path / "chain.h5")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [None, [("eta", float, (5,)), ("first", float)]])
def test_blobs_are_values_of_every_draw(kind, tmp_path):
    dose = np.random.default_rng(1).uniform(0, 5, 5)

    def density(x):
        blob = x[0] + x[1] * dose
        return (-0.5 * np.sum(x**2), blob) if kind is None else (-0.5 * np.sum(x**2), blob, x[0])

    backend = emcee.backends.HDFBackend(str(tmp_path / "chain.h5"))
    sampler = emcee.EnsembleSampler(8, 2, density, backend=backend, blobs_dtype=kind)
    sampler.run_mcmc(np.random.default_rng(0).normal(size=(8, 2)), 100)
    for source in (sampler, tmp_path / "chain.h5"):
        assert any("exact combination" in finding.title for finding in audit(source).findings)
        (eta,) = (v for v in read_contents(source).variables if v.shape == (5,))
        x = read_draws(source).values["x"].reshape(-1, 2)
        np.testing.assert_allclose(eta.values, x[:, :1] + x[:, 1:] * dose)
