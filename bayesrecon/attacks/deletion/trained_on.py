"""What public records would contribute to the Hessian had they been trained on.

A parameter fits the records that it was trained on better than others, so the curvature of public records is not that
of private ones. Leaving one record out tells the difference: to second order its predictor with it, eta, and without
it, eta0, differ by

    eta = eta0 + Gamma s(eta),    Gamma = diag(gamma),    gamma_k = x' H_k^-1 x,

s the slope of its log likelihood (the proximal step that describes maximum likelihood where parameters are many;
El Karoui 2018, Sur and Candes 2019). Public records have the predictors of records left out. Likewise a change of the
parameter that another record made moves eta by `(I + Gamma B)^-1` of what it moves eta0 by, B minus the Hessian of the
log likelihood at eta, so that a record contributes `B (I + Gamma B)^-1` instead of B. For least squares with one gamma
that is `1 - df / n`.

gamma is that of the mean weight: with e the eigenvalues of the public records' second moments and w the mean of
`B / (1 + gamma B)`, `gamma = sum e / (n w e + penalty)`.

Few public records carry the estimate where trained parameters are sure of themselves. At the temperature that fits the
public labels best more of them do: `eta0 / T` in the place of eta0, scaled so that the mean contribution stays.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.optimize
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.kernels.outer_products import curvatures, log_liks, slopes
from bayesrecon.model import LinearPredictor

_MOST, _FEWEST, _NUMBERS = 1500, 150, 3e6  # records that gamma is found with, and numbers in their curvatures
_LEAST = 0.05  # of the curvature of a record left out that stays, however many the parameters
_BLOCK = 2e7  # numbers in a block of curvatures
_HOTTEST = 3.0  # the logarithm of a temperature
_STEPS = 100  # of Newton's method, which takes about five, and of gamma, which takes about ten
_HALVINGS = 30  # of a step that goes up


class TrainedOn:
    """The contributions of public records about one parameter.

    Args:
        linear: the predictor and its loss.
        x: `(m, q)` rows of public records.
        y: `(m,)` their labels.
        at: `(K, q)`, the parameter that was trained with the deleted record.
        count: n, the number of private records.
        penalty: `(K,)`, of every output.
        moments: the eigenvalues e.
    """

    def __init__(
        self,
        linear: LinearPredictor,
        x: np.ndarray,
        y: np.ndarray,
        at: np.ndarray,
        *,
        count: float,
        penalty: np.ndarray,
        moments: np.ndarray,
    ):
        self._linear, self._y, self._left_out = linear, y, x @ at.T
        self.temperature = temperature(linear, self._left_out, y)
        some = slice(None, None, -(-len(x) // int(np.clip(_NUMBERS / len(at) ** 2, _FEWEST, _MOST))))
        eta0, labels = self._left_out[some], y[some]
        self.gamma, eta = _gamma(linear, eta0, labels, count, penalty, moments)
        plain = _mean(_weights(linear, eta, labels, self.gamma)).sum()
        self._eta = _with_own(linear, self._left_out / self.temperature, y, self.gamma)
        smooth = _mean(_weights(linear, self._eta[some], labels, self.gamma)).sum()
        self._scale = float(plain / smooth) if smooth > 0 else 1.0

    def contributions(self, left_out: Float[np.ndarray, "m K"], change: np.ndarray) -> Float[np.ndarray, "m K"]:
        """What each record contributes to the Hessian times a change of the parameter, `(m, K)`.

        Args:
            left_out: `(m, K)`, the predictors at a parameter near by.
            change: `(m, K)`, of them.
        """
        return np.concatenate([np.einsum("mkl,ml->mk", each, change[rows]) for rows, each in self._blocks(left_out)])

    def curvatures(self, left_out: np.ndarray) -> Float[np.ndarray, "m K K"]:
        """`B (I + Gamma B)^-1`, scaled, of every record, `(m, K, K)`."""
        return np.concatenate([each for _, each in self._blocks(left_out)])

    def _blocks(self, left_out: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Predictors near by are a Newton step away."""
        moved = (left_out - self._left_out) / self.temperature
        length = max(int(_BLOCK / left_out.shape[1] ** 2), 1)
        for start in range(0, len(left_out), length):
            rows = slice(start, start + length)
            eta, y = self._eta[rows], self._y[rows]
            inside = _inside(curvatures(self._linear, eta, y), self.gamma)
            eta = eta + np.linalg.solve(inside, moved[rows, :, None])[:, :, 0]
            yield rows, self._scale * _weights(self._linear, eta, y, self.gamma)


