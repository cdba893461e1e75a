"""The coordinates of which the rows take account."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayesrecon.attacks.records.rows import make_rows, make_slots
from bayesrecon.divergence.metrics import metric_factor
from bayesrecon.knowledge import check_knowledge
from bayesrecon.models import from_numpyro
from bayesrecon.precision import x64
from bayesrecon.types import PosteriorDraws


@pytest.mark.slow
def test_shared_coordinates_are_conditioned_on():
    """With more rows than coordinates a parameter that every row touches takes no part."""

    def program(group, y=None):
        effect = numpyro.sample("effect", dist.Normal(0, 1).expand((3,)).to_event(1))
        scale = numpyro.sample("scale", dist.Normal(0, 1))
        with numpyro.plate("records", group.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=np.e**scale * effect[group - 1]), obs=y)

    model = from_numpyro(program, {"group": (), "y": ()}, domain={"group": [1, 2, 3], "y": "binary"})
    rng = np.random.default_rng(0)
    known = {"group": np.tile([1, 2, 3], 3)}
    release = PosteriorDraws(rng.normal(size=(50, 4)), model, np.full(50, 0.02), np.zeros(50, int))
    with x64():
        knowledge = check_knowledge(model, known=known)
        unknown = {"y": knowledge.fields["y"]}
        for repeat, left_out in ((1, 1), (0, 0)):
            few = {"group": known["group"] if repeat else np.array([1, 2, 3])}
            rows = make_rows(release, few, unknown, rng)
            slots = make_slots(model, np.asarray(release.theta), metric_factor(release, None), rows.pairs())
            assert slots.left_out == left_out
            assert slots.width == (1 if left_out else 2)
