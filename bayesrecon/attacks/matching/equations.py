"""The equations of gradient-norm matching, the box of their unknowns, and what no records can solve.

At a trained parameter `sum_m w_m grad l(theta, z_m) + c grad log pi0(theta) = 0` with non-negative multipliers w
(Haim et al. 2022; Buzaglo et al. 2023; Wynne 2025, Definition 4.2). With the regulariser's strength known c is one.
Unknown, it is fixed by the number of records: the equation alone is the same for all multiples of w and c.

One reverse sweep per record, so that networks with many parameters fit; `descent` solves them. The last Jacobian says
which records the equations fix.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.attacks.duality import CANDIDATES, lowest
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.stationary import beyond
from bayesrecon.kernels.score import gradients, total_score
from bayesrecon.knowledge import Knowledge
from bayesrecon.model import Model, Records
from bayesrecon.releases import Approximation, TrainedParameter

# Residual from which a parameter does not look stationary: a smaller one warns of every network trained a little short
# of its optimum, a larger one is silent where the regulariser is another or records are missing.
STATIONARY = 1e-3
# Share of a record that the equations leave free, above which it is not determined: well above the rounding of the
# singular vectors, which would call all records loose; a larger one calls records fixed that slide along the equations.
_FIXED = 1e-6
# Singular value, relative to the largest, that still counts as an equation: a smaller one counts rounding of the
# Jacobian as equations and its records as fixed, a larger one drops equations that hold but weigh little.
_RANK = 1e-9
# Share of the regulariser's gradient outside all records' gradients that is more than rounding of their basis: a
# smaller one certifies rounding, a larger one leaves uncertified what no data cancel.
_BEYOND = 1e-6
# Records certified about, in multiples of those found: one leaves out data sets that are a little larger, and more
# weaken the bound until nothing is certified.
_MASS = 2.0
# Where an unbounded field ends for the certificate, in units of standardised values: nearer leaves out records that
# occur, farther lets one remote record cancel anything.
_WIDE = 10.0


@dataclass(frozen=True)
class Solution:
    """The end of a descent: variables, fixed fields, the remaining gradient `(d,)`, its relative norm, the penalty, and
    whether it started from the measure that the gradients determine."""

    x: Records
    fixed: Records
    gradient: np.ndarray
    residual: float
    penalty: float = 0.0
    from_measure: bool = False

    @property
    def objective(self) -> float:
        """Half the squared residual, and the penalty: what descends."""
        return 0.5 * self.residual**2 + self.penalty


@dataclass(frozen=True)
class Equations:
    """The equations, and the box in which they are solved."""

    model: Model
    theta: np.ndarray
    base: np.ndarray
    knowledge: Knowledge
    variable_fields: tuple[str, ...]
    unit_multipliers: bool
    strength_known: bool
    metric: Any = None
    """`(r, d)`, dense or sparse, in units of whose rows gradients are compared; in parameters' own by default. Of an
    approximation the directions in which it is stationary: along others its gradient is no equation."""

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
        some = Reference(knowledge.fields).draw(np.random.default_rng(0), 1)
        base = np.asarray(total_score(model, theta, some, np.zeros(1)))
        found = cls(model, theta, base, knowledge, variable_fields, unit_multipliers, strength_known, release.along)
        if not found.length > 0:
            raise BayesreconError("the regulariser has no gradient here: without one, zero multipliers match")
        return found

    def start(self, rng: np.random.Generator, n: int) -> tuple[Records, Records]:
        """Random records, each counted once, and the fields that stay."""
        drawn = {}
        for k, f in self.knowledge.fields.items():
            if f.domain.levels and not f.shape:
                levels = np.asarray(f.domain.levels, f.domain.dtype)
                drawn[k] = levels[np.arange(n) % len(levels)]
            elif np.isfinite(f.domain.high - f.domain.low) and k in self.variable_fields:
                drawn[k] = rng.uniform(f.domain.low, f.domain.high, (n, *f.shape))
            else:
                drawn[k] = f.domain.draw(rng, (n, *f.shape), 0.0, 1.0)
        x: Records = {k: np.asarray(drawn[k], float) for k in self.variable_fields}
        if not self.unit_multipliers:
            x["weights"] = np.full(n, (self.knowledge.total or n) / n)
        if not self.strength_known:
            x["strength"] = np.ones(())
        return x, {k: v for k, v in drawn.items() if k not in self.variable_fields}

    def weights(self, x: Records) -> Any:
        if self.unit_multipliers:
            return np.ones(len(next(iter(x.values()))))
        weights, total = x["weights"], self.knowledge.total
        return weights if total is None else total * weights / weights.sum()

    def records(self, x: Records, fixed: Records) -> Records:
        return {k: np.asarray(x[k]) if k in x else fixed[k] for k in self.model.fields}

    def residual(self, x: Records, fixed: Records) -> np.ndarray:
        """The sum of all gradients, `(d,)` or along the metric `(r,)`, relative to the norm of the regulariser's."""
        each = np.asarray(gradients(self.model, self.theta, self.records(x, fixed)))
        return self.in_metric(self.weights(x) @ each + x.get("strength", 1.0) * self.base)

    def jacobian(self, x: Records, fixed: Records) -> Float[np.ndarray, "d U"]:
        """Of `residual` in all variables, fields first, `(d, U)`."""
        records, weights = self.records(x, fixed), self.weights(x)
        each, slopes = _sensitivity(self.model, self.variable_fields, self.theta, records)
        parts = [
            np.moveaxis(np.asarray(slopes[k]).reshape(*np.shape(each), -1) * weights[:, None, None], 1, 0)
            for k in self.variable_fields
        ]
        columns = [p.reshape(len(self.base), -1) for p in parts]
        if "weights" in x:
            own = np.asarray(each).T
            if self.knowledge.total is not None:
                own = (own - (own @ weights / weights.sum())[:, None]) * (self.knowledge.total / x["weights"].sum())
            columns.append(own)
        if "strength" in x:
            columns.append(self.base[:, None])
        return self.in_metric(np.concatenate(columns, axis=1))

    @property
    def size(self) -> int:
        """Equations: the parameters, or the rows of the metric."""
        return len(self.base) if self.metric is None else self.metric.shape[0]

    @property
    def length(self) -> float:
        """Norm of the regulariser's gradient in the units in which gradients are compared."""
        return float(np.linalg.norm(self.base if self.metric is None else self.metric @ self.base))

    def in_metric(self, gradients: np.ndarray) -> np.ndarray:
        """Gradients `(d, ...)` in the units in which they are compared, relative to the regulariser's."""
        return (gradients if self.metric is None else self.metric @ gradients) / self.length

    def flatten(self, x: Records) -> np.ndarray:
        return np.concatenate([np.ravel(x[k]) for k in self.names(x)])

    def unflatten(self, v: np.ndarray, like: Records) -> Records:
        found, at = {}, 0
        for k in self.names(like):
            found[k] = v[at : at + np.size(like[k])].reshape(np.shape(like[k]))
            at += np.size(like[k])
        return found

    def names(self, x: Records) -> list[str]:
        """Of the variables, in the order in which they are solved for."""
        return [*self.variable_fields, *(k for k in ("weights", "strength") if k in x)]

    def box(self, x: Records) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ends and scale of every variable, `(U,)` each."""
        low, high, scale = [], [], []
        for k in self.names(x):
            ends, size = (0.0, np.inf), float(np.mean(x[k]))
            if k in self.variable_fields:
                domain = self.knowledge.fields[k].domain
                ends = domain.low, domain.high
                size = (domain.high - domain.low) / np.sqrt(12) if np.isfinite(domain.high - domain.low) else 1.0
            for values, value in ((low, ends[0]), (high, ends[1]), (scale, size)):
                values.append(np.full(np.size(x[k]), value))
        return np.concatenate(low), np.concatenate(high), np.concatenate(scale)

    def spread(self, x: Records) -> dict[str, float]:
        """Of every field, and of the multipliers where they are free: the unit in which records differ."""
        size = self.unflatten(self.box(x)[2], x)
        names = {k: "weight" if k == "weights" else k for k in size if k != "strength"}
        return {name: float(np.max(size[k], initial=0.0)) or 1.0 for k, name in names.items()}

    def resolve(self, end: Solution) -> tuple[int, int, np.ndarray, dict[str, np.ndarray]]:
        """Independent equations, unknowns, which records are fixed, and how far a small gradient moves them."""
        scale = self.box(end.x)[2]
        jacobian = self.jacobian(end.x, end.fixed) * scale
        _, singular, turned = scipy.linalg.svd(jacobian, full_matrices=False)
        rank = int((singular > _RANK * singular[0]).sum())
        seen = np.sum(turned[:rank] ** 2, axis=0)
        spread = np.sqrt(np.sum((turned[:rank] / singular[:rank, None]) ** 2, axis=0))
        moved = self.unflatten(np.where(seen < 1 - _FIXED, np.inf, spread * scale), end.x)
        loose = np.zeros(len(self.weights(end.x)), bool)
        error = {}
        for k in self.names(end.x):
            if k != "strength":
                error["weight" if k == "weights" else k] = moved[k] * end.residual / np.sqrt(len(end.gradient))
                loose |= ~np.isfinite(moved[k].reshape(len(loose), -1)).all(axis=1)
        return rank, len(scale), ~loose, error

    def certify(
        self, left: np.ndarray, weights: np.ndarray, rng: np.random.Generator
    ) -> tuple[float, float, dict[str, Any]]:
        """What every measure of bounded mass leaves, by duality.

        For a unit vector u and a measure of mass at most B, `|sum w grad l + base| >= <u, base> + B min(0, min_z
        <u, grad l(z)>)`; u is the direction of what the best measure found leaves. What lies beyond the span of all
        gradients no measure cancels, whatever its mass.
        """
        size, base = float(np.linalg.norm(left)), self.in_metric(self.base)
        fixed, mass = self.knowledge.total is not None, float(weights.sum())
        mass = mass if fixed else _MASS * max(mass, len(weights))
        fields = self.knowledge.fields
        box = {k: _ends(fields[k].domain) for k in self.variable_fields}
        if size <= STATIONARY or not self.strength_known:
            return 0.0, mass, box
        # Along `u` a gradient has the length that its measured one has along `left`.
        u = (left if self.metric is None else self.metric.T @ left) / size / self.length
        centre = {k: np.full(fields[k].shape, np.mean(box[k])) for k in box}
        # A spread that reaches the box's ends at two sigma, and a third over many orders of magnitude: records that
        # pull most lie at ends or near zero as well as inside.
        law = Reference(fields, {}, centre, {k: np.full_like(centre[k], np.ptp(box[k]) / 4) for k in box}, 0.3)
        pool = law.draw(rng, CANDIDATES)
        pool |= {k: np.clip(pool[k], *box[k]) for k in box}
        each = np.asarray(gradients(self.model, self.theta, pool))
        found = [value for _, value in lowest(each @ u, pool, box, partial(_pull, self.model, self.theta, u))]
        worst = min(found) if fixed else min(0.0, *found)
        span = float(np.linalg.norm(beyond(self.in_metric(each[: len(base) * 5 // 4 + 16].T), base)))
        return max(0.0 if span < _BEYOND else span, float(left / size @ base) + mass * worst), mass, box


def _ends(domain: Any) -> tuple[float, float]:
    low = domain.low if np.isfinite(domain.low) else min(-_WIDE, domain.high - 2 * _WIDE)
    high = domain.high if np.isfinite(domain.high) else max(_WIDE, domain.low + 2 * _WIDE)
    return float(low), float(high)


@partial(jax.jit, static_argnames=("model", "moved"))
def _sensitivity(model: Model, moved: tuple[str, ...], theta: Array, records: Records) -> tuple[Any, Records]:
    """Gradients of the records `(M, d)`, and their derivatives in the moving fields `{field: (M, d, *shape)}`."""

    def one(moving: Records, fixed: Records) -> tuple[Any, Records]:
        def gradient(y: Records) -> jax.Array:
            return jax.grad(model.log_lik)(theta, {**fixed, **y})

        return gradient(moving), jax.jacfwd(gradient)(moving)

    moving = {k: jnp.asarray(records[k], float) for k in moved}
    return jax.vmap(one)(moving, {k: v for k, v in records.items() if k not in moved})


@partial(jax.jit, static_argnames="model")
def _pull(
    model: Model, theta: Array, u: Array, moving: Records, fixed: Records
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """`<u, grad l(theta, z)>` of one record and its slopes."""
    return jax.value_and_grad(lambda y: jnp.dot(u, jax.grad(model.log_lik)(theta, {**fixed, **y})))(moving)
