"""What `recover` states of one simulated data set, held against the truth: shared by studies that count intervals."""

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.types import Release

VERDICTS = ("determined", "partly")


def attacked(release: Release, key: int) -> tuple[Any, dict[str, Any]]:
    """The recovery, None where it was refused, and how it ended: `refused`, `failed` and CPU `seconds`."""
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = bayesrecon.recover(release, key=key, force=True)
    except BayesreconError as error:
        return None, {"refused": str(error), "seconds": time.process_time() - began}
    return found, {"seconds": time.process_time() - began, "failed": list(found.failures)}


def counted(rows: Sequence[Any], truth: Mapping[str, float]) -> dict[str, Any]:
    """Of the rows of a recovery, by verdict, intervals that hold and all there are; and the sum of squared errors in
    half-widths."""
    found: dict[str, Any] = {**{verdict: [0, 0] for verdict in VERDICTS}, "squares": 0.0}
    for one in rows:
        if one.lower is not None and one.upper is not None and one.verdict in VERDICTS:
            found[one.verdict][0] += bool(one.lower <= truth[one.name] <= one.upper)
            found[one.verdict][1] += 1
            found["squares"] += (2 * (one.estimate - truth[one.name]) / max(one.upper - one.lower, 1e-300)) ** 2
    return found


def sums(rows: Sequence[Mapping[str, Any]], *verdicts: str) -> tuple[int, int]:
    """Intervals that hold, and all there are."""
    inside, count = (sum(row[verdict][i] for row in rows for verdict in verdicts) for i in range(2))
    return inside, count


def shares(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> dict[str, str]:
    """Cells of a table: by verdict how many intervals there are and, in the column named, the share that holds; and the
    root mean square of all errors in half-widths."""
    cells, total = {}, 0
    for verdict, column in columns.items():
        inside, count = sums(rows, verdict)
        total += count
        cells |= {verdict: f"{count}", column: f"{inside / count:.1%}" if count else ""}
    return cells | {"rms": f"{np.sqrt(sum(row['squares'] for row in rows) / total):.2f}" if total else ""}
