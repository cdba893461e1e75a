"""PyMC models as `Model`: the likelihood of one record, a prior, and the transforms, taken from the model's graph."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayesrecon.domains import BINARY, REAL, Domain
from bayesrecon.errors import BayesreconError, near
from bayesrecon.model import Field, GaussianPredictor, Model, Parameter, Params, Records
from bayesrecon.models.descriptions import pymc_model
from bayesrecon.models.inspection import parameter
from bayesrecon.models.pymc.bambi import CommonPredictors, designs, hints, offsets
from bayesrecon.models.pymc.graph import (
    NotOneRecordError,
    RecordArray,
    Variable,
    columns_of,
    content,
    domain_of,
    for_one_record,
    jaxified,
    leaves_of,
    library,
    packed,
    support_of,
)
from bayesrecon.models.recognition import gaussian_predictor
from bayesrecon.precision import in_float64
from bayesrecon.stated_domains import parse

# The record of a PyMC model: its fields by name, and the graph of one record for each array of the model.

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Record:
    """Fields and their inputs in the graph of one record.

    Attributes:
        columns: fields that are not observed, by name.
        observed: values of the observed variables in the graph, by name.
        inputs: graph inputs for one record by field, `(1, *shape)`.
        matrices: matrices of common predictors, whose columns are computed from fields.
    """

    columns: Mapping[str, RecordArray]
    observed: Mapping[str, Variable]
    inputs: Mapping[str, Variable]
    matrices: Sequence[CommonPredictors]

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The values of the fields in the model, `{field: (N, *shape)}`. Only checks of the graph may use them."""
        observed = {k: np.asarray(content(value)) for k, value in self.observed.items()}
        return {k: c.values for k, c in self.columns.items()} | observed

    def domain(self, name: str) -> Domain:
        """Domain of a field that is not observed, as far as the graph determines it."""
        column = self.columns[name]
        if column.values.dtype.kind == "b":
            return BINARY
        return REAL if column.levels is None else Domain("levels", levels=tuple(map(float, range(column.levels))))

    def stand_in(self, leaf: Variable) -> Variable:
        """The graph of one record that replaces an array of the model."""
        pt = library("pytensor.tensor")
        values = np.asarray(content(leaf))
        matrix = next((m for m in self.matrices if is_matrix(m, values)), None)
        if matrix is not None:
            parts = [self._column(name, level).reshape((1, 1)) for name, level in matrix.columns]
            matrix_of_fields = pt.concatenate([p.astype(leaf.type.dtype) for p in parts], axis=1) - matrix.mean
            return matrix_of_fields.reshape((1, *values.shape[1:])).astype(leaf.type.dtype)
        names = [k for k, value in self.observed.items() if value is leaf]
        names += [k for k, c in self.columns.items() if leaf in c.leaves or c.holds(values)]
        if names:
            return self.inputs[names[0]].reshape((1, *values.shape[1:])).astype(leaf.type.dtype)
        if is_constant(values):
            return pt.constant(values[:1], dtype=leaf.type.dtype)
        raise NotOneRecordError("an array with an entry per record is not part of the likelihood")

    def _column(self, name: str, level: int | None) -> Variable:
        return self.inputs[name] if level is None else library("pytensor.tensor").eq(self.inputs[name], level)


def record_of(
    columns: Mapping[str, RecordArray], observed: Mapping[str, Variable], matrices: Sequence[CommonPredictors]
) -> Record:
    """The record of these fields, with their inputs."""
    pt = library("pytensor.tensor")
    inputs = {k: pt.tensor(k, dtype=str(c.values.dtype), shape=(1, *c.shape)) for k, c in columns.items()}
    inputs |= {
        k: pt.tensor(k, dtype=value.type.dtype, shape=(1, *np.shape(content(value))[1:]))
        for k, value in observed.items()
    }
    return Record(columns, observed, inputs, matrices)


def is_matrix(matrix: CommonPredictors, values: np.ndarray) -> bool:
    """Whether this is the matrix of common predictors."""
    flat = values.reshape(len(values), -1)
    return matrix.values.shape == flat.shape and np.allclose(matrix.values, flat, rtol=_ROUNDING, atol=_ROUNDING)


def is_constant(values: np.ndarray) -> bool:
    """Whether all records have the same value, so that the array is not a field."""
    return bool(values.size) and bool((values == values[:1]).all())


