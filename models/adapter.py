"""From a NumPyro program to a `Model`: one likelihood term per record, a prior, and the transforms."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.domains import BINARY, COUNT, POSITIVE, REAL, Domain, parse
from bayesrecon.errors import BayesreconError, near
from bayesrecon.precision import in_float64
from bayesrecon.types import Field, Model, Parameter

Program = Callable[..., Any]


@in_float64
def from_numpyro(
    program: Program,
    record: Mapping[str, tuple[int, ...]],
    *,
    domain: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
    name: str | None = None,
    prepare: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] | None = None,
    settings: Mapping[str, Any] | None = None,
    identities: Mapping[str, tuple[Callable[[dict[str, Any]], Any], float]] | None = None,
) -> Model:
    """Make a NumPyro program a target.

    The program takes each field of a record as a keyword argument with a leading axis over records, and
    observes at least one of them. Its likelihood must be a product over records; latents must not grow with
    the number of records (a fixed number of units, indexed by a field, is fine).

    Args:
        program: `program(**fields, **constants)`.
        record: `{field: shape of one record's value}`.
        domain: `{field: domain}` ("real", "positive", "binary", "count", `(low, high)`, `[values]`);
            observed fields default to the support of their distribution, others to the line.
        constants: further keyword arguments, public to the attacker.
        name: default the program's name.
        prepare: maps published draws to the program's latents where they differ.
        identities: totals the program fixes whatever the data, `{name: (f, total)}` (see `Model`).

    Raises:
        BayesreconError: when the program is outside this class, naming the site and the remedy.

    >>> import numpyro, numpyro.distributions as dist
    >>> def program(x, y=None):
    ...     slope = numpyro.sample("slope", dist.Normal(0, 10))
    ...     with numpyro.plate("records", x.shape[0]):
    ...         numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)
    >>> from_numpyro(program, {"x": (), "y": ()}).coordinates
    ('slope',)
    """
    constants = dict(constants or {})
    title = name or getattr(program, "__name__", "program")
    _check_signature(program, record, constants, title)
    given = {k: parse(v, k) for k, v in (domain or {}).items()}
    for k in given:
        if k not in record:
            raise BayesreconError(f"domain: {k!r} is not a field of the record ({', '.join(record)}){near(k, record)}")

    def dummy(count: int, seed: int = 0) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {
            k: given.get(k, observed.get(k, REAL)).draw(rng, (count, *shape), 1.0, 0.5) for k, shape in record.items()
        }

    observed: dict[str, Domain] = {}
    # Neutral values first, to learn the observed sites' supports; then again inside the right domains.
    for k, site in _trace(program, dummy(2), constants, title).items():
        if k in record and site["type"] == "sample" and site["is_observed"]:
            observed[k] = _domain_of(site["fn"].support)
    two, three = (_trace(program, dummy(n), constants, title) for n in (2, 3))
    _check_sites(two, three, title)
    likelihood = [n for n, s in three.items() if s["type"] == "sample" and s["is_observed"] and _follows(two[n], s)]
    if not likelihood:
        raise BayesreconError(
            f"{title}: no observed site follows the records; observe a field, "
            'e.g. numpyro.sample("y", ..., obs=y) inside a plate over the records'
        )
    latent = [s for s in three.values() if s["type"] == "sample" and not s["is_observed"]]
    parameters = tuple(_parameter(site) for site in latent)
    names = {s["name"] for s in latent}

    def log_probs(params: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
        sites = _trace(program, batch, constants, title, params)
        return {n: _log_prob(s) for n, s in sites.items() if s["type"] == "sample"}

    def log_lik_at(params: dict[str, Any], one: dict[str, Any]) -> Any:
        values = log_probs(params, {k: jnp.asarray(v)[None] for k, v in one.items()})
        return jnp.asarray(sum(jnp.sum(values[n]) for n in likelihood))

    blank = {k: v[:1] for k, v in dummy(1).items()}

    def log_prior_at(params: dict[str, Any]) -> Any:
        # Observed sites that do not follow the records (a soft constraint, say) belong to the prior.
        values = log_probs(params, blank)
        return jnp.asarray(sum((jnp.sum(v) for n, v in values.items() if n not in likelihood), start=jnp.zeros(())))

    fields = {k: Field(tuple(shape), given.get(k, observed.get(k, REAL))) for k, shape in record.items()}
    model = Model(
        name=title,
        parameters=parameters,
        fields=fields,
        log_lik_at=log_lik_at,
        log_prior_at=log_prior_at,
        prepare=prepare,
        program=lambda **batch: program(**batch, **constants),
        settings=dict(settings or {}),
        identities=dict(identities or {}),
    )
    point = {s["name"]: s["value"] for s in latent if s["name"] in names}
    _check_factorises(model, log_probs, point, dummy(3, seed=1), likelihood, dummy(3, seed=2))
    return model


def _check_signature(program: Program, record: Mapping[str, Any], constants: Mapping[str, Any], title: str) -> None:
    try:
        inspect.signature(program).bind(**dict.fromkeys(record), **dict.fromkeys(constants))
    except TypeError as error:
        raise BayesreconError(
            f"{title} cannot be called with the fields {', '.join(record)}"
            f"{' and constants ' + ', '.join(constants) if constants else ''}: {error}"
        ) from None


def _trace(
    program: Program,
    batch: Mapping[str, Any],
    constants: Mapping[str, Any],
    title: str,
    params: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    from numpyro import handlers

    seeded = handlers.seed(program, rng_seed=0)
    if params is not None:
        seeded = handlers.substitute(seeded, data=dict(params))
    else:
        seeded = handlers.substitute(seeded, substitute_fn=_start)
    try:
        return dict(handlers.trace(seeded).get_trace(**batch, **constants))
    except (jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError) as error:
        raise BayesreconError(
            f"{title}: sizes or branches depend on the data's values ({str(error).splitlines()[0]}); "
            "fix the number of units as a constant and index it by a field"
        ) from error
    except BayesreconError:
        raise
    except Exception as error:
        raise BayesreconError(
            f"{title} fails on records of the declared shapes: {type(error).__name__}: "
            f"{str(error).strip().splitlines()[0] if str(error).strip() else error!r}"
        ) from error


def _start(site: dict[str, Any]) -> Any:
    """A point of the support for latents that cannot be sampled (improper priors)."""
    from numpyro.distributions import ImproperUniform, biject_to

    if site["type"] != "sample" or site["is_observed"]:
        return None
    base = site["fn"]
    while hasattr(base, "base_dist"):
        base = base.base_dist
    if not isinstance(base, ImproperUniform):
        return None
    transform = biject_to(site["fn"].support)
    shape = transform.inverse_shape(site["fn"].shape())
    return transform(0.3 * jnp.ones(shape))


def _log_prob(site: dict[str, Any]) -> Any:
    value = site["fn"].log_prob(site["value"])
    return value if site["scale"] is None else site["scale"] * value


def _domain_of(support: Any) -> Domain:
    from numpyro.distributions import constraints

    base = getattr(support, "base_constraint", support)
    if base is constraints.boolean:
        return BINARY
    if base is constraints.nonnegative_integer:
        return COUNT
    if base in (constraints.positive, constraints.nonnegative):
        return POSITIVE
    low, high = _bound(base, "lower_bound"), _bound(base, "upper_bound")
    if base.is_discrete:
        if math.isfinite(low) and math.isfinite(high) and high - low < 32:
            return Domain("levels", levels=tuple(np.arange(low, high + 1).tolist()))
        return Domain("integer", low, high)
    return Domain("interval", low, high) if low < high and math.isfinite(low + high) else REAL


def _bound(constraint: Any, which: str) -> float:
    value = getattr(constraint, which, None)
    if value is None or np.ndim(value) or isinstance(value, jax.core.Tracer):
        return -math.inf if which == "lower_bound" else math.inf
    return float(value)


def _parameter(site: dict[str, Any]) -> Parameter:
    from numpyro.distributions import biject_to, constraints

    support = site["fn"].support
    base = getattr(support, "base_constraint", support)
    shape = tuple(np.shape(site["value"]))
    transform = biject_to(support)
    bounds: tuple[float, float] | None = None
    if base is constraints.real or base is constraints.real_vector:
        bounds = (-math.inf, math.inf)
    elif base in (constraints.positive, constraints.nonnegative):
        bounds = (0.0, math.inf)
    elif tuple(transform.inverse_shape(shape)) == shape and hasattr(base, "lower_bound"):
        low, high = _bound(base, "lower_bound"), _bound(base, "upper_bound")
        bounds = (low, high) if math.isfinite(low) or math.isfinite(high) else None
    return Parameter(site["name"], shape, transform, bounds)


def _follows(two: dict[str, Any], three: dict[str, Any]) -> bool:
    """Does the site's log probability grow with the number of records?"""
    return np.shape(_log_prob(two)) != np.shape(_log_prob(three))


