"""`GradientMatching`: records and multipliers whose gradients cancel that of the regulariser, for trained networks."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import scipy.linalg
import scipy.optimize
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.matching.descent import descend
from bayesrecon.attacks.matching.equations import STATIONARY, Equations, Solution
from bayesrecon.divergence.score import gradients
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.random_key import generator
from bayesrecon.knowledge import Knows, check_knowledge
from bayesrecon.model import Progress, PseudoData, Records
from bayesrecon.regularisers import Regulariser, described
from bayesrecon.releases import Approximation, TrainedParameter
from bayesrecon.results.reconstruction import Matched

_AGREEING = 2  # number of solutions after which the search stops; a single one has nothing to confirm it
# Random displacement of the records from the measure, in units of their fields' spread, for consecutive starts. Larger
# ones leave the valley of the solution.
_MOVED = (0.0, 0.05, 0.1)
_HELD = (
    "no record is determined: the regulariser keeps the residual above its floor, and chooses among records that match "
    "about as well; try a weaker regulariser"
)

Exact = TrainedParameter | Approximation


@dataclass(frozen=True)
class GradientMatching(Attack[Matched]):
    """Gradient-norm matching (Haim et al. 2022; Buzaglo et al. 2023; Wynne 2025, Definition 4.2).

    Starts. If the number of records is known and a record has at most 16 free entries, starts are taken near the
    solution of a convex problem: the measure on generic records whose gradients cancel best. All other starts are
    random. Responses with finitely many values are distributed evenly, and other fields are drawn at random from their
    domains.

    Choice. The start with the smallest residual is returned. If a regulariser is given, it is added to half the squared
    residual, and the start with the smallest sum is returned. The search stops when two starts have reached a residual
    of zero.

    Determined records. A record is reported as determined if the equations fix it and two starts agree on it. One of
    these starts must be random, or there must be more independent equations than unknowns.

    An approximation is matched only along the directions in which it is stationary. Estimates with errors are refused,
    because no records cancel the gradient that the errors leave.

    >>> GradientMatching(n=20, multipliers="one").restarts
    10
    """

    name: ClassVar[str] = "gradient-matching"
    summary: ClassVar[str] = "records whose gradients cancel at a trained parameter, for networks"
    takes: ClassVar[tuple[type, ...]] = (TrainedParameter, Approximation)
    uses: ClassVar[tuple[str, ...]] = ("total", "domain")

    n: int = option(200, "Number of records to reconstruct.")
    multipliers: Literal["free", "one"] = option("free", "free (non-negative), or one: every record counts once.")
    strength_known: bool = option(True, "Whether the strength of the regulariser is known; if not, state the total.")
    restarts: int = option(10, "Largest number of starts.")
    steps: int = option(1000, "Steps of each start.")
    regulariser: Regulariser | None = option(None, "(weights, records) -> scalar, e.g. TotalVariation.")

    def __post_init__(self) -> None:
        if self.n < 1 or self.restarts < 1 or self.steps < 1:
            raise BayesreconError("n, restarts and steps are positive whole numbers")
        if self.multipliers not in ("free", "one"):
            raise BayesreconError(f"multipliers={self.multipliers!r}: expected 'free' or 'one'")

    def run(self, release: Exact, knows: Knows, *, key: Key, progress: Progress) -> Matched:
        start = time.perf_counter()
        equations, rng = self.equations(release, knows), generator(key)
        solutions, unique = self.descents(equations, rng, progress)
        return _result(release, equations, solutions, unique, self, rng, time.perf_counter() - start)

    def equations(self, release: Exact, knows: Knows) -> Equations:
        """The equations to solve, given what the attacker knows.

        Raises `BayesreconError` if the total contradicts the multipliers, or if the strength of the regulariser is
        unknown and there is no total.
        """
        total = knows.get("total")
        if self.multipliers == "one":
            if total is not None and total != self.n:
                raise BayesreconError(f"total={total} contradicts multipliers of one for n={self.n} records")
            total = float(self.n)
        if not self.strength_known and total is None:
            raise BayesreconError("without the strength of the regulariser, multipliers have no scale: state total=")
        knowledge = check_knowledge(release.model, **{**knows, "total": total})
        return Equations.of(release, knowledge, self.multipliers == "one", self.strength_known)

    def descents(
        self, equations: Equations, rng: np.random.Generator, progress: Progress
    ) -> tuple[list[Solution], bool]:
        """End points of all starts, the best one first, and whether starts near a measure can confirm each other."""
        solutions: list[Solution] = []
        unique = None
        while len(solutions) < self.restarts:
            solved = [solution for solution in solutions if solution.residual < SOLVED]
            if len(solved) >= _AGREEING:
                if unique is None:
                    unknowns = len(equations.flatten(solved[0].x))
                    unique = independent_equations(equations, rng, self.n) > unknowns
                if unique or not all(solution.from_measure for solution in solved):
                    break
            count = len(solutions)

            def tell(fraction: float, count: int = count) -> None:
                progress(f"start {count + 1}", (count + fraction) / self.restarts)

            start = from_measure = None
            if self._next_from_measure(solutions, unique) and pool_size(equations, self.n):
                displacement = _MOVED[sum(solution.from_measure for solution in solutions) % len(_MOVED)]
                start = from_measure = near_measure(equations, rng, self.n, displacement)
            solution = descend(equations, start or equations.start(rng, self.n), self.steps, tell, self.regulariser)
            solutions.append(replace(solution, from_measure=from_measure is not None))
        return sorted(solutions, key=lambda solution: solution.objective), bool(unique)

    @staticmethod
    def _next_from_measure(solutions: list[Solution], unique: bool | None) -> bool:
        """Whether the next start is near a measure.

        The first two starts are of different kinds. After that it is the kind with the smaller residual, or a random
        start if only these can confirm a solution.
        """
        if len(solutions) < 2 or unique is False:
            return not solutions
        return min(solutions, key=lambda solution: solution.objective).from_measure


def _result(
    release: Exact,
    equations: Equations,
    solutions: list[Solution],
    unique: bool,
    attack: GradientMatching,
    rng: np.random.Generator,
    seconds: float,
) -> Matched:
    best = solutions[0]
    records, weights = equations.records(best.x, best.fixed), np.asarray(equations.weights(best.x))
    least, mass, box = equations.certify(best.gradient, weights, rng)
    rank, unknowns, fixed, error = equations.resolve(best)
    agree, distance = confirmed(equations, solutions, least)
    same_measure = not unique and all(solution.from_measure for solution in at_floor(solutions, least))
    agree &= not same_measure
    determined = fixed & agree
    error = {
        name: np.where(determined.reshape(-1, *[1] * (values.ndim - 1)), np.maximum(values, distance[name]), np.inf)
        for name, values in error.items()
    }
    regularised = best.penalty > 0 and best.residual > floor(least)
    warnings = (
        (_HELD,)
        if regularised
        else (*_warnings(best.residual, least, mass), *_unconfirmed(solutions, fixed, agree, same_measure, least))
    )
    return Matched(
        pseudo=PseudoData(weights, records),
        residual=best.residual,
        residual_floor=least,
        mass=mass,
        domain=box,
        strength=float(best.x.get("strength", 1.0)),
        residuals=tuple(solution.residual for solution in solutions),
        equations=rank,
        unknowns=unknowns,
        determined=determined,
        error=error,
        multipliers=attack.multipliers,
        penalty=best.penalty,
        regulariser=described(attack.regulariser),
        release=release.name,
        model=release.model.name,
        warnings=(*release.notes, *warnings),
        seconds=seconds,
    )


def _warnings(residual: float, least: float, mass: float) -> tuple[str, ...]:
    if residual <= STATIONARY:
        return ()
    if least > 0:
        return (
            f"the parameter is not stationary: every data set of at most {mass:.3g} records on this domain leaves "
            f"{least:.1g} or more of the regulariser's gradient; was the loss summed and trained to its optimum, "
            "and is the regulariser this one?",
        )
    return (
        f"the gradients do not cancel (residual {residual:.1g} of the regulariser's): the parameter is not "
        "stationary, its regulariser is another one, or more records, restarts or steps are needed",
    )


def _unconfirmed(
    solutions: list[Solution], fixed: np.ndarray, agree: np.ndarray, same_measure: bool, least: float
) -> tuple[str, ...]:
    """Why some records that the equations fix are not determined."""
    if not fixed.any() or agree[fixed].all():
        return ()
    reached = at_floor(solutions, least)
    if not reached:
        return (
            f"no record is determined: the residual {solutions[0].residual:.1g} is above its floor {floor(least):.1g}; "
            "its records are one approximation among many; try more restarts or steps, or another n",
        )
    if len(reached) < _AGREEING:
        return (
            f"no record is determined: a single start of {len(solutions)} reached the floor, and no other "
            "confirms it; try more restarts",
        )
    if same_measure:
        return (
            f"no record is determined: all {len(reached)} starts that reached the floor began at the same measure, "
            "and there are not more independent equations than unknowns, so other records may solve them, too",
        )
    return (
        f"{len(reached)} starts reached the floor with different records: the equations have several solutions, and "
        f"{int((fixed & ~agree).sum())} of the records are not determined",
    )


ATTACK = GradientMatching


# Whether independent descents reach the floor of the residual, and whether they end at the same records.

SOLVED = 1e-9
"""Residual of a solution: above rounding, and far below the residual at local minima."""

_NEAR = 1e-3  # relative tolerance for the certified smallest residual
# Largest distance between two records that are the same, in units of their fields' spread. Nearly singular equations
# move the same record by less, and different records differ by more.
_SAME = 1e-3


def floor(least: float) -> float:
    """The residual at which a descent has converged: rounding, or the certified smallest value if that is larger."""
    return max(SOLVED, (1 + _NEAR) * least)


def at_floor(solutions: Sequence[Solution], least: float) -> list[Solution]:
    """The descents that ended at the floor of the residual."""
    return [solution for solution in solutions if solution.residual <= floor(least)]


def confirmed(
    equations: Equations, solutions: Sequence[Solution], least: float
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Which records of the best descent were found by all other descents at the floor.

    Args:
        solutions: end points of descents, the best one first.
        least: certified smallest residual.

    Returns:
        A mask `(M,)`, which is False if no other descent is at the floor. And the largest distance of every entry from
        those of the matched records, `{field: (M, *shape)}`, with "weight" if multipliers are free.
    """
    best, others = solutions[0], at_floor(solutions, least)[1:]
    best_entries = _entries(equations, best)
    count = len(next(iter(best_entries.values())))
    agree, distance = (
        np.full(count, bool(others)),
        {name: np.zeros(values.shape) for name, values in best_entries.items()},
    )
    scale = equations.spread(best.x)
    for other in others:
        other_entries = _entries(equations, other)
        distances = np.zeros((count, count))
        for name, values in best_entries.items():
            differences = np.abs(values[:, None] - other_entries[name][None]).reshape(count, count, -1) / scale[name]
            distances = np.maximum(distances, differences.max(axis=-1, initial=0.0))
        for name in best.fixed:  # records with different labels are different
            labels = np.asarray(best.fixed[name])[:, None] != np.asarray(other.fixed[name])[None]
            distances = np.where(labels.reshape(count, count, -1).any(axis=-1), np.finfo(float).max ** 0.5, distances)
        rows, columns = linear_sum_assignment(np.minimum(distances, 1.0))
        agree &= distances[rows, columns] < _SAME
        for name, values in best_entries.items():
            distance[name] = np.maximum(distance[name], np.abs(values - other_entries[name][columns]))
    return agree, distance