def named(
    columns: Sequence[RecordArray],
    observed: Mapping[str, object],
    matrices: Sequence[CommonPredictors],
    names: Mapping[str, npt.ArrayLike] | Sequence[str] | None,
    hints: Mapping[str, object],
    title: str,
) -> dict[str, RecordArray]:
    """The fields that are not observed, by name.

    Args:
        columns: arrays of the graph with an entry per record.
        observed: values of the observed variables by name.
        matrices: matrices of Bambi's common predictors.
        names: the argument `record` of `from_pymc`.
        hints: names of arrays that may be among the columns.
        title: title of the model.
    """
    result: dict[str, RecordArray] = {}
    columns = list(columns)

    def take(name: str, column: RecordArray) -> None:
        result[_free(name, {*observed, *result})] = column
        columns[:] = [c for c in columns if c is not column]

    for matrix in matrices:
        for name, (values, levels) in matrix.fields.items():
            matching = next((c for c in columns if c.holds(values)), None)
            if name not in result:
                take(
                    name,
                    RecordArray((), values, levels)
                    if matching is None
                    else replace(matching, levels=levels or matching.levels),
                )
            columns[:] = [c for c in columns if c is not matching]
    for name, array in (dict(names) if isinstance(names, Mapping) else {}).items():
        values = np.asarray(array)
        if name in observed or name in result:
            continue
        matching = next((c for c in columns if c.holds(values)), None)
        if matching is None:
            arrays = ", ".join(f"{c.name or 'an array'} {c.values.shape}" for c in columns) or "none"
            raise BayesreconError(
                f"record: {name} {values.shape} is not an array of {title} with an entry per record: {arrays}"
            )
        take(name, matching)
    for name, array in hints.items():
        matching = next((c for c in columns if c.name is None and c.holds(np.asarray(array))), None)
        if matching is not None:
            take(name, matching)
    unnamed = [c for c in columns if c.name is None]
    new_names = [] if names is None or isinstance(names, Mapping) else [str(k) for k in names if k not in observed]
    if new_names and len(new_names) != len(unnamed):
        raise BayesreconError(
            f"record: {title} has {len(unnamed)} arrays without a name and an entry per record, and {len(new_names)} "
            f"names were given ({', '.join(new_names)})"
        )
    without_levels = [c for c in unnamed if c.levels is None]
    for i, column in enumerate(unnamed):
        number = f"{without_levels.index(column) + 1}" if column.levels is None and len(without_levels) > 1 else ""
        default = f"x{number}" if column.levels is None else column.dimension or "unit"
        take(new_names[i] if new_names else default, column)
    for column in list(columns):
        take(str(column.name), column)
    return result


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number appended if it is taken."""
    return next(n for n in (name, *(f"{name}_{i}" for i in range(2, 10**6))) if n not in taken)


_POINTS = (0.3, -0.4, 1.1)  # unconstrained values at which the likelihood is compared with the model's own


@in_float64
def from_pymc(
    model: object,
    record: Mapping[str, npt.ArrayLike] | Sequence[str] | None = None,
    *,
    domain: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Model:
    """A `Model` from a PyMC model, or from a Bambi model that was built.

    Every array of the model with one entry per record becomes a field. Observed variables and `pm.Data` keep their
    names. An array that indexes a dimension has the dimension's name (or `unit`). Other arrays are named `x` or `x1`,
    `x2`, ... in the order in which the model uses them. The numbers in these arrays are not used: other data of the
    same lengths give the same `Model`.

    Args:
        model: a `pymc.Model` with observed variables; or an object whose `backend.model` is one.
        record: names of the fields. `{name: array}` names these arrays. A sequence gives names to the unnamed arrays,
            in their order.
        domain: `{field: domain}`, as in `from_numpyro`. Observed fields default to the support of their distribution,
            arrays that index to the valid indices, other arrays to the real line.
        name: defaults to the name of the model.

    Raises:
        BayesreconError: the model is not supported (one latent variable per record, discrete latent variables, missing
            values, records that depend on each other). The message names the variable and the remedy.
        MissingExtraError: PyMC is not installed.

    ```python
    with pm.Model() as program:
        slope = pm.Normal("slope", 0, 10)
        pm.Normal("y", slope * x, 1.0, observed=y)
    trace = pm.sample(model=program)
    model = bayesrecon.models.from_pymc(program, {"x": x})
    bayesrecon.recover(bayesrecon.posteriors.from_inferencedata(trace, model))
    ```
    """
    program = pymc_model(model)
    if program is None:
        raise BayesreconError(
            f"expected a PyMC model, or a Bambi model that was built, got {type(model).__name__}: models.from_numpyro "
            "takes NumPyro programs"
        )
    library("pymc")  # raises an error if it is too old
    return _Reader(program, name or program.name or "PyMC model", designs(model), hints(model)).model(record, domain)


class _Reader:
    """One PyMC model: the graphs of its prior and likelihood, with constrained values as inputs."""

    def __init__(self, program: Any, title: str, matrices: Sequence[CommonPredictors], known: Mapping[str, object]):
        self.title, self.matrices, self.known = title, matrices, known
        free, observed = list(program.free_RVs), list(program.observed_RVs)
        self._check_variables(free, observed)
        self.start = {v.name: np.asarray(x) for v, x in zip(free, _start(program, free), strict=True)}
        self.free = {v: v.type(name=v.name) for v in free}
        self.data = {v: program.rvs_to_values[v] for v in observed}
        terms = library("pymc.logprob.basic").conditional_logp(self.free | self.data)
        self.prior = [terms[value] for value in self.free.values()]
        self.likelihood = [terms[value] for value in self.data.values()]
        self.count = self._count()
        self.leaves = [leaf for leaf in leaves_of(self.likelihood, self.count) if leaf not in self.data.values()]
        ancestors, data = library("pytensor.graph.traversal").ancestors, [*self.leaves, *self.data.values()]
        for potential, graph in zip(program.potentials, self.in_values(program.potentials), strict=True):
            if leaves_of([graph], self.count) or set(ancestors([graph])) & set(data):
                raise BayesreconError(
                    f"{title}: the potential {potential.name} depends on the records; write it as an observed "
                    "variable, e.g. pm.CustomDist, which has one term per record"
                )
            self.prior.append(graph)
        self.program = program

    def _check_variables(self, free: list[Variable], observed: list[Variable]) -> None:
        if not observed:
            raise BayesreconError(f"{self.title} has no observed variable; pass observed= to the one that is data")
        if not free:
            raise BayesreconError(f"{self.title} has no free variable, so it has no posterior")
        for v in free:
            if v.name.endswith("_unobserved"):
                raise BayesreconError(
                    f"{self.title}: {v.name[: -len('_unobserved')]} has missing values; drop their rows"
                )
            if not v.type.dtype.startswith("float"):
                raise BayesreconError(f"{self.title}: {v.name} is discrete; sum it out of the likelihood (pm.Mixture)")
        for v in observed:
            if "Minibatch" in type(v.owner.op).__name__:
                raise BayesreconError(f"{self.title}: {v.name} is scaled by total_size; use all records")

    def _count(self) -> int:
        """N, the number of records. Raises an error if observed variables have different lengths."""
        shapes = {v.name: np.shape(content(value)) for v, value in self.data.items()}
        for name, shape in shapes.items():
            if not shape:
                raise BayesreconError(
                    f"{self.title}: the observed variable {name} is a single number, not one per record"
                )
        if len({shape[0] for shape in shapes.values()}) > 1:
            lengths = ", ".join(f"{name} ({shape[0]})" for name, shape in shapes.items())
            raise BayesreconError(
                f"{self.title}: observed variables of different lengths: {lengths}; model one at a time"
            )
        return int(next(iter(shapes.values()))[0])

    def in_values(self, graphs: Sequence[Variable]) -> list[Variable]:
        """Graphs in terms of constrained values instead of random variables."""
        return _in_values(graphs, self.free | self.data) if graphs else []

    def sizes(self, variable: Variable) -> tuple[int, ...]:
        """Shape of a variable of the graphs."""
        named = {value: self.start[value.name] for value in self.free.values()}
        if variable in named:
            return np.shape(named[variable])
        return tuple(int(n) for n in variable.shape.eval(named, on_unused_input="ignore"))

    def model(
        self, names: Mapping[str, npt.ArrayLike] | Sequence[str] | None, domain: Mapping[str, Any] | None
    ) -> Model:
        dims = {value: self.program.named_vars_to_dims.get(v.name) for v, value in self.free.items()}
        arrays = [a for a in self.leaves if not self._is_not_a_field(np.asarray(content(a)))]
        observed = {v.name: value for v, value in self.data.items()}
        columns = columns_of(self.likelihood, arrays, self.sizes, dims)
        others = named(columns, observed, self.matrices, names, self.known, self.title)
        record = record_of(others, observed, self.matrices)
        fields = {k: Field(c.shape, record.domain(k)) for k, c in record.columns.items()}
        for v, value in self.data.items():
            shape = np.shape(content(value))[1:]
            fields[v.name] = Field(shape, domain_of(v, shape))
        for k, text in (domain or {}).items():
            if k not in fields:
                raise BayesreconError(f"domain: {k!r} is not a field ({', '.join(fields)}){near(k, fields)}")
            fields[k] = replace(fields[k], domain=parse(text, k))
        single_record = _OneRecord(self, record)
        terms, prior = single_record.function(self.likelihood), jaxified(single_record.latents, self.prior, self.title)
        result = Model(
            name=self.title,
            parameters=tuple(map(self._parameter, self.free)),
            fields=fields,
            log_lik_at=lambda params, z: _total(terms(self.with_shifted_intercepts(params), z)),
            log_prior_at=lambda params: _total(prior(*single_record.ordered(self.with_shifted_intercepts(params)))),
            prepare=offsets(single_record.names) if self.matrices else None,
        )
        self._check(result, terms, record.values)
        return replace(result, gaussian=single_record.gaussian(result), simulate=single_record.simulation(result))

    def _parameter(self, variable: Variable) -> Parameter:
        transform, shape = self.program.rvs_to_transforms.get(variable), self.start[variable.name].shape
        cholesky = packed(transform, shape)
        if cholesky is not None:
            return Parameter(variable.name, shape, cholesky, None)
        return parameter(variable.name, shape, support_of(variable, transform, self.title), self.title)

    def _is_not_a_field(self, values: np.ndarray) -> bool:
        """Whether an array is constant or a matrix of predictors."""
        return is_constant(values) or any(is_matrix(m, values) for m in self.matrices)

    def with_shifted_intercepts(self, params: Params) -> Params:
        """The parameters of the graph, whose intercepts belong to centred predictors."""
        result = dict(params)
        for m in self.matrices:
            if m.intercept is not None:
                slopes = jnp.concatenate([jnp.ravel(params[name]) for name in m.coefficients])
                result[m.intercept] = params[m.intercept] + slopes @ m.mean
        return result

    def _check(self, model: Model, terms: Callable[..., list[jax.Array]], records: Records) -> None:
        """Check that the terms of single records sum to the likelihood of the model."""
        joint = jaxified(list(self.free.values()), self.likelihood, self.title)
        single = jax.jit(jax.vmap(terms, in_axes=(None, 0)))
        finite = False
        for point in _POINTS:
            params = model.constrain(np.linspace(point, point + 0.2, model.dimension))
            joint_terms = joint(*(params[v.name] for v in self.free))
            try:
                terms_by_record = single(params, records)
            except Exception:  # JAX raises many kinds of errors for shapes that do not fit
                terms_by_record = [np.zeros(0)] * len(joint_terms)
            for single_term, joint_term in zip(terms_by_record, joint_terms, strict=True):
                a, b = np.asarray(single_term, float), np.asarray(joint_term, float)
                same_shape = b.ndim and len(a) == len(b) and a.size == b.size
                if not same_shape or not np.allclose(a.ravel(), b.ravel(), rtol=1e-8, atol=1e-8, equal_nan=True):
                    raise self.not_a_product()
                finite |= bool(np.isfinite(b).any())
        if not finite:
            raise BayesreconError(
                f"{self.title}: the likelihood is not finite at any point that was tried, so it cannot be checked"
            )

    def not_a_product(self, why: str = "") -> BayesreconError:
        per_record = [v.name for v in self.free if self.count in self.start[v.name].shape]
        if per_record:
            remedy = (
                f"{', '.join(per_record)} has an entry per record, and the number of latent values must not depend on "
                "the number of records: index a fixed number of units by an array (effect[unit])"
            )
        else:
            remedy = "what is computed from several records (a mean, a lag) belongs in the record itself"
        return BayesreconError(f"{self.title}: the likelihood is not a product over records{why}; {remedy}")


class _OneRecord:
    """Functions of one record that are read from the graphs of a model."""

    def __init__(self, reader: _Reader, record: Record):
        self.reader, self.record = reader, record
        self.latents = list(reader.free.values())
        self.names = [value.name for value in self.latents]

    def ordered(self, params: Params) -> list[jax.Array]:
        """The parameters in the order of the graphs' inputs."""
        return [jnp.asarray(params[n]) for n in self.names]

    def rebuilt(self, graphs: Sequence[Variable]) -> list[Variable]:
        """The graphs for one record."""
        leaves = [*leaves_of(graphs, self.reader.count), *self.record.observed.values()]
        return for_one_record(graphs, {leaf: self.record.stand_in(leaf) for leaf in leaves}, self.reader.count)

    def function(self, graphs: Sequence[Variable]) -> Callable[[Params, Records], list[jax.Array]]:
        """Graphs as a function of parameters and one record.

        Raises:
            BayesreconError: the graphs cannot be rebuilt for one record.
        """
        try:
            return self.evaluated(self.rebuilt(graphs), ())
        except NotOneRecordError as error:
            raise self.reader.not_a_product(f" ({error})") from None

    def evaluated(self, graphs: Sequence[Variable], generators: Sequence[Variable]) -> Callable[..., list[jax.Array]]:
        """The graphs as a JAX function of parameters, one record, and states of random generators."""
        inputs = self.record.inputs
        run = jaxified([*self.latents, *inputs.values(), *generators], graphs, self.reader.title)

        def evaluate(params: Params, record: Records, *states: Mapping[str, int | jax.Array]) -> list[jax.Array]:
            fields = [jnp.asarray(record[k])[None].astype(v.type.dtype) for k, v in inputs.items()]
            return list(run(*self.ordered(params), *fields, *states))

        return evaluate

    def simulation(self, model: Model) -> Callable[[Params, Records, jax.Array], Records] | None:
        """Function that simulates the observed fields of records; None if a distribution cannot be simulated."""
        reader = self.reader

        def sizes(distribution: Variable) -> tuple[int, ...]:
            return reader.sizes(_in_values([distribution], reader.free)[0])

        graphs, generators = [], []
        try:
            for v, value in reader.data.items():
                others = {w: x for w, x in reader.data.items() if w is not v}
                (distribution,) = _in_values([v], reader.free | others)
                graph, new_generators = drawn(distribution, np.shape(content(value))[1:], self.rebuilt, sizes)
                graphs.append(graph)
                generators += new_generators
            evaluate = self.evaluated(graphs, generators)
        except BayesreconError:
            return None

        def simulate(params: Params, batch: Records, key: jax.Array) -> Records:
            keys = jax.random.split(key, (len(next(iter(batch.values()))), len(generators)))
            params = reader.with_shifted_intercepts(params)
            draws = jax.vmap(lambda record, keys: evaluate(params, record, *map(state, keys)))(dict(batch), keys)
            return {**batch, **{v.name: x[:, 0] for v, x in zip(reader.data, draws, strict=True)}}

        try:
            jax.eval_shape(simulate, model.constrain(np.zeros(model.dimension)), self.record.values, jax.random.key(0))
        except Exception:  # JAX raises many kinds of errors for distributions that it cannot draw from
            return None
        return simulate

    def gaussian(self, model: Model) -> GaussianPredictor | None:
        """The form of a model with one normal observed variable as a linear regression; None if it is none."""
        reader = self.reader
        (variable, *others), value = list(reader.data), next(iter(reader.data.values()))
        if others or type(variable.owner.op).__name__ != "NormalRV" or model.fields[variable.name].shape:
            return None
        evaluate = self.function([*reader.in_values(variable.owner.op.dist_params(variable.owner)), value])

        def response(params: Params, records: Records) -> tuple[jax.Array, jax.Array, jax.Array]:
            outputs = jax.vmap(evaluate, in_axes=(None, 0))(reader.with_shifted_intercepts(params), records)
            location, scale, observed = (jnp.reshape(x, (len(x), -1))[:, 0] for x in outputs)
            return location, scale, observed

        first_records = {k: v[:2] for k, v in self.record.values.items()}
        return gaussian_predictor(model, response, model.constrain(np.zeros(model.dimension)), first_records)


