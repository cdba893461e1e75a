"""`Difference`: the deleted record, as the difference of the totals that two approximations determine."""

import math
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack
from bayesrecon.attacks.differences.one_record import between as between_totals
from bayesrecon.attacks.differences.solved import gram_of_problem
from bayesrecon.divergence.score import prior_score
from bayesrecon.errors import BayesreconError, Note
from bayesrecon.estimation.error_laws import SPANNED, TRAINED
from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.estimation.solve import spans
from bayesrecon.estimation.span import Projection
from bayesrecon.estimation.statistics import components
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress, Records
from bayesrecon.pairs import ApproximatedPair, Deletion
from bayesrecon.results.deletion import DeletedRecord
from bayesrecon.results.row import Row

# What was deleted between two approximations: modes with covariances, tables, summaries of draws, variational fits.
#
# Each is a trained parameter phi that determines the totals `sum_n f(x_n)` of its data for every f in the span of its
# features. So the difference of the totals is the total of the deleted records. With the features `F_z(phi+)` of a
# record at the release before,
#
#     sum over deleted records of F_z(phi+) = D,      D = -grad log pi0(phi+) - T,
#
# where T is the total of `F(phi+)` in the data after, which the release after determines if the features have finite
# rank. The errors of both are those of their equations (`bayesrecon.estimation.noise`), and the likelihood of
# candidates is normal in D. The number of deleted records is a total as well.

_ARITHMETIC = 1e-10  # rounding error of a difference of totals, relative to a total
_SUBSETS = 200_000  # largest number of sets of candidates
_OFF = 3.0  # residual per feature, in standard errors, above which no candidate is right
_CERTAIN = 0.05  # error of the number of deleted records, for modes that were not found exactly


@dataclass(frozen=True, eq=False)
class Approximated:
    """The difference between two approximations.

    Attributes:
        log_likelihood: `(N,)`, of each candidate, or of the best set that contains it if several were deleted.
        probability: `(N,)`, probability that each candidate was deleted.
        deleted: rows for the number of deleted records and the totals of their fields.
        warnings: one line each.
    """

    log_likelihood: Float[np.ndarray, " N"]
    probability: Float[np.ndarray, " N"]
    deleted: tuple[Row, ...]
    warnings: tuple[str, ...]


def between(pair: Deletion, candidates: Records) -> Approximated:
    """Which candidates were deleted, and the totals of the deleted records.

    Raises:
        BayesreconError: no data have one of the releases, or there are too many sets of candidates.
    """
    before, after = _solved(pair)
    rows = _totals(before, after)
    difference, covariance, basis = _difference(before, after)
    warnings = [*before.warnings, *after.warnings]
    features = basis.T @ before.embedding.scores(candidates, np.array([0]))  # (r, N)
    values, vectors = np.linalg.eigh(covariance)
    size, possible = features.shape[1], _counts(rows[0], features.shape[1])
    count, worst, sets, squares = 0, math.inf, np.zeros((0, 1), int), np.zeros(0)
    for count in possible:
        sets = np.array(list(combinations(range(size), count)))
        residual = features[:, sets].sum(axis=2) - difference[:, None]
        squares = ((vectors.T @ residual) ** 2 / values[:, None]).sum(axis=0)
        worst = float(np.sqrt(squares.min() / len(values)))
        if worst <= _OFF:
            break
    logs = -0.5 * squares
    weight = np.exp(logs - logs.max())
    if worst > _OFF:
        warnings.append(
            f"no candidate explains the change: the nearest is off by {worst:.3g} standard errors, and all are "
            "reported as equally probable"
        )
        weight = np.ones(len(logs))
    elif not _certain(rows[0]):
        warnings.append(f"the counts alone do not determine the number of deleted records; {count} explain the change")
    weight /= weight.sum()
    probability, best = np.zeros(size), np.full(size, -np.inf)
    for column in sets.T:
        np.add.at(probability, column, weight)
        np.maximum.at(best, column, logs)
    return Approximated(best, probability, rows, tuple(dict.fromkeys(warnings)))


def _solved(pair: Deletion) -> tuple[Problem, Problem]:
    problems = []
    for position, release in (("before", pair.before), ("after", pair.after)):
        problem = solve_release(release, key=0)
        if problem.unfit:
            raise BayesreconError(f"{position} ({release.name}): {problem.unfit[0]}")
        problems.append(problem)
    return problems[0], problems[1]


