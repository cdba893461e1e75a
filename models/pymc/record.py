"""The record of a PyMC model: its fields by name, and the graph of one record for each array of the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bayesrecon.domains import BINARY, REAL, Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.models.pymc.bambi import CommonPredictors
from bayesrecon.models.pymc.graph import NotOneRecordError, RecordArray, Variable, content, library

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
        """The graph of one record that replaces an array of the model.

        Raises:
            NotOneRecordError: the array is not a field.
        """
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

    Raises:
        BayesreconError: the names do not match the columns.
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
