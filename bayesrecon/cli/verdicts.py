"""`bayesrecon posteriors --verdict`: what each posterior of posteriordb gives away, in words."""

from collections.abc import Sequence

from bayesrecon.auditing.outcomes import (
    Exposure,
    GroupsFound,
    RecordsFound,
    SeriesFound,
    StatisticsFound,
    Values,
    Verdict,
)
from bayesrecon.json_types import Json

COLUMNS = {
    "posterior": "posterior",
    "records": "N",
    "parameters": "d",
    "draws": "T",
    "source": "draws",
    "attack": "attack",
    "recovered": "recovered",
    "error": "error",
    "expected": "stated error",
    "floor": "floor",
    "naive": "naive guess",
    "seconds": "s",
    "verdict": "verdict",
}
"""What a row of the table says, with its headings."""

_EXPOSURE = {
    Exposure.NONE: "single records are not determined, sums over them are",
    Exposure.SOME: "some records given away one by one",
    Exposure.MOST: "most records given away one by one",
    Exposure.EVERY: "every record given away one by one",
    Exposure.PUBLIC: "the model's own guess shows every record to anyone",
}


def row(verdict: Verdict) -> Json:
    """A verdict in words, by `COLUMNS`."""
    found = verdict.found
    if isinstance(found, RecordsFound):
        words = _records(found)
    elif isinstance(found, GroupsFound):
        words = _groups(found)
    elif isinstance(found, StatisticsFound):
        words = _statistics(found, verdict.records)
    else:
        words = _series(found)
    cells = {
        "posterior": verdict.posterior,
        "records": verdict.records,
        "parameters": verdict.parameters,
        "draws": verdict.draws,
        "source": "reference" if verdict.reference else "own NUTS" + ", not converged" * (not verdict.converged),
        "attack": str(verdict.attacked),
        "seconds": verdict.seconds,
        **words,
    }
    return {name: cells[name] for name in COLUMNS}


def cells(row: Json) -> list[str]:
    """A row of the table as text."""
    return [f"{row[name]:.0f}" if name == "seconds" else str(row[name]) for name in COLUMNS]


def _records(found: RecordsFound) -> dict[str, str]:
    return {
        "recovered": "; ".join(map(_recovered, found.fields)),
        "error": _joined("RMSE ", [v.error for v in found.fields]),
        "expected": _joined("", [v.expected for v in found.fields]),
        "floor": _joined("", [v.floor for v in found.fields]),
        "naive": "; ".join(filter(None, map(_guessed, found.fields))),
        "verdict": _EXPOSURE[found.exposure],
    }


def _recovered(values: Values) -> str:
    if values.correct is not None:
        return f"{values.field}: {values.share:.1%} exact"
    if not values.determined:
        return f"{values.field}: none determined"
    determined, nearer = values.determined / values.records, values.nearer / values.records
    return f"{values.field}: {determined:.0%} determined, {nearer:.0%} nearer than the guess"


def _guessed(values: Values) -> str:
    if values.correct is not None:
        return "" if values.naive_correct is None else f"{values.naive_share:.1%}"
    return "" if values.naive_error is None or not values.determined else f"RMSE {values.naive_error:.3g}"


def _joined(label: str, sizes: Sequence[float | None]) -> str:
    return "; ".join(f"{label}{size:.3g}" for size in sizes if size is not None)


def _groups(found: GroupsFound) -> dict[str, str]:
    group = found.group + (f" with {found.part[0]} {found.part[1]:g}" if found.part else "")
    exact_share = found.correct / found.determined
    complete = found.determined == found.groups
    return {
        "recovered": f"{found.determined} of {found.groups} counts per {group}, {exact_share:.0%} exact; "
        f"n {found.n or float('nan'):.4g}",
        "error": f"RMSE {found.error:.3g}",
        "expected": f"{found.expected:.3g}",
        "floor": "" if found.floor is None else f"{found.floor:.3g}",
        "naive": "",
        "verdict": (
            f"count and sums of every {group}"
            if complete
            else f"count and sums, {group}, in {found.determined} of {found.groups}"
        )
        + _doubt(found.consistent),
    }


def _statistics(found: StatisticsFound, records: int) -> dict[str, str]:
    parts, errors = [f"{found.estimated} of {found.statistics} statistics"], []
    expected = floor = ""
    if found.n is not None:
        parts.append(f"n {found.n:.5g}")
        errors.append(f"n {found.n / records - 1:+.1%}")
        expected, floor = f"{(found.n_se or 0) / records:.1%}", f"{(found.n_floor or 0) / records:.1%}"
    if found.z is not None:
        errors.append(f"largest z {found.z:.1f}")
    kind = "features exactly" if found.finite else "decaying spectrum"
    return {
        "recovered": ", ".join(parts),
        "error": "; ".join(errors),
        "expected": expected,
        "floor": floor,
        "naive": "",
        "verdict": f"{found.determined} statistics determined ({found.rank} {kind})" + _doubt(found.consistent),
    }


def _series(found: SeriesFound) -> dict[str, str]:
    averages = "".join(f"; {a.name} {a.estimate:.3g} ({a.truth:.3g})" for a in found.averages)
    kind = "" if found.finite else ", decaying"
    kind += "" if found.assumed_bound is None else f", values within {found.assumed_bound:g}"
    errors = [] if found.error is None else [f"RMSE {found.error:.3g}"]
    errors += [] if found.z is None else [f"averages' largest z {found.z:.1f}"]
    recovered, contradiction = (
        "averages" if found.averages else "functions",
        ", further from the truth than stated" * found.astray,
    )
    return {
        "recovered": f"{found.determined} of {found.entries} entries{averages}; rank {found.rank}{kind}",
        "error": "; ".join(errors),
        "expected": "" if found.expected is None else f"{found.expected:.3g}",
        "floor": "",
        "naive": f"RMSE {found.naive_error:.3g}",
        "verdict": "entries of the series"
        if found.determined
        else f"does not factorise: {recovered} of the whole series, no entry of it{contradiction}"
        + _doubt(found.consistent),
    }


def _doubt(sound: bool) -> str:
    return "" if sound else " (the solution fails its check)"
