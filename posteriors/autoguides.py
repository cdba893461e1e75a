"""NumPyro's automatic guides as laws over a model's coordinates."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.models.normal import pack
from bayesrecon.posteriors.laws import Law, check_transforms, numbers, one_of, phi_of, placed
from bayesrecon.types import Model

_FLAT = ("AutoDiagonalNormal", "AutoMultivariateNormal", "AutoLowRankMultivariateNormal", "AutoLaplaceApproximation")
GUIDES = ("AutoDelta", "AutoNormal", *_FLAT)
"""Guides that are read, by their names."""

_LOG_PRIOR = 1e-4  # relative, from which two priors differ: guides are often fitted in single precision


def is_autoguide(guide: Any) -> bool:
    """Whether this is one of NumPyro's automatic guides, read or not."""
    return any(c.__name__ == "AutoGuide" and c.__module__.startswith("numpyro") for c in type(guide).__mro__)


def autoguide_law(model: Model, guide: Any, params: Any, iterates: Sequence[Any]) -> Law:
    """The law of a guide that was run.

    Raises:
        BayesreconError: as `posteriors.from_guide`.
    """
    kind = type(guide).__name__
    if kind not in GUIDES:
        raise BayesreconError(f"the guide {kind} is not read; expected {', '.join(GUIDES)}")
    if getattr(guide, "prototype_trace", None) is None:
        raise BayesreconError("the guide was not run: its sites are not known; call it once, on records of any value")
    _check_program(model, guide, kind)
    read = _flat if kind in _FLAT else _by_site
    names, shapes, native_of, phi = read(model, guide, kind)

    def native(values: Any, what: str) -> np.ndarray:
        found = one_of(values, names, what)
        return np.asarray(native_of({k: numbers(v, k, s) for (k, v), s in zip(found.items(), shapes, strict=True)}))

    here = native(params, "the parameters of the guide")
    if not np.isfinite(here).all():
        raise BayesreconError(f"the parameters of the {kind} lie on or outside their support")
    if kind == "AutoLaplaceApproximation":
        phi = _laplace(model, guide, params, phi)
    return Law(
        kind={"AutoDelta": "mode", "AutoLaplaceApproximation": "laplace"}.get(kind, "variational"),
        name=f"{kind} of {model.name}",
        native=here,
        phi=phi,
        iterates=tuple(native(values, f"iterate {i}") for i, values in enumerate(iterates, 1)),
    )


_Read = tuple[list[str], list[tuple[int, ...]], Callable[[Mapping[str, Any]], Any], Callable[[Any], Any]]


def _flat(model: Model, guide: Any, kind: str) -> _Read:
    """Guides over one vector of all latents."""
    d, prefix = guide.latent_dim, guide.prefix
    at = placed(model, guide._unpack_latent(jnp.arange(d)), "guide")
    names, shapes, inverse, constrain = [f"{prefix}_loc"], [(d,)], [jnp.ravel], []
    if kind == "AutoLowRankMultivariateNormal":
        rank = guide.rank if guide.rank is not None else round(d**0.5)
        names.append(f"{prefix}_cov_factor")
        shapes.append((d, rank))
        inverse.append(jnp.ravel)
    if kind in ("AutoDiagonalNormal", "AutoLowRankMultivariateNormal"):
        transform = _transform(guide.scale_constraint)
        names.append(f"{prefix}_scale")
        shapes.append((d,))
        inverse.append(transform._inverse)
        constrain.append(transform)
    if kind == "AutoMultivariateNormal":
        transform = _transform(guide.scale_tril_constraint)
        names.append(f"{prefix}_scale_tril")
        shapes.append((d, d))
        inverse.append(transform._inverse)
        constrain.append(transform)

    def native_of(values: Mapping[str, Any]) -> Any:
        return jnp.concatenate([f(jnp.asarray(values[name])) for name, f in zip(names, inverse, strict=True)])

    def phi(x: Any) -> Any:
        loc, rest = x[:d], x[d:]
        if kind == "AutoLaplaceApproximation":
            return loc[at]
        if kind == "AutoLowRankMultivariateNormal":
            scale = constrain[0](rest[-d:])
            factor = jnp.column_stack([rest[:-d].reshape(d, -1) * scale[:, None], jnp.diag(scale)])
        elif kind == "AutoMultivariateNormal":
            factor = constrain[0](rest)
        else:
            factor = jnp.diag(constrain[0](rest))
        return phi_of(model, loc[at], factor[at])

    return names, shapes, native_of, phi


def _by_site(model: Model, guide: Any, kind: str) -> _Read:
    """Guides with parameters of their own for every latent."""
    prefix, delta = guide.prefix, kind == "AutoDelta"
    sites = [p.name for p in model.parameters]
    if delta:
        names = [f"{s}_{prefix}_loc" for s in sites]
        shapes = [p.shape for p in model.parameters]

        def native_of(values: Mapping[str, Any]) -> Any:
            return model.unconstrain({s: values[n] for s, n in zip(sites, names, strict=True)})

        return names, shapes, native_of, lambda x: x
    names = [f"{s}_{prefix}_{which}" for which in ("loc", "scale") for s in sites]
    shapes = 2 * [p.free_shape for p in model.parameters]
    transform, d = _transform(guide.scale_constraint), model.dimension

    def both(values: Mapping[str, Any]) -> Any:
        flat = [jnp.ravel(jnp.asarray(values[n])) for n in names]
        count = len(sites)
        return jnp.concatenate([*flat[:count], *(transform._inverse(x) for x in flat[count:])])

    return names, shapes, both, lambda x: phi_of(model, x[:d], jnp.diag(transform(x[d:])))


def _laplace(model: Model, guide: Any, params: Any, at: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The mode with the inverse of minus the Hessian there, which the guide takes from its own data."""
    try:
        covariance = np.asarray(guide.get_posterior(params).covariance_matrix, float)
    except Exception as error:  # whatever the user's program raises
        raise BayesreconError(
            f"the Hessian at the mode cannot be computed: {type(error).__name__} {str(error).splitlines()[:1]}"
        ) from None
    order = np.asarray(at(jnp.arange(model.dimension)), int)
    covariance = covariance[np.ix_(order, order)]
    if not np.isfinite(covariance).all() or np.linalg.eigvalsh(covariance)[0] <= 0:
        raise BayesreconError(
            "the density has no negative definite Hessian at these parameters: it is no mode, or cannot be differentiated"
        )
    scale = pack(model, np.zeros(model.dimension), covariance)[model.dimension :]
    return lambda x: jnp.concatenate([at(x), jnp.asarray(scale)])


def _transform(constraint: Any) -> Any:
    from numpyro.distributions import biject_to

    return biject_to(constraint)


def _check_program(model: Model, guide: Any, kind: str) -> None:
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
    placed(model, free, "guide")
    check_transforms(model, lambda name, x: _transform(latents[name]["fn"].support)(jnp.asarray(x)), "guide")
    if model.program is None:
        return
    values = {name: site["value"] for name, site in latents.items()}
    theirs = sum(float(jnp.sum(site["fn"].log_prob(site["value"]))) for site in latents.values())
    ours = float(model.log_prior_at(values))
    if not abs(theirs - ours) <= _LOG_PRIOR * max(1.0, abs(ours)):
        raise BayesreconError(
            f"the guide's program has another prior than model {model.name} (log density {theirs:.6g} and {ours:.6g} "
            "at one point): it is of another model"
        )
