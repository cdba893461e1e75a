"""`GradientMatching`: records and multipliers whose gradients cancel that of the regulariser, for trained networks."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.matching import measure
from bayesrecon.attacks.matching.descent import descend
from bayesrecon.attacks.matching.equations import STATIONARY, Equations, Solution
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.random_key import generator
from bayesrecon.knowledge import Knows, check_knowledge
from bayesrecon.model import Progress, PseudoData
from bayesrecon.regularisers import Regulariser, described
from bayesrecon.releases import Approximation, TrainedParameter
from bayesrecon.results.matched import Matched

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
                    unique = measure.independent_equations(equations, rng, self.n) > unknowns
                if unique or not all(solution.from_measure for solution in solved):
                    break
            count = len(solutions)

            def tell(fraction: float, count: int = count) -> None:
                progress(f"start {count + 1}", (count + fraction) / self.restarts)

            start = from_measure = None
            if self._next_from_measure(solutions, unique) and measure.pool_size(equations, self.n):
                displacement = _MOVED[sum(solution.from_measure for solution in solutions) % len(_MOVED)]
                start = from_measure = measure.start(equations, rng, self.n, displacement)
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
