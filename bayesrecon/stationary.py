"""Gradient-norm matching for trained networks: records and multipliers whose gradients cancel the regulariser's.

At a trained parameter `sum_m w_m grad l(theta, z_m) + c grad log pi0(theta) = 0` with non-negative multipliers w
(Haim et al. 2022; Buzaglo et al. 2023; Wynne 2025, Definition 4.2). With the regulariser's strength known c is one.
Unknown, it is fixed by the number of records: the equation alone is the same for all multiples of w and c.

Reverse sweeps only, so that networks with many parameters fit; `reconstruct` certifies models with few.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import check_knowledge
from bayesrecon.precision import in_float64
from bayesrecon.problem import generator
from bayesrecon.score import total_score
from bayesrecon.types import Model, PseudoData, Records, Release

_STATIONARY = 1e-3


@dataclass(frozen=True, eq=False)
class Matched:
    """Records and multipliers whose gradients match.

    Attributes:
        pseudo: multipliers `(M,)` and records.
        residual: norm of what is left of the gradient, relative to the regulariser's.
        strength: c, the regulariser's strength relative to the model's; 1 when it is known.
        residuals: of all restarts, smallest first; the best was chosen by it alone.

    Where the likelihood is normalised over the response its score has mean zero under the model itself: no combination
    of scores is constant, and the sum of the multipliers, a count of the records, is not determined.
    """

    pseudo: PseudoData
    residual: float
    strength: float
    residuals: tuple[float, ...]
    warnings: tuple[str, ...] = ()


@in_float64
def match_gradient(
    release: Release,
    *,
    n: int,
    total: float | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    domain: Mapping[str, Any] | None = None,
    strength_known: bool = True,
    restarts: int = 4,
    steps: int = 1000,
    key: Any = 0,
) -> Matched:
    """Find records whose gradients cancel at a trained parameter.

    Args:
        release: a trained parameter of any model, e.g. of `models.from_loss`.
        n: M, records to place; responses with finitely many values are dealt out evenly.
        total: sum of the multipliers, when known; needed where the regulariser's strength is not.
        bounds, domain: where the fields lie; a record starts at random inside.
        strength_known: False when weight decay was used but its strength is not known.
        restarts: random starts; the smallest residual wins.
        steps: of L-BFGS for each.

    Raises:
        BayesreconError: draws, or a regulariser that is unknown while `total` is too.
    """
    import scipy.optimize

    if release.temperature:
        raise BayesreconError("match_gradient takes a trained parameter; for draws use reconstruct")
    if n < 1 or restarts < 1 or steps < 1:
        raise BayesreconError("n, restarts and steps are positive whole numbers")
    if not strength_known and total is None:
        raise BayesreconError("an unknown regulariser scales all multipliers: state total=")
    model = release.model
    attacker = check_knowledge(model, bounds=bounds, domain=domain, total=total)
    rng, theta = generator(key), np.asarray(release.theta)[0]
    found = []
    for _ in range(restarts):
        drawn = {k: f.domain.draw(rng, (n, *f.shape), 0.0, 1.0) for k, f in attacker.fields.items()}
        moved = [k for k, f in attacker.fields.items() if not f.domain.discrete]
        for k in drawn:
            if k not in moved and attacker.fields[k].domain.levels and not attacker.fields[k].shape:
                levels = np.asarray(attacker.fields[k].domain.levels, attacker.fields[k].domain.dtype)
                drawn[k] = levels[np.arange(n) % len(levels)]
        still = {k: v for k, v in drawn.items() if k not in moved}
        base = total_score(model, theta, {k: v[:1] for k, v in drawn.items()}, np.zeros(1))
        if not np.linalg.norm(base) > 0:
            raise BayesreconError("the regulariser has no gradient here: without one, zero multipliers match")
        x = {k: np.asarray(drawn[k], float) for k in moved}
        x["weights"] = np.full(n, np.sqrt((total or n) / n))
        if not strength_known:
            x["strength"] = np.ones(())
        start, shape = ravel_pytree({k: jnp.asarray(v) for k, v in x.items()})
        limits = []
        for k in sorted(x):
            d = attacker.fields[k].domain if k in moved else None
            ends = (None, None) if d is None else tuple(e if np.isfinite(e) else None for e in (d.low, d.high))
            limits += [ends] * np.size(x[k])

        def evaluate(v: np.ndarray, still: Records = still, base: Any = base, shape: Any = shape) -> Any:
            value, slope = _misfit(model, theta, still, base, total, shape(jnp.asarray(v)))
            return float(value), np.asarray(ravel_pytree(slope)[0])

        options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 50, "ftol": 1e-16, "gtol": 1e-12}
        ended = scipy.optimize.minimize(
            evaluate, np.asarray(start), jac=True, method="L-BFGS-B", bounds=limits, options=options
        )
        found.append((float(np.sqrt(2 * ended.fun)), shape(jnp.asarray(ended.x)), still))
    found.sort(key=lambda one: one[0])
    residual, best, still = found[0]
    weights = np.asarray(_multipliers(best, total))
    records = {k: np.asarray(best[k]) if k in best else still[k] for k in model.fields}
    warnings = ()
    if residual > _STATIONARY:
        warnings = (
            f"the gradients do not cancel (residual {residual:.1g} of the regulariser's): the parameter is not "
            "stationary, its regulariser is another one, or more records or steps are needed",
        )
    strength = float(best["strength"] ** 2) if "strength" in best else 1.0
    return Matched(PseudoData(weights, records), residual, strength, tuple(f[0] for f in found), warnings)


def _multipliers(x: Records, total: float | None) -> Any:
    weights = x["weights"] ** 2
    return weights if total is None else total * weights / weights.sum()


@partial(jax.jit, static_argnames=("model", "total"))
def _misfit(model: Model, theta: Any, still: Records, base: Any, total: float | None, x: Records) -> Any:
    """Half the squared relative residual, and its slopes."""

    def value(y: Records) -> Any:
        records = {**still, **{k: v for k, v in y.items() if k not in ("weights", "strength")}}
        weights = _multipliers(y, total)

        def fitted(t: Any) -> Any:
            return weights @ jax.vmap(model.log_lik, in_axes=(None, 0))(t, records)

        left = jax.grad(fitted)(theta) + y.get("strength", jnp.ones(())) ** 2 * base
        return 0.5 * jnp.sum(left**2) / jnp.sum(base**2)

    return jax.value_and_grad(value)(x)
