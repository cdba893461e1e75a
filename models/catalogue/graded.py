"""Graded ratings of known items: skeletal age."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.model import Records
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import ILLEGAL, Data, index, latent, levels, observe
from bayesrecon.models.catalogue.lazy_numpyro import dist, extra
from bayesrecon.models.entry import Shipped


def bones_model(
    child: jax.Array,
    indicator: Array,
    grade: Array | None = None,
    *,
    children: int = 13,
    delta: Sequence[float] = (2.9541,),
    gamma: Sequence[Sequence[float]] = ((0.7425, -1.0, -1.0, -1.0),),
    categories: Sequence[int] = (2,),
) -> None:
    """Graded response with published item parameters: `P(grade > k) = logit^-1(delta_j (theta_i - gamma_jk))`."""
    slope, cut, count = np.asarray(delta, float), np.asarray(gamma, float), np.asarray(categories, int)
    grades = cut.shape[1] + 1
    exists = np.arange(1, grades) < count[:, None]  # threshold k exists for item j
    theta = latent("theta", dist.Normal(0, 36).expand((children,)).to_event(1))
    j = indicator - 1
    log_odds = jnp.asarray(slope)[j][:, None] * (theta[child - 1][:, None] - jnp.asarray(cut)[j])
    logits = _graded(jnp.where(jnp.asarray(exists)[j], log_odds, ILLEGAL))
    observe("grade", extra.OneBased(logits), grade, logits.shape[0])


def _graded(log_odds: Array) -> jax.Array:
    """Log probabilities of the grades from the log odds `at[:, k]` of exceeding grade k, which decrease in k."""
    first = -jax.nn.softplus(log_odds[:, :1])
    last = -jax.nn.softplus(-log_odds[:, -1:])
    # log(s(u) - s(v)) = log s(u) + log s(-v) + log(1 - exp(v - u)) for the logistic function s and u > v.
    gap = jnp.maximum(log_odds[:, :-1] - log_odds[:, 1:], 1e-12)
    between = -jax.nn.softplus(-log_odds[:, :-1]) - jax.nn.softplus(log_odds[:, 1:]) + jnp.log(-jnp.expm1(-gap))
    return jnp.concatenate([first, between, last], axis=1)


def _bones_records(data: Data) -> Records:
    grade = index(data, "grade")
    child, indicator = np.nonzero(grade != -1)
    return {"child": child + 1, "indicator": indicator + 1, "grade": grade[child, indicator]}


def _bones_sizes(data: Data) -> dict[str, object]:
    gamma = tuple(tuple(map(float, row)) for row in data["gamma"])
    return {
        "children": int(data["nChild"]),
        "delta": tuple(map(float, data["delta"])),
        "gamma": gamma,
        "categories": tuple(map(int, data["ncat"])),
    }


MODELS: tuple[Shipped, ...] = (
    from_program(
        bones_model,
        "graded skeletal age: grades of children on known indicators",
        domain=lambda children, delta, gamma: {
            "child": levels(children),
            "indicator": levels(len(delta)),
            "grade": levels(len(gamma[0]) + 1),
        },
        records=_bones_records,
        posteriors=("bones_data-bones_model",),
        constants=_bones_sizes,
        design=("child", "indicator"),
    ),
)
