"""Baseline hazards of Cox regressions: their increments reveal the relative hazards of single records.

Breslow's estimate (1972) increases at the i-th event by `1 / S_i`, where `S_i = sum_{j at risk} exp((x_j - m)' beta)`.
If nobody is censored between an event and the next, only the record of the event leaves the set at risk:

    exp((x_i - m)' beta) = S_i - S_{i+1}.

This is the record's hazard relative to that of a record at the means m. With a single covariate whose coefficient is
known, it gives the covariate's value.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_rows
from bayesrecon.auditing.short_text import preview
from bayesrecon.posteriors.contents import Entry
from bayesrecon.results.findings import Finding, NotRun, Remedy

_ROUNDED = 8  # a hazard with at most this many decimals may have been rounded
_FEWEST = 5  # smallest number of events of a curve
_PRECISE = 0.01  # largest relative error of a relative hazard
_TIME, _HAZARDS = "time", ("cumhaz", "hazard")


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """One finding for each curve."""
    candidates = (
        _finding(arrays, name)
        for arrays in _siblings(look.contents.entries).values()
        for name in _HAZARDS
        if name in arrays
    )
    return [finding for finding in candidates if finding is not None], []


def _siblings(entries: tuple[Entry, ...]) -> dict[str, dict[str, Entry]]:
    """Arrays by their names, for each object that has times."""
    by_parent: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        if entry.kind == "array" and "/" in entry.where:
            parent, _, name = entry.where.rpartition("/")
            by_parent.setdefault(parent, {})[name] = entry
    return {parent: arrays for parent, arrays in by_parent.items() if _TIME in arrays}


def _finding(arrays: Mapping[str, Entry], name: str) -> Finding | None:
    columns = {k: _numbers(arrays[k]) for k in (_TIME, name, "n.event", "n.censor", "n.risk") if k in arrays}
    length = len(columns[_TIME])
    if length < _FEWEST or any(len(v) != length or not np.isfinite(v).all() for v in columns.values()):
        return None
    if np.any(np.diff(columns[_TIME]) <= 0) or np.any(np.diff(columns[name], prepend=0.0) < 0):
        return None  # there are several curves or none
    hazards = np.array(list(relative_hazards(columns, name))).reshape(-1, 3)
    severity = of_rows(len(hazards))
    if severity is None:
        return None
    where = (arrays[name].where, arrays[_TIME].where)
    alone = "" if "n.event" in arrays else ", where no two records share a time"
    return Finding(
        "copy",
        severity,
        f"increments of the baseline hazard determine the relative hazards of {len(hazards)} single records",
        where,
        "each is one over the sum of the relative hazards at risk, which falls by that of the record that leaves"
        f"{alone}: beginning {preview(hazards[:, 1])}, at {preview(hazards[:, 0])}; with the coefficient of a single "
        "covariate the logarithms determine its values",
        remedies=(Remedy("publish the curve at a few fixed times"),),
        records={"time": hazards[:, 0], "relative hazard": hazards[:, 1]},
        errors={"time": np.zeros(len(hazards)), "relative hazard": hazards[:, 2]},
        drop=where,
    )


def relative_hazards(columns: Mapping[str, np.ndarray], name: str) -> Iterator[tuple[float, float, float]]:
    """Time, relative hazard and its error for each record that leaves alone; none for a curve without covariates.

    Args:
        columns: `{name: (K,)}`: times, the cumulative hazard, and counts if there are any.
        name: name of the cumulative hazard.
    """
    hazard = columns[name]
    rises = np.diff(hazard, prepend=0.0)
    at = np.flatnonzero(rises > 0)
    if len(at) < _FEWEST:
        return
    count = columns.get("n.event", np.where(rises > 0, 1.0, 0.0))
    censored = columns.get("n.censor", np.zeros(len(hazard)))
    risk_sums = 1.0 / rises[at]
    error = risk_sums * _step(hazard) / rises[at]
    if "n.risk" in columns and np.all(
        np.abs(risk_sums * count[at] - columns["n.risk"][at]) <= 1e-6 * risk_sums + error
    ):
        return  # without covariates all relative hazards are one
    for k in range(len(at) - 1):
        i, j = at[k], at[k + 1]
        alone = j == i + 1 and count[i] == count[j] == 1 and censored[i] == 0
        record_hazard, record_error = risk_sums[k] - risk_sums[k + 1], float(np.hypot(error[k], error[k + 1]))
        # If two records share a time, the steps before and after it are not those of single records.
        decreasing = all(risk_sums[m] > risk_sums[m + 1] for m in (k - 1, k, k + 1) if 0 <= m < len(at) - 1)
        if alone and decreasing and record_error <= _PRECISE * record_hazard:
            yield float(columns[_TIME][i]), float(record_hazard), record_error


def _step(hazard: np.ndarray) -> float:
    """Error of a value: half a unit of its last digit, or rounding of sums."""
    for digits in range(_ROUNDED + 1):
        if np.array_equal(hazard, np.round(hazard, digits)):
            return 0.5 * 10.0**-digits
    return float(4 * np.finfo(float).eps * np.abs(hazard).max())


def _numbers(entry: Entry) -> np.ndarray:
    values = np.ravel(np.asarray(entry.values))
    return values.astype(float) if values.dtype.kind in "iuf" else np.zeros(0)


CHANNEL = Channel("baseline hazards", find, 15)
