"""What all results share: a headline, a table and warnings, conversion to plain data, and plotting."""

import dataclasses
import html
import importlib
import json
import math
import pkgutil
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

import numpy as np

from bayesrecon._version import __version__
from bayesrecon.errors import BayesreconError, Note, near, visible
from bayesrecon.files import write_netcdf, write_whole
from bayesrecon.json_types import Json, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from pandas import DataFrame


ABOUT = "__bayesrecon__"
"""The name of the JSON text in an archive."""


def packed(result: object) -> dict[str, np.ndarray]:
    """A result as named arrays, one of which is a JSON text.

    Raises `BayesreconError` if the result holds something that is not data.
    """
    arrays: dict[str, np.ndarray] = {}
    document = json.dumps(
        {"version": __version__, "result": _packed(result, arrays, classes_of_results())}, allow_nan=False
    )
    return {ABOUT: np.array(document), **arrays}


def classes_of_results() -> dict[str, type]:
    """Dataclasses that results consist of: those of this package and those defined elsewhere."""
    package = importlib.import_module("bayesrecon.results")
    modules = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    named = {name: value for module in modules for name, value in vars(module).items()}
    values = [v for v in named.values() if str(getattr(v, "__module__", "")).startswith("bayesrecon.")]
    pending = [named["Result"]]
    while pending:
        values.append(pending.pop())
        pending += values[-1].__subclasses__()
    return {value.__name__: value for value in values if isinstance(value, type) and dataclasses.is_dataclass(value)}


