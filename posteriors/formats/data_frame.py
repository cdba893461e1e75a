"""Draws in a DataFrame with columns, or levels of its index, that number chains and draws."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.posteriors.contents import Contents, Variable, from_named_draws
from bayesrecon.posteriors.draws import Draws, is_numeric, sign_of
from bayesrecon.posteriors.formats.columns import (
    Sorted,
    check_header,
    names_of_r,
    sign_of_columns,
    sort_columns,
    split_chains,
)
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.posteriors.printed.headers import columns_of

if TYPE_CHECKING:
    import pandas

_COUNTERS = ({".chain"}, {".draw"}, {"chain", "draw"}, {"chain", "iteration"})


def is_frame(source: object) -> "TypeGuard[pandas.DataFrame]":
    """Whether this is a DataFrame of draws or of records, and not a table of estimates.

    It has columns that count draws, or a log density; or its lines have no names, and no errors of estimates.

    >>> import pandas
    >>> [is_frame(pandas.DataFrame(columns)) for columns in ({"mu": [0.1]}, {"term": ["x"], "estimate": [0.1]})]
    [True, False]
    """
    if type(source).__module__.partition(".")[0] not in ("pandas", "polars") or not hasattr(source, "columns"):
        return False
    index = getattr(source, "index", None)
    names = {*map(str, getattr(source, "columns", ())), *map(str, getattr(index, "names", ()))}
    if any(counter <= names for counter in _COUNTERS) or sign_of(names):
        return True
    named = getattr(index, "inferred_type", "integer") not in ("integer", "empty")
    columns = list(getattr(source, "columns", ()))
    first = np.asarray(source[columns[0]]) if columns else np.array("")  # pyright: ignore[reportIndexIssue]
    return not named and is_numeric(first.dtype) and not columns_of(["", *columns]).enough


def read_frame(source: "pandas.DataFrame", *, name: str | None = None) -> Draws:
    """The numeric columns of a DataFrame; `lp__` is the log density.

    Raises:
        BayesreconError: no rows, no numeric columns besides those that count, or columns of one name.

    >>> import pandas
    >>> frame = pandas.DataFrame({"b[1]": [0.1, 0.2], "b[2]": [1.0, 1.1], ".chain": [1, 2], ".draw": [1, 2]})
    >>> read_frame(frame).values["b"].shape
    (2, 1, 2)
    """
    columns = _columns(source)[0]
    with reading("a DataFrame", "draws"):
        if not columns.parameters:
            raise BayesreconError("a DataFrame without columns of numbers holds no draws")
        return Draws(columns.arrays(), columns.sampler.get("lp__"), name or "draws")


def _columns(source: "pandas.DataFrame") -> tuple[Sorted, dict[str, np.ndarray], str]:
    """Numbers as `(chains, draws)`, columns of anything else as texts, and what says that the rows are draws."""
    if any(level is not None for level in getattr(getattr(source, "index", None), "names", ())):
        source = source.reset_index()
    header = list(map(str, source.columns))
    check_header(header, "a DataFrame")
    columns = {key: np.asarray(source[column]) for key, column in zip(header, source.columns, strict=True)}
    numbers = {key: values.astype(float) for key, values in columns.items() if is_numeric(values.dtype)}
    others = {key: values.astype(str) for key, values in columns.items() if key not in numbers}
    if not len(source):
        raise BayesreconError("a DataFrame without rows holds no draws")
    chains, counting = split_chains(numbers, len(source))
    drawn = {key: values.reshape(chains, -1) for key, values in numbers.items() if key not in counting}
    return sort_columns(drawn, names_of_r(header, {})), others, sign_of_columns(header, counting)


def _contents(source: "pandas.DataFrame", *, name: str | None = None, progress: Progress | None = None) -> Contents:
    columns, others, sign = _columns(source)
    result = from_named_draws(read_frame(source, name=name), "DataFrame", sign=sign)
    beside = [
        Variable("sample_stats", key, (), True, values.reshape(-1))
        for key, values in columns.sampler.items()
        if key != "lp__"
    ]
    beside += [
        Variable("posterior", key, values.shape[2:], True, values.reshape(-1, *values.shape[2:]))
        for key, values in columns.aside.items()
    ]
    beside += [Variable("columns", key, texts.shape, False, texts) for key, texts in others.items()]
    levels = {f"posterior/{base}": names for base, names in columns.levels().items()}
    return replace(result, variables=(*result.variables, *beside), coordinates=levels)


FORMAT = Format("DataFrame", (), read_frame, _contents, is_frame, rank=28)
