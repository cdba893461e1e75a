"""Records from their own columns: every record is the pre-image of what was released about it alone.

Two kinds of columns. A pointwise log likelihood `c_t = l(theta_t, x) + rounding` is solved by least squares over the
record's fields; a posterior predictive column `y_t ~ p(. | theta_t, x)` by maximum likelihood over the fields that are
not simulated. Both are Levenberg-Marquardt iterations, vectorised over records and starts, with derivatives from JAX.
Fields with finitely many values are enumerated; of all starts the best fit is kept, and starts that fit as well
somewhere else are reported as an ambiguity.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bayesrecon.attacks.sidechannels.levenberg import Box, Columns, Layout, errors_of
from bayesrecon.diagnostics import evenly
from bayesrecon.estimation.anchors import Reference
from bayesrecon.model import Model, Records

IGNORED = 1e100
"""Noise from which a value counts as absent: shapes stay, and nothing is compiled anew."""

_SEARCH = 96  # draws on which starts compete
_STEPS, _POLISH = 30, 30  # of every start on few draws, and of the best two on all; those that settle stop earlier
_LOST = 4.0  # misfit from which a column is tried again
_APART = 0.05  # in units of a field's spread: ends of two descents that are not the same
_SAME = 9.0  # an increase of chi-squared that does not tell two solutions apart


@dataclass(frozen=True, eq=False)
class PreImages:
    """Recovered records, one per column.

    Attributes:
        records: `{field: (N, *shape)}`.
        se: `{field: (N, *shape)}` standard errors; infinite where the column does not determine the field; zero for
            enumerated fields.
        misfit: `(N,)` root mean squared residual in units of the noise (log likelihoods), one where it fits.
        ambiguous: `(N,)` whether another record explains the column as well.
    """

    records: Records
    se: Records
    misfit: Float[np.ndarray, " N"]
    ambiguous: Bool[np.ndarray, " N"]

    def __len__(self) -> int:
        return len(self.misfit)


def invert_columns(
    model: Model,
    theta: Float[np.ndarray, "T d"],
    columns: Any,
    noise: Float[np.ndarray, "N T"],
    reference: Reference,
    rng: np.random.Generator,
    *,
    likelihood: bool = False,
    starts: int = 6,
) -> PreImages:
    """Solve for the records behind columns.

    Args:
        theta: `(T, d)` the draws.
        columns: `(N, T)` pointwise log likelihoods; with `likelihood` `{field: (N, T, *shape)}` simulated fields.
        noise: `(N, T)` standard deviation of the log likelihoods' rounding error (ones with `likelihood`).
        reference: fields, known fields row by row, and where the unknown ones lie.
        starts: random starts per record and combination of enumerated fields. Columns that do not fit are tried again
            from five times as many, further away.

    Raises:
        BayesreconError: a field with too many combinations of values to enumerate.
    """
    task = Columns(model, theta, columns, noise, reference, likelihood)
    everything = np.arange(len(noise))
    result = _solve(task, everything, starts, 1.0, rng)
    lost = np.flatnonzero(~(result.misfit < _LOST))
    if lost.size and not likelihood:
        again = _solve(task, lost, 5 * starts, 3.0, rng)
        better = again.misfit < result.misfit[lost]
        at = lost[better]
        for old, new in ((result.records, again.records), (result.se, again.se)):
            for name in old:
                old[name][at] = new[name][better]
        result.misfit[at], result.ambiguous[at] = again.misfit[better], again.ambiguous[better]
    return result


def standard_errors(
    model: Model,
    theta: Float[np.ndarray, "T d"],
    solution: PreImages,
    chosen: Int[np.ndarray, " B"],
    noise: Float[np.ndarray, "B T"],
    reference: Reference,
) -> Records:
    """Standard errors that log likelihoods of these records at these draws would have, from theory.

    Args:
        theta: `(T, d)`.
        chosen: `(B,)` positions of the records.
        noise: `(B, T)` standard deviations of the log likelihoods.
    """
    task, u, level = _at(model, theta, solution, chosen, np.zeros(noise.shape), noise, reference)
    information = task.descend(u, np.arange(len(chosen)), level, np.arange(len(theta)), 0)[2]
    return task.layout.unpack(errors_of(information, np.ones(len(chosen))) * task.box.scale)


def linear_response(
    model: Model,
    theta: np.ndarray,
    solution: PreImages,
    chosen: np.ndarray,
    errors: np.ndarray,
    reference: Reference,
    noise: Float[np.ndarray, "B T"] | None = None,
) -> Records:
    """How far these records would move, to first order, if errors `(B, T)` were added to their log likelihoods.

    Values are weighed by their `noise (B, T)`, alike by default.
    """
    sd = np.ones(errors.shape) if noise is None else noise
    task, u, level = _at(model, theta, solution, chosen, errors, np.ones(errors.shape), reference)
    fixed = task.fixed(np.arange(len(chosen)), level)
    moved = _response(model, task.layout, task.box, theta, errors, sd, u, fixed)
    return task.layout.unpack(np.asarray(moved) * task.box.scale)


@partial(jax.jit, static_argnames=("model", "layout"))
def _response(
    model: Model, layout: Layout, box: Box, theta: Any, errors: object, noise: object, u: Any, fixed: Records
) -> Any:
    def one(u: Any, error: Any, sd: Any, fix: Records) -> Any:
        def values(w: Any) -> Any:
            record = {**fix, **layout.unpack(box.centre + box.scale * w)}
            return jax.vmap(lambda t: model.log_lik(t, record))(theta)

        return jnp.linalg.lstsq(jax.jacfwd(values)(u) / sd[:, None], error / sd)[0]

    return jax.vmap(one)(u, errors, noise, fixed)


def _at(
    model: Model,
    theta: np.ndarray,
    solution: PreImages,
    chosen: np.ndarray,
    columns: np.ndarray,
    noise: np.ndarray,
    reference: Reference,
) -> tuple[Columns, np.ndarray, np.ndarray]:
    """A task for some records that were found, with their moving entries and combinations of levels."""
    known = {k: np.asarray(v)[chosen] for k, v in reference.known.items()}
    task = Columns(model, theta, columns, noise, replace(reference, known=known), False)
    level = np.array([_level_of(task, solution, int(n)) for n in chosen])
    flat = [np.asarray(solution.records[n], float)[chosen].reshape(len(chosen), -1) for n in task.layout.moved]
    values = np.concatenate(flat, axis=1) if flat else np.zeros((len(chosen), 0))
    return task, (values - task.box.centre) / task.box.scale, level


def _level_of(task: Columns, solution: PreImages, n: int) -> int:
    """Which combination of the enumerated fields a record has."""
    for i, combination in enumerate(task.combinations):
        if all(np.array_equal(combination[name], solution.records[name][n]) for name in task.enumerated):
            return i
    raise AssertionError("a record was enumerated")


def _solve(task: Columns, chosen: np.ndarray, starts: int, spread: float, rng: np.random.Generator) -> PreImages:
    """The records of the chosen columns: starts compete on few draws, the best two on all."""
    width, draws, count = len(task.box.centre), len(task.theta), len(chosen)
    used = np.flatnonzero(task.noise[chosen[0]] < IGNORED)
    few = used[evenly(len(used), max(_SEARCH, 4 * width))]
    trials = starts if width else 1
    copies = trials * len(task.combinations)
    u = spread * rng.normal(size=(count * copies, width))
    u[::trials] = 0.0
    u = np.clip(u, task.box.low, task.box.high)
    owner = np.repeat(chosen, copies)
    which = np.tile(np.repeat(np.arange(len(task.combinations)), trials), count)
    u, cost, _ = task.descend(u, owner, which, few, _STEPS)
    u, which = u.reshape(count, copies, width), which.reshape(count, copies)
    order = np.argsort(cost.reshape(count, copies), axis=1)
    rival = _rivals(u, which, order)
    rows, alone = np.arange(count), rival == order[:, 0]
    ends = []
    for trial in (order[:, 0], rival):
        end = task.descend(u[rows, trial], chosen, which[rows, trial], np.arange(draws), _POLISH)
        ends.append((*end, which[rows, trial]))
    swap = ends[1][1] < ends[0][1]
    solution, cost, information, level = (_choose(swap, b, a) for a, b in zip(*ends, strict=True))
    second = [_choose(swap, a, b) for a, b in zip(*ends, strict=True)]
    freedom = max(1, len(used) - width)
    misfit = np.ones(count) if task.likelihood else np.sqrt(2 * np.maximum(cost, 0) / freedom)
    inflate = np.maximum(1.0, misfit)
    elsewhere = (np.abs(second[0] - solution) > 1e-3).any(axis=1) | (second[3] != level)
    ambiguous = ~alone & elsewhere & (2 * (second[1] - cost) < _SAME * inflate**2)
    box = task.box
    records = task.layout.unpack(box.centre + box.scale * solution)
    se = task.layout.unpack(errors_of(information, inflate) * box.scale)
    for name in task.enumerated:
        records[name] = np.array([c[name] for c in task.combinations])[level]
        se[name] = np.zeros(records[name].shape)
    return PreImages({n: records[n] for n in task.unknown}, {n: se[n] for n in task.unknown}, misfit, ambiguous)


def _choose(mask: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.where(mask.reshape(-1, *[1] * (first.ndim - 1)), first, second)


def _rivals(u: np.ndarray, which: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Per record the best trial that ended elsewhere than the best one, `(N,)`; else the best one itself."""
    rows, best = np.arange(len(u)), order[:, 0]
    rival = best.copy()
    for rank in range(order.shape[1] - 1, 0, -1):
        trial = order[:, rank]
        elsewhere = (np.abs(u[rows, trial] - u[rows, best]) > _APART).any(axis=1)
        elsewhere |= which[rows, trial] != which[rows, best]
        rival = np.where(elsewhere, trial, rival)
    return rival