def _entries(equations: Equations, solution: Solution) -> dict[str, np.ndarray]:
    """The unknowns of a descent by record."""
    entries = {k: np.asarray(solution.x[k], float) for k in equations.variable_fields}
    return entries | ({"weight": np.asarray(equations.weights(solution.x), float)} if "weights" in solution.x else {})


# Starts near the measure that the gradients determine, instead of random ones.
#
# Placing n records is a problem with many local minima. Weighting many generic records is a convex one: `min_w |sum_p
# w_p grad l(theta, z_p) + grad log pi0|` over non-negative weights with the known sum. Its optimum is close to the
# private records if the kernel at theta separates records. In each round, a new pool is drawn around the records with
# weight, each time closer (sliding, as in Denoyelle et al. 2020). At last, the measure is converted to records of
# equal weight, from which a descent starts.

# Records in the pool, per unknown, at least and at most. With fewer, private records have no neighbour. With more, many
# measures solve the equations.
_PER_UNKNOWN, _FEWEST, _MOST = 15, 400, 2000
_ENTRIES = 16  # records with more free entries get random starts: in many dimensions no pool is near the private ones
_WORK = 4e10  # largest number of products for the QR decomposition of a pool's gradients
_ROUNDS = 8  # largest number of rounds
_SPREAD, _SHRINKS = 0.5, 0.6  # first spread of a new pool, in units of the fields' own, and its factor per round
_SOLVED = 1e-10  # residual at which the rounds end
_NOTHING = 1e-6  # relative weight below which a record has none
_SEEN = 1e-6  # smallest relative singular value of an equation that a descent resolves by several digits
_SUM = 10.0  # weight of the equation of the known sum, relative to the largest entry
_TOKENS, _ALL_TOKENS = 20, 1000  # tokens per record, and in total; with fewer, weights are rounded
_DEALS, _LLOYD = 4, 15  # restarts of the clustering, and steps of each