def temperature(linear: LinearPredictor, eta: np.ndarray, y: np.ndarray) -> float:
    """T at which `h(eta / T)` fits labels best, at least one."""

    def misfit(log_t: float) -> float:
        return -float(np.asarray(log_liks(linear, eta / np.exp(log_t), y)).mean())

    fitted: Any = scipy.optimize.minimize_scalar(
        misfit, bounds=(0.0, _HOTTEST), method="bounded", options={"xatol": 1e-3}
    )
    return float(np.exp(fitted.x))


def _gamma(
    linear: LinearPredictor, eta0: np.ndarray, y: np.ndarray, count: float, penalty: np.ndarray, moments: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """gamma `(K,)` and the records' predictors with their own effect."""
    gamma, eta = np.zeros(len(penalty)), eta0
    with np.errstate(over="ignore"):
        most = (1 / _LEAST - 1) / np.maximum(_mean(curvatures(linear, eta0, y)), np.finfo(float).tiny)
    for i in range(_STEPS):
        weight = _mean(_weights(linear, eta, y, gamma))
        held = count * weight[:, None] * moments + np.maximum(penalty, 0.0)[:, None]
        unbounded = (moments / np.maximum(held, np.finfo(float).tiny)).sum(axis=1)
        found = np.minimum(unbounded, most)
        if np.allclose(found, gamma, rtol=1e-2, atol=0):
            break
        gamma = np.sqrt(found * gamma) if i > 1 else found
        eta = _with_own(linear, eta0, y, gamma, eta)
    return gamma, eta


def _with_own(
    linear: LinearPredictor, eta0: np.ndarray, y: np.ndarray, gamma: np.ndarray, start: np.ndarray | None = None
) -> np.ndarray:
    """`eta = eta0 + Gamma s(eta)` by Newton's method; the minimum of `|eta - eta0|^2 / (2 Gamma) - h(eta)`."""

    def above(eta: np.ndarray) -> np.ndarray:
        return 0.5 * ((eta - eta0) ** 2 / gamma).sum(axis=1) - np.asarray(log_liks(linear, eta, y))

    eta = eta0 if start is None else start
    for _ in range(_STEPS):
        apart = eta - eta0 - gamma * np.asarray(slopes(linear, eta, y))
        step = np.linalg.solve(_inside(curvatures(linear, eta, y), gamma), apart[:, :, None])[:, :, 0]
        height, length = above(eta), np.ones(len(eta))
        for _ in range(_HALVINGS):
            higher = above(eta - length[:, None] * step) > height + 1e-12 * np.abs(height)
            if not higher.any():
                break
            length[higher] /= 2
        eta = eta - length[:, None] * step
        if np.abs(step).max() <= 1e-9 * (1 + np.abs(eta).max()):
            break
    return eta


def _weights(linear: LinearPredictor, eta: np.ndarray, y: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """`B (I + Gamma B)^-1`, symmetric as B is."""
    curvature = np.asarray(curvatures(linear, eta, y))
    return np.swapaxes(np.linalg.solve(np.swapaxes(_inside(curvature, gamma), 1, 2), curvature), 1, 2)


def _inside(curvature: Array, gamma: np.ndarray) -> np.ndarray:
    """`I + Gamma B`."""
    return np.eye(len(gamma)) + gamma[:, None] * np.asarray(curvature)


def _mean(weights: Array) -> np.ndarray:
    """Of every output, `(K,)`."""
    return np.asarray(np.einsum("mkk->k", np.asarray(weights)) / len(weights))
