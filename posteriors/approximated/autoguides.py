"""NumPyro's automatic guides as distributions over a model's coordinates."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
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

if TYPE_CHECKING:
    from numpyro.distributions.transforms import Transform
    from numpyro.infer.autoguide import AutoGuide

_FLAT = ("AutoDiagonalNormal", "AutoMultivariateNormal", "AutoLowRankMultivariateNormal", "AutoLaplaceApproximation")
GUIDES = ("AutoDelta", "AutoNormal", *_FLAT)
"""Names of the supported guides."""

_SLOW = "low-rank factors converge slowly in some directions, and in others not at all"
_REMEMBERED = 64  # guides, so that compiled functions are reused
_TOLERANCE = 1e-4  # relative difference of two log priors: guides are often fitted in single precision


def is_autoguide(guide: object) -> "TypeGuard[AutoGuide]":
    """Whether this is one of NumPyro's automatic guides, supported or not."""
    return any(c.__name__ == "AutoGuide" and c.__module__.startswith("numpyro") for c in type(guide).__mro__)


def autoguide_distribution(
    model: Model, guide: "AutoGuide", params: object, iterates: Sequence[object]
) -> FittedDistribution:
    """The distribution of a guide that was run.

    Args:
        model: the model of the guide's program.
        guide: the guide, with its sites.
        params: its parameters, constrained.
        iterates: `params` at earlier steps.

    Raises:
        BayesreconError: as `posteriors.from_guide`.
    """
    kind = type(guide).__name__
    if kind not in GUIDES:
        raise BayesreconError(f"the guide {kind} is not supported; expected {', '.join(GUIDES)}")
    _check_program(model, guide)
    layout = _flat if kind in _FLAT else _by_site
    names, shapes, native_of, phi = layout(model, guide, kind)

    def native(params: object, label: str) -> np.ndarray:
        entries = named_entries(params, names, label)
        return np.asarray(native_of([numbers(entries[k], k, shape) for k, shape in zip(names, shapes, strict=True)]))

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
        iterates=tuple(native(step, f"iterate {i}") for i, step in enumerate(iterates, 1)),
        slow=_SLOW if kind == "AutoLowRankMultivariateNormal" else "",
    )


_Map = Callable[[Array], Array]
_FromEntries = Callable[[Sequence[Array]], jax.Array]
_Layout = tuple[list[str], list[tuple[int, ...]], _FromEntries, _Map]
"""Names and shapes of a guide's parameters, the map from them to `native`, and the map from `native` to phi."""


def _flat(model: Model, guide: Any, kind: str) -> _Layout:
    """The layout of a guide over one vector of all latents."""
    d, prefix = guide.latent_dim, guide.prefix
    site_positions = {k: np.asarray(v) for k, v in guide._unpack_latent(np.arange(d)).items()}
    positions = positions_in_model(model, site_positions, "guide")
    names, shapes = [f"{prefix}_loc"], [(d,)]
    if kind == "AutoLowRankMultivariateNormal":
        names, shapes = [*names, f"{prefix}_cov_factor"], [*shapes, (d, guide.rank or round(d**0.5))]
    if kind in ("AutoDiagonalNormal", "AutoLowRankMultivariateNormal"):
        names, shapes = [*names, f"{prefix}_scale"], [*shapes, (d,)]
    if kind == "AutoMultivariateNormal":
        names, shapes = [*names, f"{prefix}_scale_tril"], [*shapes, (d, d)]
    return names, shapes, *_flat_maps(model, kind, tuple(positions.tolist()))


@lru_cache(_REMEMBERED)
def _flat_maps(model: Model, kind: str, positions: tuple[int, ...]) -> tuple[_FromEntries, _Map]:
    """The map from the guide's parameters to `native`, and the map from `native` to phi."""
    d, order = model.dimension, np.array(positions)
    transform = _scale_transform(kind)

    def native(entries: Sequence[Array]) -> jax.Array:
        *unconstrained, scale = entries
        if transform is not None:
            scale = transform.inv(scale)
        return jnp.concatenate([jnp.ravel(x) for x in (*unconstrained, scale)])

    def phi(x: Array) -> Array:
        loc, spread = x[:d], x[d:]
        if transform is None:
            return loc[order]
        if kind == "AutoLowRankMultivariateNormal":
            scale = jnp.asarray(transform(spread[-d:]))
            factor = jnp.column_stack([spread[:-d].reshape(d, -1) * scale[:, None], jnp.diag(scale)])
        else:
            scale = jnp.asarray(transform(spread))
            factor = scale if kind == "AutoMultivariateNormal" else jnp.diag(scale)
        return phi_of(model, loc[order], factor[order])

    return jax.jit(native), jax.jit(phi)


