"""Records as pre-images of their columns, that is of released values that depend on a single record.

There are two kinds of columns. For pointwise log likelihoods `c_t = l(theta_t, x) + rounding`, the fields of the record
are found by least squares. For posterior predictive draws `y_t ~ p(. | theta_t, x)`, the fields that are not simulated
are found by maximum likelihood. Both are Levenberg-Marquardt iterations, vectorised over records and starts, with
derivatives from JAX. Fields with finitely many values are enumerated. The best fit of all starts is returned. If
another record fits as well, the result is marked as ambiguous.
"""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bayesrecon.arrays import Array
from bayesrecon.attacks.sidechannels.levenberg import EntryLayout, FreeEntries, ReleasedColumns, errors_of
from bayesrecon.diagnostics import evenly
from bayesrecon.estimation.anchors import Reference
from bayesrecon.model import Model, Records

IGNORED = 1e100
"""Standard deviation of a value that is ignored. The shapes stay the same, so that nothing is compiled again."""

_SEARCH = 96  # number of draws on which starts are compared
_STEPS, _POLISH = 30, 30  # largest number of steps of all starts on these draws, and of the best two on all draws
_LOST = 4.0  # columns with a larger misfit are tried again
_APART = 0.05  # end points of descents are different if they are farther apart, in units of a field's spread
_SAME = 9.0  # largest difference of chi-squared between two solutions that fit equally well


@dataclass(frozen=True, eq=False)
class PreImages:
    """Recovered records, one per column.

    Attributes:
        records: `{field: (N, *shape)}`.
        se: `{field: (N, *shape)}` standard errors. They are infinite if the column does not determine the field, and
            zero for enumerated fields.
        misfit: `(N,)` root mean squared residual of log likelihoods, in units of the noise.
        ambiguous: `(N,)` whether another record fits the column equally well.
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
    columns: np.ndarray | Records,
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
        columns: pointwise log likelihoods `(N, T)`, or simulated fields `{field: (N, T, *shape)}`.
        noise: `(N, T)` standard deviations of the log likelihoods' rounding errors. Ones for simulated fields.
        reference: the fields, the known ones row by row, and the distribution of the unknown ones.
        likelihood: whether the columns are simulated fields.
        starts: random starts per record and combination of enumerated fields. Columns that do not fit are tried again
            with five times as many starts, which are spread more widely.

    Raises:
        BayesreconError: there are too many combinations of values to enumerate.
    """
    problem = ReleasedColumns(model, theta, columns, noise, reference, likelihood)
    all_columns = np.arange(len(noise))
    result = _solve(problem, all_columns, starts, 1.0, rng)
    misfitting = np.flatnonzero(~(result.misfit < _LOST))
    if misfitting.size and not likelihood:
        again = _solve(problem, misfitting, 5 * starts, 3.0, rng)
        better = again.misfit < result.misfit[misfitting]
        replaced = misfitting[better]
        for old, new in ((result.records, again.records), (result.se, again.se)):
            for name in old:
                old[name][replaced] = new[name][better]
        result.misfit[replaced], result.ambiguous[replaced] = again.misfit[better], again.ambiguous[better]
    return result


def standard_errors(
    model: Model,
    theta: Float[np.ndarray, "T d"],
    solution: PreImages,
    chosen: Int[np.ndarray, " B"],
    noise: Float[np.ndarray, "B T"],
    reference: Reference,
) -> Records:
    """Theoretical standard errors of records from their log likelihoods at these draws.

    Args:
        theta: `(T, d)` the draws.
        chosen: `(B,)` positions of the records.
        noise: `(B, T)` standard deviations of the log likelihoods.
    """
    problem, u, level = _columns_of(model, theta, solution, chosen, np.zeros(noise.shape), noise, reference)
    information = problem.descend(u, np.arange(len(chosen)), level, np.arange(len(theta)), 0)[2]
    return problem.layout.unpack(errors_of(information, np.ones(len(chosen))) * problem.box.scale)


def linear_response(
    model: Model,
    theta: np.ndarray,
    solution: PreImages,
    chosen: np.ndarray,
    errors: np.ndarray,
    reference: Reference,
    noise: Float[np.ndarray, "B T"] | None = None,
) -> Records:
    """First-order changes of records if errors `(B, T)` are added to their log likelihoods.

    Values are weighted by their `noise (B, T)`, by default equally.
    """
    sd = np.ones(errors.shape) if noise is None else noise
    problem, u, level = _columns_of(model, theta, solution, chosen, errors, np.ones(errors.shape), reference)
    fixed = problem.fixed(np.arange(len(chosen)), level)
    change = _response(model, problem.layout, problem.box, theta, errors, sd, u, fixed)
    return problem.layout.unpack(np.asarray(change) * problem.box.scale)


