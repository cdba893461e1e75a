"""Parts of fits from which algebra recovers records: factors of a design, effects, predictors, baseline hazards.

Breslow's estimate (1972) of the baseline hazard of a Cox regression increases at the i-th event by `1 / S_i`, where
`S_i = sum_{j at risk} exp((x_j - m)' beta)`. If nobody is censored between an event and the next, only the record of
the event leaves the set at risk:

    exp((x_i - m)' beta) = S_i - S_{i+1}.

This is the record's hazard relative to that of a record at the means m. With a single covariate whose coefficient is
known, it gives the covariate's value.
"""

import contextlib
from collections.abc import Iterator, Mapping

import numpy as np

from bayesrecon.attacks.sidechannels.stored_parts import (
    count_of_first,
    covariate_of_predictors,
    response_of_effects,
    rows_of_factors,
)
from bayesrecon.auditing.accounts.plain_numbers import structure_of
from bayesrecon.auditing.inventory import siblings
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_rows
from bayesrecon.auditing.wording import places, preview, to_drop
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.contents import Entry
from bayesrecon.posteriors.printed.estimates_in_files import WEIGHTED, Estimates
from bayesrecon.posteriors.roles import DESIGN
from bayesrecon.results.findings import Finding, Item, NotRun

NAME = "factors of the design"
_SHOWN = 6  # largest number of columns in a finding's records


@np.errstate(all="ignore")  # untrusted numbers may have any size; designs do not overflow
def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings for each fit: its design from its factors, its response, the values of a single covariate, hazards."""
    parts: dict[str, dict[str, Entry]] = {}
    for entry in look.contents.entries:
        if entry.kind in ("array", "labels"):
            where = entry.where.replace("/QR/", "/qr/")  # `nls` writes QR
            for root in _roots(where):
                parts.setdefault(root, {}).setdefault(where[len(root) :].lstrip("/"), entry)
    found: list[Finding | None] = []
    untried: list[NotRun] = []
    for root, entries in parts.items():
        used = [e for key, e in entries.items() if e.role == DESIGN and key in (*_FACTORS, "effects")]
        try:
            columns = _rebuilt(entries) if used else {}
        except BayesreconError as error:
            untried.append(NotRun(NAME, str(error), f"drop {places([e.where for e in used], 3)}", _all(entries)))
            continue
        found += [_finding(look, root, columns, entries)] if columns else []
    for estimates in look.contents.estimates:
        entries = parts.get(estimates.where, {})
        found += [_one_covariate(look, estimates, entries), _sum(look, estimates, entries), _count(estimates, entries)]
    found += [_knots(look, root, entries) for root, entries in parts.items()]
    findings = [f for f in found if f is not None]
    named = {where for result in (*findings, *untried) for where in result.where}
    rest = [e for e in look.contents.entries if e.role == DESIGN and e.kind == "array" and e.where not in named]
    rest = [e for e in rest if np.size(e.values) > 1 and not structure_of(e.values)]
    findings += [_unexplained(rest)] if rest else []
    curves = (v for owner, v in siblings(look.contents.entries).items() if owner.endswith("/") and _TIME in v)
    hazards = (_of_curve(arrays, name) for arrays in curves for name in _HAZARDS if name in arrays)
    return [*findings, *(f for f in hazards if f is not None)], untried


def _unexplained(entries: list[Entry]) -> Finding:
    """A finding on parts from which no row can be recovered, because other parts were removed."""
    where = tuple(e.where for e in entries)
    severity = of_rows(max(len(np.atleast_1d(e.values)) for e in entries)) or "medium"
    summary = "; ".join(f"{e.where}: {preview(e.values)}" for e in entries[:3])
    summary += ". They are products of the design and the response, with all digits"
    title = f"parts of a factorised design are in the file: {places(where, 3)}"
    return to_drop("combination", severity, title, where, summary, "a part of the design")


_COUNTED = ("df.residual", "rank", "df.null", "qr/qraux")
_FACTORS = ("qr/qr", "qr/qraux")


def _roots(where: str) -> list[str]:
    """Places of the objects that a part may belong to."""
    return [where[: -len(f"/{name}")] for name in (*_FACTORS, "effects", *_NAMED) if where.endswith(f"/{name}")]


_COLUMNS = "qr/qr@dimnames/[[2]]"
_NAMED = (_COLUMNS, *_COUNTED[:3], "weights", "linear.predictors", "fitted.values", "residuals", "Xu", "shift", "edf")


def _rebuilt(entries: Mapping[str, Entry]) -> dict[str, np.ndarray]:
    """The recovered columns, by name."""
    if not all(key in entries for key in _FACTORS):
        return {}
    qr, qraux = (np.asarray(entries[key].values, float) for key in _FACTORS)
    qraux = np.ravel(qraux)
    rows = rows_of_factors(qr, qraux)
    weights = np.ravel(np.asarray(entries["weights"].values, float)) if "weights" in entries else np.ones(len(rows))
    if weights.shape != (len(rows),) or not np.all(weights > 0):
        weights = np.ones(len(rows))
    root = np.sqrt(weights)
    names = [str(n) for n in np.ravel(entries[_COLUMNS].values)] if _COLUMNS in entries else []
    names = names if len(names) == rows.shape[1] else [f"column {k + 1}" for k in range(rows.shape[1])]
    columns = {name: rows[:, k] / root for k, name in enumerate(names)}
    columns = {name: v for name, v in columns.items() if not np.allclose(v, 1.0)}
    if "effects" in entries and np.size(entries["effects"].values) == len(rows):
        effects = np.ravel(np.asarray(entries["effects"].values, float))
        name = "the working response" if "linear.predictors" in entries else "the response"
        columns[name] = response_of_effects(qr, qraux, effects) / root
    return columns


def _one_covariate(look: Look, estimates: Estimates, entries: Mapping[str, Entry]) -> Finding | None:
    values, labels = estimates.values, estimates.labels
    predictors = entries.get("linear.predictors") or (entries.get("fitted.values") if estimates.kind == "ols" else None)
    if values is None or predictors is None or len(values) != 2 or labels[0] != "const":
        return None
    try:
        covariate = covariate_of_predictors(np.ravel(predictors.values), float(values[0]), float(values[1]))
    except BayesreconError:
        return None
    return _finding(look, estimates.where, {labels[1]: covariate}, {"linear.predictors": predictors})


def _knots(look: Look, root: str, entries: Mapping[str, Entry]) -> Finding | None:
    """A finding on the distinct values of a smooth's covariate. `mgcv` stores them centred, and their mean."""
    if "Xu" not in entries or "shift" not in entries:
        return None
    knots, shift = np.asarray(entries["Xu"].values, float), np.ravel(np.asarray(entries["shift"].values, float))
    knots = knots.reshape(len(knots), -1)
    if knots.shape[1] != len(shift) or not np.isfinite(knots).all() or not len(knots):
        return None
    columns = {f"covariate {k + 1}": knots[:, k] + shift[k] for k in range(len(shift))}
    return _finding(look, root, columns, {"Xu": entries["Xu"], "shift": entries["shift"]})


