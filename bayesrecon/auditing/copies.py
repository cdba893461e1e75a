"""Plain copies: data, names and traces of the run that lie in the file as they are. No model is needed."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bayesrecon.posteriors.contents import DATA, WIDE, Contents
from bayesrecon.results.audit import Finding, Remedy, Severity

Named = Callable[[Any], str | None]

_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.]{1,190}")  # as long as they may be: no end is looked for in vain
_PATH = re.compile(r"(?<![\w<>/:])(?:[A-Za-z]:\\|\\\\|~?/)(?:[^\s/\\<>\"']+[/\\])+[^\s/\\<>\"']*")
_PLAIN = re.compile(r"[A-Za-z]*[ _.-]?[0-9]{1,4}")  # "x1", "group 3": no name
_ORDINARY = {
    "arviz_version", "created_at", "creation_library", "creation_library_version", "creation_library_language",
    "inference_library", "inference_library_version", "sample_dims", "sampling_time", "tuning_steps",
    "modeling_interface", "modeling_interface_version", "num_draws", "thinning", "conventions", "_fillvalue",
}  # fmt: skip
_SAMPLER = {"seed": "seed", "random_seed": "seed", "stepsize": "step size", "step size": "step size"}
_LONG = 200  # characters of an attribute beyond which it is text, not a label
_SHOW = 5  # paths and numbers that a finding quotes


def find_copies(contents: Contents, named: Named = lambda values: None) -> list[Finding]:
    """All plain copies.

    Args:
        named: the private column that an array is, where there are private data to compare with.
    """
    found = [*_data_groups(contents, named), *_constant_draws(contents), *_coordinates(contents, named)]
    found += [*_attributes(contents, named), *_comments(contents), *_other_groups(contents)]
    return found + _matches(contents, named, {where for f in found for where in f.where})


def _data_groups(contents: Contents, named: Named) -> Iterable[Finding]:
    for variable in contents.group(*DATA):
        values = variable.values
        column = named(values)
        kind = "covariates or constants" if variable.group == "constant_data" else "the response"
        yield Finding(
            "copy",
            "high",
            f"{variable.where} holds data as they are",
            (variable.where,),
            f"{_count(values)} values of {kind}, beginning {_preview(values)}"
            + (f"; they are the private column {column!r}" if column else ""),
            remedies=(Remedy(f"drop {variable.where}"),),
            drop=(variable.where,),
        )


def _constant_draws(contents: Contents) -> Iterable[Finding]:
    """Arrays with one value in all draws: data carried along as a transformed or generated quantity."""
    for variable in contents.variables:
        if not variable.per_draw or variable.group in ("sample_stats", *DATA):
            continue
        values = variable.values
        if len(values) < 3 or values.dtype.kind not in "fiub" or not values[0].size:
            continue
        same = np.ptp(values, axis=0) == 0
        fixed = int(np.sum(same))
        if fixed < 3 or fixed < 0.9 * values[0].size or not np.isfinite(values[0]).all():
            continue
        yield Finding(
            "copy",
            "high" if len(np.unique(values[0])) > 2 else "medium",
            f"{variable.where} is the same in every draw",
            (variable.where,),
            f"{fixed} values that no sampler drew, beginning {_preview(values[0])}: data, or numbers made from them",
            remedies=(Remedy(f"drop {variable.where}"),),
            drop=(variable.where,),
        )


def _coordinates(contents: Contents, named: Named) -> Iterable[Finding]:
    merged: dict[str, tuple[np.ndarray, list[str]]] = {}
    for where, values in contents.coordinates.items():
        key = where.split("/", 1)[1]
        if key in merged and np.array_equal(merged[key][0], values):
            merged[key][1].append(where)
        elif values.size and values.ndim:
            merged[where if key in merged else key] = (values, [where])
    for values, places in merged.values():
        column = named(values)
        severity, what = _judge_labels(values)
        if column:
            severity, what = "high", f"the private column {column!r}"
        if severity is None:
            continue
        yield Finding(
            "labels",
            severity,
            f"the coordinate {places[0].split('/', 1)[1]!r} holds {what}",
            tuple(places),
            f"{values.size} labels, beginning {_preview(values)}",
            remedies=(Remedy("number the entries instead"),),
            drop=tuple(places),
        )


def _judge_labels(values: np.ndarray) -> tuple[Severity | None, str]:
    if values.dtype.kind in "fiub":
        flat = np.ravel(values)
        if (
            flat.size < 2
            or np.array_equal(flat, np.arange(flat.size))
            or np.array_equal(flat, 1 + np.arange(flat.size))
        ):
            return None, ""
        whole = bool(np.all(np.isfinite(flat)) and np.all(flat == np.round(flat)))
        return ("medium", "numbers that identify entries") if whole else ("medium", "values, one per entry")
    texts = [str(v) for v in np.ravel(values)]
    if any(_EMAIL.search(t) for t in texts):
        return "high", "e-mail addresses"
    if all(_PLAIN.fullmatch(t) for t in texts):
        return None, ""
    if len(texts) >= 20 and len(set(texts)) > 0.9 * len(texts):
        return "high", "a different label per entry: names or identifiers"
    return "medium", "labels of entries"


def _attributes(contents: Contents, named: Named) -> Iterable[Finding]:
    merged: dict[tuple[str, str], list[str]] = {}
    values: dict[tuple[str, str], Any] = {}
    for where, value in contents.attributes.items():
        key = (where.replace("@", "/").split("/")[-1], repr(value)[:10_000])
        merged.setdefault(key, []).append(where)
        values[key] = value
    for key, places in merged.items():
        name, value = key[0], values[key]
        if name.lower() in _ORDINARY or name.startswith("bayesrecon_"):
            continue
        severity, what = _judge_attribute(name, value, named)
        if severity is None:
            continue
        yield Finding(
            "attributes",
            severity,
            f"the attribute {name!r} holds {what}",
            tuple(places),
            f"{_short(value)}",
            remedies=(Remedy(f"remove the attribute {name!r}"),),
            drop=tuple(f"@{place}" for place in places),
        )


def _judge_attribute(name: str, value: Any, named: Named) -> tuple[Severity | None, str]:
    try:
        array = np.asarray(value) if not isinstance(value, str) else _rows_in(value)
    except ValueError:  # lists of unequal lengths
        array = _as_texts(value)
    if array is not None and array.size > 3 and array.dtype.kind in "fiu":
        column = named(array)
        return "high", f"the private column {column!r}" if column else f"{array.size} numbers: rows of data?"
    if array is not None and array.size > 3:
        return "medium", f"{array.size} texts"
    text = str(value)
    if _EMAIL.search(text):
        return "high", "an e-mail address"
    if _PATH.search(text):
        return "low", "a path of the machine it was made on"
    if name.lower() in _SAMPLER:
        return "low", _SEED if _SAMPLER[name.lower()] == "seed" else "the sampler's step size"
    if len(text) > _LONG:
        return "medium", f"a text of {len(text)} characters"
    if re.search(r"(name|author|user|patient|subject|person|owner|host|site|hospital)", name, re.IGNORECASE):
        return "medium", "a name"
    return None, ""


_SEED = "the random seed: whoever guesses the data can run the sampler again and compare"


def _rows_in(text: str) -> np.ndarray | None:
    """Numbers or texts in a JSON array or a table of numbers."""
    if len(text) < 4:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        numbers = re.findall(r"-?[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?", text)
        few_words = sum(map(len, numbers)) > 0.5 * len(text)
        return np.array([float(n) for n in numbers[:100_000]]) if len(numbers) > 8 and few_words else None
    if not isinstance(content, list | dict):
        return None
    try:
        return np.asarray(content if isinstance(content, list) else list(content.values()), float).ravel()
    except (ValueError, TypeError, OverflowError):
        return _as_texts(content)


def _as_texts(content: Iterable[Any]) -> np.ndarray:
    return np.asarray([str(c) for c in content], dtype=str)


def _comments(contents: Contents) -> Iterable[Finding]:
    for title, summary, needs in _told_by(contents.comments):
        remedies = (Remedy("drop the comments"),)
        yield Finding("comments", "low", title, ("comments",), summary, needs, remedies=remedies, drop=("comments",))


def _told_by(lines: Sequence[str]) -> Iterable[tuple[str, str, str]]:
    """Title, evidence and what an attacker needs, of everything that comments give away."""
    settings = dict(_setting(line) for line in lines if "=" in line)
    data = [v for k, v in settings.items() if k in ("file", "data file", "data_file") and v]
    paths = sorted({m.group(0) for line in lines for m in _PATH.finditer(line)} | set(data))
    if paths:
        yield (
            "the comment header holds file names of the machine it was made on",
            f"{', '.join(_short(p) for p in paths[:_SHOW])}: a user's name, a project, the data file",
            "nothing but the file",
        )
    if "seed" in settings:
        yield (
            "the comment header holds the random seed",
            f"seed = {_short(settings['seed'])}: with it, a guess of the whole data set can be confirmed to the last "
            "digit by running the sampler again",
            "the program, the sampler's version and a guess of the data",
        )
    start = next((i for i, line in enumerate(lines) if "inverse mass matrix" in line.lower()), None)
    if start is not None:
        numbers = re.findall(r"-?[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?", " ".join(lines[start + 1 : start + 2]))
        yield (
            "the comments hold step size and mass matrix of the warm-up",
            f"{len(numbers)} or more entries, beginning {', '.join(numbers[:_SHOW])}: the posterior's variances from "
            "draws that were not published; they stay when draws are thinned or rounded",
            "the model",
        )


def _setting(line: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    return key.strip().lower(), value.strip().removesuffix("(Default)").strip()


def _other_groups(contents: Contents) -> Iterable[Finding]:
    warmup = [v.where for v in contents.variables if v.group.startswith("warmup_")]
    if warmup:
        yield Finding(
            "warm-up",
            "low",
            "warm-up draws are in the file",
            tuple(warmup),
            f"{len(warmup)} arrays beside the posterior draws: further values of every side channel",
            remedies=(Remedy("drop the warm-up groups"),),
            drop=tuple(warmup),
        )


def _matches(contents: Contents, named: Named, seen: set[str]) -> list[Finding]:
    """Arrays outside the data groups that equal a private column, as they are or in another order."""
    found = []
    for variable in contents.variables:
        if variable.where in seen or (variable.per_draw and variable.group not in WIDE):
            continue
        values = variable.values
        if variable.per_draw:
            values = values[0]
        column = named(values)
        if column:
            found.append(
                Finding(
                    "copy",
                    "high",
                    f"{variable.where} holds the private column {column!r}",
                    (variable.where,),
                    f"{_count(values)} values, beginning {_preview(values)}",
                    remedies=(Remedy(f"drop {variable.where}"),),
                    drop=(variable.where,),
                )
            )
    return found


def _count(values: np.ndarray) -> str:
    return " by ".join(str(n) for n in np.shape(values)) or "1"


def _preview(values: Any) -> str:
    flat = np.ravel(np.asarray(values))[:_SHOW]
    return ", ".join(f"{v:.6g}" if flat.dtype.kind in "fiub" else _short(v, 40) for v in flat)


def _short(value: Any, most: int = 120) -> str:
    text = " ".join(str(value).split())
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"
