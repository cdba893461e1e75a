"""Columns that are exact combinations of other columns. Their loadings are the rows of a design.

For example, the regression of a published linear predictor `mu_n = a[g_n] + b (x_n - c)` on the draws of `a` and `b`
gives `g_n` and `x_n`, without a model and without error. Products of two columns are also tried (`a + tau z[g]`), and
common link functions of the column.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from scipy import special

from bayesrecon.attacks.sidechannels.exactness import Exact, exact_in, halves, steps_of

_MOST_FEATURES = 1200  # largest number of features, whose regression takes a second or two
_ZERO = 1e-6  # standardised loadings below this are zero
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
    """

    values: Float[np.ndarray, "T p"]
    names: tuple[str, ...]
    scalar: np.ndarray

    def linear(self) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
        """Features, their names and the units of their last digits."""
        return self.values, self.names, self.steps

    @cached_property
    def steps(self) -> Float[np.ndarray, " p"]:
        """The units of the columns' last digits."""
        return steps_of(self.values)

    def with_products(self, most: int) -> tuple[np.ndarray, tuple[str, ...], np.ndarray] | None:
        """The same with products of two columns, and of columns with inverse scalars. None if there are too many.

        If there are too many pairs, only those with a scalar are used.
        """
        values, names, steps = self.linear()
        inverse = [j for j in np.flatnonzero(self.scalar) if np.all(values[:, j] > 0) and np.ptp(values[:, j]) > 0][
            :_INVERSES
        ]
        count = values.shape[1]
        pairs = [(i, j) for i in range(count) for j in range(i, count)]
        over = [(j, k) for j in inverse for k in range(count) if k != j]
        if count + len(pairs) + len(over) + len(inverse) > most:
            pairs = [(i, j) for i, j in pairs if self.scalar[i] or self.scalar[j]]
            over, inverse = [], []
        if count + len(pairs) + len(over) + len(inverse) > most:
            return None
        columns, labels, units = [values], list(names), [steps]
        size = np.abs(values).mean(axis=0)
        if pairs:
            first, second = (np.array(side) for side in zip(*pairs, strict=True))
            columns.append(values[:, first] * values[:, second])
            labels += [f"{names[i]} {names[j]}" for i, j in pairs]
            units.append(np.hypot(size[first] * steps[second], size[second] * steps[first]))
        for j in inverse:
            columns.append(1 / values[:, [j]])
            labels.append(f"1/{names[j]}")
            units.append(np.atleast_1d(np.mean(steps[j] / values[:, j] ** 2)))
        for j, k in over:
            columns.append(values[:, [k]] / values[:, [j]])
            labels.append(f"{names[k]}/{names[j]}")
            units.append(
                np.atleast_1d(steps[k] * np.mean(1 / values[:, j]) + size[k] * np.mean(steps[j] / values[:, j] ** 2))
            )
        return np.concatenate(columns, axis=1), tuple(labels), np.concatenate(units)


def pool_of(arrays: Sequence[tuple[str, np.ndarray]]) -> Pool:
    """A pool of arrays `(T, *shape)` with their names."""
    columns, names, scalar = [], [], []
    for name, values in arrays:
        flat = values.reshape(len(values), -1)
        columns.append(flat)
        shape = values.shape[1:]
        names += [name + (f"[{','.join(map(str, at))}]" if shape else "") for at in np.ndindex(shape)]
        scalar += [flat.shape[1] == 1] * flat.shape[1]
    if not columns:
        return Pool(np.zeros((0, 0)), (), np.zeros(0, bool))
    return Pool(np.concatenate(columns, axis=1), tuple(names), np.array(scalar, bool))


def find_combinations(pool: Pool, columns: np.ndarray, rng: np.random.Generator) -> Combinations | None:
    """The columns `(T, N)` as combinations of the pool's; None if there are too few draws to say.

    >>> rng = np.random.default_rng(0)
    >>> a, b, ages = rng.normal(size=300), rng.normal(size=300), np.array([41.0, 17.0, 63.0])
    >>> pool = pool_of([("a", a), ("b", b)])
    >>> found = find_combinations(pool, np.exp(a[:, None] + b[:, None] * ages / 50), rng)
    >>> found.link, [round(float(v) * 50) for v in found.loadings[:, found.terms.index("b")]]
    ('log', [41, 17, 63])
    """
    draws, width = pool.values.shape
    if not width or draws < 2 * (width + 1) + 4:
        return None
    best: tuple[int, Combinations] | None = None
    feature_sets = [pool.linear()]
    products = pool.with_products(min(_MOST_FEATURES, draws // 2 - 4))
    feature_sets += [products] if products is not None and products[0].shape[1] > width else []
    unit = steps_of(columns)
    for features, names, steps in feature_sets:
        prepared = halves(features, rng, steps)
        if prepared is None:
            continue
        for link, (function, slope) in _links(columns).items():
            with np.errstate(all="ignore"):
                values, rate = function(columns), np.abs(slope(columns)).mean(axis=0)
            if not np.isfinite(values).all():
                continue
            fit = exact_in(prepared, values, rng, unit * rate)
            if fit is None or not fit.exact.any():
                continue
            hits = int(fit.exact.sum())
            if best is None or hits > best[0]:
                best = hits, _used(fit, link, names, features, values)
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
