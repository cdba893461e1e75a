"""Factors of a design, effects and predictors, from which algebra recovers rows and responses."""

import contextlib
from collections.abc import Mapping

import numpy as np

from bayesrecon.attacks.sidechannels.stored_parts import (
    count_of_first,
    covariate_of_predictors,
    response_of_effects,
    rows_of_factors,
)
from bayesrecon.auditing.accounts.plain_numbers import structure_of
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_rows
from bayesrecon.auditing.short_text import places, preview
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.contents import Entry
from bayesrecon.posteriors.printed.estimates_in_files import WEIGHTED, Estimates
from bayesrecon.posteriors.roles import DESIGN
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy

NAME = "factors of the design"
_SHOWN = 6  # largest number of columns in a finding's records


@np.errstate(all="ignore")  # untrusted numbers may have any size; designs do not overflow
def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings for each fit: its design from its factors, its response, and the values of a single covariate."""
    parts: dict[str, dict[str, Entry]] = {}
    for entry in look.contents.entries:
        if entry.kind in ("array", "labels"):
            where = entry.where.replace("/QR/", "/qr/")  # `nls` writes QR
            for root in _roots(where):
                parts.setdefault(root, {}).setdefault(where[len(root) :].lstrip("/"), entry)
    findings: list[Finding] = []
    untried: list[NotRun] = []
    for root, entries in parts.items():
        used = [e for key, e in entries.items() if e.role == DESIGN and key in (*_FACTORS, "effects")]
        if not used:
            continue
        try:
            columns = _rebuilt(entries)
        except BayesreconError as error:
            untried.append(NotRun(NAME, str(error), f"drop {places([e.where for e in used], 3)}", _all(entries)))
            continue
        if columns:
            findings.append(_finding(look, root, columns, entries))
    for estimates in look.contents.estimates:
        entries = parts.get(estimates.where, {})
        candidates = (
            _one_covariate(look, estimates, entries),
            _sum(look, estimates, entries),
            _count(estimates, entries),
        )
        findings += [finding for finding in candidates if finding is not None]
    findings += [f for root, entries in parts.items() if (f := _knots(look, root, entries)) is not None]
    named = {where for result in (*findings, *untried) for where in result.where}
    unexplained = [e for e in look.contents.entries if e.role == DESIGN and e.kind == "array" and e.where not in named]
    unexplained = [e for e in unexplained if np.size(e.values) > 1 and not structure_of(e.values)]
    return [*findings, *([_unexplained_parts(unexplained)] if unexplained else [])], untried


def _unexplained_parts(entries: list[Entry]) -> Finding:
    """A finding on parts from which no row can be recovered, because other parts were removed."""
    where = tuple(e.where for e in entries)
    return Finding(
        "combination",
        of_rows(max(len(np.atleast_1d(e.values)) for e in entries)) or "medium",
        f"parts of a factorised design are in the file: {places(where, 3)}",
        where,
        "; ".join(f"{e.where}: {preview(e.values)}" for e in entries[:3])
        + ". They are products of the design and the response, with all digits",
        "a part of the design",
        remedies=(Remedy(f"drop {places(where, 3)}"),),
        drop=where,
    )


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
    return Finding(
        "combination",
        of_rows(count) or "medium",
        f"{root or 'the file'}: {places(list(columns), 6)} of {count} records are recovered from "
        f"{places(_words(entries), 3)}",
        where,
        "by algebra, to the last digits: "
        + "; ".join(f"{name}: {preview(v)}" for name, v in few.items())
        + (f"; {'; '.join(private)}" if private else ""),
        "nothing but the file",
        remedies=(Remedy(f"drop {places(where, 3)}"),),
        records=few,
        errors={name: np.zeros(len(v)) for name, v in few.items()},
        drop=where,
    )


def _words(entries: Mapping[str, Entry]) -> list[str]:
    words = {"qr/qr": "the factors of the design", "effects": "the effects", "linear.predictors": "its predictors"}
    words |= {"Xu": "the points of a smooth", "fitted.values": "its fitted values", "residuals": "its residuals"}
    return [text for key, text in words.items() if key in entries]


CHANNEL = Channel(NAME, find, 14)