def _by_site(model: Model, guide: "AutoGuide", kind: str) -> _Layout:
    """The layout of a guide with separate parameters for each latent."""
    suffixes = ("loc",) if kind == "AutoDelta" else ("loc", "scale")
    names = [f"{p.name}_{guide.prefix}_{suffix}" for suffix in suffixes for p in model.parameters]
    shapes = [p.shape if kind == "AutoDelta" else p.free_shape for _ in suffixes for p in model.parameters]
    return names, shapes, *_site_maps(model, kind)


@lru_cache(_REMEMBERED)
def _site_maps(model: Model, kind: str) -> tuple[_FromEntries, _Map]:
    d, count = model.dimension, len(model.parameters)

    def theta(entries: Sequence[Array]) -> jax.Array:
        return model.unconstrain({p.name: v for p, v in zip(model.parameters, entries, strict=True)})

    transform = _scale_transform(kind)
    if transform is None:
        return jax.jit(theta), lambda x: x

    def native(entries: Sequence[Array]) -> jax.Array:
        scales = (transform.inv(v) for v in entries[count:])
        return jnp.concatenate([jnp.ravel(x) for x in (*entries[:count], *scales)])

    return jax.jit(native), jax.jit(lambda x: phi_of(model, x[:d], jnp.diag(transform(x[d:]))))


def _laplace(model: Model, guide: Any, params: object, mode: _Map) -> _Map:
    """The map from `native` to phi. The covariance is the inverse of minus the Hessian that the guide computes."""
    try:
        covariance = np.asarray(guide.get_posterior(params).covariance_matrix, float)
    except Exception as error:  # whatever the user's program raises
        raise BayesreconError(
            f"the Hessian at the mode cannot be computed: {type(error).__name__} {str(error).splitlines()[:1]}"
        ) from None
    order = np.asarray(mode(np.arange(model.dimension)), int)
    covariance = covariance[np.ix_(order, order)]
    if not np.isfinite(covariance).all() or np.linalg.eigvalsh(covariance)[0] <= 0:
        raise BayesreconError(
            "the Hessian of the density is not negative definite at these parameters: this is not a mode, or the "
            "density is not differentiable"
        )
    scale = pack(model, np.zeros(model.dimension), covariance)[model.dimension :]
    return lambda x: jnp.concatenate([mode(x), jnp.asarray(scale)])


def _scale_transform(kind: str) -> "Transform[Any] | None":
    """The transform of a guide's scale; None if the guide has no scale."""
    from numpyro.infer import autoguide

    guide_class = getattr(autoguide, kind)
    constraint = getattr(guide_class, "scale_tril_constraint", None) or getattr(guide_class, "scale_constraint", None)
    return None if constraint is None else _transform(constraint)


def _transform(constraint: object) -> "Transform[Any]":
    from numpyro.distributions import biject_to

    return biject_to(constraint)


@lru_cache(_REMEMBERED)
def _check_program(model: Model, guide: "AutoGuide") -> None:
    """Refuse a guide whose program has other latents, other transforms or another prior."""
    trace = guide.prototype_trace
    if trace is None:
        raise BayesreconError("the guide has not run, so its sites are unknown; call it once, with any records")
    latents = {name: site for name, site in trace.items() if site["type"] == "sample" and not site["is_observed"]}
    free = {
        name: np.zeros(_transform(site["fn"].support).inverse_shape(np.shape(site["value"])))
        for name, site in latents.items()
    }
    positions_in_model(model, free, "guide")
    points = probes(model)
    values = {name: site["value"] for name, site in latents.items()}

    def compared() -> tuple[dict[str, jax.Array], jax.Array, Array | float]:
        transformed = {
            name: jnp.asarray(_transform(site["fn"].support)(jnp.asarray(points[name])))
            for name, site in latents.items()
        }
        log_prior = jnp.asarray(sum(jnp.sum(site["fn"].log_prob(site["value"])) for site in latents.values()))
        return transformed, log_prior, 0.0 if model.program is None else model.log_prior_at(values)

    transformed, guide_log_prior, log_prior = jax.jit(compared)()
    check_transforms(model, transformed, "guide")
    if model.program is not None and not abs(guide_log_prior - log_prior) <= _TOLERANCE * max(1.0, abs(log_prior)):
        raise BayesreconError(
            f"the prior of the guide's program differs from that of model {model.name} (log density "
            f"{float(guide_log_prior):.6g} and {float(log_prior):.6g} at one point): it belongs to another model"
        )