def _check_sites(two: Mapping[str, dict[str, Any]], three: Mapping[str, dict[str, Any]], title: str) -> None:
    if set(two) != set(three):
        odd = sorted(set(two) ^ set(three))
        raise BayesreconError(f"{title}: the sites {', '.join(odd)} appear for some numbers of records only")
    for name, site in three.items():
        kind = site["type"]
        if kind == "plate":
            if site["args"][0] != (site["args"][1] or site["args"][0]):
                raise BayesreconError(f"{title}: plate {name!r} subsamples; give it all records (no subsample_size)")
        elif kind == "param":
            raise BayesreconError(
                f"{title}: {name!r} is a numpyro.param, which has no prior; make it a numpyro.sample site"
            )
        elif kind == "sample":
            if type(site["fn"]).__name__ == "Unit" and _follows(two[name], site):
                continue  # a factor with one term per record is a likelihood
            if type(site["fn"]).__name__ == "Unit":
                raise BayesreconError(
                    f"{title}: factor {name!r} is one number for all records; "
                    "give it one term per record inside the plate, or write it as a sample site"
                )
            if site["is_observed"]:
                continue
            if np.shape(two[name]["value"]) != np.shape(site["value"]):
                raise BayesreconError(
                    f"{title}: latent {name!r} has one value per record; declare a fixed number of units as a "
                    "constant and index them by a known field of the record (values[unit])"
                )
            if site["fn"].support.is_discrete:
                raise BayesreconError(f"{title}: latent {name!r} is discrete; sum it out of the likelihood")


def _check_factorises(
    model: Model,
    log_probs: Callable[..., dict[str, Any]],
    point: dict[str, Any],
    batch: dict[str, np.ndarray],
    likelihood: list[str],
    other: dict[str, np.ndarray],
) -> None:
    """The joint density must be the sum over records, and the prior must not see the records."""
    joint, moved = log_probs(point, batch), log_probs(point, other)
    whole = sum(float(jnp.sum(joint[n])) for n in likelihood)
    single = [float(model.log_lik_at(point, {k: v[i] for k, v in batch.items()})) for i in range(3)]
    if not math.isclose(whole, sum(single), rel_tol=1e-8, abs_tol=1e-8) and math.isfinite(whole):
        raise BayesreconError(
            f"{model.name}: the likelihood is not a product over records (three records together give "
            f"{whole:.6g}, one by one {sum(single):.6g}); a mean, scale or lag taken over the data belongs into "
            "the record itself"
        )
    for n, value in joint.items():
        if n not in likelihood and not np.allclose(np.asarray(value), np.asarray(moved[n]), equal_nan=True):
            raise BayesreconError(
                f"{model.name}: the prior of {n!r} depends on the records; pass what it needs as a constant"
            )
