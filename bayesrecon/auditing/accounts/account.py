"""An account of every item of a file: its kind, judged by its values, or "unrecognised"."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np
import numpy.typing as npt

from bayesrecon.auditing.accounts.comments import odd_lines
from bayesrecon.auditing.accounts.plain_numbers import digits_of, is_levels, structure_of
from bayesrecon.auditing.accounts.sampler import AMBIGUOUS, KNOWN, is_metric, is_statistic
from bayesrecon.auditing.accounts.settings import is_measured, is_setting
from bayesrecon.auditing.accounts.texts import is_known, kind_of_labels, odd_names
from bayesrecon.auditing.inventory import inventory
from bayesrecon.auditing.look import Look, rows_of
from bayesrecon.auditing.wording import places, short
from bayesrecon.posteriors.contents import DATA, Entry, Variable
from bayesrecon.posteriors.roles import STRUCTURE
from bayesrecon.results.findings import UNRECOGNISED, Finding, NotRun, Remedy
from bayesrecon.results.told import values_in

Kind = Literal["parameter", "sampler statistic", "structure", "opened", "public", "not run", "unrecognised"]
_STATISTICS = {"sample_stats", "warmup_sample_stats", "sample_stats_prior", "warmup_sample_stats_prior"}
_WORD = re.compile(r"[^\W\d][\w.]*")
_CONSTANTS, _DIGITS = 8, 3  # a file may have this many constants with this few digits without being asked about them


@dataclass(frozen=True)
class Account:
    """One item and its kind."""

    entry: Entry
    kind: Kind


def accounts(look: Look, untried: Iterable[NotRun] = (), public: Iterable[str] = ()) -> list[Account]:
    """An account of everything in the file.

    Args:
        look: the file, with all findings.
        untried: attacks that did not run. The items that they would attack are not unrecognised.
        public: names and places of items that may stay, with wildcards.
    """
    contents, allowed = look.contents, tuple(public)
    waiting = {where for n in untried for where in n.where}
    variables = {v.where: v for v in contents.variables}
    by_place = {**dict.fromkeys(waiting, "not run"), **dict.fromkeys(look.reported, "opened")}
    vouched = look.items().vouched
    result: list[Account] = []
    constants: list[Account] = []
    for entry in inventory(contents):
        if entry.kind == "name" or entry.where == "comments":
            continue
        where = entry.where.removeprefix("@")
        kind: Kind
        if is_public(where, allowed):
            kind = "public"
        elif entry.kind == "array" and where in variables:
            kind = _array(look, variables[where], by_place.get(where, ""))
        elif where in by_place:
            kind = by_place[where]  # type: ignore[assignment]
        else:
            kind = "structure" if entry.where in vouched else _other(look, entry)
        account = Account(entry, kind)
        if (kind == "unrecognised" and _is_constant(entry, variables.get(where))) or (
            kind == "structure" and entry.of is not None and is_measured(entry)
        ):
            constants.append(account)
        else:
            result.append(account)
    few = sum(int(np.size(c.entry.values)) if c.entry.where not in variables else 1 for c in constants) <= _CONSTANTS
    result += [Account(c.entry, "structure" if few else "unrecognised") for c in constants]
    return result + list(_told(look, allowed))


def is_public(where: str, allowed: Iterable[str]) -> bool:
    """Whether a place, or the last part of its name, was declared public.

    >>> is_public("constant_data/prior_sd", ["prior_*"]), is_public("posterior/y", ["prior_*"])
    (True, False)
    """
    names = (where, where.replace("@", "/").rstrip("/").split("/")[-1])
    return any(fnmatchcase(name, pattern.removeprefix("@")) for pattern in allowed for name in names)


def _array(look: Look, variable: Variable, kind: str) -> Kind:
    if not variable.values.size:
        return "structure"
    if variable.group.startswith("warmup_") and kind == "opened" and not _is_known_warmup(look, variable):
        return "unrecognised"
    if variable.values.dtype.kind not in "biufc" and not _is_attacked(look, variable):
        return "unrecognised"  # parameters are never strings
    if kind:
        return kind  # type: ignore[return-value]
    if look.is_parameter(variable):
        return "parameter" if look.contents.draws is not None and is_drawn(variable) else "unrecognised"
    beside = variable.group == "posterior" and variable.name.rstrip("_").lower() not in AMBIGUOUS
    # Formats without groups have draws and statistics side by side.
    if (variable.group in _STATISTICS or beside) and _is_statistic(look, variable):
        return "sampler statistic"
    if variable.group in ("prior", "warmup_posterior"):
        names = {v.name for v in look.contents.variables if look.is_parameter(v)}
        if variable.name in names and is_drawn(variable):
            return "parameter"
    rows = rows_of(variable)
    if rows is None:
        return "structure" if structure_of(variable.values) and variable.group in DATA else "unrecognised"
    if rows.dtype.kind == "f" and np.isnan(rows).all():  # samplers write this for divergences if there are none
        return "structure"
    constant = np.ptp(rows, axis=0) == 0 if len(rows) and np.isfinite(rows).all() else np.zeros(1, bool)
    if constant.all() and constant.size > 1 and structure_of(rows[0].reshape(variable.shape or -1)):
        return "structure"
    return "structure" if _is_correlation(variable) else "unrecognised"


def _is_attacked(look: Look, variable: Variable) -> bool:
    """Whether a finding other than the list of draws explains an array."""
    return any(variable.where in f.where for f in look.findings if f.kind != "draws")


def _is_known_warmup(look: Look, variable: Variable) -> bool:
    """Whether a warm-up array has the name of an explained array of the draws, or is explained by another finding."""
    if any(variable.where in f.where for f in look.findings if f.kind not in ("warm-up", "warm-up values")):
        return True
    group = variable.group.removeprefix("warmup_")
    if group == "sample_stats":
        return _is_statistic(look, variable) or any(v.name == variable.name for v in look.contents.group(group))
    return group != "posterior" or any(
        look.is_parameter(v) or v.where in look.reported for v in look.contents.group(group) if v.name == variable.name
    )


def is_drawn(variable: Variable) -> bool:
    """Whether the numbers differ between draws."""
    rows = rows_of(variable)
    return rows is not None and bool(np.all(~np.isfinite(rows).all(axis=0) | (np.ptp(rows, axis=0) > 0)).any())


def _is_statistic(look: Look, variable: Variable) -> bool:
    """Whether an array is a sampler's statistic: one value per draw, or one per draw and step of a compound sampler."""
    steps = int(np.prod(variable.shape, dtype=int)) if variable.per_draw else 1
    if _is_metric(look, variable):
        return True
    if steps > 1:
        arrays = sum(look.is_parameter(v) for v in look.contents.variables)
        if steps > arrays or len(variable.shape) > 1:
            return False
        parts = (replace(variable, shape=(), values=variable.values[:, k]) for k in range(steps))
        return all(_is_statistic(look, part) for part in parts)
    rows = _by_chain(look, variable)
    return rows is not None and is_statistic(variable.name, rows)


