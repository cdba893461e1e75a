"""The private data with which findings are compared."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bayesrecon.auditing.look import Private
from bayesrecon.errors import BayesreconError
from bayesrecon.results.findings import Finding
from bayesrecon.results.told import CLOSE, OPEN, values_in

if TYPE_CHECKING:
    from bayesrecon.model import Model, Records

_DIGITS, _LEVELS = 4, 20  # fewest digits or letters of a value of a person, and most texts of a factor
_NEAR = 5e-6  # rounding of a number that a text quotes
_NUMBER = r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)"


def read_private(data: object, model: "Model | None") -> Private | None:
    """Read private data from a mapping of columns or from the path of a table.

    Raises:
        BayesreconError: the file does not exist, there are no columns, a column is empty, or the table lacks a field of
            the model.
    """
    if data is None:
        return None
    stamp = None
    if isinstance(data, str | os.PathLike):
        from dataclasses import asdict

        from bayesrecon.posteriors.contents import stamp as stamp_of
        from bayesrecon.posteriors.tables import read_table

        table: Mapping[str, npt.ArrayLike] = read_table(str(data))
        stamp = asdict(stamp_of(Path(data)))
    elif isinstance(data, Mapping):
        table = dict(data)
    else:
        raise BayesreconError(f"data: expected columns or the path of a table, got a {type(data).__name__}")
    columns = {str(k): np.asarray(v) for k, v in table.items() if np.ndim(v) or not np.isscalar(v)}
    if not any(v.ndim for v in columns.values()):
        raise BayesreconError(f"data: there are no columns in {'the mapping' if stamp is None else data}")
    if empty := [name for name, v in columns.items() if v.ndim and not v.size]:
        raise BayesreconError(f"data: column {empty[0]!r} has no values")
    return Private(columns, _records(table, model), stamp)


def hidden(findings: Iterable[Finding], private: Private) -> tuple[Finding, ...]:
    """The findings, with private values in their texts marked as such, however they came there.

    Numbers count if they have at least four digits, and texts if they are in a column with many different ones.
    """
    columns = [np.ravel(values) for values in private.columns.values()]
    numbers = np.concatenate([c.astype(float) for c in columns if c.dtype.kind in "iuf"] or [np.zeros(0)])
    texts = [{str(v) for v in c} for c in columns if c.dtype.kind not in "biufc"]
    words = {word for found in texts if len(found) > _LEVELS for word in found if len(word) >= _DIGITS}

    def is_private(number: str) -> bool:
        digits = number.lower().split("e")[0].replace(".", "").strip("-0")
        return len(digits) >= _DIGITS and bool((np.abs(numbers - float(number)) <= _NEAR * abs(float(number))).any())

    def marked(text: str) -> str:
        held = sorted((word for word in words if word in text), key=len, reverse=True)
        form = "|".join([f"{OPEN}.*?{CLOSE}", *map(re.escape, held), rf"(?P<number>{_NUMBER})"])

        def mark(found: re.Match[str]) -> str:
            fine = found[0].startswith(OPEN) or (found["number"] and not is_private(found["number"]))
            return found[0] if fine else values_in(found[0])

        return re.sub(form, mark, text, flags=re.DOTALL)

    def one(finding: Finding) -> Finding:
        told = [
            replace(i, person=i.person or (not i.se and i.estimate is not None and is_private(f"{i.estimate:.9g}")))
            for i in finding.evidence
        ]
        remedies = tuple(replace(r, action=marked(r.action)) for r in finding.remedies)
        texts = {"title": marked(finding.title), "summary": marked(finding.summary)}
        return replace(finding, evidence=tuple(told), remedies=remedies, **texts)

    return tuple(map(one, findings))


def _records(table: Mapping[str, npt.ArrayLike], model: "Model | None") -> "Records | None":
    if model is None:
        return None
    from bayesrecon.domains import records_in

    held = records_in(model.fields, table)
    if len(held) == len(model.fields):
        records = {f: _numbers(f, values, model) for f, values in held.items()}
    else:
        from bayesrecon.models import shipped

        entry = shipped().get(model.name)
        missing = next(f for f in model.fields if f not in held)
        problem = (
            f"data: there is no column {missing!r}, which records of {model.name} have ({', '.join(model.fields)})"
        )
        if entry is None or entry.records is None:
            raise BayesreconError(problem)
        try:
            records = entry.records(table)
        except KeyError:
            raise BayesreconError(problem) from None
    lengths = {f: len(v) for f, v in records.items()}
    if len(set(lengths.values())) != 1:
        raise BayesreconError(f"data: columns of different lengths: {lengths}")
    bad = next((f for f, v in records.items() if not np.isfinite(np.asarray(v, float)).all()), None)
    if bad is not None:
        raise BayesreconError(f"data: the column {bad!r} holds missing values; the model's records have none")
    return records


def _numbers(field: str, values: npt.ArrayLike, model: "Model") -> np.ndarray:
    try:
        return np.asarray(values, float)
    except ValueError:
        raise BayesreconError(
            f"data: the column {field!r} holds texts; records of {model.name} have numbers there"
        ) from None
