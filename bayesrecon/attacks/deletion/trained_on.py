"""The contributions of public records to the Hessian, as if they had been in the training data.

A parameter fits its training data better than other records, so the curvature of public records differs from that of
private ones. The difference is that of leaving one record out: to second order its predictor with it, eta, and without
it, eta0, differ by

    eta = eta0 + Gamma s(eta),    Gamma = diag(gamma),    gamma_k = x' H_k^-1 x,

where s is the slope of its log likelihood (the proximal step that describes maximum likelihood with many parameters; El
Karoui 2018, Sur and Candes 2019). Public records have the predictors of records that were left out. If another record
changes the parameter, eta changes by `(I + Gamma B)^-1` times the change of eta0, where B is minus the Hessian of the
log likelihood at eta. So a record contributes `B (I + Gamma B)^-1` instead of B. For least squares with one gamma the
factor is `1 - df / n`.

gamma is computed for the mean weight: `gamma = sum e / (n w e + penalty)`, where e are the eigenvalues of the public
records' second moments and w is the mean of `B / (1 + gamma B)`.

If a trained model is overconfident, few public records contribute to the estimate. More do at the temperature T that
fits the public labels best: `eta0 / T` replaces eta0, scaled so that the mean contribution stays the same.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.optimize
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.divergence.outer_products import curvatures, log_liks, slopes
from bayesrecon.model import LinearPredictor

_MOST, _FEWEST, _NUMBERS = 1500, 150, 3e6  # records from which gamma is computed, and entries of their curvatures
_LEAST = 0.05  # smallest factor by which the curvature of a record is reduced
_BLOCK = 2e7  # entries of a block of curvatures
_HOTTEST = 3.0  # largest logarithm of a temperature
_STEPS = 100  # largest number of steps: Newton's method takes about five, and gamma about ten
_HALVINGS = 30  # largest number of times that a step is halved


class TrainedOn:
    """The contributions of public records near one parameter.

    Args:
        linear: the predictor and its loss.
        x: rows of public records, `(m, q)`.
        y: labels of the public records, `(m,)`.
        theta: the parameter that was trained with the deleted record, `(K, q)`.
        count: n, the number of private records.
        penalty: penalty of every output, `(K,)`.
        moments: the eigenvalues e.
    """

    def __init__(
        self,
        linear: LinearPredictor,
        x: np.ndarray,
        y: np.ndarray,
        theta: np.ndarray,
        *,
        count: float,
        penalty: np.ndarray,
        moments: np.ndarray,
    ):
        self._linear, self._y, self._left_out = linear, y, x @ theta.T
        self.temperature = temperature(linear, self._left_out, y)
        sample = slice(None, None, -(-len(x) // int(np.clip(_NUMBERS / len(theta) ** 2, _FEWEST, _MOST))))
        eta0, labels = self._left_out[sample], y[sample]
        self.gamma, eta = _gamma(linear, eta0, labels, count, penalty, moments)
        plain = _mean(_weights(linear, eta, labels, self.gamma)).sum()
        self._eta = _with_record(linear, self._left_out / self.temperature, y, self.gamma)
        smooth = _mean(_weights(linear, self._eta[sample], labels, self.gamma)).sum()
        self._scale = float(plain / smooth) if smooth > 0 else 1.0

    def contributions(self, left_out: Float[np.ndarray, "m K"], change: np.ndarray) -> Float[np.ndarray, "m K"]:
        """Contributions of the records to the Hessian times a change of the parameter, `(m, K)`.

        Args:
            left_out: predictors at a nearby parameter, `(m, K)`.
            change: change of the predictors, `(m, K)`.
        """
        return np.concatenate([np.einsum("mkl,ml->mk", block, change[rows]) for rows, block in self._blocks(left_out)])

    def curvatures(self, left_out: np.ndarray) -> Float[np.ndarray, "m K K"]:
        """`B (I + Gamma B)^-1`, scaled, of every record, `(m, K, K)`."""
        return np.concatenate([block for _, block in self._blocks(left_out)])

    def _blocks(self, left_out: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows and their scaled weights. The predictors at the nearby parameter are computed by one Newton step."""
        change = (left_out - self._left_out) / self.temperature
        length = max(int(_BLOCK / left_out.shape[1] ** 2), 1)
        for start in range(0, len(left_out), length):
            rows = slice(start, start + length)
            eta, y = self._eta[rows], self._y[rows]
            inside = _inside(curvatures(self._linear, eta, y), self.gamma)
            eta = eta + np.linalg.solve(inside, change[rows, :, None])[:, :, 0]
            yield rows, self._scale * _weights(self._linear, eta, y, self.gamma)


def temperature(linear: LinearPredictor, eta: np.ndarray, y: np.ndarray) -> float:
    """The temperature T, 1 or more, at which `h(eta / T)` fits the labels best."""

    def misfit(log_t: float) -> float:
        return -float(np.asarray(log_liks(linear, eta / np.exp(log_t), y)).mean())

    fitted: Any = scipy.optimize.minimize_scalar(
        misfit, bounds=(0.0, _HOTTEST), method="bounded", options={"xatol": 1e-3}
    )
    return float(np.exp(fitted.x))


def _gamma(
    linear: LinearPredictor, eta0: np.ndarray, y: np.ndarray, count: float, penalty: np.ndarray, moments: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """gamma `(K,)`, and the predictors eta of the records as if they had been in the training data."""
    gamma, eta = np.zeros(len(penalty)), eta0
    with np.errstate(over="ignore"):
        most = (1 / _LEAST - 1) / np.maximum(_mean(curvatures(linear, eta0, y)), np.finfo(float).tiny)
    for i in range(_STEPS):
        weight = _mean(_weights(linear, eta, y, gamma))
        curvature = count * weight[:, None] * moments + np.maximum(penalty, 0.0)[:, None]
        unbounded = (moments / np.maximum(curvature, np.finfo(float).tiny)).sum(axis=1)
        update = np.minimum(unbounded, most)
        if np.allclose(update, gamma, rtol=1e-2, atol=0):
            break
        gamma = np.sqrt(update * gamma) if i > 1 else update
        eta = _with_record(linear, eta0, y, gamma, eta)
    return gamma, eta


def _with_record(
    linear: LinearPredictor, eta0: np.ndarray, y: np.ndarray, gamma: np.ndarray, start: np.ndarray | None = None
) -> np.ndarray:
    """`eta = eta0 + Gamma s(eta)` by Newton's method; the minimum of `|eta - eta0|^2 / (2 Gamma) - h(eta)`."""

    def objective(eta: np.ndarray) -> np.ndarray:
        return 0.5 * ((eta - eta0) ** 2 / gamma).sum(axis=1) - np.asarray(log_liks(linear, eta, y))

    eta = eta0 if start is None else start
    for _ in range(_STEPS):
        gradient = eta - eta0 - gamma * np.asarray(slopes(linear, eta, y))
        step = np.linalg.solve(_inside(curvatures(linear, eta, y), gamma), gradient[:, :, None])[:, :, 0]
        value, length = objective(eta), np.ones(len(eta))
        for _ in range(_HALVINGS):
            increased = objective(eta - length[:, None] * step) > value + 1e-12 * np.abs(value)
            if not increased.any():
                break
            length[increased] /= 2
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
    """Mean diagonal of weights `(m, K, K)`, one number per output `(K,)`."""
    return np.asarray(np.einsum("mkk->k", np.asarray(weights)) / len(weights))
