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
    from bayesrecon.cli.rich_tables import number, table

    frame = result.to_dataframe()
    columns = [c for c in frame.columns if c not in ("floor", "lower", "upper", "visibility", "naive_sd")]

    def cell(value: str | float) -> str:
        return value if isinstance(value, str) else number(float(value) if np.isfinite(value) else None)

    more = len(frame) - _MOST_ROWS
    caption = f"and {more} more: see --out or --json" if more > 0 else None
    lines = frame.head(_MOST_ROWS).to_dict("records")
    return table(columns, ([cell(line[c]) for c in columns] for line in lines), words=0, caption=caption)


def exposure_table(result: "RecordTable") -> "Table":
    """Units with the most bits beyond the naive guess."""
    from bayesrecon.cli.rich_tables import table

    found = result.exposure(by=result.unit[0]).head(_MOST_UNITS).to_dict("index").items()
    rows = ((f"{name}", f"{int(line['records'])}", f"{line['bits']:.2f}") for name, line in found)
    return table([result.unit[0], "records", "bits"], rows, title="most exposed", words=0)
