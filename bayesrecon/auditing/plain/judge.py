"""Values that saved objects and other containers hold beside draws, judged in the same way in every format.

Roles of fits say why their parts are of records. All other values are judged on evidence, in this order: they match a
private column; a voucher says what they are instead; they are a value for each of many things.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np

from bayesrecon.attacks.sidechannels.trees import single_leaves
from bayesrecon.auditing.accounts.plain_numbers import structure_of
from bayesrecon.auditing.accounts.settings import is_setting
from bayesrecon.auditing.accounts.texts import are_names_of_people, kind_of_labels
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_constants, of_labels, of_rows, of_totals
from bayesrecon.auditing.vouchers import FEWEST, MANY, Subject, are_named, has_private_ends
from bayesrecon.auditing.wording import count_of, places, preview, short, to_drop
from bayesrecon.posteriors.contents import DATA, GROUPS, Entry
from bayesrecon.posteriors.roles import CUT, DESIGN, ESTIMATE, LEAF, RECORD, SEED, TABLE, TIMES, TOTAL
from bayesrecon.results.findings import Finding, NotRun, Severity
from bayesrecon.results.told import values_in


class _Kept(NamedTuple):
    """What an object keeps under a role: the kind of the finding, its title after the owner, and the reason."""

    kind: str
    verb: str
    why: str


_KEPT = {
    RECORD: _Kept("records", "keeps records", "a value for every record"),
    TABLE: _Kept("records", "keeps records", "columns of a table whose rows may be records"),
    DESIGN: _Kept("records", "keeps values from which the rows of its design follow", "factors of the design"),
    TIMES: _Kept("records", "keeps times of single records", "each step of a survival curve is the time of a record"),
    LEAF: _Kept("leaves", "keeps outcomes of single records", "a leaf of one record holds its response"),
    CUT: _Kept("cuts", "keeps values next to those of single records", "each lies midway between two records"),
    TOTAL: _Kept("totals", "keeps exact totals of all records", "sums, means and counts with all digits"),
    SEED: _Kept("seed", "keeps the state of a generator of random numbers", "whoever guesses the data can draw again"),
}

_WORKSPACE = (".Environment", "<environment>", "<enclosure>")
_AROUND = "a formula or a function keeps all objects of the environment in which it was created"
_SHOWN = 8
"""Largest number of private columns named in a finding."""

_OWN_FORMAT = "they are in the format of their own library, which is not read"

_DATA_CLASSES = (
    "statsmodels.base.data", "pandas.", "numpy.", "collections.", "builtins.", "scipy.sparse", "sklearn.tree._tree",
    "joblib.", "data.frame", "data.table", "tbl_df", "matrix", "factor", "Surv", "dgCMatrix",
)  # fmt: skip
"""Classes that contain data for other objects."""

_MOST_MATCHED = 400
"""Largest number of items that are compared with private columns, since a forest has thousands."""


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """One finding for each reason, and trees that were not read."""
    findings = list(_data_groups(look))
    subject = look.items()
    entries = [e for e in _entries(look) if e.where not in look.reported and np.size(e.values)]
    columns = _columns(look, entries)
    kept = [e for e in entries if e.role in _KEPT and (e.where in columns or _is_kept(subject, e))]
    order = list(_KEPT)
    owners = {id(e): _owner(e, subject) for e in kept}
    kept.sort(key=lambda e: (order.index(e.role), _why(e), owners[id(e)]))
    for _, group in groupby(kept, key=lambda e: (e.role, _why(e), owners[id(e)])):
        whole = [e for e in group if e.where in columns or not _names_rows(e)]
        findings += [_of_role(look, whole, entries, columns, owners[id(whole[0])])] if whole else []
    seen = {where for f in findings for where in f.where}
    others = [e for e in entries if e.where not in seen]
    findings += _matched(others, columns, subject)
    judged: dict[tuple[str, Severity, str], list[Entry]] = {}
    for entry in others:
        if entry.where not in columns and (verdict := _judged(look, subject, entry)) is not None:
            judged.setdefault((*verdict, _owner(entry, subject)), []).append(entry)
    findings += [_unvouched(cause, severity, group) for (cause, severity, _), group in judged.items()]
    closed = tuple(e.where for e in kept if e.role == LEAF and e.kind in ("text", "bytes"))
    return findings, [NotRun("trees", _OWN_FORMAT, f"drop {places(closed, 3)}", closed)] if closed else []


def _data_groups(look: Look) -> Iterator[Finding]:
    """Findings on all observed data, and on constant data unless they are grids or plain numbers."""
    for variable in look.contents.group(*DATA):
        values, column = variable.values, look.named(variable.values)
        constant = variable.group != "observed_data"
        if constant and column is None and structure_of(values):
            continue
        severity = of_constants(values, private=column is not None or not constant) or "medium"
        if constant and severity == "medium" and values.size < 5 and values.dtype.kind in "biuf":
            continue  # a few numbers are left to the accounts, as unrecognised
        summary = f"{count_of(values)} values of {'covariates or constants' if constant else 'the response'}"
        summary += f", beginning {preview(values)}"
        where, title = (variable.where,), f"{variable.where} holds data as they are"
        yield to_drop("copy", severity, title, where, summary, column=column)


def _entries(look: Look) -> Iterator[Entry]:
    """Everything that can hold values: entries of the file, and arrays of unknown groups without draws."""
    for entry in look.contents.entries:
        kinds = ("array", "labels", "attribute") if entry.of is not None else ("array", "labels")
        if entry.kind in kinds or entry.role in _KEPT:
            yield entry
    for v in look.contents.variables:
        if v.group not in GROUPS and not v.group.startswith("warmup_") and not v.per_draw:
            yield Entry(v.where, "array", v.values)


def _columns(look: Look, entries: Sequence[Entry]) -> dict[str, str]:
    """The private columns in the entries, by place."""
    arrays = [e for e in entries if np.ndim(e.values) and np.size(e.values) > 1 and not _is_few(e)]
    arrays.sort(key=lambda e: (e.role not in (RECORD, TABLE), -int(np.size(e.values))))
    compared = [(e.where, e.values) for e in arrays[:_MOST_MATCHED]]
    leaves = ((e.where, leaf.values) for e in arrays for leaf in e.leaves if np.size(leaf.values) >= FEWEST)
    columns: dict[str, str] = {}
    for where, values in (*compared, *islice(leaves, _MOST_MATCHED)):
        if where not in columns and (column := look.named(values)):
            columns[where] = column
    return columns


def _is_few(entry: Entry) -> bool:
    """Whether an entry is labels of a few classes or levels, which do not count as a copy of data."""
    return entry.of is not None and entry.kind == "labels" and entry.role != RECORD and is_setting(entry)


def _is_kept(subject: Subject, entry: Entry) -> bool:
    """Whether an entry with a role holds something: it is not structure, nor read by another channel."""
    if entry.role == TABLE:
        unknown = entry.where not in subject.vouched and entry.where not in subject.named
        return unknown and len(np.atleast_1d(entry.values)) >= FEWEST and len(set(np.ravel(entry.values).tolist())) > 1
    if entry.role == DESIGN and entry.of is None:
        return False  # `stored_parts` handles them
    if entry.kind == "labels":
        return kind_of_labels(entry.values) != "positions"
    if entry.kind in ("attribute", "text", "bytes"):
        return not isinstance(entry.values, bool) and not (entry.kind == "attribute" and isinstance(entry.values, str))
    small = np.size(entry.values) < 2 and entry.role == RECORD and entry.of is None
    return not small and structure_of(entry.values) not in ("nothing", "one number", "positions")


def _names_rows(entry: Entry) -> bool:
    """Whether an entry has names of the rows of R's objects, which are judged as labels."""
    return entry.kind == "labels" and entry.of is None and entry.role in (RECORD, TOTAL, TIMES)