def _sum(look: Look, estimates: Estimates, entries: Mapping[str, Entry]) -> Finding | None:
    """A finding on the response of a linear model, as fitted values plus residuals."""
    parts = {name: entries[name] for name in ("fitted.values", "residuals") if name in entries}
    values = [np.ravel(e.values) for e in parts.values()]
    if estimates.kind != "ols" or len(values) < 2 or len(values[0]) != len(values[1]) or not len(values[0]):
        return None
    return _finding(look, estimates.where, {estimates.response: values[0] + values[1]}, parts)


def _count(estimates: Estimates, entries: Mapping[str, Entry]) -> Finding | None:
    """A finding on the number of records, from degrees of freedom or from a part of the factors."""
    counts: dict[str, tuple[float, tuple[str, ...]]] = {}
    if estimates.kind not in ("ols", "logit", "poisson") or estimates.unsupported == WEIGHTED:
        return None  # rows with weight zero do not count in the degrees of freedom
    numbers = {
        name: float(np.ravel(entries[name].values)[0])
        for name in _COUNTED
        if name in entries and np.size(entries[name].values)
    }
    smooth = "edf" in entries  # smooths have fractional degrees of freedom, and their table gives the count
    if smooth and estimates.covariance is not None and estimates.scale and "const" in estimates.labels:
        return None
    if "df.residual" in numbers and "rank" in numbers and not smooth:
        counts["degrees of freedom"] = numbers["df.residual"] + numbers["rank"], _where(entries, "df.residual", "rank")
    elif "df.null" in numbers:
        counts["degrees of freedom"] = numbers["df.null"] + 1, _where(entries, "df.null")
    bare = estimates.kind == "ols" and "weights" not in entries and "qr/qr" not in entries
    if "qr/qraux" in numbers and bare and estimates.labels[:1] == ("const",):
        with contextlib.suppress(BayesreconError):
            counts["the beginning of a factor"] = count_of_first(numbers["qr/qraux"]), _where(entries, "qr/qraux")
    counts = {how: (n, where) for how, (n, where) in counts.items() if np.isfinite(n)}
    if not counts:
        return None
    return Finding(
        "estimates",
        "low",
        f"{estimates.where} determines the number of records",
        tuple(w for _, where in counts.values() for w in where),
        "; ".join(f"n = {n:.10g} by {how}" for how, (n, _) in counts.items()),
        evidence=(Item("n", next(iter(counts.values()))[0], 0.0),),
    )