def pool_size(equations: Equations, n: int) -> int:
    """Number of records in the pool.

    It is zero if the sum of the weights is unknown, a record has too many free entries or none, or the model has too
    many parameters.
    """
    entries = sum(int(np.prod(equations.knowledge.fields[k].shape)) for k in equations.variable_fields)
    if not 0 < entries <= _ENTRIES or not (equations.unit_multipliers or equations.knowledge.total):
        return 0
    size = int(min(_MOST, max(_FEWEST, _PER_UNKNOWN * n * entries), (_WORK / len(equations.base)) ** 0.5))
    return size if size >= _FEWEST else 0


def independent_equations(equations: Equations, rng: np.random.Generator, n: int) -> int:
    """Number of independent equations on the records of a pool; zero without a pool.

    Starts near a measure may all find the same one of several solutions. With more equations than unknowns, almost no
    data set has a second solution. With equally many, several solutions are the rule.
    """
    if not (size := pool_size(equations, n)):
        return 0
    records = equations.records(*equations.start(rng, size))
    columns = equations.in_metric(np.asarray(gradients(equations.model, equations.theta, records)).T)
    singular = scipy.linalg.svdvals(columns)
    return int((singular > _SEEN * singular[0]).sum())


def near_measure(
    equations: Equations, rng: np.random.Generator, n: int, displacement: float = 0.0
) -> tuple[Records, Records]:
    """Variables of n records near the measure that the gradients determine, and the fixed fields.

    Args:
        displacement: standard deviation of random displacements, in units of the fields' spread.
    """
    total = float(equations.knowledge.total or n)
    variables, fixed = equations.start(rng, pool_size(equations, n))
    pool = {k: variables[k] for k in equations.variable_fields}
    spread, scale = _SPREAD, equations.spread(variables)
    turn = 0
    while True:
        weights, strength, residual = weigh(equations, pool, fixed, total)
        heavy = np.flatnonzero(weights > _NOTHING * total / n)
        if residual < _SOLVED or turn == _ROUNDS - 1 or not len(heavy):
            break
        neighbours = np.concatenate([heavy, rng.choice(heavy, max(0, len(weights) - len(heavy)))])
        fixed = {k: v[neighbours] for k, v in fixed.items()}
        for k, v in pool.items():
            places_near, domain = v[neighbours], equations.knowledge.fields[k].domain
            places_near[len(heavy) :] += spread * scale[k] * rng.normal(size=places_near[len(heavy) :].shape)
            pool[k] = np.clip(places_near, domain.low, domain.high)
        spread *= _SHRINKS
        turn += 1
    points = np.concatenate([pool[k].reshape(len(weights), -1) / scale[k] for k in pool], axis=1)
    labels = [np.asarray(v).reshape(len(weights), -1) for v in fixed.values()] or [np.zeros((len(weights), 1))]
    rows, places = as_records(rng, points, np.concatenate(labels, axis=1), weights, n)
    x: Records = {}
    position = 0
    for k, v in pool.items():
        size = int(np.prod(v.shape[1:]))
        places_near = places[:, position : position + size] + displacement * rng.normal(size=(n, size))
        domain = equations.knowledge.fields[k].domain
        x[k] = np.clip(places_near.reshape(n, *v.shape[1:]) * scale[k], domain.low, domain.high)
        position += size
    if not equations.unit_multipliers:
        x["weights"] = np.full(n, total / n)
    if not equations.strength_known:
        x["strength"] = np.asarray(strength)
    return x, {k: v[rows] for k, v in fixed.items()}


