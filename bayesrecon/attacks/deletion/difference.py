"""`Difference`: the deleted record, as the difference of the totals that two approximations determine."""

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack
from bayesrecon.attacks.differences.one_record import Between
from bayesrecon.attacks.differences.one_record import between as between_totals
from bayesrecon.attacks.differences.search import in_words_of_values
from bayesrecon.attacks.differences.solved import deleted_totals, gram_of_problem
from bayesrecon.diagnostics import Z95
from bayesrecon.divergence.score import prior_score
from bayesrecon.errors import BayesreconError, Note
from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.estimation.span import Projection
from bayesrecon.knowledge import Knows, check_knowledge
from bayesrecon.model import Progress, Records, entry
from bayesrecon.pairs import ApproximatedPair, Deletion, Unchanged
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
    rows = deleted_totals(before, after)
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


def _possible(row: Row) -> list[int]:
    """The possible numbers of deleted records, in increasing order: those in the interval, or 1 without an interval."""
    if row.lower is None or row.upper is None:
        return [1]
    low, high = math.ceil(row.lower - _CERTAIN), math.floor(row.upper + _CERTAIN)
    if high < 1 or low > high:
        raise (Unchanged if low <= 0 <= high else BayesreconError)(
            f"the releases differ by {row.estimate:.4g} records, between {row.lower:.4g} and {row.upper:.4g}: "
            f"{'none was' if high < 1 else 'no whole number was'} deleted between them"
        )
    return list(range(max(low, 1), high + 1))


def _counts(row: Row, size: int) -> list[int]:
    """The possible numbers of deleted records, of which `size` candidates have not too many sets."""
    possible = _possible(row)
    counts = [k for k in possible if k <= size and math.comb(size, k) <= _SUBSETS]
    if not counts:
        raise BayesreconError(
            f"the releases differ by {possible[0]} records or more: {size} candidates have no sets of that size, or "
            f"more than {_SUBSETS:,} of them; give {'more' if possible[0] > size else 'fewer'} candidates"
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
    count = after.solved.target @ after.solved.project(np.ones((len(after.solved.cross), 1))).beta[:, 0]
    unseen = count**2 * np.mean((values - projection.fitted) ** 2, axis=0)
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


@dataclass(frozen=True, eq=False)
class Difference(Attack[DeletedRecord]):
    """The deleted record, from two approximations of the posterior: before and after the deletion.

    An approximation is a mode with its covariance, a table of estimates, a summary of draws, a variational fit or a
    density. Each of the two determines totals over its data. If one record was deleted, the totals differ by the fields
    of that record. If several were deleted, they differ by the totals of these records, `deleted`, which have no
    `record`. Only if whole numbers or levels leave one possibility are their values known.

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
    uses: ClassVar[tuple[str, ...]] = ("domain",)

    def run(self, release: Deletion, knows: Knows, *, key: Key, progress: Progress) -> DeletedRecord:
        before, after = _solved(release)
        (count, *totals), warnings = deleted_totals(before, after), [*before.warnings, *after.warnings]
        doubts, record, se = list[str](), dict[str, np.ndarray](), dict[str, np.ndarray]()
        number, *more = _possible(count)
        fields = check_knowledge(release.before.model, **knows).fields
        both = [gram_of_problem(problem.release.name, problem) for problem in (before, after)]
        grams = [counted for gram in both if gram is not None and (counted := gram.counted(None)) is not None]
        found = None if more or len(grams) < 2 else between_totals(grams[0], grams[1:], most=number)
        if found is not None:  # the whole number of records and all products make sums more exact
            count, *totals = (_sharper(row, found) for row in (count, *totals))
        unseen = [r.name[4:-1] for r in totals if r.estimate is None]
        if number == 1:
            if count.estimate is None:
                doubts.append(
                    "the number of deleted records is not determined: the fields are those of a single record"
                )
            elif more:
                doubts.append(
                    f"between {count.lower:.3g} and {count.upper:.3g} records were deleted: the fields assume one"
                )
            elif found is None and len(grams) == 2:
                doubts.append("the totals differ by more than one record: others were corrected or exchanged as well")
            record, se = _fields(release, totals)
            if not record:
                raise BayesreconError("these releases determine no field of the deleted record")
            if found is not None:
                warnings.append(Note(", ".join(found.alternatives(found.fields))))
            if unseen:
                warnings.append(f"not determined: {', '.join(unseen)}")
        elif found is not None:
            only = found.only_values(lambda name: fields[name.partition("[")[0]].domain)
            warnings += [Note(told)] if (told := in_words_of_values(only)) else []
        return DeletedRecord(
            record,
            se,
            "difference",
            None,
            float("inf"),
            release.before.name,
            release.after.name,
            release.before.model.name,
            (*warnings, *doubts),
            doubts=tuple(doubts),
            deleted=(count, *totals),
        )


def _sharper(row: Row, found: Between) -> Row:
    """The row of a sum, or of the number of records, with what all totals together say of it."""
    k, names = found.count, [f"sum({name})" for name in found.fields]
    if row.name not in ("n", *names):
        return row
    i = names.index(row.name) if row.name in names else None
    estimate, half = (k, 0.0) if i is None else (k * float(found.estimate[i]), k * float(found.half[i]))
    return replace(row, estimate=float(estimate), se=half / Z95, lower=estimate - half, upper=estimate + half)


def _fields(pair: Deletion, totals: list[Row]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Fields all of whose entries are determined, with their standard errors."""
    record, se, by_name = dict[str, np.ndarray](), dict[str, np.ndarray](), {row.name: row for row in totals}
    for name, field in pair.before.model.fields.items():
        own = [by_name.get(f"sum({entry(name, index)})", Row("")) for index in np.ndindex(field.shape)]
        if own and all(r.estimate is not None for r in own):
            record[name] = np.array([r.estimate for r in own], float).reshape(field.shape)
            se[name] = np.array([r.se for r in own], float).reshape(field.shape)
    return record, se


ATTACK = Difference
