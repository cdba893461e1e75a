"""Sites of a NumPyro program, found by abstract evaluation: their shapes and supports, and which are refused."""

import math
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from bayesrecon.arrays import Array
from bayesrecon.domains import BINARY, COUNT, POSITIVE, REAL, Domain
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.model import Field, Model, Parameter, Params, Records

if TYPE_CHECKING:
    from numpyro.distributions.constraints import Constraint


Program = Callable[..., object]
"""A NumPyro program; its value is not used."""

Message = dict[str, Any]
"""What NumPyro stores about one site of a trace: its distribution `fn`, its `value`, its `type` and so on."""

_HANDLERS = threading.RLock()
"""Allows one trace at a time, because NumPyro has one stack of handlers for all threads."""


class Site(NamedTuple):
    """Properties of a site that do not depend on data.

    Attributes:
        kind: "latent", "observed", "factor", "plate", "param" or another NumPyro type.
        shape: shape of its value.
        terms: shape of its log probability.
        support: constraint of its distribution; None if it is no sample site.
        subsampled: whether it is a plate with a subsample size.
        normal: whether each record has one univariate normal distribution, without a scale factor.
    """

    kind: str
    shape: tuple[int, ...] = ()
    terms: tuple[int, ...] = ()
    support: "Constraint[Any] | None" = None
    subsampled: bool = False
    normal: bool = False


def trace(
    program: Program,
    batch: Mapping[str, object],
    constants: Mapping[str, object],
    title: str,
    params: Params | None = None,
) -> dict[str, Message]:
    """The program's trace on a batch of records. Without `params`, each latent is at a point of its support."""
    from numpyro import handlers

    seeded = handlers.seed(program, rng_seed=0)
    if params is None:
        seeded = handlers.substitute(seeded, substitute_fn=_initial_value)
    else:
        seeded = handlers.substitute(seeded, data=dict(params))
    try:
        with _HANDLERS:
            return dict(handlers.trace(seeded).get_trace(**batch, **constants))
    except BayesreconError:
        raise
    except (
        jax.errors.ConcretizationTypeError,
        jax.errors.NonConcreteBooleanIndexError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
    ) as error:
        raise BayesreconError(
            f"{title}: a size, a branch or a plain NumPy call depends on the data's values; fix the number of "
            "units as a constant, index it by a field, and use jax.numpy on the fields"
        ) from error
    except Exception as error:
        raise BayesreconError(
            f"{title} fails on a few records of the declared shapes and domains, each of which must be "
            f"independent (a lag belongs in the record): {first_line(error)}"
        ) from error


def log_prob(site: Message) -> jax.Array:
    """Log probability of a sample site, with its scale."""
    from bayesrecon.models._smooth_distributions import smooth

    value = jnp.asarray(smooth(site["fn"]).log_prob(site["value"]))
    return value if site["scale"] is None else site["scale"] * value


def observed_supports(
    program: Program, batch: Mapping[str, np.ndarray], constants: Mapping[str, object], title: str
) -> "dict[str, Constraint[Any]]":
    """Supports of the observed sites by name; bounds that do not depend on the records are concrete."""
    result: dict[str, Constraint[Any]] = {}

    def abstract(values: dict[str, Array]) -> int:
        sites = trace(program, values, constants, title)
        result.update({n: s["fn"].support for n, s in sites.items() if s["type"] == "sample" and s["is_observed"]})
        return 0

    def concrete(values: dict[str, Array]) -> int:
        with jax.ensure_compile_time_eval():
            return abstract(values)

    jax.eval_shape(abstract, dict(batch))
    if any(map(_computed, result.values())):  # slow, as it compiles every operation by itself
        jax.eval_shape(concrete, dict(batch))
    return result


def inspect_sites(
    program: Program, batch: Mapping[str, np.ndarray], constants: Mapping[str, object], title: str
) -> dict[str, Site]:
    """All sites of the program, from shapes alone: nothing is computed."""
    result: dict[str, Site] = {}

    def abstract(values: dict[str, Array]) -> int:
        for name, site in trace(program, values, constants, title).items():
            if site["type"] == "plate":
                size, subsample = site["args"]
                result[name] = Site("plate", subsampled=subsample not in (None, size))
            elif site["type"] != "sample":
                result[name] = Site(site["type"])
            else:
                factor = type(site["fn"]).__name__ == "Unit"
                kind = "factor" if factor else "observed" if site["is_observed"] else "latent"
                shape, terms = jnp.shape(site["value"]), jnp.shape(log_prob(site))
                normal = len(shape) == 1 and site["scale"] is None and _is_normal(site["fn"])
                result[name] = Site(kind, tuple(shape), tuple(terms), site["fn"].support, normal=normal)
        return 0

    jax.eval_shape(abstract, dict(batch))
    return result


def _is_normal(distribution: object) -> bool:
    from numpyro.distributions import ExpandedDistribution, Normal

    base = distribution.base_dist if type(distribution) is ExpandedDistribution else distribution
    return type(base) is Normal