@partial(jax.jit, static_argnames=("model", "layout"))
def _response(
    model: Model,
    layout: EntryLayout,
    box: FreeEntries,
    theta: Array,
    errors: Array,
    noise: Array,
    u: Array,
    fixed: Records,
) -> jax.Array:
    def of_record(u: Array, error: Array, sd: Array, fix: Records) -> jax.Array:
        def values(w: Array) -> jax.Array:
            record = {**fix, **layout.unpack(box.centre + box.scale * w)}
            return jax.vmap(lambda t: model.log_lik(t, record))(theta)

        return jnp.linalg.lstsq(jax.jacfwd(values)(u) / sd[:, None], error / sd)[0]

    return jax.vmap(of_record)(u, errors, noise, fixed)


def _columns_of(
    model: Model,
    theta: np.ndarray,
    solution: PreImages,
    chosen: np.ndarray,
    columns: np.ndarray,
    noise: np.ndarray,
    reference: Reference,
) -> tuple[ReleasedColumns, np.ndarray, np.ndarray]:
    """The columns of chosen records, with their free entries and their combinations of levels."""
    known = {k: np.asarray(v)[chosen] for k, v in reference.known.items()}
    problem = ReleasedColumns(model, theta, columns, noise, replace(reference, known=known), False)
    level = np.array([_level_of(problem, solution, int(name)) for name in chosen])
    entries = [
        np.asarray(solution.records[name], float)[chosen].reshape(len(chosen), -1) for name in problem.layout.moved
    ]
    values = np.concatenate(entries, axis=1) if entries else np.zeros((len(chosen), 0))
    return problem, (values - problem.box.centre) / problem.box.scale, level


def _level_of(problem: ReleasedColumns, solution: PreImages, n: int) -> int:
    """Number of the combination of enumerated fields that a record has."""
    for i, combination in enumerate(problem.combinations):
        if all(np.array_equal(combination[name], solution.records[name][n]) for name in problem.enumerated):
            return i
    raise AssertionError("a record was enumerated")


def _solve(
    problem: ReleasedColumns, chosen: np.ndarray, starts: int, spread: float, rng: np.random.Generator
) -> PreImages:
    """Records of the chosen columns. All starts use a few draws, and the best two of them all draws."""
    width, draws, count = len(problem.box.centre), len(problem.theta), len(chosen)
    used = np.flatnonzero(problem.noise[chosen[0]] < IGNORED)
    sample = used[evenly(len(used), max(_SEARCH, 4 * width))]
    trials = starts if width else 1
    copies = trials * len(problem.combinations)
    u = spread * rng.normal(size=(count * copies, width))
    u[::trials] = 0.0
    u = np.clip(u, problem.box.low, problem.box.high)
    owner = np.repeat(chosen, copies)
    combination = np.tile(np.repeat(np.arange(len(problem.combinations)), trials), count)
    u, cost, _ = problem.descend(u, owner, combination, sample, _STEPS)
    u, combination = u.reshape(count, copies, width), combination.reshape(count, copies)
    order = np.argsort(cost.reshape(count, copies), axis=1)
    rival = _rivals(u, combination, order)
    rows, alone = np.arange(count), rival == order[:, 0]
    solutions = []
    for trial in (order[:, 0], rival):
        solution_ = problem.descend(u[rows, trial], chosen, combination[rows, trial], np.arange(draws), _POLISH)
        solutions.append((*solution_, combination[rows, trial]))
    swap = solutions[1][1] < solutions[0][1]
    solution, cost, information, level = (_choose(swap, b, a) for a, b in zip(*solutions, strict=True))
    second = [_choose(swap, a, b) for a, b in zip(*solutions, strict=True)]
    freedom = max(1, len(used) - width)
    misfit = np.ones(count) if problem.likelihood else np.sqrt(2 * np.maximum(cost, 0) / freedom)
    inflate = np.maximum(1.0, misfit)
    elsewhere = (np.abs(second[0] - solution) > 1e-3).any(axis=1) | (second[3] != level)
    ambiguous = ~alone & elsewhere & (2 * (second[1] - cost) < _SAME * inflate**2)
    box = problem.box
    records = problem.layout.unpack(box.centre + box.scale * solution)
    se = problem.layout.unpack(errors_of(information, inflate) * box.scale)
    for name in problem.enumerated:
        records[name] = np.array([c[name] for c in problem.combinations])[level]
        se[name] = np.zeros(records[name].shape)
    return PreImages({n: records[n] for n in problem.unknown}, {n: se[n] for n in problem.unknown}, misfit, ambiguous)


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
