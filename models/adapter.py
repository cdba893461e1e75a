"""NumPyro programs as `Model`: one likelihood term per record, a prior, and the transforms."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.domains import REAL, Domain
from bayesrecon.errors import BayesreconError, Note
from bayesrecon.model import Field, GaussianPredictor, Model, Params, Records
from bayesrecon.models.descriptions import program_fields, pymc_model
from bayesrecon.models.inspection import (
    Program,
    check_sites,
    density_program,
    domain_of,
    drawn,
    inspect_sites,
    log_prob,
    observed_supports,
    parameter,
    trace,
    typical,
    typical_values,
)
from bayesrecon.models.recognition import gaussian_predictor
from bayesrecon.models.windows import LONGEST_LAG, shortest
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
    observes at least one of them. Its likelihood must be a product over records. In an autoregression the term of a
    value needs values before it: a record is then a window of the series, with the fields `y`, `y_lag1` and so on. The
    number of latent variables must not depend on the number of records. A fixed number of units, indexed by a field, is
    fine.

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
    options: dict[str, Any] = {"domain": domain, "constants": constants, "name": name, "prepare": prepare}
    options |= {"settings": settings, "identities": identities, "forward": forward}
    try:
        model, check, _ = _adapted(program, record, **options)
        check()
    except BayesreconError:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # random values may lie outside of a support
            windows = _of_windows(program, record, options)
        if windows is None:
            raise
        return windows
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
    fewest: int = 1,
) -> tuple[Model, Callable[[], None], Callable[[Params, Records], jax.Array]]:
    """The model, a function that raises an error if its likelihood is not a product over records, and the log
    likelihood of records together. The program is looked at with `fewest` records and more."""
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
    for k, support in observed_supports(program, example_records(fewest + 1), constants, title).items():
        if k in record:
            observed[k] = domain_of(support)
    two, three = (inspect_sites(program, example_records(fewest + n), constants, title) for n in (1, 2))
    check_sites(two, three, title)
    likelihood = [n for n, s in three.items() if s.kind in ("observed", "factor") and s.terms != two[n].terms]
    if fewest > 1:  # the first values of a series may have sites of their own
        likelihood += [
            n
            for n in _follow(program, (example_records(fewest, i) for i in (1, 2)), constants, title)
            if n not in likelihood
        ]
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

    def joint(params: Params, batch: Records) -> jax.Array:
        # Other sites would be compiled away, but only after they were traced and differentiated.
        values = log_probs(params, batch, lambda site: site in likelihood)
        return jnp.asarray(sum(jnp.sum(values[n]) for n in likelihood))

    def log_lik_at(params: dict[str, Array], record: dict[str, Array]) -> jax.Array:
        return joint(params, {k: jnp.asarray(v)[None] for k, v in record.items()})

    few_records = {k: v[:fewest] for k, v in example_records(fewest).items()}

    def log_prior_at(params: dict[str, Array]) -> jax.Array:
        # Observed sites that do not follow the records (a soft constraint, say) belong to the prior.
        values = log_probs(params, few_records, lambda site: site not in likelihood)
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
    if gaussian is None and not others and three[site].normal and three[site].terms == (fewest + 2,):
        model = replace(model, gaussian=_gaussian(model, program, constants, site, example_records(2)))

    def check() -> None:
        _check_factorises(model, log_probs, example_records(3, seed=1), likelihood, example_records(3, seed=2))

    return model, check, joint


def _follow(
    program: Program, batches: Iterable[Mapping[str, Array]], constants: Mapping[str, object], title: str
) -> list[str]:
    """Sites whose density differs between data; that of a latent must not."""
    one, other = (trace(program, batch, constants, title) for batch in batches)
    sites = [n for n, s in one.items() if s["type"] == "sample" and n in other]
    result = [n for n in sites if not np.array_equal(log_prob(one[n]), log_prob(other[n]))]
    for n in result:
        if not one[n]["is_observed"]:
            raise _of_prior(title, n)
    return result


def _of_prior(title: str, site: str) -> BayesreconError:
    return BayesreconError(f"{title}: the prior of {site!r} depends on the records; pass what it needs as a constant")


_SERIES = LONGEST_LAG + 4
"""Values of a series in which windows are looked for."""


def _of_windows(program: Program, record: Mapping[str, tuple[int, ...]], options: Mapping[str, Any]) -> Model | None:
    """The model of windows of a series; None if the likelihood is no product over windows either."""
    try:
        model, _, joint = _adapted(program, record, **options, fewest=_SERIES)
        rng = np.random.default_rng(0)
        points = [model.constrain(rng.normal(size=model.dimension) * scale) for scale in (1.0, 0.5, 1.0, 1.5, 1.5)]
        series, other, more = (
            {k: drawn(f.domain, rng, (_SERIES, *f.shape)) for k, f in model.fields.items()} for _ in range(3)
        )
        windows = shortest(lambda columns, params: float(joint(params, dict(columns))), series, other, points[:3])
    except BayesreconError:
        return None
    if windows is None or not any(back for _, back in windows.places.values()):
        return None
    fields, tag, firsts = windows.fields(model.fields, "values")
    fillers = {name: jnp.asarray(typical(f)) for name, f in model.fields.items()}
    at = {place: field for field, place in windows.places.items()}

    def columns(record: Records) -> dict[str, jax.Array]:
        """The values of a window by column; those that its term does not depend on are typical."""
        backs = range(windows.lag, -1, -1)
        values = {
            name: [jnp.asarray(record[at[name, back]]) if (name, back) in at else filler for back in backs]
            for name, filler in fillers.items()
        }
        return {name: jnp.stack(jnp.broadcast_arrays(*column)) for name, column in values.items()}

    def last_term(params: Params, record: Records) -> jax.Array:
        window = columns(record)
        before = joint(params, {k: v[:-1] for k, v in window.items()}) if windows.starts else 0.0
        return joint(params, window) - before

    def log_lik_at(params: Params, record: Records) -> jax.Array:
        if tag is None:
            return last_term(params, record)
        first = jnp.round(jnp.asarray(record[tag])) == 1
        # What is computed and dropped has to be finite, with its derivatives.
        inside = {k: jnp.where(first == (k in firsts), v, typical(fields[k])) for k, v in record.items() if k != tag}
        of_first = joint(params, {name: inside[field] for field, name in firsts.items()})
        return jnp.where(first, of_first, last_term(params, inside))

    result = replace(model, fields=fields, log_lik_at=log_lik_at, simulate=None, gaussian=None)
    for params in points:
        start = joint(params, {k: v[: windows.lag] for k, v in more.items()}) if windows.starts else 0.0
        terms = jax.vmap(last_term, (None, 0))(params, windows.records(more))
        if not np.isclose(joint(params, more), start + terms.sum(), rtol=1e-8, atol=1e-8):
            return None

    def log_density(params: Params, batch: Records) -> jax.Array:
        return jnp.sum(jax.vmap(log_lik_at, (None, 0))(params, batch)) + model.log_prior_at(params)

    note = Note(f"{model.name}: the data are windows of a series with the fields {', '.join(fields)}")
    return replace(result, program=density_program(result, log_density), notes=(*model.notes, note))


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
            raise _of_prior(model.name, n)


def adapted(source: object, sizes: Mapping[str, tuple[int, ...]] | None = None) -> Model | None:
    """The model of a NumPyro program with one number per record in every field; None for other sources."""
    if not callable(source) or isinstance(source, type) or pymc_model(source) is not None:
        return None
    return from_numpyro(source, dict.fromkeys(program_fields(source), ()))


ADAPTS = adapted
