"""Least squares and ridge regression, with leave-one-out formulas instead of refits."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.answers import VALUES
from bayesrecon.games.data import Records, with_ones
from bayesrecon.games.learner import Learner

if TYPE_CHECKING:
    from bayesrecon.releases import Release


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fitted linear regression.

    Attributes:
        coefficients: `(p + 1,)`, the intercept last.
        factor: the upper triangle R of `R'R = A`, the normal matrix.
    """

    coefficients: np.ndarray
    factor: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x @ self.coefficients[:-1] + self.coefficients[-1]

    def solve(self, right: np.ndarray) -> np.ndarray:
        """`A^-1 right`."""
        return np.linalg.solve(self.factor, np.linalg.solve(self.factor.T, right))


@dataclass(frozen=True)
class LeastSquares(Learner):
    """`min sum_n (y_n - <b, x_n> - c)^2 + penalty |b|^2`, exactly.

    Without the rows D, with `A = X'X + penalty I` over all rows, `H = X_D A^-1 X_D'` and residuals r_D,

        b_without = b - A^-1 X_D' (I - H)^-1 r_D

    which for one row is the leave-one-out formula `b - A^-1 x r / (1 - h)`.

    >>> rng = np.random.default_rng(0)
    >>> data = Records(rng.normal(size=(9, 2)), rng.normal(size=9))
    >>> learner = LeastSquares(penalty=1.0)
    >>> quick = learner.without(learner.fit(data, 0, 0), data, np.array([4]), 0, 0)
    >>> refitted = learner.fit(data.rows(np.arange(9) != 4), 0, 0)
    >>> bool(np.allclose(quick.coefficients, refitted.coefficients))
    True
    """

    penalty: float = 0.0
    answers = VALUES
    quick: ClassVar[bool] = True
    open: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"ridge (alpha {self.penalty:g})" if self.penalty else "linear regression"

    def fit(self, records: Records, classes: int, seed: int) -> LinearFit:
        design = with_ones(records.x)
        target = records.y
        if self.penalty:
            # Rows sqrt(penalty) e_j with response zero, none for the intercept.
            width = design.shape[1] - 1
            design = np.concatenate([design, self.penalty**0.5 * np.eye(width, width + 1)])
            target = np.concatenate([target, np.zeros(width)])
        if len(design) < design.shape[1]:
            raise BayesreconError(
                f"{self.name}: {len(records.x)} records do not determine {design.shape[1]} coefficients; add a penalty"
            )
        q, r = np.linalg.qr(design)
        size = np.abs(np.diag(r))
        if size.min() <= 1e-12 * size.max():
            raise BayesreconError(f"{self.name}: the features are collinear; leave columns out or add a penalty")
        return LinearFit(np.linalg.solve(r, q.T @ target), r)

    def without(self, fitted: LinearFit, records: Records, rows: np.ndarray, classes: int, seed: int) -> LinearFit:
        x, y = with_ones(records.x[rows]), records.y[rows]
        solved = fitted.solve(x.T)  # (q, k)
        inner = np.eye(len(rows)) - x @ solved
        # If a coefficient is determined by these records alone, the formula divides by zero.
        if np.linalg.eigvalsh(inner)[0] < 1e-8:
            return self.fit(records.without(rows), classes, seed)
        coefficients = fitted.coefficients - solved @ np.linalg.solve(inner, y - x @ fitted.coefficients)
        # The factor is still that of all rows, so it is valid only for further deletions from the same data.
        return LinearFit(coefficients, fitted.factor)

    def release(self, fitted: LinearFit) -> "Release":
        from bayesrecon.models.linear_losses import linear_predictor
        from bayesrecon.posteriors.sources import dirac

        model = linear_predictor("squared", len(fitted.coefficients) - 1, 1, float(self.penalty))
        return dirac(
            model, {"coef": fitted.coefficients[None, :-1], "intercept": fitted.coefficients[-1:]}, name=self.name
        )


LEARNERS = {
    "linear": ("linear regression", lambda classes: LeastSquares()),
    "ridge": ("ridge regression, alpha 1", lambda classes: LeastSquares(1.0)),
}
