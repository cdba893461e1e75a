"""NumPyro programs as `Model`: one likelihood term per record, a prior, and the transforms."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.domains import REAL, Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, GaussianPredictor, Model, Params, Records
from bayesrecon.models.descriptions import program_fields, pymc_model
from bayesrecon.models.inspection import (
    Program,
    check_sites,
    domain_of,
    inspect_sites,
    log_prob,
    observed_supports,
    parameter,
    trace,
    typical_values,
)
from bayesrecon.models.recognition import gaussian_predictor
from bayesrecon.precision import in_float64
from bayesrecon.stated_domains import domains_of


@in_float64
def from_numpyro(
    program: Program,
    record: Mapping[str, tuple[int, ...]],
    *,
    domain: Mapping[str, object] | None = None,
    constants: Mapping[str, int] | None = None,
    name: str | None = None,
    prepare: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] | None = None,
    settings: Mapping[str, object] | None = None,
    identities: Mapping[str, tuple[Callable[[Records], Array], float]] | None = None,
    forward: bool = False,
) -> Model:
    """A `Model` from a NumPyro program.

    The program takes each field of a record as a keyword argument whose leading axis runs over the records, and
    observes at least one of them. Its likelihood must be a product over records. The number of latent variables must
    not depend on the number of records. A fixed number of units, indexed by a field, is fine.

    Args:
        program: function `program(**fields, **constants)`.
        record: `{field: shape of one record's value}`.
        domain: `{field: domain}` with "real", "positive", "binary", "count", `(low, high)` or `[values]`. Values that
            are whole numbers reach the program as integers, so that they can index: `means[unit]`. Observed fields
            default to the support of their distribution, other fields to the real line.
        constants: further keyword arguments, which the attacker knows.
        name: defaults to the name of the program.
        prepare: function that maps published draws to the program's latent variables, if they differ.
        identities: totals that the program fixes for all data, `{name: (f, total)}` (see `Model`).
        forward: whether NUTS computes gradients in forward mode, which suits few parameters and many steps (see
            `Model`).

    Raises:
        BayesreconError: the program is not of this kind. The message names the site and the remedy.

    >>> import numpyro, numpyro.distributions as dist
    >>> def program(x, y=None):
    ...     slope = numpyro.sample("slope", dist.Normal(0, 10))
    ...     with numpyro.plate("records", x.shape[0]):
    ...         numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)
    >>> from_numpyro(program, {"x": (), "y": ()}).coordinates
    ('slope',)
    """
    model, check = _adapted(
        program,
        record,
        domain=domain,
        constants=constants,
        name=name,
        prepare=prepare,
        settings=settings,
        identities=identities,
        forward=forward,
    )
    check()
    return model


@in_float64
def adapt(program: Program, record: Mapping[str, tuple[int, ...]], **options: Any) -> Model:
    """Like `from_numpyro`, for a shipped program. Tests check that its likelihood is a smooth product over records.

    Args:
        options: those of `from_numpyro`, and `gaussian`, which says that the program is a certain linear regression.
    """
    return replace(_adapted(program, record, **options)[0], smooth=True)


def _adapted(
    program: Program,
    record: Mapping[str, tuple[int, ...]],
    *,
    domain: Mapping[str, object] | None = None,
    constants: Mapping[str, float | tuple[float, ...]] | None = None,
    name: str | None = None,
    prepare: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] | None = None,
    settings: Mapping[str, object] | None = None,
    identities: Mapping[str, tuple[Callable[[Records], Array], float]] | None = None,
    forward: bool = False,
    gaussian: GaussianPredictor | None = None,
) -> tuple[Model, Callable[[], None]]:
    """The model, and a function that raises an error if its likelihood is not a product over records."""
    constants = dict(constants or {})
    title = name or getattr(program, "__name__", "program")
    _check_signature(program, record, constants, title)
    domains = domains_of(domain, record)

    def example_records(count: int, seed: int = 0) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {
            k: typical_values(domains.get(k, observed.get(k, REAL)), rng, (count, *shape))
            for k, shape in record.items()
        }

    observed: dict[str, Domain] = {}
    # Values near one show the supports of observed fields; later values lie in these supports.
    for k, support in observed_supports(program, example_records(2), constants, title).items():
        if k in record:
            observed[k] = domain_of(support)
    two, three = (inspect_sites(program, example_records(n), constants, title) for n in (2, 3))
    check_sites(two, three, title)
    likelihood = [n for n, s in three.items() if s.kind in ("observed", "factor") and s.terms != two[n].terms]
    if not likelihood:
        raise BayesreconError(
            f"{title}: no observed site depends on the records; observe a field, "
            'e.g. numpyro.sample("y", ..., obs=y) inside a plate over the records'
        )
    parameters = tuple(
        parameter(n, s.shape, s.support, title)
        for n, s in three.items()
        if s.kind == "latent" and s.support is not None
    )
    if not parameters:
        raise BayesreconError(f"{title} has no latent site, so it has no posterior")

    fields = {k: Field(tuple(shape), domains.get(k, observed.get(k, REAL))) for k, shape in record.items()}

    def typed(batch: Mapping[str, Array]) -> dict[str, Array]:
        return {k: fields[k].domain.typed(v) if k in fields else v for k, v in batch.items()}

    def log_probs(
        params: dict[str, Array], batch: Mapping[str, Array], included: Callable[[str], bool] = lambda site: True
    ) -> dict[str, jax.Array]:
        sites = trace(program, typed(batch), constants, title, params)
        return {n: log_prob(s) for n, s in sites.items() if s["type"] == "sample" and included(n)}

    def log_lik_at(params: dict[str, Array], record: dict[str, Array]) -> jax.Array:
        # Other sites would be compiled away, but only after they were traced and differentiated.
        values = log_probs(
            params, {k: jnp.asarray(v)[None] for k, v in record.items()}, lambda site: site in likelihood
        )
        return jnp.asarray(sum(jnp.sum(values[n]) for n in likelihood))

    one_record = {k: v[:1] for k, v in example_records(1).items()}

    def log_prior_at(params: dict[str, Array]) -> jax.Array:
        # Observed sites that do not follow the records (a soft constraint, say) belong to the prior.
        values = log_probs(params, one_record, lambda site: site not in likelihood)
        return jnp.asarray(sum((jnp.sum(v) for v in values.values()), start=jnp.zeros(())))

    def simulate(params: dict[str, Array], batch: dict[str, Array], key: jax.Array) -> dict[str, Array]:
        sites = trace(program, typed(batch), constants, title, params)
        simulated = [n for n in likelihood if n in record and sites[n]["type"] == "sample"]
        keys = jax.random.split(key, max(len(simulated), 1))
        return {**batch, **{n: sites[n]["fn"].sample(k) for n, k in zip(simulated, keys, strict=False)}}

    model = Model(
        name=title,
        parameters=parameters,
        fields=fields,
        log_lik_at=log_lik_at,
        log_prior_at=log_prior_at,
        prepare=prepare,
        simulate=simulate,
        program=lambda **batch: program(**typed(batch), **constants),
        settings=dict(settings or {}),
        identities=dict(identities or {}),
        gaussian=gaussian,
        forward=forward,
    )
    site, *others = likelihood
    if gaussian is None and not others and three[site].normal:
        model = replace(model, gaussian=_gaussian(model, program, constants, site, example_records(2)))

    def check() -> None:
        _check_factorises(model, log_probs, example_records(3, seed=1), likelihood, example_records(3, seed=2))

    return model, check


def _gaussian(
    model: Model, program: Program, constants: Mapping[str, object], name: str, batch: Records
) -> GaussianPredictor | None:
    """The form of a program with one normal site as a linear regression; None if it is none."""

    def response(params: Params, records: Records) -> tuple[jax.Array, jax.Array, jax.Array]:
        site = trace(program, records, constants, model.name, params)[name]
        normal = getattr(site["fn"], "base_dist", site["fn"])
        shape = (len(next(iter(records.values()))),)
        return (
            jnp.broadcast_to(normal.loc, shape),
            jnp.broadcast_to(normal.scale, shape),
            jnp.asarray(site["value"], float),
        )

    return gaussian_predictor(model, response, model.constrain(np.zeros(model.dimension)), batch)


def _check_signature(
    program: Program,
    record: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, float | tuple[float, ...]],
    title: str,
) -> None:
    try:
        inspect.signature(program).bind(**dict.fromkeys(record), **dict.fromkeys(constants))
    except TypeError as error:
        raise BayesreconError(
            f"{title} cannot be called with the fields {', '.join(record)}"
            f"{' and constants ' + ', '.join(constants) if constants else ''}: {error}"
        ) from None


def _check_factorises(
    model: Model,
    log_probs: Callable[[Params, Mapping[str, Array]], dict[str, jax.Array]],
    batch: dict[str, np.ndarray],
    likelihood: list[str],
    other: dict[str, np.ndarray],
) -> None:
    """Raise an error unless the joint log likelihood is the sum over records, and the prior ignores the records."""

    def evaluate(
        theta: Array, first: dict[str, Array], second: dict[str, Array]
    ) -> tuple[jax.Array | int, jax.Array, dict[str, jax.Array]]:
        params = model.constrain(theta)
        joint, joint_of_other = log_probs(params, first), log_probs(params, second)
        joint_sum = sum(jnp.sum(joint[n]) for n in likelihood)
        single = jnp.sum(jax.vmap(model.log_lik_at, in_axes=(None, 0))(params, first))
        return (
            joint_sum,
            single,
            {n: jnp.sum(joint[n]) - jnp.sum(joint_of_other[n]) for n in joint if n not in likelihood},
        )

    run = jax.jit(evaluate)
    # Unequal coordinates, so that exchanged latents show; further points where the likelihood vanishes.
    for low, high in ((0.1, 0.4), (-0.4, 0.3), (1.0, 3.0), (3.0, 6.0), (-3.0, -1.0)):
        joint, single, prior = run(np.linspace(low, high, model.dimension), batch, other)
        if np.isfinite(joint):
            break
    else:
        raise BayesreconError(
            f"{model.name}: the likelihood is not finite at any point that was tried, so it cannot be checked; "
            "state where the fields lie with domain="
        )
    if not np.isclose(joint, single, rtol=1e-8, atol=1e-8):
        raise BayesreconError(
            f"{model.name}: the likelihood is not a product over records (three records jointly give "
            f"{float(joint):.6g}, separately {float(single):.6g}); a mean, a scale or a lag computed from the data "
            "belongs in the record itself"
        )
    for n, difference in prior.items():
        if abs(float(difference)) > 1e-8:
            raise BayesreconError(
                f"{model.name}: the prior of {n!r} depends on the records; pass what it needs as a constant"
            )


def adapted(source: object, sizes: Mapping[str, tuple[int, ...]] | None = None) -> Model | None:
    """The model of a NumPyro program with one number per record in every field; None for other sources."""
    if not callable(source) or isinstance(source, type) or pymc_model(source) is not None:
        return None
    return from_numpyro(source, dict.fromkeys(program_fields(source), ()))


ADAPTS = adapted
