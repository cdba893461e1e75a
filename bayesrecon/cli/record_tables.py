"""Recovered records on the terminal: a headline, the first records, and the most exposed units."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rich.table import Table

    from bayesrecon.results.records import RecordTable

_MOST_ROWS, _MOST_UNITS = 25, 10


def records_headline(result: "RecordTable") -> str:
    """A line with the numbers of records and draws, and the recovered fields."""
    return (
        f"{result.release}: {len(result)} records ({', '.join(result.unit)} known), {', '.join(result)} recovered from "
        f"{result.draws} draws in {result.seconds:.1f} s"
    )


def records_table(result: "RecordTable") -> "Table":
    """The first records: estimate, error, most probable value and the naive guess."""
    from rich.markup import escape
    from rich.table import Table

    from bayesrecon.cli.rich_tables import number

    frame = result.to_dataframe()
    columns = [c for c in frame.columns if c not in ("floor", "lower", "upper", "visibility", "naive_sd")]
    table = Table()
    for column in columns:
        table.add_column(escape(column), justify="right", no_wrap=True)

    def cell(value: str | float) -> str:
        if isinstance(value, str):
            return escape(value)
        return number(float(value) if np.isfinite(value) else None)

    for line in frame.head(_MOST_ROWS).to_dict("records"):
        table.add_row(*(cell(line[c]) for c in columns))
    if len(frame) > _MOST_ROWS:
        table.caption = f"and {len(frame) - _MOST_ROWS} more: see --out or --json"
    return table


def exposure_table(result: "RecordTable") -> "Table":
    """Units with the most bits beyond the naive guess."""
    from rich.markup import escape
    from rich.table import Table

    found = result.exposure(by=result.unit[0])
    table = Table(title="most exposed")
    for heading in (result.unit[0], "records", "bits"):
        table.add_column(escape(heading), justify="right")
    for name, line in found.head(_MOST_UNITS).to_dict("index").items():
        table.add_row(f"{name}", f"{int(line['records'])}", f"{line['bits']:.2f}")
    return table
