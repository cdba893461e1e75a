"""Were draws clipped or cut off after sampling?

In unconstrained coordinates the density of a posterior falls to zero at both ends of every direction. Let q be a
coordinate or another function of the draws, u any level of it, and v a vector field with `<v, grad q> = 1`. For draws
with score s, the mean of `1 + (q - u) <v, s> + (q - u) div v` over the draws with `q > u` is zero. This holds for any
posterior and any u, also a quantile of the same draws. If draws were cut off at c, the mean is `(c - u)` times the
density at c, divided by the share of draws above u. Draws that were clipped have exactly the same value at an end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesrecon.diagnostics import effective_sample_size, evenly
from bayesrecon.estimation.checks.check import CheckInput
from bayesrecon.estimation.scored import ScoredDraws, allowed, confirmed
from bayesrecon.estimation.standard import Rows, Standard
from bayesrecon.running.draws_on_disk import column_blocks

_CUT = 2e-4  # false alarms per release
FEWEST = 500
"""The smallest number of draws for which ends are tested."""
_SHARES = (0.03, 0.1)  # shares of the draws at an end that are tested
# Draws that are examined at most, and numbers in them. Of more draws evenly spaced ones are taken.
_MOST_DRAWS, _NUMBERS = 2**16, 2**20
_AT_ONCE = 2**20  # numbers of a block of columns
WIDEST = 40
"""Largest number of coordinates for which principal directions are tested as well."""
_RANK = 1e-12  # of a correlation matrix
_RECHECKED = 8  # ends that seem cut off and are tested again
# Draws at the same end that are no coincidence, how many times as many as of any other value, and the least values.
_LEAST_TIED, _OFTENER, _VALUES = 5, 3, 20
_NAMED = 3  # ends that are named


def check_ends(inputs: CheckInput) -> tuple[str, ...]:
    """One line for draws that were clipped, and one for draws that were cut off.

    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=(4000, 1))
    >>> whole = ScoredDraws(theta, np.full(4000, 1 / 4000), np.ones(4000, int), -theta)
    >>> kept = theta[:, 0] > -1.5
    >>> none = lambda h, j, into: np.zeros((len(h), into.max() + 1))
    >>> [len(check_ends(CheckInput(("mu",), draws, none))) for draws in (whole, whole.part(kept, -theta[kept]))]
    [0, 1]
    """
    return (*check_clipped(inputs), *check_cut(inputs))


def check_clipped(inputs: CheckInput) -> tuple[str, ...]:
    return () if _too_few(inputs.draws) else tuple(_clipped_ends(inputs.names, inputs.draws))


def check_cut(inputs: CheckInput) -> tuple[str, ...]:
    """Messages about draws that were cut off, from the score at the draws alone."""
    if _too_few(inputs.draws):
        return ()
    return tuple(_cut_ends(inputs))


def _too_few(draws: ScoredDraws) -> bool:
    return bool(np.sum(draws.weights**2) * FEWEST > 1)


def _clipped_ends(names: tuple[str, ...], draws: ScoredDraws) -> Iterator[str]:
    """A message if many draws have the same value at an end, and no other value is as frequent.

    A value that a sampler repeats counts once. Rounded values agree more often away from the ends, where more draws
    are. Chains may start at the same point.
    """
    fewest, found = max(_LEAST_TIED, len(np.unique(draws.chain)) + 1), []
    for at, columns in column_blocks(draws.theta):
        for name, values in zip(names[at], columns.T, strict=True):
            visits = values[np.r_[True, (values[1:] != values[:-1]) | (draws.chain[1:] != draws.chain[:-1])]]
            count = np.unique(visits, return_counts=True)[1]
            if len(count) < _VALUES:
                continue
            for end, tied in (("smallest", int(count[0])), ("largest", int(count[-1]))):
                if tied >= max(fewest, _OFTENER * int(count[1:-1].max())):
                    found.append((tied, f"{tied} draws of {name} have its {end} value"))
    if found:
        found.sort(reverse=True)
        yield (
            f"draws were clipped: {_listed([what for _, what in found])}, so they are not draws of a posterior; supply "
            "them as the sampler left them"
        )


@dataclass(frozen=True, eq=False)
class _End:
    """The draws above a level of a function q of them, which is linear or their squared distance from the mean.

    Attributes:
        name: the end in words.
        share: share of the draws above the level.
        level: u.
        form: coefficients of q: `(d,)` if it is linear, `(d, d)` for the distance.
        along: `(s,)` constant field v of a linear q. For the distance it is None, since the field is radial.
        size: effective number of draws for q and for the indicator of `q > u`, at most the number of draws.
    """

    name: str
    share: float
    level: float
    form: np.ndarray
    along: np.ndarray | None
    size: float

    def above(self, t: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """`q - u` at some standardised draws `(n, d)`, zero below."""
        return np.maximum(_values(t, self.form) - self.level, 0.0)

    def field(self, t: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n s"]:
        """v there, `(n, s)`. For the distance r it is `t / 2 r`."""
        if self.along is not None:
            return np.broadcast_to(self.along, (len(t), len(self.along)))
        return t / np.maximum(2 * _values(t, self.form), 1e-300)[:, None]

    def h(self, t: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n s"]:
        """The factor of the score, `(n, s)`."""
        return self.above(t)[:, None] * self.field(t)

    def series(self, t: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n s"]) -> Float[np.ndarray, " n"]:
        """`1 + (q - u) (<v, s> + div v)` above, zero below, `(n,)`; the divergence of `t / 2 r` is `(d - 2) / 2 r`."""
        above = self.above(t)
        slope = (s * self.field(t)).sum(axis=1) if self.along is None else s @ self.along
        if self.along is None:
            slope += (t.shape[1] - 2) / np.maximum(2 * _values(t, self.form), 1e-300)
        return (above > 0) + above * slope


def _values(t: np.ndarray, form: np.ndarray) -> np.ndarray:
    return t @ form if form.ndim == 1 else ((t @ form) * t).sum(axis=1)


def _ends(
    names: tuple[str, ...], t: np.ndarray, s: np.ndarray, weights: np.ndarray, chain: np.ndarray
) -> Iterator[tuple[_End, np.ndarray]]:
    """The ends of each of the first coordinates, of their principal directions, and of the distance from the mean, with
    their series.

    Args:
        t, s: `(T, d)` atoms and `(T, s)` scores, standardised.
    """
    d, width = t.shape[1], s.shape[1]
    own, inverse, forms = directions(names, t, weights, width)
    for at in _blocks(len(forms), len(t)):
        some = forms[at]
        rows = np.stack([row for _, row in some])
        # Along the field of least noise: of a normal distribution its score is that of q.
        along = rows @ own / ((rows @ own) * rows).sum(axis=1)[:, None]
        q, slope = t[:, :width] @ rows.T, s @ along.T
        upper, lower = (_levels(sign * q, weights, chain) for sign in (1.0, -1.0))
        for k, (name, row) in enumerate(some):
            form = np.r_[row, np.zeros(d - width)]
            for side, sign, levels in (("upper", 1.0, upper[k]), ("lower", -1.0, lower[k])):
                for share, level, size in levels:
                    above = np.maximum(sign * q[:, k] - level, 0.0)
                    series = (above > 0) + above * (sign * slope[:, k])
                    yield _End(f"the {side} end{name}", share, level, sign * form, sign * along[k], size), series
    if width == d:
        for share, level, size in _levels(_values(t, inverse)[:, None], weights, chain)[0]:
            end = _End("the outside", share, level, inverse, None, size)
            yield end, end.series(t, s)


def _blocks(columns: int, rows: int) -> Iterator[slice]:
    """Blocks of columns that fit into memory."""
    width = max(1, _AT_ONCE // rows)
    return (slice(start, start + width) for start in range(0, columns, width))


def directions(
    names: tuple[str, ...], t: np.ndarray, weights: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, list[tuple[str, np.ndarray]]]:
    """Functions of the first s coordinates: each coordinate and their principal directions.

    Returns:
        The covariance of these coordinates given the others `(s, s)`, the precision of all `(d, d)`, and the functions'
        names with their coefficients `(s,)`.
    """
    inverse = np.linalg.pinv((t * weights[:, None]).T @ t, rcond=_RANK, hermitian=True)
    own = np.linalg.pinv(inverse[:width, :width], rcond=_RANK, hermitian=True)
    forms = [(f" of {name}", row) for name, row in zip(names[:width], np.eye(width), strict=True)]
    if 1 < width <= WIDEST:
        forms += [(" of a combination of parameters", row) for row in np.linalg.eigh(own)[1].T]
    return own, inverse, forms


def thinned(draws: ScoredDraws) -> np.ndarray:
    """Positions of the draws that are tested: all, or evenly spaced ones if there are many."""
    size, d = draws.theta.shape
    return evenly(size, max(FEWEST, min(_MOST_DRAWS, _NUMBERS // d)))


def _levels(q: np.ndarray, weights: np.ndarray, chain: np.ndarray) -> list[list[tuple[float, float, float]]]:
    """For every column of `(T, F)` and each share of the draws: the share, the level that these draws exceed, and the
    effective number of draws."""
    order = np.argsort(-q, axis=0, kind="stable")
    heavy, last = np.cumsum(weights[order], axis=0), len(q) - 1
    above = [np.minimum((heavy < share).sum(axis=0), last) for share in _SHARES]
    levels = [np.take_along_axis(q, order[at, np.arange(q.shape[1])][None], axis=0)[0] for at in above]
    sizes = independent(np.concatenate([q, *(q > u for u in levels)], axis=1), weights, chain)
    of = np.minimum(sizes.reshape(1 + len(_SHARES), -1)[1:], sizes[: q.shape[1]])
    return [
        [(share, float(u[k]), float(size[k])) for share, u, size in zip(_SHARES, levels, of, strict=True)]
        for k in range(q.shape[1])
    ]


def independent(series: np.ndarray, weights: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """Effective numbers of draws, at most that of the weights, also for antithetic chains."""
    sizes = np.minimum(effective_sample_size(np.asarray(series, float), chain) / len(series), 1.0)
    return np.asarray(sizes / np.sum(weights**2))


def _cut_ends(inputs: CheckInput) -> Iterator[str]:
    """Messages about ends with a positive density: single ends, and those of all parameters together."""
    draws = inputs.draws
    t, s, sd = draws.standardised()
    if not (sd > 0).all():
        return
    subset = thinned(draws)
    weights, chain, width = draws.weights[subset] / draws.weights[subset].sum(), draws.chain[subset], s.shape[1]
    atoms, scores = _standardised_rows(t, subset), _standardised_rows(s, subset)
    each = dict(_ends(inputs.names, atoms, scores, weights, chain))
    ends = list(each)
    groups = [(end.name, [end]) for end in ends]
    coordinate_ends = ends[: 2 * width * len(_SHARES)]
    groups += [("both ends of all parameters", coordinate_ends[k :: len(_SHARES)]) for k in range(len(_SHARES))]
    threshold = -NormalDist().inv_cdf(_CUT / len(groups))
    squares = {end: float(weights @ series**2) for end, series in each.items()}
    found: dict[str, float] = {}

    def means_and_z(many: Sequence[list[_End]], errors: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """The mean of every group of ends, and the same in standard errors."""
        total = np.stack([np.sum([each[end] for end in group], axis=0) for group in many], axis=1)
        series = total + errors
        least_variance = [sum(max(_spread(end.share), squares[end]) for end in group) for group in many]
        inflation = least_variance / np.maximum([sum(squares[end] for end in group) for group in many], 1e-300)
        variance = np.maximum(weights @ (series - weights @ series) ** 2, 1e-300) * inflation
        size = np.minimum(
            [np.median([end.size for end in group]) for group in many], independent(series, weights, chain)
        )
        mean = weights @ total
        return mean, mean / np.sqrt(variance / size)

    def fields(group: list[_End]) -> tuple[Rows, np.ndarray, np.ndarray]:
        h = Rows(lambda at: sd[:width] * np.sum([end.h(t[at]) for end in group], axis=0), (len(t), width))
        return h, np.arange(width), np.zeros(width, int)

    every = [group for _, group in groups]
    z = np.concatenate([means_and_z(every[at])[1] for at in _blocks(len(every), len(subset))])
    for k in np.argsort(-z)[:_RECHECKED]:
        name, group = groups[k]
        if z[k] <= threshold or name in found:
            continue
        moved = np.asarray(inputs.moved(*fields(group)))[subset, :1]
        size, z_of_end = (float(value[0]) for value in means_and_z([group], moved))
        z_of_end = z_of_end if inputs.finite else min(z_of_end, float(z[k]))
        if z_of_end > threshold:
            z_of_end = float(allowed(size, z_of_end, inputs.unseen(*fields(group))[0]))
        if z_of_end > threshold and (parts := inputs.halves()):
            z_of_end = confirmed(size, z_of_end, float(np.mean([_size(group, half, t, sd) for half in parts])))
        if z_of_end > threshold:
            found[name] = z_of_end
    if found:
        where = _listed([f"{name} (z {z_of_end:.0f})" for name, z_of_end in found.items()])
        yield (
            f"draws end too early: under this model their density is not zero at {where}; were they trimmed, "
            "selected by a condition, or drawn from another distribution? Supply them as the sampler left them"
        )


def _spread(share: float) -> float:
    """Mean square of the series of a normal distribution, `share (1 + E[(q - u)^2 | q > u])`.

    No term is above one, so few draws can have a large mean and a small spread by chance. The spread is therefore taken
    to be at least this. It equals `share` for exponential tails, and is smaller for heavier ones.
    """
    normal = NormalDist()
    u = -normal.inv_cdf(share)
    return share * (2 + u**2 - u * normal.pdf(u) / share)


def _size(ends: Sequence[_End], draws: ScoredDraws, t: Standard, sd: np.ndarray) -> float:
    """The mean over other draws, in the units of all draws."""
    atoms = (np.asarray(draws.theta) - t.shift) * t.scale
    scores = np.asarray(draws.scores) * sd[: draws.scores.shape[1]]
    return float(draws.weights @ np.sum([end.series(atoms, scores) for end in ends], axis=0))


def _standardised_rows(values: Standard, at: np.ndarray) -> np.ndarray:
    """Some rows of standardised numbers, which may lie in a file."""
    return np.asarray((values.raw[at] - values.shift) * values.scale)


def _listed(found: Sequence[str]) -> str:
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more
