"""NumPyro's automatic guides as distributions over a model's coordinates."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Transform
from bayesrecon.posteriors.approximated.fitted_distribution import (
    FittedDistribution,
    check_transforms,
    named_entries,
    numbers,
    phi_of,
    positions_in_model,
    probes,
)
from bayesrecon.posteriors.approximated.normal import pack

_FLAT = ("AutoDiagonalNormal", "AutoMultivariateNormal", "AutoLowRankMultivariateNormal", "AutoLaplaceApproximation")
GUIDES = ("AutoDelta", "AutoNormal", *_FLAT)
"""Names of the supported guides."""

_SLOW = "low-rank factors converge slowly in some directions, and in others not at all"
_REMEMBERED = 64  # guides, so that compiled functions are reused
_LOG_PRIOR = 1e-4  # relative, from which two priors differ: guides are often fitted in single precision


def is_autoguide(guide: object) -> bool:
    """Whether this is one of NumPyro's automatic guides, supported or not."""
    return any(c.__name__ == "AutoGuide" and c.__module__.startswith("numpyro") for c in type(guide).__mro__)


def autoguide_distribution(
    model: Model, guide: object, params: object, iterates: Sequence[object]
) -> FittedDistribution:
    """The distribution of a guide that was run.

    Raises:
        BayesreconError: as `posteriors.from_guide`.
    """
    kind = type(guide).__name__
    if kind not in GUIDES:
        raise BayesreconError(f"the guide {kind} is not supported; expected {', '.join(GUIDES)}")
    if getattr(guide, "prototype_trace", None) is None:
        raise BayesreconError("the guide has not run, so its sites are unknown; call it once, with any records")
    _check_program(model, guide)
    layout = _flat if kind in _FLAT else _by_site
    names, shapes, native_of, phi = layout(model, guide, kind)

    def native(values: object, label: str) -> np.ndarray:
        entries = named_entries(values, names, label)
        return np.asarray(native_of([numbers(v, k, s) for (k, v), s in zip(entries.items(), shapes, strict=True)]))

    fitted = native(params, "the parameters of the guide")
    if not np.isfinite(fitted).all():
        raise BayesreconError(f"the parameters of the {kind} lie on or outside their support")
    if kind == "AutoLaplaceApproximation":
        phi = _laplace(model, guide, params, phi)
    return FittedDistribution(
        kind={"AutoDelta": "mode", "AutoLaplaceApproximation": "laplace"}.get(kind, "variational"),
        name=f"{kind} of {model.name}",
        native=fitted,
        phi=phi,
        iterates=tuple(native(values, f"iterate {i}") for i, values in enumerate(iterates, 1)),
        slow=_SLOW if kind == "AutoLowRankMultivariateNormal" else "",
    )


_Map = Callable[[Array], Array]
_FromEntries = Callable[[Sequence[Array]], jax.Array]
_Layout = tuple[list[str], list[tuple[int, ...]], _FromEntries, _Map]
"""Names and shapes of a guide's parameters, the map from them to `native`, and the map from `native` to phi."""


def _flat(model: Model, guide: Any, kind: str) -> _Layout:
    """The layout of a guide over one vector of all latents."""
    d, prefix = guide.latent_dim, guide.prefix
    at = positions_in_model(model, {k: np.asarray(v) for k, v in guide._unpack_latent(np.arange(d)).items()}, "guide")
    names, shapes = [f"{prefix}_loc"], [(d,)]
    if kind == "AutoLowRankMultivariateNormal":
        names, shapes = [*names, f"{prefix}_cov_factor"], [*shapes, (d, guide.rank or round(d**0.5))]
    if kind in ("AutoDiagonalNormal", "AutoLowRankMultivariateNormal"):
        names, shapes = [*names, f"{prefix}_scale"], [*shapes, (d,)]
    if kind == "AutoMultivariateNormal":
        names, shapes = [*names, f"{prefix}_scale_tril"], [*shapes, (d, d)]
    return names, shapes, *_flat_maps(model, kind, tuple(at.tolist()))


@lru_cache(_REMEMBERED)
def _flat_maps(model: Model, kind: str, places: tuple[int, ...]) -> tuple[_FromEntries, _Map]:
    """`native` of the guide's parameters in order, and phi of `native`."""
    d, at = model.dimension, np.array(places)
    transform = _scale(kind)

    def native(values: Sequence[Array]) -> jax.Array:
        *plain, last = values
        scale = last if transform is None else transform._inverse(last)
        return jnp.concatenate([jnp.ravel(x) for x in (*plain, scale)])

    def phi(x: Array) -> Array:
        loc, rest = x[:d], x[d:]
        if transform is None:
            return loc[at]
        if kind == "AutoLowRankMultivariateNormal":
            scale = transform(rest[-d:])
            factor = jnp.column_stack([rest[:-d].reshape(d, -1) * scale[:, None], jnp.diag(scale)])
        else:
            factor = transform(rest) if kind == "AutoMultivariateNormal" else jnp.diag(transform(rest))
        return phi_of(model, loc[at], factor[at])

    return jax.jit(native), jax.jit(phi)


