"""What all results share: a headline, a table and warnings as text and in notebooks, plain documents, and drawing."""

import html
import importlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesrecon._version import __version__

_ROWS = 20


class Result:
    """A result with a `headline` and a DataFrame; `warnings` are listed below the table."""

    warnings: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """What it is, in one line."""
        raise NotImplementedError

    def to_dataframe(self) -> Any:
        """The whole table."""
        raise NotImplementedError

    def _excerpt(self) -> Any:
        """The table that is shown, most important rows first; of long ones only the beginning."""
        return self.to_dataframe()

    def _document(self, **body: Any) -> dict[str, Any]:
        """What `to_dict` returns: the version, and the body with the warnings in plain types."""
        return plain({"version": __version__, **body, "warnings": self.warnings})

    def _drawn(self, name: str, **options: Any) -> Any:
        """The drawing `bayesrecon.plots.<name>` of this result.

        The only way from data to drawing: `plots` imports `results`, so it is looked up when somebody asks.
        """
        return getattr(importlib.import_module("bayesrecon.plots"), name)(self, **options)

    def __repr__(self) -> str:
        table, rest = self._beginning()
        text = table.to_string(float_format="{:.6g}".format, na_rep="")
        text = "\n".join([self.headline, text, *rest, *(f"warning: {w}" for w in self.warnings)])
        # Names come from files, and a terminal obeys what is not printable.
        return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)

    def _repr_html_(self) -> str:
        table, rest = self._beginning()
        text = table.to_html(escape=True, float_format="{:.6g}".format, na_rep="")
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in (*rest, *self.warnings))
        return f"<p>{html.escape(self.headline)}</p>{text}<ul>{notes}</ul>"

    def _beginning(self) -> tuple[Any, list[str]]:
        """The first rows, and a line about the others."""
        table = self._excerpt()
        rest = len(table) - _ROWS
        return table.head(_ROWS), [f"... and {rest} more rows; to_dataframe() has them all"] if rest > 0 else []


def plain(value: Any) -> Any:
    """The value in types that JSON has: lists for sequences and arrays, None for numbers that do not exist.

    >>> plain({"n": np.float64("nan"), "at": (1, np.arange(2))})
    {'n': None, 'at': [1, [0, 1]]}
    """
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__jax_array__") or hasattr(value, "tolist"):
        value = np.asarray(value).tolist()
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
