"""Were draws cut off? A check for mass of the fitted posterior beyond the outermost draws.

For N independent draws of a posterior p, let c be the largest value of a function q, and M the mass of p beyond c. Then
N M is approximately exponential with mean one, for any p and q. M can be bounded without the normalising constant of p.
A map f with Jacobian J moves draws just inside the edge beyond it:

    P(f(theta) beyond c, theta inside) = E[p(f(theta)) / p(theta) J(theta); f(theta) beyond c] <= M.

For a coordinate or a principal direction, the map is a shift along the field of `ends`. For the distance from the mean
and for the log density, it is a scaling about the mean. The fitted data have errors, which change log M. So N M is
compared with the product of an exponential and a lognormal variable.

The check in `ends` only needs the score at the draws, and is less sensitive.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import gammaincc

from bayesrecon.estimation.checks.check import Check, CheckInput
from bayesrecon.estimation.checks.ends import (
    FEWEST,
    WIDEST,
    check_clipped,
    check_cut,
    directions,
    independent,
    thinned,
)
from bayesrecon.estimation.fitted_density import Density

_CUT = 3e-4  # false alarms per release
_MOST_MOVED = 400  # draws nearest to an edge that are moved: a tenth of four thousand
_SHARE = 0.1  # of the draws, at most
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)  # of a standard normal variable
_HIGHEST = 300.0  # log ratio, above which one draw carries all mass, so that squares are numbers
_LEAST_EFFECTIVE = 20.0  # moved draws that have to carry the mass, for it and its error to be believed
_BLOCK = 2**12  # draws whose density is computed together
_NAMED = 3  # edges that are named


@dataclass(frozen=True, eq=False)
class _Edge:
    """The posterior mass beyond the outermost draw in one direction.

    Attributes:
        name: the direction in words.
        of_coordinate: whether the function is a coordinate.
        near: positions of the draws next to it.
        expected: N M.
        slope: `(r,)` gradient of `log M` in the amplitudes of the fitted data.
        scatter: relative sampling error of M.
    """

    name: str
    of_coordinate: bool
    near: np.ndarray
    expected: float
    slope: np.ndarray
    scatter: float


def check_beyond(inputs: CheckInput) -> tuple[str, ...]:
    """One line for draws that were cut off.

    >>> from bayesrecon.estimation.scored import ScoredDraws
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=(4000, 1))
    >>> density = lambda t: (-0.5 * t[:, 0] ** 2, np.zeros((len(t), 0)))
    >>> density.covariance = np.zeros((0, 0))
    >>> none = lambda h, j, into: np.zeros((len(h), into.max() + 1))
    >>> kept = theta[theta[:, 0] > -2.3]  # 99 of a hundred
    >>> for one in (theta, kept):
    ...     draws = ScoredDraws(one, np.full(len(one), 1 / len(one)), np.ones(len(one), int), -one)
    ...     print(len(check_beyond(CheckInput(("mu",), draws, none, density=density))))
    0
    1
    """
    draws, density = inputs.draws, inputs.density
    width = draws.scores.shape[1]
    if density is None or width > WIDEST or width < draws.theta.shape[1] or np.sum(draws.weights**2) * FEWEST > 1:
        return ()
    subset = thinned(draws)
    weights = draws.weights[subset] / draws.weights[subset].sum()
    theta = np.asarray(draws.theta[subset], float)
    if not (np.ptp(theta, axis=0) > 0).all():
        return ()
    edges = list(_EdgeScan(inputs.names, theta, weights, draws.chain[subset], density).edges())
    coordinate_edges = [edge for edge in edges if edge.of_coordinate]
    tests = [(edge.name, edge.expected, _p_value([edge], density)) for edge in edges]
    if len(coordinate_edges) > 1:
        expected = float(sum(edge.expected for edge in coordinate_edges))
        tests.append(("outermost values of all parameters together", expected, _p_value(coordinate_edges, density)))
    alarms = sorted((chance, expected, name) for name, expected, chance in tests if chance * len(tests) < _CUT)
    if not alarms:
        return ()
    where = ", ".join(f"{expected:.0f} draws beyond the {name}" for _, expected, name in alarms[:_NAMED])
    more = f", and others beyond {len(alarms) - _NAMED} more ends" if len(alarms) > _NAMED else ""
    return (
        f"draws end too early: the fitted posterior expects {where}{more}, and there are none (probability "
        f"{max(alarms[0][0], 1e-300):.1g}); were they trimmed, selected by a condition or by their density, or drawn "
        "from another distribution? Supply them as the sampler left them",
    )


def check_edges(inputs: CheckInput) -> tuple[str, ...]:
    """Messages about draws that were clipped or cut off. The score is used if the density shows nothing."""
    return (*check_clipped(inputs), *(check_beyond(inputs) or check_cut(inputs)))


def _p_value(edges: list[_Edge], density: Density) -> float:
    """Probability that no draw is beyond some edges, given the expected number there.

    A draw may be outermost in several directions. So the sum of the exponential variables is approximated by a gamma
    variable, with the variance that follows from the shares of common draws.
    """
    expected = np.array([edge.expected for edge in edges])
    total = float(expected.sum())
    if total <= 0:
        return 1.0
    slope = expected @ np.stack([edge.slope for edge in edges]) / total
    scatter = float(np.sum((expected * [edge.scatter for edge in edges]) ** 2)) / total**2
    error = float(np.sqrt(max(slope @ density.covariance @ slope, 0.0) + scatter))
    overlap = np.array([[len(np.intersect1d(a.near, b.near)) / len(a.near) for b in edges] for a in edges])
    count, variance = len(edges), float(overlap.sum())
    p_values = gammaincc(count**2 / variance, total * np.exp(error * _NODES) * count / variance)
    return float(_WEIGHTS @ p_values / _WEIGHTS.sum())


_Move = Callable[[np.ndarray, float], tuple[np.ndarray, float]]
"""A function of the positions of W draws and of a shift. It returns the moved draws `(W, d)`, and the log of the
Jacobian."""


@dataclass(frozen=True, eq=False)
class _EdgeScan:
    """Draws that are moved over the edges.

    Attributes:
        theta: `(T, d)`.
        weights, chain: `(T,)`.
    """

    names: tuple[str, ...]
    theta: np.ndarray
    weights: np.ndarray
    chain: np.ndarray
    density: Density

    def edges(self) -> Iterator[_Edge]:
        """Edges in all directions; those of the coordinates come first."""
        d, centre = self.theta.shape[1], self.weights @ self.theta
        spread = np.sqrt(self.weights @ (self.theta - centre) ** 2)
        t = (self.theta - centre) / spread
        conditional, inverse, forms = directions(self.names, t, self.weights, d)
        for k, (name, row) in enumerate(forms):
            along = conditional @ row / (row @ conditional @ row) * spread
            for side, sign in (("largest value", 1.0), ("smallest value", -1.0)):
                yield from self._edge(f"{side}{name}", sign * (t @ row), partial(self._shifted, sign * along), k < d)
        scaled = partial(self._scaled, centre)
        distance = 0.5 * np.log(np.maximum(((t @ inverse) * t).sum(axis=1), 1e-300))
        yield from self._edge("draw farthest from the mean", distance, scaled)
        parts = np.array_split(self.theta, -(-len(self.theta) // _BLOCK))  # slopes are not kept
        value = np.concatenate([self.density(part)[0] for part in parts])
        depth = 0.5 * np.log(np.maximum(value.max() - value, 1e-300))
        yield from self._edge("draw of lowest density", depth, scaled, highest=value.max())

    def _shifted(self, along: np.ndarray, near: np.ndarray, step: float) -> tuple[np.ndarray, float]:
        return self.theta[near] + step * along, 0.0

    def _scaled(self, centre: np.ndarray, near: np.ndarray, step: float) -> tuple[np.ndarray, float]:
        return centre + np.exp(step) * (self.theta[near] - centre), step * len(centre)

    def _edge(
        self, name: str, q: np.ndarray, move: _Move, of_coordinate: bool = False, highest: float | None = None
    ) -> Iterator[_Edge]:
        """One edge; none if too few of the moved draws carry the mass.

        Args:
            q: `(T,)` values of the function.
            highest: if q is a log density, the value from which it is measured.
        """
        count = int(min(_MOST_MOVED, _SHARE * len(q)))
        near = np.argpartition(-q, count)[:count]
        edge, level = float(q.max()), float(q[near].min())
        places, jacobian = move(near, edge - level)
        density_before, features = self.density(self.theta[near])
        density_after, features_after = self.density(places)
        beyond = np.ones(count, bool)
        if highest is not None:
            beyond = 0.5 * np.log(np.maximum(highest - density_after, 1e-300)) > edge
        beyond &= np.isfinite(density_after) & np.isfinite(features_after).all(axis=1)
        log_ratio = np.where(beyond, density_after - density_before + jacobian, -np.inf)
        ratio = np.exp(np.minimum(log_ratio, _HIGHEST)) * self.weights[near]
        mass = float(ratio.sum())
        if mass**2 <= _LEAST_EFFECTIVE * float(ratio @ ratio):
            return
        features_after = np.where(beyond[:, None], features_after, features)
        size = min(independent(np.column_stack([q, q > level]), self.weights, self.chain))
        scatter = float(np.sqrt(ratio @ ratio / (size * np.sum(self.weights**2)))) / mass
        yield _Edge(
            name,
            of_coordinate,
            near,
            size * mass,
            ratio @ (features_after - features) / mass,
            scatter,
        )


CHECK = Check(50, check_edges)
