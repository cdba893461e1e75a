"""Draws in a DataFrame with columns, or levels of its index, that number chains and draws."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.posteriors.contents import Contents, Variable, from_named_draws
from bayesrecon.posteriors.draws import Draws, is_numeric
from bayesrecon.posteriors.formats.columns import Sorted, check_header, names_of_r, sort_columns, split_chains
from bayesrecon.posteriors.formats.format import Format

if TYPE_CHECKING:
    import pandas

_MARKS = ({".chain"}, {".draw"}, {"lp__"}, {"chain", "draw"})


def is_frame(source: object) -> "TypeGuard[pandas.DataFrame]":
    """Whether this is a DataFrame that says it holds draws: R's `.chain` or `.draw`, Stan's `lp__`, or chain and draw.

    >>> import pandas
    >>> is_frame(pandas.DataFrame({"mu": [0.1], ".draw": [1]})), is_frame(pandas.DataFrame({"estimate": [0.1]}))
    (True, False)
    """
    if type(source).__module__.partition(".")[0] not in ("pandas", "polars") or not hasattr(source, "columns"):
        return False
    names = {*map(str, getattr(source, "columns", ())), *map(str, getattr(getattr(source, "index", None), "names", ()))}
    return any(mark <= names for mark in _MARKS)


def read_frame(source: "pandas.DataFrame", *, name: str | None = None) -> Draws:
    """The numeric columns of a DataFrame; `lp__` is the log density.

    Raises:
        BayesreconError: no rows, no numeric columns besides those that count, or columns of one name.

    >>> import pandas
    >>> frame = pandas.DataFrame({"b[1]": [0.1, 0.2], "b[2]": [1.0, 1.1], ".chain": [1, 2], ".draw": [1, 2]})
    >>> read_frame(frame).values["b"].shape
    (2, 1, 2)
    """
    columns, _ = _columns(source)
    with reading("a DataFrame", "draws"):
        if not columns.parameters:
            raise BayesreconError("a DataFrame without columns of numbers holds no draws")
        return Draws(columns.arrays(), columns.sampler.get("lp__"), name or "draws")


def _columns(source: "pandas.DataFrame") -> tuple[Sorted, dict[str, np.ndarray]]:
    """Numbers as `(chains, draws)`, and columns of anything else, which are texts."""
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
    return sort_columns(drawn, names_of_r(header, {})), others


def _contents(source: "pandas.DataFrame", *, name: str | None = None, progress: Progress | None = None) -> Contents:
    columns, others = _columns(source)
    result = from_named_draws(read_frame(source, name=name), "DataFrame")
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
