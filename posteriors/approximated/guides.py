"""Variational fits and modes as releases: NumPyro's autoguides, PyMC's ADVI, CmdStan's `variational` and `laplace`."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.divergence.metrics import metric_factor
from bayesrecon.divergence.score import prior_score
from bayesrecon.errors import BayesreconError, check_memory
from bayesrecon.inexact import Ascent, Noise
from bayesrecon.model import Model
from bayesrecon.models.conversion import model_of
from bayesrecon.models.power import tempered
from bayesrecon.posteriors.approximated.fitted_distribution import (
    APPROXIMATIONS,
    FittedDistribution,
    check_transforms,
    cmdstan_distribution,
    is_pymc_approximation,
    named_entries,
    numbers,
    phi_of,
    positions_in_model,
    probes,
    pymc_distribution,
)
from bayesrecon.posteriors.approximated.normal import by_another_rule, laplace, pack, variational, whitening
from bayesrecon.posteriors.approximated.prior_derivatives import check_smooth
from bayesrecon.posteriors.recognition import is_cmdstan_approximation, is_path
from bayesrecon.precision import in_float64
from bayesrecon.releases import (
    Approximation,
    OptimisedFit,
    OptimisedMode,
    Release,
    Summary,
    TrainedParameter,
    VariationalOptimum,
)

if TYPE_CHECKING:
    from numpyro.distributions.transforms import Transform
    from numpyro.infer.autoguide import AutoGuide

_REDUNDANT = 1e-9  # relative size of directions in which a guide's parameters do not move


@in_float64
def from_guide(
    model: Model,
    guide: object,
    params: Mapping[str, object] | None = None,
    *,
    residual: float | str | None = None,
    iterates: Sequence[Mapping[str, Array]] | None = None,
    power: float | None = None,
    name: str | None = None,
) -> Release:
    """A release from a variational fit, a Laplace approximation or a mode.

    An optimum of the ELBO over normal distributions `q = N(m, L L')` is stationary for `sum_n E_q[l(theta, x_n)] +
    E_q[log pi0 + log det] + log det L` in the parameters of the guide. These are d + d(d+1)/2 equations for a full-rank
    guide, 2d for mean field, and those of its own factors for low rank (Opper and Archambeau 2009; Kucukelbir et al.
    2017 for the coordinates). For modes see `posteriors.gaussian` and `posteriors.dirac`.

    | `guide` | `params` | the release |
    |---|---|---|
    | `AutoNormal`, `AutoDiagonalNormal`, `AutoMultivariateNormal` | `svi.get_params(state)` | an optimum of the ELBO |
    | `AutoLowRankMultivariateNormal` | the same | an optimum of the ELBO, with `residual` |
    | `AutoLaplaceApproximation` | the same | the mode with the Jacobian, and the Hessian there |
    | `AutoDelta` | the same | the mode of the density of the constrained values, without the Jacobian |
    | `pymc.fit(method="advi")`, `"fullrank_advi"` | None, or as a `Tracker` stores them | an optimum of the ELBO |
    | path of the CSV of CmdStan's `variational` or `laplace` | None | the normal distribution of its draws |

    Stochastic optimisation ends near the optimum, not at it. The distance is taken from `residual` or from `iterates`.
    If neither is given, it is estimated from the equations that hold for all data; in many models there are more
    equations than features of the data. The distance enters the standard errors. If it is large or cannot be estimated,
    nothing is reported as determined.

    A fit alone can mislead: if all its standard deviations are too large by one factor, it looks like the optimum for
    fewer records. It is therefore only used if its equations hold to a hundredth of a posterior standard deviation.
    That is the case at an optimum, but not on the way to it. Iterates are more informative: the error is computed from
    their fluctuation. This assumes an optimiser that scales each step by the size of its gradients (Adam, RMSprop,
    Adagrad).

    Args:
        model: model in the coordinates of the guide's program, with parameters named like its sites.
        guide: a guide that was run, so that its sites are known.
        params: the guide's parameters, constrained.
        residual: standard error of the equations in posterior standard deviations, one number or `(k,)`; 0 for an
            optimum to full precision. For a mode alone, that of the gradient of the log density.
        iterates: for an optimum of the ELBO: `params` at ten or more earlier late steps of the same run, evenly spaced
            and in order. They should cover many times the number of steps after which the optimiser has forgotten its
            position.
        power: power of the likelihood, if the posterior is tempered (`models.tempered`).
        name: name for display.

    Returns:
        An `OptimisedFit` of a derived model (`bayesrecon.posteriors.approximated.normal`), or an `OptimisedMode`. With
        residual=0 a `VariationalOptimum` or an `Approximation`, and for a mode alone a `TrainedParameter`. Every verb
        accepts them.

    Raises:
        BayesreconError: the guide is of another kind or for another model, parameters are missing or not finite, the
            density is not differentiable there, or the iterates do not determine their errors.

    >>> import jax.numpy as jnp, numpyro, numpyro.distributions as dist
    >>> from bayesrecon.models import from_numpyro
    >>> from numpyro.infer.autoguide import AutoNormal
    >>> def program(y):
    ...     mean = numpyro.sample("mean", dist.Normal(0, 10))
    ...     with numpyro.plate("records", y.shape[0]):
    ...         numpyro.sample("y", dist.Normal(mean, 1), obs=y)
    >>> guide = AutoNormal(program)
    >>> with numpyro.handlers.seed(rng_seed=0):
    ...     _ = guide(jnp.zeros(3))
    >>> fit = {"mean_auto_loc": 1.98, "mean_auto_scale": 0.1}
    >>> from_guide(from_numpyro(program, {"y": ()}), guide, fit, residual=0.0).model.name
    'program, normal approximation'
    """
    model = model if power is None else tempered(model, power)
    fit = _fitted(model, guide, params, tuple(iterates or ()))
    if fit.iterates and fit.kind != "variational":
        raise BayesreconError(
            f"{fit.name}: the gradients of a mode are exact, so iterates do not give its errors; supply residual="
        )
    build = {"variational": _variational, "laplace": _laplace, "mode": _mode}
    release = build[fit.kind](model, fit, residual, name or fit.name)
    if not np.isfinite(release.theta).all():
        raise BayesreconError("the parameters lie on or outside their support")
    directions = metric_factor(release, release.default_metric)
    if not np.isfinite(np.asarray(prior_score(release.model, directions, release.theta, 0.0))).all():
        raise BayesreconError(
            f"the prior of model {model.name} has no derivatives at these parameters, so they are not stationary"
        )
    return release


def release_of_approximation(source: object, model: object, power: float | None) -> Release | None:
    """The release of a file of CmdStan's `variational` or `laplace`; None for anything else."""
    if not is_cmdstan_approximation(source):
        return None
    if model is None:
        raise BayesreconError(f"{source} does not name its model; pass one (model=, or --model)")
    return from_guide(model_of(model), source, power=power)