def _certain(row: Row) -> bool:
    """Whether the interval contains exactly one whole number."""
    if row.lower is None or row.upper is None:
        return False
    return math.ceil(row.lower - _CERTAIN) == math.floor(row.upper + _CERTAIN)


def _counts(row: Row, size: int) -> list[int]:
    """The possible numbers of deleted records, in increasing order: those in the interval, or 1 without an interval."""
    low, high, message = 1, 1, "the number of deleted records is not determined"
    if row.lower is not None and row.upper is not None:
        low, high = math.ceil(row.lower - _CERTAIN), math.floor(row.upper + _CERTAIN)
        message = f"the releases differ by {row.estimate:.4g} records, between {row.lower:.4g} and {row.upper:.4g}"
        if high < 1 or low > high:
            raise BayesreconError(
                f"{message}: {'none was' if high < 1 else 'no whole number was'} deleted between them"
            )
    counts = [k for k in range(max(low, 1), min(high, size) + 1) if math.comb(size, k) <= _SUBSETS]
    if not counts:
        raise BayesreconError(
            f"{message}: {size} candidates have no sets of that size, or more than {_SUBSETS:,} of them; give "
            f"{'more' if low > size else 'fewer'} candidates"
        )
    return counts


def _difference(before: Problem, after: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """D `(r,)` along the features of the release before, its covariance `(r, r)`, and those features `(k, r)`."""
    theta = np.asarray(before.release.theta)
    features = before.embedding.scores(before.solved.basis.records, np.array([0])) @ before.solved.basis.coefficients
    basis = np.linalg.qr(features)[0]
    total = -basis.T @ np.asarray(prior_score(before.release.model, before.embedding.metric, theta, 0.0))[0]
    values = (basis.T @ before.embedding.scores(after.solved.probes, np.array([0]))).T  # (Q, r)
    projection = after.solved.project(values)
    remaining = after.solved.target @ projection.beta
    covariance = _covariance(_errors(before).of(basis)) + _covariance(_errors_along(after, projection))
    unseen = _size(after) ** 2 * np.mean((values - projection.fitted) ** 2, axis=0)
    # Rounding error of the features of as many records as there are data.
    floor = (_ARITHMETIC * np.linalg.norm(total)) ** 2
    return total - remaining, covariance + np.diag(unseen) + floor * np.eye(len(total)), basis


def _errors(problem: Problem) -> EquationErrors:
    if problem.solved.errors is not None:
        return problem.solved.errors
    nothing = np.zeros((problem.embedding.metric.shape[1], 0))
    return EquationErrors(nothing, nothing, nothing, np.zeros((0, 0)), np.zeros(0))


def _errors_along(problem: Problem, projection: Projection) -> EquationErrors:
    solved = problem.solved
    features = problem.embedding.scores(solved.basis.records, np.array([0])) @ solved.basis.coefficients
    return _errors(problem).of(features @ projection.beta)


def _covariance(errors: EquationErrors) -> np.ndarray:
    return errors.normal @ errors.normal.T + errors.bounded @ errors.bounded.T / 3 + errors.rule @ errors.rule.T


def _size(problem: Problem) -> float:
    """The estimated number of records."""
    solved = problem.solved
    ones = solved.project(np.ones((len(solved.cross), 1)))
    return float(abs(solved.target @ ones.beta[:, 0]))


def _totals(before: Problem, after: Problem) -> tuple[Row, ...]:
    """Rows for the number of deleted records and the totals of their fields."""
    entries = components(before.release.model.fields, (), {}, {})
    estimates = []
    for problem in (before, after):
        solved = problem.solved
        records = {k: np.asarray(v, float) for k, v in solved.probes.items()}
        values = np.column_stack(
            [np.ones(len(solved.cross)), *(records[c.field][(slice(None), *c.index)] for c in entries)]
        )
        projection = solved.project(values)
        seen = 1 - ((values - projection.fitted) ** 2).mean(axis=0) / np.maximum((values**2).mean(axis=0), 1e-300)
        totals = solved.target @ projection.beta
        errors = _errors_along(problem, projection)
        floor = _ARITHMETIC * np.maximum(np.abs(totals), np.abs(values).mean(axis=0) * abs(totals[0]))
        sd = np.array([errors.sd(direction) for direction in np.eye(len(totals))])
        bounded = np.abs(errors.bounded).sum(axis=1) + np.abs(errors.rule).sum(axis=1)
        normal = np.sqrt((errors.normal**2).sum(axis=1) + floor**2)
        unseen = _size(problem) * np.sqrt(((values - projection.fitted) ** 2).mean(axis=0))
        estimates.append((totals, seen, np.hypot(sd, floor), bounded, normal, unseen))
    totals, seen, sd, bounded, normal, unseen = zip(*estimates, strict=True)
    least = SPANNED if spans(before.release) else TRAINED
    rows = []
    for i, name in enumerate(["n", *(f"sum({c.name})" for c in entries)]):
        visibility = float(np.clip(min(s[i] for s in seen), 0, 1))
        half = 1.96 * np.hypot(*(s[i] for s in normal)) + sum(b[i] + u[i] for b, u in zip(bounded, unseen, strict=True))
        if visibility < least:
            rows.append(Row(name, visibility=visibility))
            continue
        estimate = float(totals[0][i] - totals[1][i])
        se = float(np.hypot(*(s[i] for s in sd)))
        rows.append(
            Row(name, estimate, se, float(estimate - half), float(estimate + half), None, visibility, "determined")
        )
    return tuple(rows)


@dataclass(frozen=True, eq=False)
class Difference(Attack[DeletedRecord]):
    """The deleted record, from two approximations of the posterior: before and after the deletion.

    An approximation is a mode with its covariance, a table of estimates, a summary of draws, a variational fit or a
    density. Each of the two determines totals over its data. If one record was deleted, the totals differ by the fields
    of that record. If several were deleted, the totals of the deleted records are
    `infer_deletion(pair, candidates).deleted`.

    >>> import bayesrecon, numpy as np, statsmodels.api as sm
    >>> x, y = np.random.default_rng(0).normal(size=(2, 40))
    >>> fits = [sm.OLS(y[:n], sm.add_constant(x[:n])).fit() for n in (40, 39)]
    >>> found = bayesrecon.reconstruct(bayesrecon.deletion(*fits), attack=Difference())
    >>> np.allclose([found.record["x1"], found.record["y"]], [x[39], y[39]])
    True
    """

    name: ClassVar[str] = "difference"
    summary: ClassVar[str] = "the record deleted between two tables, modes with covariances or variational fits"
    takes: ClassVar[tuple[type, ...]] = (ApproximatedPair,)
    uses: ClassVar[tuple[str, ...]] = ()

    def run(self, release: Deletion, knows: Knows, *, key: Key, progress: Progress) -> DeletedRecord:
        before, after = _solved(release)
        (count, *totals), warnings = _totals(before, after), [*before.warnings, *after.warnings]
        doubts = list[str]()
        if count.lower is None or count.upper is None:
            doubts.append("the number of deleted records is not determined: the fields are those of a single record")
        elif not count.lower <= 1 <= count.upper:
            listed = ", ".join(f"{r.name} {r.estimate:.5g}" for r in totals[:4] if r.estimate is not None)
            raise BayesreconError(
                f"the releases differ by {count.estimate:.4g} records, between {count.lower:.4g} and "
                f"{count.upper:.4g}, and not by a single one ({listed})"
            )
        elif count.lower <= 0 or count.upper >= 2:
            doubts.append(
                f"between {count.lower:.3g} and {count.upper:.3g} records were deleted: the fields assume one"
            )
        else:
            grams = [gram_of_problem("", problem) for problem in (before, after)]
            found = None if None in grams else between_totals(grams[0], [grams[1]])  # type: ignore[arg-type,list-item]
            if found is not None:
                warnings.append(Note(", ".join(found.alternatives(found.fields))))
            elif None not in grams:
                doubts.append("the totals differ by more than one record: others were corrected or exchanged as well")
        unseen = [r.name[4:-1] for r in totals if r.estimate is None]
        if unseen:
            warnings.append(f"not determined: {', '.join(unseen)}")
        record, se = _fields(release, totals)
        if not record:
            raise BayesreconError("these releases determine no field of the deleted record")
        one, two, name = release.before.name, release.after.name, release.before.model.name
        told = (*warnings, *doubts)
        return DeletedRecord(record, se, "difference", None, float("inf"), one, two, name, told, doubts=tuple(doubts))


def _fields(pair: Deletion, totals: list[Row]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Fields all of whose entries are determined, with their standard errors."""
    record, se, rest = {}, {}, list(totals)
    for name, field in pair.before.model.fields.items():
        size = int(np.prod(field.shape, dtype=int))
        own, rest = rest[:size], rest[size:]
        if own and all(r.estimate is not None for r in own):
            record[name] = np.array([r.estimate for r in own], float).reshape(field.shape)
            se[name] = np.array([r.se for r in own], float).reshape(field.shape)
    return record, se


ATTACK = Difference