def _why(entry: Entry) -> str:
    if entry.why:
        return entry.why
    return _AROUND if any(mark in entry.where for mark in _WORKSPACE) else _KEPT[entry.role].why


def _of_role(
    look: Look, group: Sequence[Entry], entries: Sequence[Entry], columns: dict[str, str], owner: str
) -> Finding:
    """The finding on what an object keeps for one reason."""
    kept, why = _KEPT[group[0].role], _why(group[0])
    group = sorted(group, key=lambda e: (e.where not in columns, -int(np.size(e.values))))
    where = tuple(dict.fromkeys(e.where for e in group))
    private = [f"{w} is the private column {columns[w]}" for w in where if w in columns]
    largest = group[0] if group[0].where in columns else max(group, key=lambda e: np.size(e.values))
    role, count, alone = group[0].role, max(_rows(e) for e in group), ""
    severity: Severity | None = "low" if role == SEED else of_totals(exact=True) if role == TOTAL else "medium"
    if role in (RECORD, DESIGN, TIMES) or (role == TABLE and count >= MANY):
        severity = of_rows(count)
    if role == LEAF:
        single, outcomes = single_leaves(entries)
        severity = of_rows(single) or "medium"
        alone = f"; {single} leaves hold one record each" if single else ""
        column = look.named(outcomes) if len(outcomes) else None
        private += [f"outcomes in leaves of one record are those of {column}"] if column else []
    beginning = values_in(short(largest.values, 20)) if largest.kind in ("text", "bytes") else preview(largest.values)
    return to_drop(
        kept.kind,
        "high" if private else severity or "medium",
        f"{owner} {kept.verb}: {places(where, 2)}",
        where,
        f"{places(where)}: {why}{alone}; {largest.where} begins {beginning}"
        + "".join(f"; {short(text, 160)}" for text in private[:_SHOWN])
        + (f"; and {len(private) - _SHOWN} more" if len(private) > _SHOWN else ""),
        instead=f"publish without {places(where, 3)}",
    )