def _by_site(model: Model, guide: Any, kind: str) -> _Layout:
    """The layout of a guide with separate parameters for each latent."""
    which = ("loc",) if kind == "AutoDelta" else ("loc", "scale")
    names = [f"{p.name}_{guide.prefix}_{suffix}" for suffix in which for p in model.parameters]
    shapes = [p.shape if kind == "AutoDelta" else p.free_shape for _ in which for p in model.parameters]
    return names, shapes, *_site_maps(model, kind)


@lru_cache(_REMEMBERED)
def _site_maps(model: Model, kind: str) -> tuple[_FromEntries, _Map]:
    d, count = model.dimension, len(model.parameters)

    def theta(values: Sequence[Array]) -> jax.Array:
        return model.unconstrain({p.name: v for p, v in zip(model.parameters, values, strict=True)})

    transform = _scale(kind)
    if transform is None:
        return jax.jit(theta), lambda x: x

    def native(values: Sequence[Array]) -> jax.Array:
        scales = (transform._inverse(v) for v in values[count:])
        return jnp.concatenate([jnp.ravel(x) for x in (*values[:count], *scales)])

    return jax.jit(native), jax.jit(lambda x: phi_of(model, x[:d], jnp.diag(transform(x[d:]))))


def _laplace(model: Model, guide: Any, params: object, at: _Map) -> _Map:
    """The map to phi of a mode and its covariance, the inverse of minus the Hessian that the guide computes."""
    try:
        covariance = np.asarray(guide.get_posterior(params).covariance_matrix, float)
    except Exception as error:  # whatever the user's program raises
        raise BayesreconError(
            f"the Hessian at the mode cannot be computed: {type(error).__name__} {str(error).splitlines()[:1]}"
        ) from None
    order = np.asarray(at(np.arange(model.dimension)), int)
    covariance = covariance[np.ix_(order, order)]
    if not np.isfinite(covariance).all() or np.linalg.eigvalsh(covariance)[0] <= 0:
        raise BayesreconError(
            "the Hessian of the density is not negative definite at these parameters: this is not a mode, or the "
            "density is not differentiable"
        )
    scale = pack(model, np.zeros(model.dimension), covariance)[model.dimension :]
    return lambda x: jnp.concatenate([at(x), jnp.asarray(scale)])


def _scale(kind: str) -> Transform | None:
    """The transform of a guide's scale, None if it has none."""
    from numpyro.infer import autoguide

    owner = getattr(autoguide, kind)
    constraint = getattr(owner, "scale_tril_constraint", None) or getattr(owner, "scale_constraint", None)
    return None if constraint is None else _transform(constraint)


def _transform(constraint: object) -> Transform:
    from numpyro.distributions import biject_to

    return biject_to(constraint)


@lru_cache(_REMEMBERED)
def _check_program(model: Model, guide: Any) -> None:
    """Refuse a guide of a program with other latents, transforms or prior."""
    latents = {
        name: site
        for name, site in guide.prototype_trace.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    free = {
        name: np.zeros(_transform(site["fn"].support).inverse_shape(np.shape(site["value"])))
        for name, site in latents.items()
    }
    positions_in_model(model, free, "guide")
    at = probes(model)
    values = {name: site["value"] for name, site in latents.items()}

    def compared() -> tuple[dict[str, Array], Array, Array | float]:
        moved = {name: _transform(site["fn"].support)(jnp.asarray(at[name])) for name, site in latents.items()}
        theirs = jnp.asarray(sum(jnp.sum(site["fn"].log_prob(site["value"])) for site in latents.values()))
        return moved, theirs, 0.0 if model.program is None else model.log_prior_at(values)

    moved, theirs, ours = jax.jit(compared)()
    check_transforms(model, moved, "guide")
    if model.program is not None and not abs(theirs - ours) <= _LOG_PRIOR * max(1.0, abs(ours)):
        raise BayesreconError(
            f"the prior of the guide's program differs from that of model {model.name} (log density "
            f"{float(theirs):.6g} and {float(ours):.6g} at one point): it belongs to another model"
        )