def check_sites(two: Mapping[str, Site], three: Mapping[str, Site], title: str) -> None:
    """Refuse unsupported programs, comparing the sites for two and for three records."""
    if set(two) != set(three):
        differing = ", ".join(sorted(set(two) ^ set(three)))
        raise BayesreconError(f"{title}: the sites {differing} appear only for some numbers of records")
    for name, site in three.items():
        if site.subsampled:
            raise BayesreconError(f"{title}: plate {name!r} subsamples; use all records (no subsample_size)")
        if site.kind == "param":
            raise BayesreconError(
                f"{title}: {name!r} is a numpyro.param, which has no prior; make it a numpyro.sample site"
            )
        if site.kind == "factor" and two[name].terms == site.terms:
            raise BayesreconError(
                f"{title}: factor {name!r} is one number for all records; make it one term per record inside "
                "the plate, or write it as a sample site"
            )
        if site.kind != "latent":
            continue
        if two[name].shape != site.shape:
            raise BayesreconError(
                f"{title}: latent {name!r} has one value per record; declare a fixed number of units as a constant "
                "and index them by a known field of the record (values[unit])"
            )
        if site.support is not None and site.support.is_discrete:
            raise BayesreconError(f"{title}: latent {name!r} is discrete; sum it out of the likelihood")


def parameter(name: str, shape: tuple[int, ...], support: "Constraint[Any]", title: str) -> Parameter:
    """The `Parameter` of a latent site with this shape and support."""
    from numpyro.distributions import biject_to, constraints

    base = getattr(support, "base_constraint", support)
    if _computed(base):
        raise BayesreconError(f"{title}: the bounds of {name!r} must be plain numbers, not computed in the program")
    if base is constraints.real or base is constraints.real_vector:
        return Parameter(name, shape)
    transform = biject_to(support)
    bounds: tuple[float, float] | None = None
    if tuple(transform.inverse_shape(shape)) == shape:
        low, high = _bound(base, "lower_bound"), _bound(base, "upper_bound")
        bounds = (low, high) if math.isfinite(low) or math.isfinite(high) else None
    return Parameter(name, shape, transform, bounds)


def typical_values(domain: Domain, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random legal values: near one, or in the middle of a finite interval, at whose ends densities may vanish."""
    if np.isfinite(domain.width) and not domain.discrete:
        return domain.draw(rng, shape, (domain.low + domain.high) / 2, domain.width / 8)
    return domain.draw(rng, shape, 1.0, 0.5)


def typical(field: Field) -> np.ndarray:
    """A value of a field, always the same."""
    return drawn(field.domain, np.random.default_rng(0), (1, *field.shape))[0]


def drawn(domain: Domain, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random legal values; any of a finite range of whole numbers."""
    if domain.kind == "integer" and np.isfinite(domain.low + domain.high):
        return rng.integers(int(domain.low), int(domain.high) + 1, size=shape)
    return typical_values(domain, rng, shape)


def domain_of(support: "Constraint[Any]") -> Domain:
    """The domain of a field observed under a distribution with this support."""
    from numpyro.distributions import constraints

    base = getattr(support, "base_constraint", support)
    if base is constraints.boolean:
        return BINARY
    if base is constraints.nonnegative_integer:
        return COUNT
    if base in (constraints.positive, constraints.nonnegative):
        return POSITIVE
    low, high = _bound(base, "lower_bound"), _bound(base, "upper_bound")
    if isinstance(base, type(constraints.multinomial(1))):
        counted = math.isfinite(high) and high == int(high)
        return Domain("integer", 0.0, high, total=int(high)) if counted else COUNT
    if base.is_discrete:
        few = math.isfinite(low) and math.isfinite(high) and high - low < 32
        return Domain("levels", levels=tuple(np.arange(low, high + 1))) if few else Domain("integer", low, high)
    return Domain("interval", low, high) if low < high and math.isfinite(low + high) else REAL


def density_program(model: Model, log_density: Callable[[Params, Records], jax.Array]) -> Callable[..., None]:
    """A NumPyro program for NUTS: flat priors on unconstrained coordinates, and a factor with the log density."""

    def program(**batch: Array) -> None:
        import numpyro
        from numpyro.distributions import ImproperUniform, constraints

        params, total = {}, jnp.zeros(())
        for p in model.parameters:
            x = jnp.asarray(numpyro.sample(f"{p.name}__free", ImproperUniform(constraints.real, (), p.free_shape)))
            y = p.transform(x)
            total = total + jnp.sum(p.transform.log_abs_det_jacobian(x, y))
            params[p.name] = numpyro.deterministic(p.name, y)
        numpyro.factor("density", total + log_density(params, batch))

    return program


def _computed(support: "Constraint[Any]") -> bool:
    """Whether a bound is computed in the program, and not a plain number."""
    base = getattr(support, "base_constraint", support)
    return any(isinstance(getattr(base, b, None), Tracer) for b in ("lower_bound", "upper_bound"))


def _bound(constraint: "Constraint[Any]", which: str) -> float:
    value = getattr(constraint, which, None)
    if value is None or isinstance(value, Tracer) or np.unique(value).size != 1:
        return -math.inf if which == "lower_bound" else math.inf
    return float(np.unique(value)[0])


def _initial_value(site: Message) -> jax.Array | None:
    """A point of the support of a latent; None for other sites. Improper priors cannot be sampled."""
    from numpyro.distributions import biject_to

    if site["type"] != "sample" or site["is_observed"] or site["fn"].support.is_discrete:
        return None
    transform = biject_to(site["fn"].support)
    return transform(jnp.full(transform.inverse_shape(site["fn"].shape()), 0.3))