def _packed(value: object, arrays: dict[str, np.ndarray], classes: dict[str, type]) -> object:
    if dataclasses.is_dataclass(value) and classes.get(type(value).__name__) is type(value):
        fields = {f.name: _packed(getattr(value, f.name), arrays, classes) for f in dataclasses.fields(value) if f.init}
        return {"class": type(value).__name__, "fields": fields}
    if isinstance(value, Note):
        return {"note": str(value)}
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "tolist"):
        array = np.asarray(value)
        if array.dtype == object:
            array = array.astype(str)
        name = f"a{len(arrays)}"
        arrays[name] = array
        return {"array": name}
    if isinstance(value, dict):
        return {"items": [[_packed(k, arrays, classes), _packed(v, arrays, classes)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_packed(v, arrays, classes) for v in value]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise BayesreconError(f"a {type(value).__name__} is not data and cannot be saved; use to_dict()")


_ROWS = 20
_NOTICE = (
    "draws and model do not belong together: nothing is determined (force=True or --force shows numbers all the same)"
)


class Result:
    """A result with a `headline` and a DataFrame. Its `warnings` are listed below the table."""

    warnings: tuple[str, ...] = ()
    """One line each. Those of the type `Note` need no action and are shown as notes."""
    failures: tuple[str, ...] = ()
    """Failed checks of the release, one line each. If there are any, nothing is determined."""
    _omitted: tuple[str, ...] = ()  # fields that `to_dict` leaves out
    _derived: tuple[str, ...] = ()  # properties and methods whose values it adds
    _indexed = True  # whether `save` writes the table's index
    plotted_by = ""  # its plot, `module.function` of `bayesrecon.plots`

    @property
    def headline(self) -> str:
        """One line that says what the result is."""
        raise NotImplementedError

    def to_dataframe(self) -> "DataFrame":
        """The complete table."""
        raise NotImplementedError

    def to_dict(self) -> Json:
        """Plain types only. Values that are not determined are None."""
        left_out = {"warnings", "failures", *self._omitted}
        names = [f.name for f in dataclasses.fields(cast(Any, self)) if f.init and f.name not in left_out]
        values = {name: getattr(self, name) for name in (*names, *self._derived)}
        return self._document(**{name: value() if callable(value) else value for name, value in values.items()})

    @property
    def consistent(self) -> bool:
        """Whether all checks of draws and model passed."""
        return not self.failures

    @property
    def condition(self) -> str:
        """The assumption that the numbers rest on. Another data set with exactly this posterior cannot be ruled out."""
        model, draws = getattr(self, "model", ""), getattr(self, "draws", 0)
        return f"if these are exact draws of {model}" if model and draws > 1 else ""

    @property
    def notice(self) -> str:
        """What a reader must know first; empty if there is nothing."""
        return "" if self.consistent else _NOTICE

    def judged(self, force: bool = False) -> Self:
        """The result as it may be shown.

        If a check failed, nothing is called determined, and numbers are shown only with `force`.
        """
        return self if self.consistent else self._lowered(force)

    def _lowered(self, force: bool) -> Self:
        return self

    def _excerpt(self) -> "DataFrame":
        """The table that is shown, most important rows first; of long ones only the beginning."""
        return self.to_dataframe()

    def save(self, path: str | Path) -> Path:
        """Write the result to a file (complete or not at all). The suffix decides the format.

        `.npz` can be loaded again (`bayesrecon.load_result`). `.json` holds `to_dict` and `.csv` the table. `.nc` is
        netCDF, for results with `to_dataset`.

        Raises:
            BayesreconError: another suffix.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        dataset = getattr(self, "to_dataset", None)
        if suffix == ".npz":
            arrays = packed(self)

            def write(temporary: Path) -> None:
                with temporary.open("wb") as handle:
                    np.savez(handle, allow_pickle=False, **arrays)

            write_whole(path, write)
        elif suffix == ".json":
            text = json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"
            write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        elif suffix == ".csv":
            table = as_cells(self.to_dataframe())
            write_whole(path, lambda temporary: table.to_csv(temporary, index=self._indexed))
        elif suffix == ".nc" and dataset is not None:
            write_netcdf(path, dataset())
        else:
            known = ".npz, .json, .csv" + (", .nc" if dataset is not None else "")
            raise BayesreconError(f"{path}: a {type(self).__name__} is written to {known}")
        return path

    def _document(self, **body: object) -> Json:
        """The value of `to_dict`: schema, version, checks, body, warnings and notes in plain types."""
        checks = {"consistent": self.consistent, "failures": self.failures, "condition": self.condition}
        named = {"schema": f"{type(self).__name__}/{VERSION}", "version": __version__}
        messages = {
            "warnings": [message for message in self.warnings if not isinstance(message, Note)],
            "notes": [message for message in self.warnings if isinstance(message, Note)],
        }
        return plain({**named, **checks, **body, **messages})

    def plot(self, ax: "Axes | None" = None, path: str | Path | None = None, **options: object) -> Any:
        """Plot the result, as the function of `bayesrecon.plots` for its class does.

        Args:
            ax: Axes to draw into; by default a new figure. Figures of several panels then have only the main one.
            path: save the figure there (.png, .pdf or .svg).
            options: further options of that function, such as `truth` or `shape`.

        Returns:
            The Axes; of a figure of several panels an array.

        Raises:
            BayesreconError: results of this class have no plot, or the path has another suffix.
        """
        if not self.plotted_by:
            raise BayesreconError(f"a {type(self).__name__} cannot be plotted")
        return self.plotted(self.plotted_by, ax=ax, path=path, **options)

    def plotted(self, name: str, **options: object) -> Any:
        """The plot `bayesrecon.plots.<name>` of this result; the name is that of a module and a function in it.

        `plots` imports `results`, so the plot is imported only when it is requested.
        """
        package, (module, function) = __name__.partition(".")[0], name.split(".")
        return getattr(importlib.import_module(f"{package}.plots.{module}"), function)(self, **options)

    def __repr__(self) -> str:
        table, remarks = self._first_rows()
        text = table.to_string(formatters=_formatters(table), na_rep="")
        first = [line for line in (self.notice, self.headline, self.condition) if line]
        failed = [f"failed: {failure}" for failure in self.failures]
        messages = [f"{'note' if isinstance(w, Note) else 'warning'}: {w}" for w in self.warnings]
        text = "\n".join([*first, text, *remarks, *failed, *messages])
        return visible(text)  # names come from files, and a terminal obeys what is not printable

    def _repr_html_(self) -> str:
        table, remarks = self._first_rows()
        text = table.to_html(escape=True, formatters=_formatters(table), na_rep="")
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in (*remarks, *self.failures, *self.warnings))
        first = (line for line in (self.notice, self.headline, self.condition) if line)
        return visible("".join(f"<p>{html.escape(line)}</p>" for line in first) + f"{text}<ul>{notes}</ul>")

    def check_types(self) -> None:
        """Build every representation of the result once, so that a field of a wrong type is an error here."""
        for show in (self.to_dict, self.to_dataframe, self.__repr__, self._repr_html_):
            show()

    def _first_rows(self) -> "tuple[pd.DataFrame, list[str]]":
        """The first rows of the table, and lines to print below it."""
        table = self._excerpt()
        more = len(table) - _ROWS
        return table.head(_ROWS), [f"... and {more} more rows; to_dataframe() has them all"] if more > 0 else []


def number(value: float | None, digits: int = 5) -> str:
    """A number with `digits` significant digits; a dash for None."""
    return "–" if value is None else f"{value:.{digits}g}"


def _formatters(table: "pd.DataFrame") -> dict[Any, Callable[[float], str]]:
    """How columns of numbers are shown: standard errors with three digits, others with five, as in the terminal."""
    return {
        name: lambda value, digits=3 if name == "se" else 5: "" if np.isnan(value) else number(value, digits)
        for name, column in table.items()
        if column.dtype.kind == "f"
    }


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def by_name(parts: Iterable[N], name: str, what: str = "part") -> N:
    """The part of this name.

    Raises:
        KeyError: there is none. The message lists similar names.
    """
    named = {part.name: part for part in parts}
    if name not in named:
        raise KeyError(f"no {what} {name!r}{near(name, named)}")
    return named[name]


# Tables that are safe to open in a spreadsheet. Names come from files, and a cell may contain a formula.

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters by which a spreadsheet recognises a formula."""


def as_cells(table: "DataFrame") -> "DataFrame":
    """A copy of a table whose texts are safe: no formulas, and no control characters for a terminal.

    This applies to cells, index and columns.

    >>> import pandas as pd
    >>> print(as_cells(pd.DataFrame({"name": ["=1+1", "mu"], "n": [-1, 2]})).to_csv(index=False), end="")
    name,n
    '=1+1,-1
    mu,2
    """
    result = table.copy()
    for k in range(result.shape[1]):
        column = result.iloc[:, k]
        if column.dtype.kind == "O" or str(column.dtype).startswith("str"):
            result.isetitem(k, column.map(_cell))
    result.index, result.columns = result.index.map(_cell), result.columns.map(_cell)
    return result


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_cell, value))
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


# JSON schemas of the documents that `--json` prints and `to_dict` returns.

VERSION = 3
"""Version of all schemas. It increases when a key is added, renamed, or changes its type."""


@cache
def _text() -> str:
    return Path(__file__).with_name("documents.json").read_text(encoding="utf-8")


def schema(name: str) -> Json:
    """The JSON Schema (draft 2020-12) of one kind of document.

    Args:
        name: the value of `"schema"` in the document, such as "Recovery/3", with or without the version. For documents
            that are not results: "fit", "ledger", "models", "posteriors", "verdicts" and "games".

    Raises:
        BayesreconError: no document has this name, or this version.

    >>> schema("Recovery/3")["$ref"]
    '#/$defs/Recovery'
    """
    document = json.loads(_text())
    kind, _, version = name.partition("/")
    if kind not in document["$defs"]:
        raise BayesreconError(f"no JSON document {kind!r}{near(kind, document['$defs'])}")
    if version and version != str(VERSION):
        raise BayesreconError(f"{name}: this version of bayesrecon has schemas of version {VERSION}")
    return {**document, "$ref": f"#/$defs/{kind}"}
