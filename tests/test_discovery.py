"""A new model and a new format are one new file each (attacks and channels: their own folders' tests)."""

import importlib
import sys

import numpy as np
import pytest

from bayesrecon import models, posteriors
from bayesrecon.models import registry
from bayesrecon.posteriors import formats

MODEL = """
import numpyro
import numpyro.distributions as dist

from bayesrecon.models.adapter import adapt
from bayesrecon.models.entry import Shipped


def build(scale=1.0):
    def program(y):
        mu = numpyro.sample("mu", dist.Normal(0, 10))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mu, scale), obs=y)

    return adapt(program, {"y": ()}, name="planted", settings={"scale": scale})


MODELS = (Shipped("planted", build, "a planted mean"),)
"""

FORMAT = """
import numpy as np

from bayesrecon.posteriors.contents import from_named_draws
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.formats.format import Format


def read(path, *, name=None):
    return Draws({"mu": np.loadtxt(path)[None]})


def contents(path, *, name=None, progress=None):
    return from_named_draws(read(path), "planted")


FORMAT = Format("planted", (".planted",), read, contents)
"""


@pytest.fixture
def plant(monkeypatch, tmp_path):
    """A module with this code, in a folder that a package is made to span."""
    caches = (registry.shipped, formats.formats, formats.suffixes)

    def planted(package, code):
        (tmp_path / "planted.py").write_text(code)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
        importlib.invalidate_caches()
        for cached in caches:
            cached.cache_clear()

    yield planted
    monkeypatch.undo()
    for package in (models, posteriors):
        sys.modules.pop(f"{package.__name__}.planted", None)
        vars(package).pop("planted", None)
    for cached in caches:
        cached.cache_clear()


def test_a_planted_model_is_found(plant, run):
    plant(models, MODEL)
    assert models.load("planted", scale=2.0).settings == {"scale": 2.0}
    assert "a planted mean" in run("models").out


def test_a_planted_format_is_found(plant, tmp_path):
    plant(posteriors, FORMAT)
    draws = np.random.default_rng(0).normal(size=50)
    np.savetxt(tmp_path / "fit.planted", draws)
    np.testing.assert_allclose(formats.read_draws(tmp_path / "fit.planted").values["mu"], draws[None])
    assert formats.read_contents(tmp_path / "fit.planted").groups == ["posterior"]
