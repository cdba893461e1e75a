"""The equations of gradient-norm matching, the box of their unknowns, and a lower bound of their residual.

At a trained parameter `sum_m w_m grad l(theta, z_m) + c grad log pi0(theta) = 0` with non-negative multipliers w
(Haim et al. 2022; Buzaglo et al. 2023; Wynne 2025, Definition 4.2). If the strength of the regulariser is known, c is
one. Otherwise the number of records must be known, because the equation is the same for all multiples of w and c.

Gradients take one reverse sweep per record, so networks with many parameters are possible. `descent` solves the
equations. The Jacobian at the solution shows which records they fix.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.attacks.duality import CANDIDATES, lowest
from bayesrecon.divergence.score import gradients, total_score
from bayesrecon.domains import Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.stationary import beyond
from bayesrecon.knowledge import Knowledge
from bayesrecon.model import Model, Records
from bayesrecon.releases import Approximation, TrainedParameter

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import LinearOperator

STATIONARY = 1e-3
"""Largest residual of a stationary parameter. With a smaller one, every network trained a little short of its optimum
would get a warning."""

_FIXED = 1e-6  # a record is fixed if a smaller share of it is free: above the rounding of singular vectors
_RANK = 1e-9  # relative singular values below this are rounding of the Jacobian
_BEYOND = 1e-6  # a smaller share of the regulariser's gradient outside the records' gradients is rounding
_MASS = 2.0  # the certificate holds for data sets of up to this multiple of the recovered weight
_WIDE = 10.0  # end of an unbounded field for the certificate, in standardised units


@dataclass(frozen=True)
class Solution:
    """The end point of a descent.

    Attributes:
        x: variables.
        fixed: fields that do not move.
        gradient: `(d,)` remaining gradient.
        residual: its relative norm.
        penalty: value of the regulariser that was added to the objective.
        from_measure: whether the descent started near the measure that the gradients determine.
    """

    x: Records
    fixed: Records
    gradient: np.ndarray
    residual: float
    penalty: float = 0.0
    from_measure: bool = False

    @property
    def objective(self) -> float:
        """Half the squared residual plus the penalty."""
        return 0.5 * self.residual**2 + self.penalty


@dataclass(frozen=True)
class Equations:
    """The equations, and the box in which they are solved.

    Attributes:
        theta: `(d,)` the trained parameter.
        base: `(d,)` gradient of the regulariser.
        variable_fields: names of the fields that move.
        unit_multipliers: whether all multipliers are one.
        strength_known: whether c is one.
        metric: `(r, d)` map to the units in which gradients are compared; None for the parameters' own. For an
            approximation, its rows are the directions in which it is stationary.
    """

    model: Model
    theta: np.ndarray
    base: np.ndarray
    knowledge: Knowledge
    variable_fields: tuple[str, ...]
    unit_multipliers: bool
    strength_known: bool
    metric: "np.ndarray | csr_matrix | LinearOperator | None" = None

    @classmethod
    def of(
        cls,
        release: TrainedParameter | Approximation,
        knowledge: Knowledge,
        unit_multipliers: bool,
        strength_known: bool,
    ) -> "Equations":
        model, theta = release.model, np.asarray(release.theta)[0]
        variable_fields = tuple(k for k, f in knowledge.fields.items() if not f.domain.discrete)
        example = Reference(knowledge.fields).draw(np.random.default_rng(0), 1)
        base = np.asarray(total_score(model, theta, example, np.zeros(1)))
        equations = cls(model, theta, base, knowledge, variable_fields, unit_multipliers, strength_known, release.along)
        if not equations.length > 0:
            raise BayesreconError("the regulariser has no gradient here: without one, zero multipliers match")
        return equations

    def start(self, rng: np.random.Generator, n: int) -> tuple[Records, Records]:
        """Variables of random records with weight one, and the fixed fields."""
        drawn = {}
        for name, field in self.knowledge.fields.items():
            if field.domain.levels and not field.shape:
                levels = np.asarray(field.domain.levels, field.domain.dtype)
                drawn[name] = levels[np.arange(n) % len(levels)]
            elif np.isfinite(field.domain.high - field.domain.low) and name in self.variable_fields:
                drawn[name] = rng.uniform(field.domain.low, field.domain.high, (n, *field.shape))
            else:
                drawn[name] = field.domain.draw(rng, (n, *field.shape), 0.0, 1.0)
        x: Records = {name: np.asarray(drawn[name], float) for name in self.variable_fields}
        if not self.unit_multipliers:
            x["weights"] = np.full(n, (self.knowledge.total or n) / n)
        if not self.strength_known:
            x["strength"] = np.ones(())
        return x, {name: values for name, values in drawn.items() if name not in self.variable_fields}

    def weights(self, x: Records) -> Array:
        """Multipliers `(M,)` of the records."""
        if self.unit_multipliers:
            return np.ones(len(next(iter(x.values()))))
        weights, total = x["weights"], self.knowledge.total
        return weights if total is None else total * weights / weights.sum()

    def records(self, x: Records, fixed: Records) -> Records:
        """Records `{field: (M, *shape)}` from variables and fixed fields."""
        return {k: np.asarray(x[k]) if k in x else fixed[k] for k in self.model.fields}

    def residual(self, x: Records, fixed: Records) -> np.ndarray:
        """The sum of all gradients, `(d,)` or `(r,)` in the metric, relative to the norm of the regulariser's."""
        record_gradients = np.asarray(gradients(self.model, self.theta, self.records(x, fixed)))
        return self.in_metric(self.weights(x) @ record_gradients + x.get("strength", 1.0) * self.base)

    def jacobian(self, x: Records, fixed: Records) -> Float[np.ndarray, "d U"]:
        """Derivative of `residual` in all variables, fields first."""
        records, weights = self.records(x, fixed), self.weights(x)
        record_gradients, slopes = _sensitivity(self.model, self.variable_fields, self.theta, records)
        parts = [
            np.moveaxis(np.asarray(slopes[k]).reshape(*np.shape(record_gradients), -1) * weights[:, None, None], 1, 0)
            for k in self.variable_fields
        ]
        columns = [p.reshape(len(self.base), -1) for p in parts]
        if "weights" in x:
            weight_columns = np.asarray(record_gradients).T
            if self.knowledge.total is not None:
                weight_columns = (weight_columns - (weight_columns @ weights / weights.sum())[:, None]) * (
                    self.knowledge.total / x["weights"].sum()
                )
            columns.append(weight_columns)
        if "strength" in x:
            columns.append(self.base[:, None])
        return self.in_metric(np.concatenate(columns, axis=1))

    @property
    def size(self) -> int:
        """Number of equations: of the parameters, or of the rows of the metric."""
        return len(self._transformed(self.base))

    @property
    def length(self) -> float:
        """Norm of the regulariser's gradient in the metric."""
        return float(np.linalg.norm(self._transformed(self.base)))

    def in_metric(self, gradients: np.ndarray) -> np.ndarray:
        """Gradients `(d, ...)` in the metric, relative to the norm of the regulariser's."""
        return self._transformed(gradients) / self.length

    def _transformed(self, gradients: np.ndarray) -> np.ndarray:
        return gradients if self.metric is None else np.asarray(self.metric @ gradients)

    def flatten(self, x: Records) -> np.ndarray:
        """The variables as one vector `(U,)`."""
        return np.concatenate([np.ravel(x[k]) for k in self.names(x)])

    def unflatten(self, v: np.ndarray, like: Records) -> Records:
        """Variables with the shapes of `like` from one vector `(U,)`."""
        variables, position = {}, 0
        for k in self.names(like):
            variables[k] = v[position : position + np.size(like[k])].reshape(np.shape(like[k]))
            position += np.size(like[k])
        return variables

    def names(self, x: Records) -> list[str]:
        """Names of the variables, in the order of `flatten`."""
        return [*self.variable_fields, *(k for k in ("weights", "strength") if k in x)]

    def box(self, x: Records) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lower end, upper end and scale of each variable, `(U,)` each."""
        low, high, scale = [], [], []
        for k in self.names(x):
            limits, size = (0.0, np.inf), float(np.mean(x[k]))
            if k in self.variable_fields:
                domain = self.knowledge.fields[k].domain
                limits = domain.low, domain.high
                size = (domain.high - domain.low) / np.sqrt(12) if np.isfinite(domain.high - domain.low) else 1.0
            for values, value in ((low, limits[0]), (high, limits[1]), (scale, size)):
                values.append(np.full(np.size(x[k]), value))
        return np.concatenate(low), np.concatenate(high), np.concatenate(scale)

    def spread(self, x: Records) -> dict[str, float]:
        """Spread of each field, and of the multipliers if they are free."""
        size = self.unflatten(self.box(x)[2], x)
        names = {k: "weight" if k == "weights" else k for k in size if k != "strength"}
        return {name: float(np.max(size[k], initial=0.0)) or 1.0 for k, name in names.items()}

    def resolve(self, solution: Solution) -> tuple[int, int, np.ndarray, dict[str, np.ndarray]]:
        """Number of independent equations, number of unknowns, which records are fixed, and the error of each entry."""
        scale = self.box(solution.x)[2]
        jacobian = self.jacobian(solution.x, solution.fixed) * scale
        _, singular, rotation = scipy.linalg.svd(jacobian, full_matrices=False)
        rank = int((singular > _RANK * singular[0]).sum())
        determined = np.sum(rotation[:rank] ** 2, axis=0)
        deviation = np.sqrt(np.sum((rotation[:rank] / singular[:rank, None]) ** 2, axis=0))
        sensitivity = self.unflatten(np.where(determined < 1 - _FIXED, np.inf, deviation * scale), solution.x)
        free = np.zeros(len(self.weights(solution.x)), bool)
        error = {}
        for k in self.names(solution.x):
            if k != "strength":
                error["weight" if k == "weights" else k] = (
                    sensitivity[k] * solution.residual / np.sqrt(len(solution.gradient))
                )
                free |= ~np.isfinite(sensitivity[k].reshape(len(free), -1)).all(axis=1)
        return rank, len(scale), ~free, error

    def certify(
        self, remaining: np.ndarray, weights: np.ndarray, rng: np.random.Generator
    ) -> tuple[float, float, dict[str, tuple[float, float]]]:
        """A lower bound of the residual of all measures of bounded mass, by duality.

        For a unit vector u and a measure of mass at most B, `|sum w grad l + base| >= <u, base> + B min(0, min_z
        <u, grad l(z)>)`. Here u is the direction of the remaining gradient. No measure of any mass cancels the part of
        `base` outside the span of all gradients.

        Returns:
            The bound, the mass B, and the box `{field: (low, high)}`.
        """
        size, base = float(np.linalg.norm(remaining)), self.in_metric(self.base)
        total_known, mass = self.knowledge.total is not None, float(weights.sum())
        mass = mass if total_known else _MASS * max(mass, len(weights))
        fields = self.knowledge.fields
        box = {k: _ends(fields[k].domain) for k in self.variable_fields}
        if size <= STATIONARY or not self.strength_known:
            return 0.0, mass, box
        # The projection of a gradient on `u` is that of the gradient in the metric on `remaining`.
        u = (remaining if self.metric is None else self.metric.T @ remaining) / size / self.length
        centre = {k: np.full(fields[k].shape, np.mean(box[k])) for k in box}
        # Two standard deviations reach the ends of the box, and a third of the records is spread over many orders of
        # magnitude, since the extreme records are often at the ends or near zero.
        broad = Reference(fields, {}, centre, {k: np.full_like(centre[k], np.ptp(box[k]) / 4) for k in box}, 0.3)
        pool = broad.draw(rng, CANDIDATES)
        pool |= {k: np.clip(pool[k], *box[k]) for k in box}
        record_gradients = np.asarray(gradients(self.model, self.theta, pool))
        lowest_values = [
            value for _, value in lowest(record_gradients @ u, pool, box, partial(_pull, self.model, self.theta, u))
        ]
        smallest = min(lowest_values) if total_known else min(0.0, *lowest_values)
        span = float(np.linalg.norm(beyond(self.in_metric(record_gradients[: len(base) * 5 // 4 + 16].T), base)))
        return max(0.0 if span < _BEYOND else span, float(remaining / size @ base) + mass * smallest), mass, box


def _ends(domain: Domain) -> tuple[float, float]:
    low = domain.low if np.isfinite(domain.low) else min(-_WIDE, domain.high - 2 * _WIDE)
    high = domain.high if np.isfinite(domain.high) else max(_WIDE, domain.low + 2 * _WIDE)
    return float(low), float(high)


@partial(jax.jit, static_argnames=("model", "moved"))
def _sensitivity(model: Model, moved: tuple[str, ...], theta: Array, records: Records) -> tuple[jax.Array, Records]:
    """Gradients of the records `(M, d)`, and their derivatives `{field: (M, d, *shape)}` in the fields that move."""

    def of_record(moving: Records, fixed: Records) -> tuple[jax.Array, Records]:
        def gradient(y: Records) -> jax.Array:
            return jax.grad(model.log_lik)(theta, {**fixed, **y})

        return gradient(moving), jax.jacfwd(gradient)(moving)

    moving = {k: jnp.asarray(records[k], float) for k in moved}
    return jax.vmap(of_record)(moving, {k: v for k, v in records.items() if k not in moved})


@partial(jax.jit, static_argnames="model")
def _pull(
    model: Model, theta: Array, u: Array, moving: Records, fixed: Records
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """`<u, grad l(theta, z)>` of one record, and its gradient in the moving fields."""
    return jax.value_and_grad(lambda y: jnp.dot(u, jax.grad(model.log_lik)(theta, {**fixed, **y})))(moving)
