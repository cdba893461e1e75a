"""How results show themselves: a headline, a table and the warnings, as text and in notebooks."""

import html
from typing import Any

_ROWS = 20


class Shown:
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
