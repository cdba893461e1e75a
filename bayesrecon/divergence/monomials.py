"""A Gaussian linear regression's log likelihood as a polynomial in the record.

With residuals `r = y - X beta` in units of the known part of the scale, `u = log sigma`, `p = 1 / sigma^2`, and
coefficients written as `beta = m + L d`, L a root of the draws' covariance, it is one in `e = y - X m` and `x = L' X`,

    r                = e - x d
    l                = -u - p r^2 / 2 + terms without parameters
    grad l           = (p r x,  p r^2 - 1)                                          in (d, u)
    tr(Sigma Hess l) = -p (x' S_dd x + 4 (S_du x) r + 2 S_uu r^2)                   S = Sigma in (d, u),

and `S u'' (p r^2 - 1)` more where the coordinate bends u. Records are columns of the F monomials
`1 - p0 e^2, e^2, e x_i, x_i x_j`, p0 a typical p, and their coefficients belong to the draws alone. No digits are lost:
e has the size of a residual, d is of order one, and `1 - p0 e^2` takes out what the first two have in common.

In a metric that moves d along `b (p, k)` and u along `c (k,)` the scores of the monomials are

    phi = c q' + E,   E = p b_i  for e x_i,   -p (b_i d_j + b_j d_i)  for x_i x_j

(`-p b_i d_i` where i = j), so that inner products of scores are moments of q, d and p: no array has the k directions.
All of it is multiplied by the model's power. Arrays are NumPy's in this process, and JAX's on a device. Predictors are
those of models (`model.GaussianPredictor`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from bayesrecon.arrays import Array
from bayesrecon.divergence.products import Fold


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Frame:
    """What the monomials are taken about.

    Attributes:
        centre: mean of the draws' coefficients, `(p,)`.
        root: root of their covariance, `(p, p)`.
        precision: typical `1 / sigma^2`.
    """

    centre: Array
    root: Array
    precision: Array | float

    @classmethod
    def of(cls, predictor: Any, mean: np.ndarray, covariance: np.ndarray) -> "Frame":
        """The frame of draws with this mean and covariance. The root is one if some coefficients do not vary."""
        coefficients = list(predictor.coefficients)
        values, vectors = np.linalg.eigh(covariance[np.ix_(coefficients, coefficients)])
        root = vectors * np.sqrt(values) if values[0] > 0 else np.eye(len(coefficients))
        with np.errstate(over="ignore", divide="ignore"):
            precision = float(np.exp(-2 * _log_sigma(predictor, mean[None])[0][0, 0]))
        return cls(mean[coefficients], root, precision if 0 < precision < np.inf else 1.0)

    @property
    def features(self) -> int:
        """F, the number of monomials."""
        p = len(self.centre)
        return 2 + p + p * (p + 1) // 2

    def design(self, predictor: Any, records: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Errors `e (M,)` and whitened covariates `x (M, p)` of records."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            e, x, width = predictor.design(np.asarray(self.centre), records)
            return np.asarray(e / width), np.asarray((x / width[:, None]) @ self.root)

    def monomials(self, predictor: Any, records: Mapping[str, np.ndarray]) -> Float[np.ndarray, "F M"]:
        """The monomials `(F, M)` of records."""
        e, x = self.design(predictor, records)
        x, width = np.ascontiguousarray(x.T), x.shape[1]
        monomials = np.empty((2 + width + width * (width + 1) // 2, len(e)))
        with np.errstate(over="ignore", invalid="ignore"):
            np.square(e, out=monomials[1])
            monomials[0] = 1 - self.precision * monomials[1]
            np.multiply(e, x, out=monomials[2 : 2 + width])
            start = 2 + width
            for i in range(width):  # in place: there can be thousands of monomials
                end = start + width - i
                np.multiply(x[i], x[i:], out=monomials[start:end])
                start = end
        return monomials


@dataclass(frozen=True)
class Expansion:
    """The coefficients of the monomials at a block of C atoms, in a metric.

    Attributes:
        b, c: `(p, k)` and `(C, k)` along which d and u move.
        axis, slope: `(k,)` and `(C, 1)`, whose product c is.
        d: `(C, p)`.
        precision: `(C, 1)`.
        q, value, lap: `(C, F)`; values up to terms that do not depend on the parameters.
        power: power of the model.
    """

    b: Float[Array, "p k"]
    c: Float[Array, "C k"]
    axis: Array
    slope: Array
    d: Float[Array, "C p"]
    precision: Float[Array, "C 1"]
    q: Float[Array, "C F"]
    value: Float[Array, "C F"]
    lap: Float[Array, "C F"]
    power: float

    @classmethod
    def at(cls, predictor: Any, frame: Frame, power: float, theta: Array, metric: Array) -> "Expansion":
        """At atoms `(C, d)` in the metric `(d, k)`."""
        columns, xp = np.array(predictor.coefficients, int), _library(theta)
        d = xp.linalg.solve(frame.root, (theta[:, columns] - frame.centre).T).T
        u, slope, bend = _log_sigma(predictor, theta)
        precision, along = xp.exp(-2 * u), metric[predictor.scale or 0]
        b, c, bend = xp.linalg.solve(frame.root, metric[columns]), slope * along, bend * (along @ along)
        i, j = np.triu_indices(len(columns))
        mixed_pair, ones = np.where(i == j, 0.0, 1.0), xp.ones_like(u)
        off = precision - frame.precision
        quadratic = xp.concatenate([-2 * d, (1 + mixed_pair) * d[:, i] * d[:, j]], axis=1) * precision
        q = xp.concatenate([-ones, off, quadratic], axis=1)
        # The second of these is small: `-(u - u0) p0 - p / 2` has no slope at p0.
        value = xp.concatenate(
            [-u, -off / 2 - (u + xp.log(frame.precision) / 2) * frame.precision, -quadratic / 2], axis=1
        )
        norm, mixed, inner = (c**2).sum(axis=1, keepdims=True), c @ b.T, b @ b.T
        lap = xp.concatenate([-bend * ones, bend * off - 2 * norm * precision, (bend - 2 * norm) * quadratic], axis=1)
        lap = _added(lap, 2, -4 * _paired(mixed, d, i, j) * precision)
        lap = _added(lap, 2 + len(columns), -(1 + mixed_pair) * inner[i, j] * precision)
        return cls(b, c, along, slope, d, precision, q, power * value, power * lap, power)

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self.d.shape[1])

    def along(self, score: Array) -> Array:
        """Inner products `<phi, score>` of the monomials with a vector `(C, k)` an atom, `(C, F)`."""
        by_scale = self.q * (self.c * score).sum(axis=1, keepdims=True)
        return self.power * _added(by_scale, 2, _paired(score @ self.b.T, self.d, *self._pairs) * self.precision)

    def sums(self, h: Float[np.ndarray, "C P"], j: Int[np.ndarray, " P"]) -> np.ndarray:
        """`sum_t h_tp phi_j(p)` of the monomials, `(F, P)`, for `h (C, P)` along columns `j (P,)` of the metric.

        It runs in this process.
        """
        along, scaled = self.b[:, j], self.precision * h  # (p, P), (C, P)
        sums = self.q.T @ (self.c[:, j] * h)
        total, mean = scaled.sum(axis=0), self.d.T @ scaled
        sums[2 : 2 + len(along)] += along * total
        i, k = self._pairs
        sums[2 + len(along) :] -= along[i] * mean[k] + np.where(i == k, 0.0, 1.0)[:, None] * along[k] * mean[i]
        return self.power * np.asarray(sums)

    def score(self, fitted: Array) -> Array:
        """`phi fitted`, `(C, k)`, of a polynomial `(F,)`."""
        width = self.d.shape[1]
        position = np.zeros((width, width), int)
        position[self._pairs] = position.T[self._pairs] = np.arange(len(self._pairs[0]))
        square = fitted[2 + width :][position]
        inner = (fitted[2 : 2 + width] - self.d @ square) * self.precision
        return self.power * (self.c * (self.q @ fitted)[:, None] + inner @ self.b)

    def scores(self, e: Array, x: Array) -> Float[Array, "C k M"]:
        """`phi` of records with that design, `(C, k, M)`."""
        r = e - self.d @ x.T
        slope, square = self.precision * r, self.precision * r**2 - 1
        return self.power * (slope[:, None] * (x @ self.b).T + self.c[:, :, None] * square[:, None])

    def fold(self, weights: Array) -> Fold:
        """Sums of the scores' products that belong to the metric, weighted."""
        xp = _library(self.d)
        rows = xp.concatenate([xp.ones_like(self.precision), -self.d], axis=1) * self.precision
        scaled = self.power**2 * weights[:, None] * rows
        return Fold(self.b @ self.b.T, self.b @ self.axis, self.q.T @ (self.slope * scaled), rows.T @ scaled)

    def weighted(self, weights: Array) -> Array:
        """Rows `(C, F)` whose products with themselves are those of the scores along the scale."""
        size = weights[:, None] * (self.c**2).sum(axis=1, keepdims=True)
        return self.q * (np.abs(self.power) * _library(size).sqrt(size))


