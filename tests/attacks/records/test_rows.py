"""Rows and their candidates: which values say something different."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayesrecon.attacks.records.rows import make_rows
from bayesrecon.knowledge import check_knowledge
from bayesrecon.models import from_numpyro
from bayesrecon.precision import x64
from bayesrecon.types import PosteriorDraws


@pytest.mark.slow
def test_features_that_differ_at_few_draws_are_kept():
    """Two categories whose odds part only where the parameter exceeds 2, at a few draws in a hundred."""

    def program(unit, y=None):
        a = numpyro.sample("a", dist.Normal(0, 1).expand((4,)).to_event(1))[unit - 1]
        logits = jax.numpy.stack([0 * a, a, a + jax.nn.softplus(20 * (a - 2))], axis=1)
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Categorical(logits=logits), obs=y)

    domain = {"unit": [1, 2, 3, 4], "y": [0, 1, 2]}
    model = from_numpyro(program, {"unit": (), "y": ()}, domain=domain)
    theta = np.random.default_rng(0).normal(size=(2000, 4))
    release = PosteriorDraws(theta, model, np.full(2000, 1 / 2000), np.zeros(2000, int))
    knowledge = check_knowledge(model, known={"unit": np.arange(1, 5)}, unit="unit")
    with x64():
        rows = make_rows(release, knowledge.known, {"y": knowledge.fields["y"]}, np.random.default_rng(0))
    assert rows.distinct.all()
