"""Columns that are exact combinations of other columns. Their loadings are the rows of a design.

For example, the regression of a published linear predictor `mu_n = a[g_n] + b (x_n - c)` on the draws of `a` and `b`
gives `g_n` and `x_n`, without a model and without error. Products of two columns are also tried (`a + tau z[g]`), and
common link functions of the column.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float

from bayesrecon.attacks.sidechannels.exactness import Exact, Halves, exact_in, halves, plainest, steps_of
from bayesrecon.diagnostics import evenly

_MOST_FEATURES = 1200  # largest number of features, whose regression takes a second or two
_ZERO = 1e-6  # standardised loadings below this are zero
_SUSPECT = 0.06  # standardised residual below which a column is compared alone
_RIDGE = 1e-9  # relative to the variance of a feature, for features that are combinations of others
_INVERSES = 3  # largest number of positive scalars whose inverses are features, too


@dataclass(frozen=True, eq=False)
class Combinations:
    """Columns `(N,)` of an array as combinations.

    Attributes:
        exact: `(N,)` whether the column is an exact combination.
        link: name of the link function of the columns; empty for the identity.
        terms: names of the m features that are used.
        loadings: `(N, m)`, zero if the column is not exact.
        constant: `(N,)`, zero if the column is not exact.
    """

    exact: Bool[np.ndarray, " N"]
    link: str
    terms: tuple[str, ...]
    loadings: Float[np.ndarray, "N m"]
    constant: Float[np.ndarray, " N"]

    def row(self, n: int) -> str:
        """One column in words.

        >>> Combinations(np.array([True]), "log", ("a", "b"), np.array([[1.0, -2.5]]), np.array([0.5])).row(0)
        'log = 0.5 + 1 a - 2.5 b'
        """
        parts = [f"{self.constant[n]:.6g}"] if abs(self.constant[n]) > 1e-9 else []
        parts += [
            f"{'-' if v < 0 else '+'} {abs(v):.6g} {t}" for v, t in zip(self.loadings[n], self.terms, strict=True) if v
        ]
        return f"{self.link or 'value'} = {' '.join(parts).removeprefix('+ ') or '0'}"


Link = Callable[[np.ndarray], np.ndarray]


def _links(values: np.ndarray) -> dict[str, tuple[Link, Link]]:
    """The identity and the usual links that are defined at all values, each with its derivative.

    Other links are found as smooth functions of the draws, without loadings.
    """
    low, high = float(values.min()), float(values.max())
    result: dict[str, tuple[Link, Link]] = {"": (lambda v: v, np.ones_like)}
    if low > 0:
        result["log"] = np.log, lambda v: 1 / v
    if low > 0 and high < 1:
        from scipy import special  # which takes long to load

        result["logit"] = special.logit, lambda v: 1 / (v * (1 - v))
    if high < 50 and low > -50:
        result["exp"] = np.exp, np.exp
    return result


@dataclass(frozen=True, eq=False)
class Pool:
    """Columns from which combinations are formed.

    Attributes:
        values: `(T, p)`.
        names: names of the columns.
        scalar: `(p,)` whether the column is a scalar, and not an entry of an array.
        key: seed of the halves of the draws.
    """

    values: Float[np.ndarray, "T p"]
    names: tuple[str, ...]
    scalar: np.ndarray
    key: int = 0

    def part(self, columns: np.ndarray) -> "Pool":
        """Some of the columns."""
        return Pool(self.values[:, columns], tuple(self.names[k] for k in columns), self.scalar[columns], self.key)

    @cached_property
    def linear(self) -> "Features":
        """The columns themselves."""
        parents = np.column_stack([np.arange(len(self.names))] * 2)
        return Features(self.values, self.names, steps_of(self.values), parents)

    def with_products(self, most: int) -> "Features | None":
        """The same with products of two columns, and of columns with inverse scalars. None if there are too many.

        If there are too many pairs, only those with a scalar are used.
        """
        count, others = len(self.names), int((~self.scalar).sum())
        if count + (count * (count + 1) - others * (others + 1)) // 2 > most:
            return None
        values, names, steps, parents = self.linear.values, self.names, self.linear.steps, self.linear.parents
        inverse = [j for j in np.flatnonzero(self.scalar) if np.all(values[:, j] > 0) and np.ptp(values[:, j]) > 0][
            :_INVERSES
        ]
        first, second = np.triu_indices(count)
        if count + len(first) + len(inverse) * count > most:
            either = self.scalar[first] | self.scalar[second]
            first, second, inverse = first[either], second[either], []
        columns, labels, units, origins = [values], list(names), [steps], [parents]
        size = np.abs(values).mean(axis=0)
        if len(first):
            columns.append(values[:, first] * values[:, second])
            labels += [f"{names[i]} {names[j]}" for i, j in zip(first, second, strict=True)]
            units.append(np.hypot(size[first] * steps[second], size[second] * steps[first]))
            origins.append(np.column_stack([first, second]))
        for j in inverse:
            columns.append(1 / values[:, [j]])
            labels.append(f"1/{names[j]}")
            units.append(np.atleast_1d(np.mean(steps[j] / values[:, j] ** 2)))
            origins.append(np.array([[j, j]]))
        for j in inverse:
            others = np.delete(np.arange(count), j)
            columns.append(values[:, others] / values[:, [j]])
            labels += [f"{names[k]}/{names[j]}" for k in others]
            error = np.mean(steps[j] / values[:, j] ** 2)  # of the inverse
            units.append(steps[others] * np.mean(1 / values[:, j]) + size[others] * error)
            origins.append(np.column_stack([others, np.full(len(others), j)]))
        return Features(np.concatenate(columns, axis=1), tuple(labels), np.concatenate(units), np.concatenate(origins))

    @cached_property
    def prepared(self) -> "list[tuple[Features, Halves]]":
        """Features for regressions, which all columns share: the columns, and their products if these are not many."""
        draws, width = self.values.shape
        products = self.with_products(min(_MOST_FEATURES, draws // 2 - 4))
        sets = [self.linear] + ([products] if products is not None and products.values.shape[1] > width else [])
        split = [(f, halves(f.values, np.random.default_rng(self.key), f.steps)) for f in sets]
        return [(features, ready) for features, ready in split if ready is not None]


@dataclass(frozen=True, eq=False)
class Features:
    """Features of a regression.

    Attributes:
        values: `(T, m)`.
        names: their names.
        steps: `(m,)` units of their last digits.
        parents: `(m, 2)` the columns from which each is made.
    """

    values: Float[np.ndarray, "T m"]
    names: tuple[str, ...]
    steps: Float[np.ndarray, " m"]
    parents: np.ndarray


def may_be_combinations(pool: Pool) -> Bool[np.ndarray, " p"]:
    """Which columns of a pool may be combinations of the others, `(p,)`; those that are not cannot be.

    One regression on all features answers for all columns. With features F, `G = F'F` and a column's link function y,
    the sum of squares that the features S made from that column leave out is

        y'y - b' F'y + b_S' (G^-1)_SS^-1 b_S,    b = G^-1 F'y.
    """
    draws, width = pool.values.shape
    most, found = (draws - 6) // 2, np.zeros(width, bool)
    for _ in range(2):  # what is a combination does not take the place of others
        free = np.flatnonzero(~found)
        found = found | _explained(pool, pool.part(free[:most]).linear, free)
        if not found.any() or len(free) <= most:
            break
    free, limit = np.flatnonzero(~found), min(_MOST_FEATURES, draws // 2 - 4)
    for count in {_largest(lambda k: k * (k + 3) // 2 + _INVERSES * k <= limit, len(free)), len(free)}:
        products = pool.part(free[:count]).with_products(limit) if count else None
        found = found | (_explained(pool, products, free) if products is not None else False)
    return found


def _largest(fits: Callable[[int], bool], most: int) -> int:
    return next((k for k in range(most, 0, -1) if fits(k)), 0)


def _explained(pool: Pool, features: Features, free: np.ndarray) -> Bool[np.ndarray, " p"]:
    """Columns of a pool that features of others explain, whose parents are positions among `free`."""
    draws, width = pool.values.shape
    size = features.values.shape[1]
    rows = evenly(draws, size + max(200, size // 2))
    with np.errstate(all="ignore"):
        made = list(_linked(pool.values[rows]))
        targets = np.column_stack([standardised(values) for _, values in made])
        design = standardised(features.values[rows])
    columns = np.concatenate([group for group, _ in made])
    places = np.full(width, -1)
    places[free] = np.arange(len(free))
    left = unexplained(design, features.parents, targets, places[columns])
    return np.bincount(columns[left <= _SUSPECT**2], minlength=width) > 0


def unexplained(
    features: Float[np.ndarray, "T m"], parents: np.ndarray, targets: Float[np.ndarray, "T n"], own: npt.ArrayLike
) -> Float[np.ndarray, " n"]:
    """The share of the variance of each target that no combination of features explains, without those made from it.

    Args:
        features: standardised features.
        parents: `(m, 2)` the columns from which each is made.
        targets: standardised targets.
        own: `(n,)` the column of each target; -1 if no feature is made from it.
    """
    rows, size = features.shape
    of = np.asarray(own)
    inverse = np.linalg.inv(features.T @ features + _RIDGE * rows * np.eye(size))
    cross = features.T @ targets
    slopes = inverse @ cross
    left = (targets**2).sum(axis=0) - (slopes * cross).sum(axis=0)
    freedom = np.full(len(of), rows - size)
    for column in np.unique(of[of >= 0]):
        from_it, mine = np.flatnonzero((parents == column).any(axis=1)), np.flatnonzero(of == column)
        if len(from_it):
            part = slopes[np.ix_(from_it, mine)]
            left[mine] += (part * np.linalg.solve(inverse[np.ix_(from_it, from_it)], part)).sum(axis=0)
            freedom[mine] += len(from_it)
    return np.where((targets != 0).any(axis=0), left / np.maximum(freedom, 1), 1.0)


def _linked(values: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Every link function of the columns `(T, p)` for which it is defined: their positions, and its values."""
    low, high = values.min(axis=0), values.max(axis=0)
    kinds = np.column_stack([low > 0, low > -1, low > -50, high < 1, high < 50])
    for kind in np.unique(kinds, axis=0):
        group = np.flatnonzero((kinds == kind).all(axis=1))
        for function, _ in _links(values[:, group]).values():
            yield group, function(values[:, group])