def _total(terms: Sequence[jax.Array]) -> jax.Array:
    return jnp.asarray(sum(jnp.sum(term) for term in terms))


def _start(program: object, free: Sequence[Variable]) -> list[np.ndarray]:
    """Initial constrained values of the free variables, which have their shapes."""
    values = library("pymc.initial_point").make_initial_point_fn(model=program, return_transformed=False)(0)
    return [values[v.name] for v in free]


def _in_values(graphs: Sequence[Variable], values: Mapping[Variable, Variable]) -> list[Variable]:
    """Graphs in terms of values instead of random variables."""
    return list(library("pymc.logprob.utils").replace_rvs_by_values(graphs, rvs_to_values=values))


def adapted(source: object, sizes: Mapping[str, tuple[int, ...]] | None = None) -> Model | None:
    """The model of a PyMC or Bambi model; None for anything else."""
    return None if pymc_model(source) is None else from_pymc(source)


ADAPTS = adapted


# Simulation of records from a PyMC model: its distributions, with their random generators as inputs.


class NotDrawnError(BayesreconError):
    """A distribution that cannot be simulated."""


def drawn(
    variable: Variable,
    shape: tuple[int, ...],
    rebuilt: Callable[[Sequence[Variable]], list[Variable]],
    sizes: Callable[[Variable], tuple[int, ...]],
) -> tuple[Variable, list[Variable]]:
    """A graph that draws the variable for one record, `(1, *shape)`, and the generators that are its inputs.

    Args:
        rebuilt: function that rebuilds graphs for one record.
        sizes: function that returns the shape of a variable, for all records.

    Raises:
        NotDrawnError: the distribution is neither one of PyTensor's, nor a mixture of these, nor censored.
    """
    pt, generators_of = library("pytensor.tensor"), library("pytensor.tensor.random.type").random_generator_type
    op, inputs = variable.owner.op, variable.owner.inputs
    kind = type(op).__name__
    if kind == "CategoricalRV":  # in JAX, PyTensor takes its log odds for probabilities
        return _chosen(rebuilt(inputs[-1:])[0], shape)
    if isinstance(op, library("pytensor.tensor.random.op").RandomVariable):
        generator = generators_of()
        size = np.array((1, *shape)[: 1 + len(shape) - op.ndim_supp], np.int64)
        return op.make_node(generator, pt.constant(size), *rebuilt(inputs[2:])).outputs[1], [generator]
    if kind == "CensoredRV":
        result, generators = drawn(inputs[0], shape, rebuilt, sizes)
        return pt.clip(result, *rebuilt(inputs[1:])), generators
    if kind == "MixtureRV" and not inputs[-1].owner.op.ndim_supp:
        _, weights, *components = inputs
        parts = [drawn(c, sizes(c)[1:], rebuilt, sizes) for c in components]
        parameters = parts[0][0] if len(parts) == 1 else pt.stack([d for d, _ in parts], axis=-1)
        chosen, generators = _chosen(rebuilt([weights])[0], shape)
        result = pt.take_along_axis(parameters, chosen[..., None], axis=-1)[..., 0]
        return result, [*generators, *(g for _, new_generators in parts for g in new_generators)]
    raise NotDrawnError(f"{kind} cannot be simulated")


def _chosen(probabilities: Variable, shape: tuple[int, ...]) -> tuple[Variable, list[Variable]]:
    """A graph that draws a category, and its generator. Probabilities are along the last axis."""
    pt, generator = library("pytensor.tensor"), library("pytensor.tensor.random.type").random_generator_type()
    size = pt.constant(np.array((1, *shape), np.int64))
    # Called as a function, it hides the generator's next state, which newer PyTensor warns of.
    uniform = library("pytensor.tensor.random.basic").uniform.make_node(generator, size, 0.0, 1.0).outputs[1]
    cumulative = pt.cumsum(probabilities, axis=-1)[..., :-1]
    return (uniform[..., None] > cumulative).sum(axis=-1), [generator]


def state(key: jax.Array) -> dict[str, int | jax.Array]:
    """A random generator in the form that PyTensor's JAX functions accept."""
    return {"bit_generator": 1, "jax_state": jax.random.key_data(key)}
