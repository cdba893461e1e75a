"""The skeletons of CONTRIBUTING.md, found and used as they stand."""

import re
from pathlib import Path

import numpy as np
import pytest
import released
import xarray as xr
from command import exact_draws

import bayesrecon
from bayesrecon import untrusted
from bayesrecon.estimation import kinds
from bayesrecon.estimation.kinds import kind
from bayesrecon.models import registry
from bayesrecon.posteriors import formats
from bayesrecon.untrusted.guarded import PROCESS

ROOT = Path(__file__).resolve().parent.parent
SKELETONS = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def added(monkeypatch, tmp_path):
    """Puts the skeleton that has a word into a package, as one new file."""
    cached = registry.shipped, formats.formats, formats.suffixes, kind._kinds

    def add(package, name, word):
        (skeleton,) = [text for text in SKELETONS if word in text]
        folder = tmp_path / f"added-{name}-{package.__name__}"
        folder.mkdir()
        (folder / f"{name}.py").write_text(skeleton, encoding="utf-8")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        for one in cached:
            one.cache_clear()
        return folder

    yield add
    monkeypatch.undo()
    for one in cached:
        one.cache_clear()


def test_there_is_one_of_each():
    words = "MODELS = ", "FORMAT = ", "KIND = ", "CHANNEL = ", "class TabbedFile"
    assert [sum(word in text for text in SKELETONS) for word in words] == [1] * 5


@pytest.mark.slow
def test_a_model(added):
    added(bayesrecon.models, "waiting", "MODELS = ")
    model = bayesrecon.models.load("waiting_times", shape=2.0)
    rng = np.random.default_rng(0)
    wait = rng.gamma(2.0, 1 / 0.5, 150)
    draws = {"rate": rng.gamma(1 + 2.0 * 150, 1 / (1 + wait.sum()), (2, 1000))}
    found = bayesrecon.recover(draws, model=model)
    for name, true in (("n", 150), ("mean(wait)", wait.mean())):
        assert found[name].verdict != "undetermined"
        assert abs(found[name].estimate - true) < 4.5 * found[name].se  # false alarm: 7e-6


@pytest.mark.slow
def test_a_kind_of_release(added):
    """One new file: `recover` weighs its errors, and verbs and attacks that take what it is derived from take it."""
    added(kinds, "noisy", "KIND = ")
    from bayesrecon.estimation.kinds.noisy import noisy_mode

    shift = 0.5 * released.SD
    exact = bayesrecon.recover(released.release_of(bayesrecon.types.Approximation))
    release = noisy_mode(released.model(), [released.MEAN + shift], [[released.SD**2]], [released.SD])
    assert "NoisyMode('noisy mode': a mode with its covariance with 2 coordinates" in repr(release)
    found = bayesrecon.recover(release)
    assert not found.failures
    assert exact["mean(y)"].se is None
    assert found["mean(y)"].se == pytest.approx(released.SD, rel=0.01)
    assert found["mean(y)"].estimate - exact["mean(y)"].estimate == pytest.approx(shift, rel=0.01)
    assert bayesrecon.diagnose(release)["y"].verdict == "determined"
    assert bayesrecon.reconstruct(release, n=3).relative_gap < 1e-3
    assert bayesrecon.audit(release, remedies=False).findings[0].kind == "fit"
    for attack, other in (
        (bayesrecon.GradientMatching(n=3), "WeightedRecords"),
        (bayesrecon.Tilt(), "WeightedRecords"),
    ):
        with pytest.raises(
            bayesrecon.BayesreconError, match=f"a mode with its covariance, with noise .*; use .*{other}"
        ):
            bayesrecon.reconstruct(release, attack=attack)


@pytest.fixture
def in_the_guarded_process(monkeypatch, tmp_path):
    """Has the process that opens files find what was added, too."""
    site = tmp_path / "site" / "sitecustomize.py"
    site.parent.mkdir()
    site.write_text("import bayesrecon.untrusted as u, sys\nu.__path__ = [*u.__path__, *sys.path]\n")
    monkeypatch.syspath_prepend(site.parent)

    def find(folder):
        monkeypatch.syspath_prepend(folder)
        PROCESS.stop()

    yield find
    PROCESS.stop()


def test_a_source(added, in_the_guarded_process, tmp_path):
    in_the_guarded_process(added(untrusted, "tabbed", "class TabbedFile"))
    added(bayesrecon.posteriors, "tabbed", "FORMAT = ")
    values = np.random.default_rng(1).normal(size=(40, 2))
    path = tmp_path / "draws.tsv"
    np.savetxt(path, values, delimiter="\t", header="mu\ttau", comments="")
    read = formats.read_draws(path)
    np.testing.assert_allclose(read.values["tau"], values[None, :, 1])
    assert bayesrecon.audit(path).verdict == "incomplete"  # draws without a model are never cleared
    path.write_text("mu\ttau\n1\tmany\n")
    with pytest.raises(bayesrecon.BayesreconError, match=r"draws\.tsv"):
        formats.read_draws(path)


@pytest.mark.slow
def test_a_channel(added, tmp_path):
    from bayesrecon.auditing import channels

    added(channels, "acceptance", "CHANNEL = ")
    path = tmp_path / "trace.nc"
    draws = exact_draws(chains=2, length=200)
    posterior = xr.Dataset({k: (["chain", "draw", *["k"] * (v.ndim - 2)], v) for k, v in draws.items()})
    stats = xr.Dataset({"acceptance_rate": (["chain", "draw"], np.full((2, 200), 0.9))})
    stats["acceptance_rate"].values[:, ::2] = 0.8
    xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats}).to_netcdf(path)
    found = bayesrecon.audit(path, "kidscore_momiq", remedies=False)
    (finding,) = [f for f in found.findings if f.kind == "acceptance"]
    assert (finding.severity, finding.drop) == ("info", ("sample_stats/acceptance_rate",))
