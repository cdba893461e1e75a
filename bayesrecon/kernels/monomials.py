"""A Gaussian linear regression's log likelihood as a polynomial in the record.

With residuals `r = y - X beta` in units of the known part of the scale, `u = log sigma`, `p = 1 / sigma^2`, and
coefficients written as `beta = m + L d`, L a root of the draws' covariance, it is one in `e = y - X m` and `x = L' X`,

    r                = e - x d
    l                = -u - p r^2 / 2 + what no parameter moves
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

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from bayesrecon.kernels.products import Fold

_Array = np.ndarray | jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Frame:
    """What the monomials are taken about.

    Attributes:
        centre: `(p,)` mean of the draws' coefficients.
        root: `(p, p)` of their covariance.
        precision: typical `1 / sigma^2`.
    """

    centre: Any
    root: Any
    precision: Any

    @classmethod
    def of(cls, predictor: Any, mean: np.ndarray, covariance: np.ndarray) -> "Frame":
        """Of draws with that mean and covariance; the root is one where their coefficients do not vary."""
        some = list(predictor.coefficients)
        values, vectors = np.linalg.eigh(covariance[np.ix_(some, some)])
        root = vectors * np.sqrt(values) if values[0] > 0 else np.eye(len(some))
        with np.errstate(over="ignore", divide="ignore"):
            precision = float(np.exp(-2 * _log_sigma(predictor, mean[None])[0][0, 0]))
        return cls(mean[some], root, precision if 0 < precision < np.inf else 1.0)

    @property
    def features(self) -> int:
        """F, the number of monomials."""
        p = len(self.centre)
        return 2 + p + p * (p + 1) // 2

    def design(self, predictor: Any, records: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """`e (M,)` and `x (M, p)`."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            e, x, width = predictor.design(self.centre, records)
            return e / width, (x / width[:, None]) @ self.root

    def monomials(self, predictor: Any, records: dict[str, Any]) -> Float[np.ndarray, "F M"]:
        """`(F, M)` of records."""
        e, x = self.design(predictor, records)
        x, width = np.ascontiguousarray(x.T), x.shape[1]
        found = np.empty((2 + width + width * (width + 1) // 2, len(e)))
        with np.errstate(over="ignore", invalid="ignore"):
            np.square(e, out=found[1])
            found[0] = 1 - self.precision * found[1]
            np.multiply(e, x, out=found[2 : 2 + width])
            start = 2 + width
            for i in range(width):  # in place: there can be thousands of monomials
                end = start + width - i
                np.multiply(x[i], x[i:], out=found[start:end])
                start = end
        return found


@dataclass(frozen=True)
class Expansion:
    """The coefficients of the monomials at a block of C atoms, in a metric.

    Attributes:
        b, c: `(p, k)` and `(C, k)` along which d and u move.
        axis, slope: `(k,)` and `(C, 1)`, whose product c is.
        d: `(C, p)`.
        precision: `(C, 1)`.
        q, value, lap: `(C, F)`; values up to what no parameter moves.
        power: power of the model.
    """

    b: Float[_Array, "p k"]
    c: Float[_Array, "C k"]
    axis: Any
    slope: Any
    d: Float[_Array, "C p"]
    precision: Float[_Array, "C 1"]
    q: Float[_Array, "C F"]
    value: Float[_Array, "C F"]
    lap: Float[_Array, "C F"]
    power: float

    @classmethod
    def at(cls, predictor: Any, frame: Frame, power: float, theta: Any, metric: Any) -> "Expansion":
        """At atoms `(C, d)` in the metric `(d, k)`."""
        columns, xp = np.array(predictor.coefficients, int), _library(theta)
        d = xp.linalg.solve(frame.root, (theta[:, columns] - frame.centre).T).T
        u, slope, bend = _log_sigma(predictor, theta)
        precision, along = xp.exp(-2 * u), metric[predictor.scale or 0]
        b, c, bend = xp.linalg.solve(frame.root, metric[columns]), slope * along, bend * (along @ along)
        i, j = np.triu_indices(len(columns))
        other, one = np.where(i == j, 0.0, 1.0), xp.ones_like(u)
        off = precision - frame.precision
        rest = xp.concatenate([-2 * d, (1 + other) * d[:, i] * d[:, j]], axis=1) * precision
        q = xp.concatenate([-one, off, rest], axis=1)
        # The last of these is small: `-(u - u0) p0 - p / 2` has no slope at p0.
        value = xp.concatenate([-u, -off / 2 - (u + xp.log(frame.precision) / 2) * frame.precision, -rest / 2], axis=1)
        norm, mixed, own = (c**2).sum(axis=1, keepdims=True), c @ b.T, b @ b.T
        lap = xp.concatenate([-bend * one, bend * off - 2 * norm * precision, (bend - 2 * norm) * rest], axis=1)
        lap = _added(lap, 2, -4 * _paired(mixed, d, i, j) * precision)
        lap = _added(lap, 2 + len(columns), -(1 + other) * own[i, j] * precision)
        return cls(b, c, along, slope, d, precision, q, power * value, power * lap, power)

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self.d.shape[1])

    def along(self, score: Any) -> Any:
        """Inner products `<phi, score>` of the monomials with a vector `(C, k)` an atom, `(C, F)`."""
        found = self.q * (self.c * score).sum(axis=1, keepdims=True)
        return self.power * _added(found, 2, _paired(score @ self.b.T, self.d, *self._pairs) * self.precision)

    def sums(self, h: Float[np.ndarray, "C P"], j: Int[np.ndarray, " P"]) -> Any:
        """`sum_t h_tp phi_j(p)` of the monomials, `(F, P)`, for `h (C, P)` along columns `j (P,)` of the metric; in
        this process, where the functions h are."""
        along, other = self.b[:, j], self.precision * h  # (p, P), (C, P)
        found = self.q.T @ (self.c[:, j] * h)
        total, mean = other.sum(axis=0), self.d.T @ other
        found[2 : 2 + len(along)] += along * total
        i, k = self._pairs
        found[2 + len(along) :] -= along[i] * mean[k] + np.where(i == k, 0.0, 1.0)[:, None] * along[k] * mean[i]
        return self.power * found

    def score(self, fitted: Any) -> Any:
        """`phi fitted`, `(C, k)`, of a polynomial `(F,)`."""
        width = self.d.shape[1]
        place = np.zeros((width, width), int)
        place[self._pairs] = place.T[self._pairs] = np.arange(len(self._pairs[0]))
        square = fitted[2 + width :][place]
        inner = (fitted[2 : 2 + width] - self.d @ square) * self.precision
        return self.power * (self.c * (self.q @ fitted)[:, None] + inner @ self.b)

    def scores(self, e: Any, x: Any) -> Float[_Array, "C k M"]:
        """`phi` of records with that design, `(C, k, M)`."""
        r = e - self.d @ x.T
        slope, square = self.precision * r, self.precision * r**2 - 1
        return self.power * (slope[:, None] * (x @ self.b).T + self.c[:, :, None] * square[:, None])

    def fold(self, weights: Any) -> Fold:
        """Sums of the scores' products that belong to the metric, weighted."""
        xp = _library(self.d)
        rows = xp.concatenate([xp.ones_like(self.precision), -self.d], axis=1) * self.precision
        scaled = self.power**2 * weights[:, None] * rows
        return Fold(self.b @ self.b.T, self.b @ self.axis, self.q.T @ (self.slope * scaled), rows.T @ scaled)

    def weighted(self, weights: Any) -> Any:
        """Rows `(C, F)` whose products with themselves are those of the scores along the scale."""
        size = weights[:, None] * (self.c**2).sum(axis=1, keepdims=True)
        return self.q * (np.abs(self.power) * _library(size).sqrt(size))


def _paired(s: Any, d: Any, i: np.ndarray, j: np.ndarray) -> Any:
    """`s_i` of the monomials `e x_i` and `-(s_i d_j + s_j d_i)` of `x_i x_j`, `(C, F - 2)`."""
    other = np.where(i == j, 0.0, 1.0)
    return _library(d).concatenate([s, -(s[:, i] * d[:, j] + other * (s[:, j] * d[:, i]))], axis=1)


def _library(array: Any) -> Any:
    """The functions for an array."""
    return np if isinstance(array, np.ndarray) else jnp


def _added(found: Any, first: int, more: Any) -> Any:
    """With `more` added to the columns from the first on; an array of NumPy's is changed."""
    if isinstance(found, np.ndarray):
        found[:, first:] += more
        return found
    return found.at[:, first:].add(more)


def _log_sigma(predictor: Any, theta: Any) -> tuple[Any, Any, Any]:
    """`log sigma`, and its first and second derivative in its coordinate, `(C, 1)` each."""
    xp = _library(theta)
    if predictor.scale is None:
        zero = xp.zeros((len(theta), 1))
        return zero, zero, zero
    at, power = theta[:, predictor.scale, None], xp.full((len(theta), 1), predictor.power)
    if predictor.logarithm:
        return power * at, power, 0 * power
    return power * xp.log(xp.abs(at)), power / at, -power / at**2  # a normal law of sigma has negative values, too
