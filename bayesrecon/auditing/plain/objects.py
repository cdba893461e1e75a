"""Saved objects: the data that estimators keep, and the reason why."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from bayesrecon.auditing.accounts.plain_numbers import structure_of
from bayesrecon.auditing.accounts.settings import is_setting
from bayesrecon.auditing.accounts.texts import kind_of_labels
from bayesrecon.auditing.inventory import parts_of
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_constants, of_labels, of_rows, of_totals
from bayesrecon.auditing.short_text import places, preview, short
from bayesrecon.posteriors.contents import Part
from bayesrecon.posteriors.roles import CUT, DESIGN, LEAF, RECORD, SEED, TIMES, TOTAL
from bayesrecon.results.findings import LEVELS, Finding, NotRun, Remedy, Severity

_KEPT = {
    RECORD: ("records", "keeps records"),
    DESIGN: ("records", "keeps values from which the rows of its design follow"),
    TIMES: ("records", "keeps times of single records"),
    LEAF: ("leaves", "keeps outcomes of single records"),
    CUT: ("cuts", "keeps values next to those of single records"),
    TOTAL: ("totals", "keeps exact totals of all records"),
    SEED: ("seed", "keeps the state of a generator of random numbers"),
}
"""Kind of finding and text for each role."""

_SHOWN = 8
"""Largest number of private columns named in a finding."""

_OWN_FORMAT = "they are in the format of their own library, which is not read"

_DATA_CLASSES = (
    "statsmodels.base.data",
    "pandas.",
    "numpy.",
    "collections.",
    "builtins.",
    "scipy.sparse",
    "sklearn.tree._tree",
    "joblib.",
)
"""Classes that contain data for other objects."""

_MOST_MATCHED = 400
"""Largest number of items that are compared with private columns, since a forest has thousands."""


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """One finding for each reason and one for each further copy of a private column, and trees that were not read."""
    if look.contents.saved is None:
        return [], []
    parts = [p for p in parts_of(look.contents) if p.kind in ("array", "labels", "attribute") or p.role in _KEPT]
    columns = _columns(look, parts)
    private = [p for p in parts if p.role in _KEPT and (p.where in columns or not _is_structure(p))]
    order = list(_KEPT)
    private.sort(key=lambda p: (order.index(p.role), p.why))
    grouped = [list(group) for _, group in groupby(private, key=lambda p: (p.role, p.why))]
    classes = dict(look.contents.saved.objects)
    findings = [_kept(look, group, parts, columns, classes) for group in grouped]
    others = [p for p in parts if p.role not in _KEPT]
    findings += [_copy(part, columns[part.where]) for part in others if part.where in columns]
    findings += _labels(part for part in others if part.kind == "labels" and part.where not in columns)
    closed = tuple(p.where for p in private if p.role == LEAF and p.kind in ("text", "bytes"))
    return findings, [NotRun("trees", _OWN_FORMAT, f"drop {places(closed, 3)}", closed)] if closed else []


def _columns(look: Look, parts: Sequence[Part]) -> dict[str, str]:
    """The private columns in the parts, by place."""
    arrays = (p for p in parts if np.ndim(p.values) and not _is_few(p))
    ordered = sorted(arrays, key=lambda p: p.role != RECORD)
    columns = {p.where: look.named(p.values) for p in ordered[:_MOST_MATCHED]}
    return {where: column for where, column in columns.items() if column}


def _is_few(part: Part) -> bool:
    """Whether a part is labels of a few classes or levels, which do not count as a copy of data."""
    return part.kind == "labels" and part.role != RECORD and is_setting(part)


def _is_structure(part: Part) -> bool:
    """Whether a part is structure, such as positions, a column of ones, or a switch."""
    if part.kind == "labels":
        return kind_of_labels(part.values) == "positions"
    if part.kind in ("attribute", "text", "bytes"):
        return isinstance(part.values, bool) or (part.kind == "attribute" and isinstance(part.values, str))
    return structure_of(part.values) in ("nothing", "one number", "positions")


def _kept(
    look: Look, group: Sequence[Part], parts: Sequence[Part], columns: dict[str, str], classes: dict[str, str]
) -> Finding:
    role, why = group[0].role, group[0].why
    kind, verb = _KEPT[role]
    group = sorted(group, key=lambda p: (p.where not in columns, -int(np.size(p.values))))
    where = tuple(dict.fromkeys(p.where for p in group))
    private = [f"{w} is the private column {columns[w]}" for w in where if w in columns]
    largest = group[0] if group[0].where in columns else max(group, key=lambda p: np.size(p.values))
    count, alone = int(np.size(largest.values)), ""
    severity: Severity = {CUT: "medium", SEED: "low"}.get(role) or "medium"  # type: ignore[assignment]
    if role == TOTAL:
        severity = of_totals(exact=True)
    elif role == LEAF:
        single, outcomes = _single_leaves(parts)
        severity = of_rows(single) or "medium"
        alone = f"; {single} leaves hold one record each" if single else ""
        column = look.named(outcomes) if len(outcomes) else None
        private += [f"outcomes in leaves of one record are those of {column}"] if column else []
    elif role in (RECORD, DESIGN, TIMES):
        severity = of_rows(count) or "medium"
    if private:
        severity = "high"
    owner = _owner(group[0], classes)
    return Finding(
        kind,
        severity,
        f"{owner} {verb}: {places(where, 2)}",
        where,
        f"{places(where)}: {why}{alone}; {largest.where} begins {_beginning(largest)}"
        + "".join(f"; {short(text, 160)}" for text in private[:_SHOWN]),
        remedies=(Remedy(f"publish without {places(where, 3)}"),),
        drop=where,
    )


def _beginning(part: Part) -> str:
    return short(part.values, 20) if part.kind in ("text", "bytes") else preview(part.values)


def _owner(part: Part, classes: dict[str, str]) -> str:
    """The class of the model that a part belongs to: the nearest enclosing class that is not a container."""
    ends = [i for i, letter in enumerate(part.where) if letter in "./"]
    enclosing = [classes[part.where[:i]] for i in (0, *ends) if part.where[:i] in classes]
    for name in (part.of, *reversed(enclosing)):
        if name and not name.startswith(_DATA_CLASSES):
            return name.rpartition(".")[2]
    return "the file"


def _single_leaves(parts: Iterable[Part]) -> tuple[int, np.ndarray]:
    """The number of leaves with one record, and their values if they are single numbers."""
    by_place = {p.where: np.asarray(p.values) for p in parts if p.kind == "array"}
    count, leaf_values = 0, []
    for single, values in _trees(by_place):
        count += int(single.sum())
        if values is not None and values.size == single.size:
            leaf_values.append(values.ravel()[single])
    return count, np.concatenate(leaf_values) if leaf_values else np.zeros(0)


def _trees(by_place: dict[str, np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    for where, samples in by_place.items():
        nodes = where.rpartition("/")[0]
        if where.endswith("/n_node_samples"):
            left, values = by_place.get(f"{nodes}/left_child"), by_place.get(f"{nodes.rpartition('.')[0]}.values")
            if left is not None and left.shape == samples.shape:
                yield (left < 0) & (samples == 1), values
        elif where.endswith("/count") and f"{nodes}/is_leaf" in by_place:
            leaf = by_place[f"{nodes}/is_leaf"]
            if leaf.shape == samples.shape:
                yield (leaf > 0) & (samples == 1), None


def _copy(part: Part, column: str) -> Finding:
    severity = of_constants(part.values, private=True) or "high"
    return _part_finding("copy", severity, part, f"the private column {column}", "values")


def _labels(parts: Iterable[Part]) -> Iterator[Finding]:
    for part in parts:
        if part.leaves and is_setting(part):
            continue
        severity = of_labels(part.values, of_parameters=False, of_records=False)
        if severity is not None and LEVELS.index(severity) >= LEVELS.index("medium"):
            yield _part_finding("labels", severity, part, kind_of_labels(part.values), "labels")


def _part_finding(kind: str, severity: Severity, part: Part, what: str, entries: str) -> Finding:
    return Finding(
        kind,
        severity,
        f"{part.where} holds {what}",
        (part.where,),
        f"{np.size(part.values)} {entries}, beginning {preview(part.values)}",
        remedies=(Remedy(f"drop {part.where}"),),
        drop=(part.where,),
    )


CHANNEL = Channel("saved objects", find, 11)