def _paired(s: Array, d: Array, i: np.ndarray, j: np.ndarray) -> Array:
    """`s_i` of the monomials `e x_i` and `-(s_i d_j + s_j d_i)` of `x_i x_j`, `(C, F - 2)`."""
    mixed_pair = np.where(i == j, 0.0, 1.0)
    return _library(d).concatenate([s, -(s[:, i] * d[:, j] + mixed_pair * (s[:, j] * d[:, i]))], axis=1)


def _library(array: Array) -> ModuleType:
    """The library of the array: NumPy or `jax.numpy`."""
    return np if isinstance(array, np.ndarray) else jnp


def _added(array: Array, first: int, more: Array) -> Array:
    """An array with `more` added to its columns from `first` on. An array of NumPy is changed in place."""
    if isinstance(array, np.ndarray):
        array[:, first:] += more
        return array
    return array.at[:, first:].add(more)


def _log_sigma(predictor: Any, theta: Array) -> tuple[Array, Array, Array]:
    """`log sigma`, and its first and second derivative in its coordinate, `(C, 1)` each."""
    xp = _library(theta)
    if predictor.scale is None:
        zero = xp.zeros((len(theta), 1))
        return zero, zero, zero
    at, power = theta[:, predictor.scale, None], xp.full((len(theta), 1), predictor.power)
    if predictor.logarithm:
        return power * at, power, 0 * power
    return (
        power * xp.log(xp.abs(at)),
        power / at,
        -power / at**2,
    )  # draws from a normal distribution of sigma can be negative