def _rows(entry: Entry) -> int:
    """The number of records of which an entry may hold values."""
    return int(np.size(entry.values) if entry.of is not None else len(np.atleast_1d(entry.values)))


def _owner(entry: Entry, subject: Subject) -> str:
    """The class of the model that an entry belongs to: the nearest enclosing class that is not a container."""
    where = entry.where
    ends = [i for i, letter in enumerate(where) if letter in "./@"]
    enclosing = [subject.classes[where[:i]] for i in (0, *ends) if where[:i] in subject.classes]
    for name in (entry.of, *reversed(enclosing)):
        if name and not name.startswith(_DATA_CLASSES):
            return name.rpartition(".")[2] if entry.of is not None else name
    return "the file"


def _matched(entries: Iterable[Entry], columns: dict[str, str], subject: Subject) -> Iterator[Finding]:
    """One finding for each private column that is somewhere without a reason.

    A few statistics with names, such as a median and quartiles, may be values of records, too.
    """
    by_column: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.where in columns:
            by_column.setdefault(columns[entry.where], []).append(entry)
    for column, group in by_column.items():
        where = tuple(e.where for e in group)
        title = f"{places(where, 2)} {'hold' if len(where) > 1 else 'holds'} the private column {column}"
        few = all(np.size(e.values) < FEWEST and are_named(subject.item(e)) for e in group)
        yield _finding("copy", "medium" if few else "high", title, group)


def _judged(look: Look, subject: Subject, entry: Entry) -> tuple[str, Severity] | None:
    """What values without a role may be, and how severe that is; None if they are something else, or too few."""
    numeric = not isinstance(entry.values, str) and np.asarray(entry.values).dtype.kind in "biuf"
    item = subject.item(entry) if numeric else None
    if item is not None and has_private_ends(item):
        return "a grid between ends with many digits, such as the smallest and the largest record", "medium"
    if entry.where in subject.vouched or (entry.of is not None and is_setting(entry)):
        return None
    if entry.role not in ("", TABLE) and entry.kind != "labels":
        return None
    if item is None or entry.kind == "labels":
        return _of_texts(entry)
    values = np.asarray(entry.values)
    if are_named(item) or entry.where in subject.named:
        return None
    different = len(np.unique(values[~np.isnan(values.astype(float))]))
    if different < FEWEST and (values.size < MANY or different < 2):
        return None
    if look.contents.draws is not None and entry.of is None:  # which have groups for everything else
        draws = look.contents.draws.chains * look.contents.draws.length
        return (
            None
            if values.size % draws == 0
            else ("values outside the groups of a fit", of_constants(values) or "medium")
        )
    return "values that may be of records", "medium"


def _of_texts(entry: Entry) -> tuple[str, Severity] | None:
    values = np.ravel(entry.values)
    if values.size < 2 or _are_of_packages(entry):
        return None
    severity = of_labels(values, of_parameters=entry.role == ESTIMATE, of_records=entry.role == RECORD)
    if severity in ("medium", "high"):
        return kind_of_labels(values), severity
    texts = [str(v) for v in values]
    if kind_of_labels(values) == "words" and len(texts) >= FEWEST and are_names_of_people(texts):
        return "names", "medium"
    repeated = len(texts) >= MANY and 1 < len(set(texts)) <= len(texts) / 2
    return ("a level for each of many things", "medium") if repeated else None


def _are_of_packages(entry: Entry) -> bool:
    """Whether texts are descriptions of R's packages: fields of unknown texts, and the version that built them."""
    built = [str(leaf.values) for leaf in entry.leaves if leaf.path[-1] == ".Built"]
    fields = {leaf.path[-1] for leaf in entry.leaves}
    return {".Version", ".Maintainer", ".License"} <= fields and all(text.startswith("R ") for text in built)


def _unvouched(cause: str, severity: Severity, group: Sequence[Entry]) -> Finding:
    where = tuple(e.where for e in group)
    of_labels = group[0].kind == "labels" or np.asarray(group[0].values).dtype.kind not in "biuf"
    title = f"{places(where, 2)} {'hold' if len(where) > 1 else 'holds'} {cause}"
    return _finding("labels" if of_labels else "copy", severity, title, group)


def _finding(kind: str, severity: Severity, title: str, group: Sequence[Entry]) -> Finding:
    where = tuple(e.where for e in group)
    count = sum(int(np.size(e.values)) for e in group)
    return to_drop(kind, severity, title, where, f"{count} values, beginning {preview(group[0].values)}")


CHANNEL = Channel("values of unknown place", find, 13)