def weigh(equations: Equations, pool: Records, fixed: Records, total: float) -> tuple[np.ndarray, float, float]:
    """Non-negative weights with the given sum whose gradients cancel best.

    Returns:
        The weights `(P,)`, the strength of the regulariser, and the residual. That of an empty pool is infinite,
        because no weights have the sum.
    """
    records = equations.records(pool, fixed)
    columns = equations.in_metric(np.asarray(gradients(equations.model, equations.theta, records)).T)
    if not columns.shape[1]:
        return np.zeros(0), 1.0, np.inf
    base = equations.in_metric(equations.base)[:, None]
    system = np.hstack([columns, base])
    if len(system) > system.shape[1]:
        system = np.asarray(np.linalg.qr(system, mode="r"))
    sums = np.full((1, system.shape[1]), _SUM * np.abs(system).max())
    sums[0, -1] = 0.0
    if equations.strength_known:
        matrix, target = np.vstack([system[:, :-1], sums[:, :-1]]), np.append(-system[:, -1], sums[0, 0] * total)
    else:
        matrix, target = np.vstack([system, sums]), np.append(np.zeros(len(system)), sums[0, 0] * total)
    solution, residual = scipy.optimize.nnls(matrix, target, maxiter=20 * len(target) + 20 * system.shape[1])
    strength = 1.0 if equations.strength_known else float(solution[-1])
    return solution[: columns.shape[1]], strength, float(residual)


