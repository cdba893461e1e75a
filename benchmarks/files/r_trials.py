"""Whether statistics that follow from fits of R hold the truth: fits of many data sets, and what is true of these."""

import csv
from collections import Counter
from pathlib import Path
from typing import Any

from bayesrecon.posteriors.formats import read_contents

_ROUNDING = 1e-9  # of a truth, by which a sum may be off that is told with all its digits

Row = dict[str, Any]


def tried(folder: Path) -> list[Row]:
    """A row for each kind of fit in a folder that `tests/fixtures/r/trials.R` filled."""
    truths: dict[str, dict[str, float]] = {}
    with (folder / "truth.csv").open(encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            truths.setdefault(line["file"], {})[line["name"]] = float(line["value"])
    counts: dict[str, Counter[str]] = {}
    for file, truth in sorted(truths.items()):
        own = counts.setdefault(file.split("-")[0], Counter())
        (found,) = read_contents(folder / file).estimates
        own["fits"] += 1
        own["told"] += bool(found.statistics)
        for one in found.statistics:
            if one.name not in truth:
                continue
            value = truth[one.name]
            off = _ROUNDING * (1 + abs(value))
            own["compared"] += 1
            own["exact"] += one.lower == one.upper
            own["inside"] += one.lower - off <= value <= one.upper + off
    names = ("fits", "told", "compared", "exact", "inside")
    return [{"kind": kind, **{name: int(own[name]) for name in names}} for kind, own in sorted(counts.items())]


def section(rows: list[Row]) -> list[str]:
    """Lines of the page about them."""
    lines = [
        "## Fits of other data",
        "",
        "`tests/fixtures/r/trials.R` makes 24 data sets of 12 to 400 records, and fits of each. Statistics that an",
        "audit tells are compared with the data: *exact* are those without limits, *inside* those whose limits hold",
        "the truth.",
        "",
        "| kind | fits | of which told | statistics compared | exact | inside |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        lines.append("| `" + "` | ".join([row["kind"], " | ".join(str(v) for v in list(row.values())[1:])]) + " |")
    return [*lines, ""]