def standardised(values: np.ndarray) -> np.ndarray:
    """Values with mean zero and variance one; zero if they overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = values.std(axis=0)
    fine = np.isfinite(values).all(axis=0) & np.isfinite(spread) & (spread > 0)
    return np.where(fine, (values - values.mean(axis=0)) / np.where(fine, spread, 1.0), 0.0)


def pool_of(arrays: Sequence[tuple[str, np.ndarray]], key: int = 0) -> Pool:
    """A pool of arrays `(T, *shape)` with their names."""
    columns, names, scalar = [], [], []
    for name, values in arrays:
        flat = values.reshape(len(values), -1)
        columns.append(flat)
        shape = values.shape[1:]
        names += [name + (f"[{','.join(map(str, at))}]" if shape else "") for at in np.ndindex(shape)]
        scalar += [flat.shape[1] == 1] * flat.shape[1]
    if not columns:
        return Pool(np.zeros((0, 0)), (), np.zeros(0, bool), key)
    values = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
    return Pool(values, tuple(names), np.array(scalar, bool), key)


def find_combinations(pool: Pool, columns: np.ndarray) -> Combinations | None:
    """The columns `(T, N)` as combinations of the pool's; None if there are too few draws to say.

    >>> rng = np.random.default_rng(0)
    >>> a, b, ages = rng.normal(size=300), rng.normal(size=300), np.array([41.0, 17.0, 63.0])
    >>> pool = pool_of([("a", a), ("b", b)])
    >>> found = find_combinations(pool, np.exp(a[:, None] + b[:, None] * ages / 50))
    >>> found.link, [round(float(v) * 50) for v in found.loadings[:, found.terms.index("b")]]
    ('log', [41, 17, 63])
    """
    draws, width = pool.values.shape
    if not width or draws < 2 * (width + 1) + 4:
        return None
    best: tuple[int, Combinations] | None = None
    unit = steps_of(columns)
    for features, ready in pool.prepared:
        for link, (function, slope) in _links(columns).items():
            with np.errstate(all="ignore"):
                values, rate = function(columns), np.abs(slope(columns)).mean(axis=0)
            if not np.isfinite(values).all():
                continue
            fit = exact_in(ready, values, column_steps=unit * rate)
            if fit is None or not fit.exact.any():
                continue
            with np.errstate(all="ignore"):
                fit = plainest(fit, ready, values, unit * rate)
            hits = int(fit.exact.sum())
            if best is None or hits > best[0]:
                best = hits, _used(fit, link, features.names, features.values, values)
            if fit.exact.all():
                return best[1]
    if best is None:
        none = np.zeros(columns.shape[1])
        return Combinations(none.astype(bool), "", (), np.zeros((len(none), 0)), none)
    return best[1]


def _used(fit: Exact, link: str, names: Sequence[str], features: np.ndarray, values: np.ndarray) -> Combinations:
    """The result without features that no column uses, and without loadings that are rounding."""
    exact, loadings = fit.exact, fit.loadings
    spread = np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
    trace = np.where(exact, np.maximum(_ZERO, fit.residual), 0.0) * spread
    nonzero = np.where((np.abs(loadings) * features.std(axis=0) < trace[:, None]) | ~exact[:, None], 0.0, loadings)
    used = np.flatnonzero(np.any(nonzero != 0, axis=0))
    size = np.abs(values).mean(axis=0) + np.abs(nonzero) @ np.abs(features).mean(axis=0)
    offset = np.where(exact & (np.abs(fit.constant) > np.maximum(1e-7 * size, trace)), fit.constant, 0.0)
    return Combinations(exact, link, tuple(names[int(k)] for k in used), nonzero[:, used], offset)