def as_records(
    rng: np.random.Generator, places: np.ndarray, labels: np.ndarray, weights: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Convert a measure to n records of equal weight.

    Numbers of records per label are rounded by largest remainders. Places are centres of k-means clusters of equal
    size.

    Returns:
        For each record, a row with its label `(n,)`, and its place `(n, D)`.
    """
    _, first, group = np.unique(labels, axis=0, return_index=True, return_inverse=True)
    weight = np.bincount(group.ravel(), weights, len(first))
    share = weight * n / weight.sum() if weight.sum() > 0 else np.full(len(first), n / len(first))
    counts = np.floor(share).astype(int)
    counts[np.argsort(counts - share)[: n - counts.sum()]] += 1
    rows, centres = [], []
    for label in np.flatnonzero(counts):
        members = group.ravel() == label
        rows.append(np.full(counts[label], first[label]))
        centres.append(_clusters(rng, places[members], weights[members], counts[label]))
    return np.concatenate(rows), np.concatenate(centres)


def _clusters(rng: np.random.Generator, places: np.ndarray, weights: np.ndarray, count: int) -> np.ndarray:
    """Centres of `count` clusters of equal weight."""
    per_cluster = int(np.clip(_ALL_TOKENS // count, 2, _TOKENS))
    probability = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))
    quantiles = (np.arange(per_cluster * count) + rng.uniform()) / (per_cluster * count)
    tokens = places[np.searchsorted(np.cumsum(probability), quantiles).clip(max=len(places) - 1)]
    best, lowest = tokens[:count], np.inf
    for _ in range(_DEALS):
        centres = _first_centres(rng, tokens, count)
        cost = np.inf
        for _ in range(_LLOYD):
            distances = np.repeat(cdist(tokens, centres, "sqeuclidean"), per_cluster, axis=1)
            rows, columns = scipy.optimize.linear_sum_assignment(distances)
            previous, cost = cost, float(distances[rows, columns].sum())
            if not cost < previous:
                break
            order = rows[np.argsort(columns)].reshape(count, per_cluster)
            centres = tokens[order].mean(axis=1)
        if cost < lowest:
            best, lowest = centres, cost
    return best


def _first_centres(rng: np.random.Generator, tokens: np.ndarray, count: int) -> np.ndarray:
    """First centres, each far from the previous ones (k-means++, Arthur and Vassilvitskii 2007)."""
    centres = tokens[[rng.integers(len(tokens))]]
    while len(centres) < count:
        squared = cdist(tokens, centres, "sqeuclidean").min(axis=1)
        probability = squared / squared.sum() if squared.sum() > 0 else None
        centres = np.vstack([centres, tokens[rng.choice(len(tokens), p=probability)]])
    return centres
