"""`bayesrecon posteriors --verdict`: what each posterior of posteriordb reveals, in words."""

from collections.abc import Sequence

from bayesrecon.games.posteriordb.outcomes import (
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
"""`{key of a row: heading of the table}`."""

_EXPOSURE = {
    Exposure.NONE: "single records are not determined, sums over them are",
    Exposure.SOME: "some individual records disclosed",
    Exposure.MOST: "most individual records disclosed",
    Exposure.EVERY: "every individual record disclosed",
    Exposure.PUBLIC: "the model's own guess shows every record to anyone",
}


def row(verdict: Verdict) -> Json:
    """A verdict in words, by `COLUMNS`."""
    outcome = verdict.found
    if isinstance(outcome, RecordsFound):
        words = _records(outcome)
    elif isinstance(outcome, GroupsFound):
        words = _groups(outcome)
    elif isinstance(outcome, StatisticsFound):
        words = _statistics(outcome, verdict.records)
    else:
        words = _series(outcome)
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


def _records(outcome: RecordsFound) -> dict[str, str]:
    return {
        "recovered": "; ".join(map(_recovered, outcome.fields)),
        "error": _joined("RMSE ", [v.error for v in outcome.fields]),
        "expected": _joined("", [v.expected for v in outcome.fields]),
        "floor": _joined("", [v.floor for v in outcome.fields]),
        "naive": "; ".join(filter(None, map(_guessed, outcome.fields))),
        "verdict": _EXPOSURE[outcome.exposure],
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


def _groups(outcome: GroupsFound) -> dict[str, str]:
    group = outcome.group + (f" with {outcome.part[0]} {outcome.part[1]:g}" if outcome.part else "")
    exact_share = outcome.correct / outcome.determined
    complete = outcome.determined == outcome.groups
    return {
        "recovered": f"{outcome.determined} of {outcome.groups} counts per {group}, {exact_share:.0%} exact; "
        f"n {outcome.n or float('nan'):.4g}",
        "error": f"RMSE {outcome.error:.3g}",
        "expected": f"{outcome.expected:.3g}",
        "floor": "" if outcome.floor is None else f"{outcome.floor:.3g}",
        "naive": "",
        "verdict": (
            f"count and sums of every {group}"
            if complete
            else f"count and sums, {group}, in {outcome.determined} of {outcome.groups}"
        )
        + _doubt(outcome.consistent),
    }


def _statistics(outcome: StatisticsFound, records: int) -> dict[str, str]:
    parts, errors = [f"{outcome.estimated} of {outcome.statistics} statistics"], []
    expected = floor = ""
    if outcome.n is not None:
        parts.append(f"n {outcome.n:.5g}")
        errors.append(f"n {outcome.n / records - 1:+.1%}")
        expected, floor = f"{(outcome.n_se or 0) / records:.1%}", f"{(outcome.n_floor or 0) / records:.1%}"
    if outcome.z is not None:
        errors.append(f"largest z {outcome.z:.1f}")
    kind = "features exactly" if outcome.finite else "decaying spectrum"
    return {
        "recovered": ", ".join(parts),
        "error": "; ".join(errors),
        "expected": expected,
        "floor": floor,
        "naive": "",
        "verdict": f"{outcome.determined} statistics determined ({outcome.rank} {kind})" + _doubt(outcome.consistent),
    }


def _series(outcome: SeriesFound) -> dict[str, str]:
    averages = "".join(f"; {a.name} {a.estimate:.3g} ({a.truth:.3g})" for a in outcome.averages)
    kind = "" if outcome.finite else ", decaying"
    kind += "" if outcome.assumed_bound is None else f", values within {outcome.assumed_bound:g}"
    errors = [] if outcome.error is None else [f"RMSE {outcome.error:.3g}"]
    errors += [] if outcome.z is None else [f"averages' largest z {outcome.z:.1f}"]
    recovered, contradiction = (
        "averages" if outcome.averages else "functions",
        ", further from the truth than stated" * outcome.astray,
    )
    return {
        "recovered": f"{outcome.determined} of {outcome.entries} entries{averages}; rank {outcome.rank}{kind}",
        "error": "; ".join(errors),
        "expected": "" if outcome.expected is None else f"{outcome.expected:.3g}",
        "floor": "",
        "naive": f"RMSE {outcome.naive_error:.3g}",
        "verdict": "entries of the series"
        if outcome.determined
        else f"does not factorise: {recovered} of the whole series, no entry of it{contradiction}"
        + _doubt(outcome.consistent),
    }


def _doubt(sound: bool) -> str:
    return "" if sound else " (the solution fails its check)"