def _fitted(
    model: Model, guide: object, params: object, iterates: tuple[Mapping[str, Array], ...]
) -> FittedDistribution:
    if is_autoguide(guide):
        return autoguide_distribution(model, guide, params, iterates)
    if is_pymc_approximation(guide):
        return pymc_distribution(model, guide, params, iterates)
    if is_path(guide):
        return cmdstan_distribution(model, guide, params, iterates)
    raise BayesreconError(
        f"a {type(guide).__name__} is not supported; expected one of NumPyro's {', '.join(GUIDES)}, of PyMC's "
        f"{', '.join(APPROXIMATIONS)}, or the path of CmdStan's output"
    )


def _variational(model: Model, fit: FittedDistribution, residual: float | str | None, name: str) -> Release:
    derived, points = variational(model), _distinct_points(fit)
    phis = np.array([np.asarray(fit.phi(x)) for x in points])
    phi = phis.mean(axis=0)
    white = whitening(model, phi)
    jacobian = np.asarray(_jacobian(fit.phi, points.mean(axis=0)))
    whitened = np.linalg.solve(white, jacobian)
    directions, lengths, _ = np.linalg.svd(
        whitened / np.linalg.norm(whitened, axis=0).clip(1e-300), full_matrices=False
    )
    spanned = directions[:, lengths > _REDUNDANT * lengths[0]]
    metric = white if spanned.shape[1] == len(phi) else white @ spanned
    if residual is None and fit.slow:
        raise BayesreconError(
            f"{fit.name}: {fit.slow}, so iterates do not show how far it is from its optimum; fit a "
            "full-rank guide, or supply residual= (0 at the optimum)"
        )
    no_columns = np.zeros((len(phi), 0))
    if residual is not None:
        ascent = _stated_residual(residual, metric)
    elif len(points) > 1:
        check_memory(8 * len(points) * len(phi) ** 2, f"slopes of {len(points)} iterates", "supply fewer iterates")
        inverse = np.linalg.pinv(jacobian, rcond=_REDUNDANT)
        turned = np.array([np.asarray(_jacobian(fit.phi, x)) @ inverse for x in points])
        ascent = Ascent(no_columns, white @ whitened, phis, turned)
    else:
        ascent = Ascent(no_columns, white @ whitened, freedom=0.0)
    normal = no_columns
    if fit.draws is not None:
        d = model.dimension
        normal = metric @ np.linalg.lstsq(metric, white[:, d:], rcond=None)[0] / np.sqrt(fit.draws)
        if fit.printed is not None:
            normal = np.column_stack([normal, np.eye(len(phi))[:, :d] * fit.printed / np.sqrt(3)])
    atom, other_rule, noise = phi[None], by_another_rule(model), _noise(normal)
    if ascent is not None:
        return OptimisedFit(atom, derived, metric, model, noise, ascent, other_rule, name=name)
    if normal.size:
        return Summary(atom, derived, metric, model, noise, other_rule, name=name)
    return VariationalOptimum(atom, derived, metric, model, other_rule, name=name)


