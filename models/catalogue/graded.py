"""Graded ratings of known items: skeletal age."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesrecon.model import Model, Records
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.latent import ILLEGAL, index, levels, observe
from bayesrecon.models.entry import Shipped


def bones_model(
    children: int = 13,
    delta: Sequence[float] = (2.9541,),
    gamma: Sequence[Sequence[float]] = ((0.7425, -1.0, -1.0, -1.0),),
    categories: Sequence[int] = (2,),
) -> Model:
    """Graded response with published item parameters: `P(grade > k) = logit^-1(delta_j (theta_i - gamma_jk))`."""
    slope, cut, count = np.asarray(delta, float), np.asarray(gamma, float), np.asarray(categories, int)
    most = cut.shape[1] + 1
    real = np.arange(1, most) < count[:, None]  # threshold k exists for item j

    def program(child: Any, indicator: Any, grade: Any = None) -> None:
        theta: Any = numpyro.sample("theta", dist.Normal(0, 36).expand((children,)).to_event(1))
        j = indicator - 1
        at = jnp.asarray(slope)[j][:, None] * (theta[child - 1][:, None] - jnp.asarray(cut)[j])
        logits = _graded(jnp.where(jnp.asarray(real)[j], at, ILLEGAL))
        observe("grade", _OneBased(logits), grade, logits.shape[0])

    return adapt(
        program,
        {"child": (), "indicator": (), "grade": ()},
        domain={"child": levels(children), "indicator": levels(len(slope)), "grade": levels(most)},
        name="bones_model",
        settings={
            "children": children,
            "delta": tuple(map(float, slope)),
            "gamma": tuple(tuple(map(float, row)) for row in cut),
            "categories": tuple(map(int, count)),
        },
    )


def _graded(at: Any) -> Any:
    """Log probabilities of the grades from the log odds `at[:, k]` of exceeding grade k, which decrease in k."""
    first = -jax.nn.softplus(at[:, :1])
    last = -jax.nn.softplus(-at[:, -1:])
    # log(s(u) - s(v)) = log s(u) + log s(-v) + log(1 - exp(v - u)) for the logistic function s and u > v.
    gap = jnp.maximum(at[:, :-1] - at[:, 1:], 1e-12)
    between = -jax.nn.softplus(-at[:, :-1]) - jax.nn.softplus(at[:, 1:]) + jnp.log(-jnp.expm1(-gap))
    return jnp.concatenate([first, between, last], axis=1)


class _OneBased(dist.CategoricalLogits):
    """Categories counted from one, with log probabilities that are normalised already."""

    def __init__(self, logits: Any):
        super().__init__(logits, validate_args=False)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return super().sample(key, sample_shape) + 1

    def log_prob(self, value: Any) -> Any:
        return jnp.take_along_axis(self.logits, jnp.asarray(value)[..., None] - 1, axis=-1)[..., 0]

    @property
    def support(self) -> Any:
        return dist.constraints.integer_interval(1, jnp.shape(self.logits)[-1])


def _bones_records(data: Mapping[str, Any]) -> Records:
    grade = index(data, "grade")
    child, indicator = np.nonzero(grade != -1)
    return {"child": child + 1, "indicator": indicator + 1, "grade": grade[child, indicator]}


def _bones_sizes(data: Mapping[str, Any]) -> dict[str, Any]:
    gamma = tuple(tuple(map(float, row)) for row in data["gamma"])
    return {
        "children": int(data["nChild"]),
        "delta": tuple(map(float, data["delta"])),
        "gamma": gamma,
        "categories": tuple(map(int, data["ncat"])),
    }


MODELS: tuple[Shipped, ...] = (
    Shipped(
        "bones_model",
        bones_model,
        "graded skeletal age: grades of children on known indicators",
        _bones_records,
        ("bones_data-bones_model",),
        constants=_bones_sizes,
        design=("child", "indicator"),
        response="grade",
    ),
)
