"""An item response model of a few persons, and its parts in the attack on records."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesrecon.attacks.records.rows import make_rows, make_slots
from bayesrecon.divergence.metrics import metric_factor
from bayesrecon.knowledge import check_knowledge
from bayesrecon.models import from_numpyro
from bayesrecon.precision import x64


def answers(persons, items):
    """A two-parameter item response model: an ability a person, a slope and a difficulty an item."""

    def program(person, item, y=None):
        ability = numpyro.sample("ability", dist.Normal(0, 1).expand((persons,)).to_event(1))
        slope = numpyro.sample("slope", dist.LogNormal(0, 0.4).expand((items,)).to_event(1))
        hard = numpyro.sample("hard", dist.Normal(0, 1).expand((items,)).to_event(1))
        logits = slope[item - 1] * (ability[person - 1] - hard[item - 1])
        with numpyro.plate("records", person.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)

    levels = {"person": list(range(1, persons + 1)), "item": list(range(1, items + 1)), "y": "binary"}
    return from_numpyro(program, {"person": (), "item": (), "y": ()}, domain=levels, name="answers")


def design(persons, items):
    person, item = np.meshgrid(np.arange(1, persons + 1), np.arange(1, items + 1))
    return {"person": person.ravel(), "item": item.ravel()}


def drawn(model, known, rng):
    """Answers from the model at parameters drawn from its prior."""
    with x64():
        params = {p.name: rng.normal(size=p.shape) for p in model.parameters}
        params["slope"] = np.exp(0.4 * params["slope"])
        start = {**known, "y": np.zeros(len(known["person"]), int)}
        return np.asarray(model.simulate(params, start, jax.random.key(int(rng.integers(1000))))["y"])


def parts(release, known):
    knowledge = check_knowledge(release.model, known=known, unit=("person", "item"))
    unknown = {k: f for k, f in knowledge.fields.items() if k not in knowledge.known}
    rows = make_rows(release, knowledge.known, unknown, np.random.default_rng(0))
    metric = metric_factor(release, None)
    return rows, metric, make_slots(release.model, np.asarray(release.theta), metric, rows.pairs())