@partial(jax.jit, static_argnames="phi")
def _jacobian(phi: Callable[[Array], Array], native: Array) -> jax.Array:
    return jax.jacfwd(phi)(native)


def _laplace(model: Model, fit: FittedDistribution, residual: float | str | None, name: str) -> Release:
    """The release of a mode with its covariance. The Hessian is exact, but the gradient may differ from zero."""
    phi, d = np.asarray(fit.phi(fit.native)), model.dimension
    check_smooth(model, phi[:d])
    metric, no_columns = whitening(model, phi), np.zeros((len(phi), 0))
    derived, atom = laplace(model, fit.jacobian), phi[None]
    normal = no_columns if fit.draws is None else metric / np.sqrt(fit.draws)
    if residual is not None:
        ascent = _stated_residual(residual, metric)
    elif fit.draws is None:
        ascent = Ascent(np.linalg.solve(metric.T, np.eye(len(phi))[:, :d]), no_columns, freedom=0.0)
    else:
        ascent = None
    if ascent is not None:
        return OptimisedFit(atom, derived, metric, model, _noise(normal), ascent, name=name)
    if normal.size:
        return Summary(atom, derived, metric, model, _noise(normal), name=name)
    return Approximation(atom, derived, metric, model, name=name)


def _mode(model: Model, fit: FittedDistribution, residual: float | str | None, name: str) -> Release:
    theta, directions = np.asarray(fit.native), np.eye(model.dimension)
    if np.isfinite(theta).all():
        check_smooth(model, theta)
    if residual is None:
        ascent = Ascent(directions, np.zeros((model.dimension, 0)), freedom=0.0)
    else:
        ascent = _stated_residual(residual, directions)
    if ascent is None:
        return TrainedParameter(theta[None], model, name=name)
    return OptimisedMode(theta[None], model, ascent, name=name)


def _distinct_points(fit: FittedDistribution) -> np.ndarray:
    """Distinct native parameters `(K, g)` of all steps; only the last ones if there are no iterates."""
    points = np.array([*fit.iterates, fit.native])
    if not fit.iterates:
        return points
    distinct = [i for i, x in enumerate(points) if not any(np.array_equal(x, other) for other in points[:i])]
    if len(distinct) == 1:
        raise BayesreconError("all iterates are equal; supply residual=0 if the fit is at its optimum")
    return points[distinct]


def _stated_residual(residual: float | str, metric: np.ndarray) -> Ascent | None:
    """The error of an optimiser that stopped with this residual; None if the residual is zero."""
    try:
        size = np.asarray(residual, float)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError("residual= must be numeric") from None
    count = metric.shape[1]
    if size.shape not in ((), (count,)) or not np.isfinite(size).all() or (size < 0).any():
        raise BayesreconError(f"residual=: expected one number or ({count},), finite and non-negative")
    if not size.any():
        return None
    score = metric @ np.linalg.inv(metric.T @ metric) * size
    return Ascent(score, np.zeros((len(metric), 0)))


def _noise(normal: np.ndarray) -> Noise:
    """Sampling noise without rounding."""
    return Noise(normal, np.zeros((len(normal), 0)))


SOURCE = release_of_approximation


# NumPyro's automatic guides as distributions over a model's coordinates.

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
        phi = _auto_laplace(model, guide, params, phi)
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


def _auto_laplace(model: Model, guide: Any, params: object, mode: _Map) -> _Map:
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