def _where(entries: Mapping[str, Entry], *names: str) -> tuple[str, ...]:
    return tuple(entries[name].where for name in names)


def _all(entries: Mapping[str, Entry]) -> tuple[str, ...]:
    return tuple(e.where for key, e in entries.items() if e.role == DESIGN or key == _COLUMNS)


def _finding(look: Look, root: str, recovered: Mapping[str, np.ndarray], entries: Mapping[str, Entry]) -> Finding:
    columns = {name: np.round(v, 10) for name, v in recovered.items() if not structure_of(v)}
    count = max((len(v) for v in columns.values()), default=0)
    private = [f"{name}: the private column {column}" for name, v in columns.items() if (column := look.named(v))]
    where = _all(entries) or tuple(e.where for e in entries.values())
    few = dict(list(columns.items())[:_SHOWN])
    return to_drop(
        "combination",
        of_rows(count) or "medium",
        f"{root or 'the file'}: {places(list(columns), 6)} of {count} records are recovered from "
        f"{places(_words(entries), 3)}",
        where,
        "by algebra, to the last digits: "
        + "; ".join(f"{name}: {preview(v)}" for name, v in few.items())
        + (f"; {'; '.join(private)}" if private else ""),
        records=few,
        errors={name: np.zeros(len(v)) for name, v in few.items()},
    )


def _words(entries: Mapping[str, Entry]) -> list[str]:
    words = {"qr/qr": "the factors of the design", "effects": "the effects", "linear.predictors": "its predictors"}
    words |= {"Xu": "the points of a smooth", "fitted.values": "its fitted values", "residuals": "its residuals"}
    return [text for key, text in words.items() if key in entries]


_ROUNDED = 8  # a hazard with at most this many decimals may have been rounded
_FEWEST = 5  # smallest number of events of a curve
_PRECISE = 0.01  # largest relative error of a relative hazard
_TIME, _HAZARDS = "time", ("cumhaz", "hazard")


def _of_curve(arrays: Mapping[str, Entry], name: str) -> Finding | None:
    columns = {k: _numbers(arrays[k]) for k in (_TIME, name, "n.event", "n.censor", "n.risk") if k in arrays}
    length = len(columns[_TIME])
    if length < _FEWEST or any(len(v) != length or not np.isfinite(v).all() for v in columns.values()):
        return None
    if np.any(np.diff(columns[_TIME]) <= 0) or np.any(np.diff(columns[name], prepend=0.0) < 0):
        return None  # there are several curves or none
    hazards = np.array(list(_relative_hazards(columns, name))).reshape(-1, 3)
    severity = of_rows(len(hazards))
    if severity is None:
        return None
    alone = "" if "n.event" in arrays else ", where no two records share a time"
    return to_drop(
        "copy",
        severity,
        f"increments of the baseline hazard determine the relative hazards of {len(hazards)} single records",
        (arrays[name].where, arrays[_TIME].where),
        "each is one over the sum of the relative hazards at risk, which falls by that of the record that leaves"
        f"{alone}: beginning {preview(hazards[:, 1])}, at {preview(hazards[:, 0])}; with the coefficient of a single "
        "covariate the logarithms determine its values",
        instead="publish the curve at a few fixed times",
        records={"time": hazards[:, 0], "relative hazard": hazards[:, 1]},
        errors={"time": np.zeros(len(hazards)), "relative hazard": hazards[:, 2]},
    )


def _relative_hazards(columns: Mapping[str, np.ndarray], name: str) -> Iterator[tuple[float, float, float]]:
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


CHANNEL = Channel(NAME, find, 14)
