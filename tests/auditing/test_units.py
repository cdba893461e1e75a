"""Fields that say whose a record is are told by the parameters they move."""

from types import SimpleNamespace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesrecon
from bayesrecon.auditing.channels.draws import unit_fields
from bayesrecon.auditing.opened import opened
from bayesrecon.estimation.anchors import Reference
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.results.findings import Thresholds

CLINICS = 4


def grouped(clinic, sex, y=None):
    effect = numpyro.sample("effect", dist.Normal(0, 1).expand([2]).to_event(1))
    means = numpyro.sample("means", dist.Normal(0, 3).expand([CLINICS]).to_event(1))
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.Normal(means[clinic] + effect[0] + effect[1] * sex, 1.0), obs=y)


@pytest.fixture(scope="module")
def source():
    model = from_numpyro(
        grouped, {"clinic": (), "sex": (), "y": ()}, domain={"clinic": list(range(CLINICS)), "sex": "binary"}
    )
    rng = np.random.default_rng(0)
    return {"effect": rng.normal(size=(2, 60, 2)), "means": rng.normal(size=(2, 60, CLINICS))}, model


def test_units_have_parameters_of_their_own(source):
    """The clinic is one, a covariate with two values is none."""
    draws, model = source
    release = opened(read_contents(draws), model, {}, Thresholds(), 0).release
    rng = np.random.default_rng(0)
    subject = SimpleNamespace(model=model, release=release, rng=rng, reference=Reference(model.fields))
    assert unit_fields(subject) == ["clinic"]


@pytest.mark.slow
def test_units_that_were_not_stated_are_not_cleared(source):
    draws, model = source
    found = bayesrecon.audit(draws, model, rows="draws", remedies=False)
    (untried,) = (n for n in found.not_run if n.attack != "draws")  # which are of no posterior of this model
    assert untried.attack == "records of single units"
    assert untried.remedy == "state the unit: --unit clinic, with --known FILE if the design is public"
    assert found.verdict == "incomplete"


@pytest.mark.slow
def test_stated_units_are_tried(source):
    draws, model = source
    known = {"clinic": np.arange(CLINICS), "sex": np.zeros(CLINICS)}
    found = bayesrecon.audit(draws, model, known=known, unit="clinic", rows="draws", remedies=False)
    assert {n.attack for n in found.not_run} <= {"draws"}
