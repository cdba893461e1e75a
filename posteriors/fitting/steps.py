"""Trained parameters after the removal of one record by a single step instead of retraining.

Let J be the objective, `sum_n loss + penalty`, and l the loss of the removed record, at the trained parameter theta:

    Newton's step       theta - (H_J - H_l)^-1 (grad J - grad l)      (Guo et al. 2020, section 3.1, without noise)
    gradient step       theta + rate grad l

Either may be released after a request for deletion. `deletion` pairs it with the original.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial

import jax
import numpy as np
import scipy.linalg

from bayesrecon.arrays import Array
from bayesrecon.divergence.score import gradients, total_score
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Model, Records
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release, TrainedParameter

_MOST = 4000  # largest number of parameters whose Hessian is factorised: 128 MiB, and seconds
_FLAT = 1e-11  # curvatures below this share of the largest are rounding errors


@in_float64
def newton_step_without(release: Release, records: Mapping[str, Array], rows: Sequence[int]) -> list[Release]:
    """A Newton step towards the optimum without one record, for each of several records.

    Args:
        release: a parameter that was trained on `records`.
        records: `{field: (N, *shape)}`.
        rows: positions of the records to remove, one step each.

    Raises:
        BayesreconError: the records lack a field, rows do not exist, or there are more than 4,000 parameters.

    >>> from bayesrecon.models import load
    >>> from bayesrecon.posteriors import train
    >>> data = {"x": np.array([[0.0], [1.0], [2.0]]), "y": np.array([0.0, 1.0, 1.0])}
    >>> before = train(load("linear_predictor", penalty=2.0), data).release
    >>> newton_step_without(before, data, [2])[0].theta.round(3).tolist()  # for least squares, the optimum
    [[0.2, 0.4]]
    """
    model, theta, table = _checked(release, records, rows)
    if model.dimension > _MOST:
        raise BayesreconError(f"{model.name} has {model.dimension:,} parameters: Newton's step takes at most {_MOST:,}")
    hessian, total_gradient = np.asarray(_hessian(model, theta, table, True)), -_score(model, theta, table)
    result = []
    for row, score in zip(rows, _scores_of(model, theta, table, rows), strict=True):
        record = {k: v[row : row + 1] for k, v in table.items()}
        hessian_without = hessian - np.asarray(_hessian(model, theta, record, False))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
                step = scipy.linalg.solve(hessian_without, total_gradient + score, assume_a="pos")
        except (np.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
            # The objective is flat in some direction, as along a shift of all outputs: the shortest step.
            step = np.linalg.lstsq(hessian_without, total_gradient + score, rcond=_FLAT)[0]
        result.append(TrainedParameter((theta - step)[None], model, name=f"Newton's step without {row}"))
    return result


@in_float64
def gradient_step_without(
    release: Release, records: Mapping[str, Array], rows: Sequence[int], *, rate: float
) -> list[Release]:
    """A gradient step that increases the loss of one record, for each of several records.

    Args:
        release, records, rows: as in `newton_step_without`.
        rate: step length per unit of the gradient.

    Raises:
        BayesreconError: the records lack a field, rows do not exist, or the rate is not positive.

    >>> from bayesrecon.models import load
    >>> from bayesrecon.posteriors import train
    >>> data = {"x": np.array([[0.0], [1.0], [2.0]]), "y": np.array([0.0, 1.0, 1.0])}
    >>> before = train(load("linear_predictor", penalty=2.0), data).release
    >>> (gradient_step_without(before, data, [2], rate=0.1)[0].theta - before.theta).round(4).tolist()
    [[-0.0167, -0.0083]]
    """
    if not (np.isfinite(rate) and rate > 0):
        raise BayesreconError(f"rate={rate}: expected a number above 0")
    model, theta, table = _checked(release, records, rows)
    return [
        TrainedParameter((theta - rate * score)[None], model, name=f"a gradient step without {row}")
        for row, score in zip(rows, _scores_of(model, theta, table, rows), strict=True)
    ]


def _checked(release: Release, records: Mapping[str, Array], rows: Sequence[int]) -> tuple[Model, np.ndarray, Records]:
    model = release.model
    table = check_knowledge(model, known=records).known
    if missing := [f for f in model.fields if f not in table]:
        raise BayesreconError(f"the records lack field {missing[0]}")
    count = len(next(iter(table.values())))
    if not len(rows) or min(rows) < 0 or max(rows) >= count:
        raise BayesreconError(f"rows must lie between 0 and {count - 1}")
    return model, np.asarray(release.theta)[0], table


def _scores_of(model: Model, theta: np.ndarray, table: Records, rows: Sequence[int]) -> np.ndarray:
    """Scores of the removed records, `(R, d)`."""
    return np.asarray(gradients(model, theta, {k: v[np.asarray(rows)] for k, v in table.items()}))


def _score(model: Model, theta: np.ndarray, table: Records) -> np.ndarray:
    """The score of all records and the prior, `(d,)`."""
    return np.asarray(total_score(model, theta, table, np.ones(len(next(iter(table.values()))))))


@partial(jax.jit, static_argnames=("model", "prior"))
def _hessian(model: Model, theta: Array, table: Records, prior: bool) -> jax.Array:
    def loss(t: Array) -> jax.Array:
        total = -jax.vmap(model.log_lik, in_axes=(None, 0))(t, table).sum()
        return total - model.log_prior(t) if prior else total

    return jax.hessian(loss)(theta)
