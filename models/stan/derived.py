"""Transformed data that one record does not determine: columns centred by their own mean, and the like."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Records
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.layout import RecordField, sizes_of
from bayesrecon.models.stan.posterior import declarations
from bayesrecon.models.stan.record_term import Parts

if TYPE_CHECKING:
    from bayesrecon.models.stan.values import V


class NeedsAllRecordsError(BayesreconError):
    """A variable of the transformed data is computed from all records, so its value has to be stated.

    Args:
        name: name of the variable.
        message: text of the error.
    """

    def __init__(self, name: str, message: str):
        super().__init__(message)
        self.name = name


_PROBED = 6  # random records on which totals are checked


def coupled_column(parts: Parts) -> RecordField | None:
    """The first of the transformed data that follow the records and that a record alone does not determine."""
    if parts.count is None:
        return None
    count = parts.units if parts.unit else 3
    records = parts.blank(count, 1)
    joint = parts.frame_of(records, count, np)
    single_frames = [parts.frame_of({k: v[n : n + 1] for k, v in records.items()}, 1, np) for n in range(count)]
    for node in declarations(parts.machine.program.transformed_data):
        v = joint.get(node.name)
        if v is None or not v.tainted or node.name in parts.cut:
            continue
        sizes = sizes_of(node)
        axes = [k for k, s in enumerate(sizes) if isinstance(s, tree.VariableName) and s.name == parts.count]
        singles = [variables[node.name].a for variables in single_frames]
        if len(axes) == 1:
            together = np.concatenate(singles, axis=axes[0])
            if together.shape != np.shape(v.a) or not np.allclose(
                together, v.a, rtol=1e-10, atol=1e-12, equal_nan=True
            ):
                return RecordField(node, axes[0])
        elif any(np.shape(s) != np.shape(v.a) or not np.allclose(s, v.a, equal_nan=True) for s in singles):
            line, column = node.position
            raise NeedsAllRecordsError(
                node.name,
                f"{parts.name}, line {line}, column {column}: {node.name} is computed from all records; it cannot be "
                f'recovered from one: pass it in constants={{"{node.name}": ...}}, or make it part of the record',
            )
    return None


def identities_of(parts: Parts) -> dict[str, tuple[Callable[[Records], Array], float]]:
    """Totals that such columns satisfy whatever the data: of centred ones the sum is zero, of standardised ones the sum
    of squares is the number of records less one, times the square of the scale."""
    result: dict[str, tuple[Callable[[Records], Array], float]] = {}
    if not parts.cut or parts.unit:
        return result
    raw = _raw_frames(parts)
    for name, column in parts.cut.items():
        tables = [np.moveaxis(np.asarray(f[name].a, float), column.axis, 0).reshape(_PROBED, -1) for f in raw]
        width = tables[0].shape[1]
        shape = parts.fields[name].shape
        for i in range(width):
            label = f"{name}[{i + 1}]" if shape else name
            if all(abs(t[:, i].sum()) <= 1e-9 * (1 + np.abs(t[:, i]).sum()) for t in tables):
                result[f"sum({label})"] = (_entry(name, i), 0.0)
            spread = [float((t[:, i] ** 2).sum()) / (_PROBED - 1) for t in tables]
            if spread[0] > 0 and all(abs(s - spread[0]) <= 1e-9 * spread[0] for s in spread):
                result[f"sum({label}^2) / {spread[0]:g} - n"] = (_square(name, i, spread[0]), -1.0)
    return result


def _entry(name: str, i: int) -> Callable[[Records], Array]:
    return lambda record: record[name].reshape(-1)[i]


def _square(name: str, i: int, spread: float) -> Callable[[Records], Array]:
    return lambda record: record[name].reshape(-1)[i] ** 2 / spread - 1.0


def _raw_frames(parts: Parts) -> "list[dict[str, V]]":
    """Transformed data of random records, computed from the data themselves."""
    assert parts.whole is not None
    return [parts.whole.frame_of(parts.whole.blank(_PROBED, seed), _PROBED, np) for seed in (5, 6)]