def _is_metric(look: Look, variable: Variable) -> bool:
    draws, values = look.contents.draws, variable.values
    scalars = sum(int(np.prod(v.shape, dtype=int)) for v in look.contents.variables if look.is_parameter(v))
    if draws is None or not variable.per_draw or variable.shape != (scalars,) or values.dtype.kind != "f":
        return False
    return is_metric(variable.name, values.reshape(draws.chains, -1, scalars))


def _by_chain(look: Look, variable: Variable) -> np.ndarray | None:
    draws, values = look.contents.draws, variable.values
    if values.dtype.kind not in "biuf":
        return None
    if variable.per_draw and draws is not None and len(values) == draws.chains * draws.length:
        return values.reshape(draws.chains, -1).astype(float)
    if variable.per_draw and draws is None and values.ndim == 1:  # the file has no posterior draws
        return values[None].astype(float)
    return values.astype(float) if values.ndim == 2 else None


def _is_correlation(variable: Variable) -> bool:
    """Whether every draw is a correlation matrix, or its triangular factor."""
    if not variable.per_draw or len(variable.shape) != 2 or variable.shape[0] != variable.shape[1]:
        return False
    sample = variable.values[:: max(1, len(variable.values) // 50)].astype(float)
    if not np.isfinite(sample).all():
        return False
    if np.all(np.triu(sample, 1) == 0):
        sample = sample @ sample.transpose(0, 2, 1)
    elif not np.allclose(sample, sample.transpose(0, 2, 1), rtol=1e-6, atol=1e-8):
        return False
    diagonal = np.diagonal(sample, axis1=1, axis2=2)
    return bool(np.allclose(diagonal, 1, atol=1e-5) and np.linalg.eigvalsh(sample).min() > -1e-6)


def _other(look: Look, entry: Entry) -> Kind:
    if entry.of is not None:
        return "structure" if is_setting(entry) else "unrecognised"
    if entry.role == STRUCTURE:
        odd = entry.kind == "text" and odd_names(_WORD.findall(str(entry.values)))
        return "unrecognised" if odd else "structure"
    if entry.kind == "labels":
        axis = entry.where.rpartition("/")[2]
        kind = kind_of_labels(entry.values)
        owned = axis in look.parameter_axes or axis not in look.record_axes
        fine = kind == "positions" or (owned and kind in ("words", "levels")) or np.size(entry.values) == 0
        fine = fine or _are_parameters(look, entry.values)
        if np.ndim(entry.values) == 0:
            fine = is_levels([0, 1]) and entry.values.dtype.kind in "biuf" and digits_of(float(entry.values)) <= _DIGITS
        return "structure" if fine else "unrecognised"
    if entry.kind == "attribute":
        name = entry.where.replace("@", "/").rstrip("/").split("/")[-1]
        return "structure" if is_known(name, entry.values) else "unrecognised"
    return "unrecognised"


def _are_parameters(look: Look, labels: npt.ArrayLike) -> bool:
    """Whether labels are names of parameters, with indices and transforms as in PyMC: `coef_0`, `sigma_log__`."""
    names = "|".join(re.escape(v.name) for v in look.contents.variables if look.is_parameter(v))
    return bool(names) and all(
        re.fullmatch(rf"({names})([_.]\d{{1,4}})*(_[a-z]{{1,16}}__)?", str(x)) for x in np.ravel(labels)
    )


def _is_constant(entry: Entry, variable: Variable | None) -> bool:
    """Whether an item is a few numbers with few digits, in an attribute or constant over the draws."""
    if variable is not None:
        rows = rows_of(variable)
        values = (
            variable.values if rows is None else rows[0] if len(rows) and np.all(np.ptp(rows, axis=0) == 0) else None
        )
        if values is None or variable.name.rstrip("_").lower() in KNOWN:
            return False
    elif entry.kind == "attribute" and entry.of is None:
        values = entry.values
    else:
        return False
    try:
        array = np.ravel(np.asarray(values))
    except ValueError:
        return False
    if array.dtype.kind not in "biuf" or array.size > 4:
        return False
    return all(digits_of(float(v)) <= (_DIGITS if array.size == 1 else 2) for v in array)


def _told(look: Look, allowed: tuple[str, ...]) -> Iterator[Account]:
    """Names and comments that contain values."""
    names = [e for e in inventory(look.contents) if e.kind == "name"]
    odd = set(odd_names([str(e.values) for e in names]))
    lines = (Entry("comments", "text", line) for line in odd_lines(look.contents.comments))
    seen = {where.removeprefix("@") for f in look.findings if f.severity in ("medium", "high") for where in f.drop}
    for entry in (*(e for e in names if str(e.values) in odd), *lines):
        where = entry.where.removeprefix("@")
        yield Account(entry, "public" if is_public(where, allowed) else "opened" if where in seen else "unrecognised")


def unrecognised(accounted: Iterable[Account]) -> list[Finding]:
    """One finding with all unrecognised items."""
    odd = [a.entry for a in accounted if a.kind == "unrecognised"]
    if not odd:
        return []
    where = tuple(dict.fromkeys(e.where for e in odd))
    items = [
        f"{e.kind} {short(e.where, 60)}"
        + (f" ({values_in(short(e.values, 40))})" if e.kind in ("name", "text") else "")
        for e in odd
    ]
    finding = Finding(
        UNRECOGNISED,
        "low",
        f"{len(where)} item{'s are' if len(where) > 1 else ' is'} not recognised",
        where,
        f"neither parameters, nor statistics of a sampler, nor structure, nor opened by an attack: {places(items, 8)}",
        remedies=(Remedy("say that they may stay (--public NAME), or drop them", leaves="info"),),
        drop=where,
    )
    return [finding]
