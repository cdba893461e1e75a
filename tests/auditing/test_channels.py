"""Channels of an audit are found in their folder: one more is one more file."""

import sys

import fits
import pytest

import bayesrecon
from bayesrecon.auditing import channels
from bayesrecon.auditing.channel import channels as discovered
from bayesrecon.models import load

MODEL = load("kidscore_momiq")
DRAWS = fits.draws(fits.records())
PLANTED = """
from bayesrecon.auditing.look import Channel
from bayesrecon.errors import BayesreconError
from bayesrecon.results.findings import Finding


def find(subject):
    return [Finding("planted", "info", "read by a planted channel", ("posterior",), subject.model.name)], ["noted"]


def fail(subject):
    raise BayesreconError("cannot be read")


CHANNEL = Channel("planted things", {find}, 115, "model")
"""


@pytest.fixture
def plant(monkeypatch, tmp_path):
    """A module with a channel that runs a function of `PLANTED`, in a folder that the package is made to span."""

    def planted(find):
        (tmp_path / "planted.py").write_text(PLANTED.replace("{find}", find))
        monkeypatch.setattr(channels, "__path__", [*channels.__path__, str(tmp_path)])

    yield planted
    sys.modules.pop(f"{channels.__name__}.planted", None)
    vars(channels).pop("planted", None)


def test_channels_differ_in_name_and_rank():
    found, _ = discovered(("model",))
    names = ["draws", "log densities", "energies", "gradients", "log likelihoods", "predictions"]
    assert [c.name for c in found] == names
    everything, _ = discovered()
    assert len({c.name for c in everything}) == len(everything) > 2 * len(found)
    assert [c.rank for c in everything] == sorted(c.rank for c in everything)
    assert {c.needs for c in everything} == {"nothing", "model"}


def test_a_planted_channel_is_found_and_run(plant):
    plant("find")
    assert [c.name for c in discovered(("model",))[0]][1:3] == ["log densities", "planted things"]
    found = bayesrecon.audit(DRAWS, MODEL, remedies=False)
    (finding,) = (f for f in found if f.kind == "planted")
    assert finding.summary == MODEL.name
    assert "noted" in found.warnings


def test_a_channel_that_cannot_be_read_is_a_warning(plant):
    plant("fail")
    found = bayesrecon.audit(DRAWS, MODEL, remedies=False)
    assert [f.kind for f in found] == ["draws"]
    assert "planted things: cannot be read" in found.warnings
    assert [str(n) for n in found.not_run] == ["planted things: cannot be read"]
    assert found.verdict == "incomplete"
