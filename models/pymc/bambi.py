"""Names of columns and centring of predictors, from a Bambi model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class CommonPredictors:
    """A matrix of common predictors in the graph.

    Bambi subtracts the columns' means, and corrects the intercept in its draws. So draws are for the original
    predictors, and priors are for centred ones.

    Attributes:
        values: the matrix in the graph, `(N, p)`.
        mean: the means that were subtracted, `(p,)`.
        columns: `(field, level)` of every column. The level is the one that the column indicates if the field is
            categorical, and otherwise None.
        fields: `{field: (values (N,), number of levels or None)}`.
        intercept: name of the intercept if predictors are centred; otherwise None.
        coefficients: names of the columns' coefficients, in order.
    """

    values: np.ndarray
    mean: np.ndarray
    columns: tuple[tuple[str, int | None], ...]
    fields: Mapping[str, tuple[np.ndarray, int | None]]
    intercept: str | None
    coefficients: tuple[str, ...]


def designs(model: object) -> list[CommonPredictors]:
    """The matrices of a Bambi model that was built; an empty list for another model."""
    return [design for part in _parts(model) if (design := _design(part, model)) is not None]


def _parts(model: object) -> list[Any]:
    """The predictors of the response's parameters; an empty list for another model."""
    return list(getattr(getattr(model, "backend", None), "distributional_components", {}).values())


def _design(part: Any, model: Any) -> CommonPredictors | None:
    terms = part.component.common_terms
    if not terms:
        return None
    intercept = part.component.intercept_term
    uncentred = np.column_stack([np.asarray(t.data, float).reshape(len(t.data), -1) for t in terms.values()])
    centred = bool(intercept) and model.center_predictors
    mean = uncentred.mean(axis=0) if centred else np.zeros(uncentred.shape[1])
    columns: list[tuple[str, int | None]] = []
    fields: dict[str, tuple[np.ndarray, int | None]] = {}
    for name, term in terms.items():
        values = np.asarray(term.data, float).reshape(len(term.data), -1)
        is_categorical = term.kind == "categoric" and np.isin(values, (0, 1)).all() and (values.sum(axis=1) <= 1).all()
        if is_categorical:
            first = 0 if (values.sum(axis=1) == 1).all() else 1
            fields[name] = ((values @ np.arange(first, first + values.shape[1])).astype(int), values.shape[1] + first)
            columns += [(name, first + j) for j in range(values.shape[1])]
        else:
            is_matrix = values.shape[1] > 1
            for j in range(values.shape[1]):
                field = f"{name}[{j + 1}]" if is_matrix else name
                fields[field] = (np.asarray(term.data).reshape(values.shape)[:, j], None)
                columns.append((field, None))
    return CommonPredictors(
        values=uncentred - mean,
        mean=mean,
        columns=tuple(columns),
        fields=fields,
        intercept=_name(intercept) if centred else None,
        coefficients=tuple(map(_name, terms.values())),
    )


def hints(model: object) -> dict[str, np.ndarray]:
    """Arrays by the names that they have in the formula or its data."""
    result = {}
    for part in _parts(model):
        for name, term in part.component.group_specific_terms.items():
            expression, factor = name.split("|", 1)
            result[factor] = np.asarray(term.group_index)
            if expression != "1":
                result[expression] = np.asarray(term.predictor)
    data = getattr(model, "data", None)
    if data is not None:
        result |= {
            str(c): np.asarray(data[c]) for c in data.columns if data[c].dtype.kind in "biuf" and c not in result
        }
    return result


def offsets(names: Sequence[str]) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Convert the group effects that Bambi stores to the standardised ones that it samples."""

    def prepare(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for name in names:
            effect = name.removesuffix("_offset")
            if effect != name and name not in values and {effect, f"{effect}_sigma"} <= set(values):
                size = np.asarray(values[f"{effect}_sigma"])
                effects = np.asarray(values[effect])
                values[name] = effects / size.reshape(*size.shape, *[1] * (effects.ndim - size.ndim))
        return values

    return prepare


def _name(term: Any) -> str:
    return str(getattr(term, "alias", None) or term.name)
