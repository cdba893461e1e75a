"""Files of R: `.rds`, `.RData`, `.rda`."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.posteriors.contents import Contents, Entry, Unread, Variable, entry_of_bytes, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws, assembled, levels_of
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.posteriors.r.estimates import estimates_of
from bayesrecon.posteriors.r.known_names import BY_CLASS, DESIGN_PARTS, ESTIMATES, FITS, RECORDS
from bayesrecon.posteriors.r.r_objects import INTERNAL, LISTS, VECTORS, Place, PlaceWalk, RObjects
from bayesrecon.posteriors.r.samples import LOG_DENSITY, ObjectDraws, samples_of
from bayesrecon.posteriors.roles import (
    CODE,
    CUT,
    DESIGN,
    ESTIMATE,
    LEAF,
    RECORD,
    SEED,
    STRUCTURE,
    TABLE,
    TIMES,
    TOTAL,
    is_name_of_code,
    is_option,
)
from bayesrecon.posteriors.siblings import joined
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.r_file import read_r

_NAME = "R file"
_STATISTICS = {
    "accept_stat__": "acceptance_rate",
    "stepsize__": "step_size",
    "treedepth__": "tree_depth",
    "n_leapfrog__": "n_steps",
    "divergent__": "diverging",
    "energy__": "energy",
}
"""ArviZ's names of Stan's sampler statistics."""


def read_walk(source: Path, trusted: bool = False) -> PlaceWalk:
    """All objects of a file.

    Raises:
        BayesreconError: the file is damaged, its unpacked size is too large, or it has too many objects.
    """
    with reading(source, f"an {_NAME}"):
        return PlaceWalk(RObjects(asked(read_r, source, trusted, trusted=trusted)))


def read_r_draws(source: Path, *, name: str | None = None, trusted: bool = False) -> Draws:
    """The draws in a file."""
    path = Path(source)
    with reading(path, f"an {_NAME}"):
        result = samples_of(read_walk(path, trusted), unsigned=True)
        if result is None:
            raise BayesreconError(f"{path}: it has no draws (of coda, posterior, Stan, brms or rstanarm)")
        return _draws(result, name or path.stem)


def read_r_contents(
    source: Path, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    """Everything in a file: draws if there are any, estimates of fits, and all other objects with their places."""
    path = Path(source)
    with reading(path, f"an {_NAME}"), np.errstate(all="ignore"):  # numbers in an untrusted file can have any size
        walk = read_walk(path, trusted)
        samples = samples_of(walk)
        roles_by_place = roles(walk)
        if samples is not None:
            remaining = [k for k, place in enumerate(walk.places) if place.node not in samples.nodes]
            roles_by_place = {i: roles_by_place[k] for i, k in enumerate(remaining) if k in roles_by_place}
            walk.places = [walk.places[k] for k in remaining]
        entries, unread = entries_of(walk, roles_by_place)
        files = (stamp(path),)
        title = name or path.name
        if samples is None:
            result = Contents(title, _title(walk), files)
        else:
            result = from_named_draws(_draws(samples, title), _title(walk), files, sign=samples.sign)
            levels = {f"posterior/{base}": names for base, names in levels_of(samples.columns).items()}
            variables = (*result.variables, *_sampler_variables(samples))
            result = replace(result, variables=variables, coordinates=levels, program=samples.program)
        return replace(result, entries=tuple(entries), unread=tuple(unread), estimates=tuple(estimates_of(walk)))


def _title(walk: PlaceWalk) -> str:
    """The name of the format, with descriptions of up to three known objects."""
    descriptions = [known_class(walk.objects, node) for _, node in walk.objects.objects()]
    known = [text for text in dict.fromkeys(descriptions) if text]
    return f"{_NAME}: {', '.join(known[:3])}" if known else _NAME


def _draws(samples: ObjectDraws, name: str) -> Draws:
    columns = {k: v for k, v in samples.columns.items() if k != LOG_DENSITY}
    return Draws(assembled(columns), samples.columns.get(LOG_DENSITY), name)


def _sampler_variables(samples: ObjectDraws) -> list[Variable]:
    """Statistics of the sampler, and draws of the warm-up."""
    result = [
        Variable("sample_stats", _STATISTICS.get(name, name), (), True, np.ravel(values))
        for name, values in samples.statistics.items()
    ]
    for name, values in assembled(samples.warmup).items():
        group = "warmup_sample_stats" if name == LOG_DENSITY else "warmup_posterior"
        result.append(Variable(group, "lp" if name == LOG_DENSITY else name, values.shape, False, values))
    return result


FORMAT = Format(_NAME, (".rds", ".rdata", ".rda"), read_r_draws, read_r_contents, guarded=True)


# Everything in a file of R as entries of an audit's inventory: values, labels, texts, code, with their roles.

_ENCODINGS = {"", "UTF-8", "latin1", "ASCII", "ISO-8859-1", "ISO8859-1", "CP1252", "ANSI_X3.4-1968", "US-ASCII"}
_WORD = re.compile(r"[A-Za-z.][\w.]*")
_LABELS = {"names", "row.names", "levels"}
_PROGRAMS = {"model_code", "model_cppcode", "model", "cppcode", "stancode"}
_FIELD = ".->"  # prefix of the fields of reference classes
_MANY = 5  # elements that are alike, whose names are then labels
KEYED = {*LISTS, "environment"}
_NAMING = {
    "term.labels",
    "varnames.fixed",
    "varnames",
    "dataClasses",
    "dataClasses.fixed",
    "pred.names",
    "vn",
    "cnms",
    "model_pars",
}
"""Elements that have names of variables, or their types."""


def entries_of(walk: PlaceWalk, roles: Mapping[int, str]) -> tuple[list[Entry], list[Unread]]:
    """All entries of a file, and the parts that could not be read.

    Args:
        walk: the places of the file.
        roles: roles of places, by their position in the walk.
    """
    result: list[Entry] = []
    unread: list[Unread] = []
    words = _words(walk)
    role_of = {id(place): roles.get(k, "") for k, place in enumerate(walk.places)}
    names: dict[str, Entry] = {}
    keyed: set[int] = set()
    for k, place in enumerate(walk.places):
        if (labels := _keys(walk, place)) is not None:
            keyed.add(id(place))
            result.append(Entry(f"{place.where}@names", "labels", labels, path=(*_path(walk, place), ".names")))
        if place.named and id(place.parent) not in keyed:
            name = place.name.removeprefix(_FIELD).lstrip(".")  # R hides names with a leading point
            names.setdefault(place.name, Entry(place.where, "name", name or "."))
        try:
            entry = _entry(walk, place, roles.get(k, ""), role_of)
        except BayesreconError as error:
            unread.append(Unread(place.where, str(error)))
            continue
        if entry is not None and entry.kind == "labels" and place.name in _NAMING and set(entry.values) <= words:
            entry = replace(entry, role=STRUCTURE)
        if entry is not None:
            result.append(replace(entry, path=_path(walk, place)))
    for name in walk.empty:
        names.setdefault(name, Entry(name, "name", name))
    unread += [Unread(place.where, why) for place, why in walk.closed]
    if walk.remaining:
        unread.append(Unread("the file", f"it holds {walk.remaining} more objects, which were not searched"))
    if walk.objects.encoding not in _ENCODINGS:
        result.append(Entry("the encoding of the file", "text", walk.objects.encoding))
    if walk.objects.behind.strip(b"\0"):
        result.append(entry_of_bytes("bytes after the end", walk.objects.behind))
        unread.append(Unread("bytes after the end", f"{len(walk.objects.behind)} bytes that nothing accounts for"))
    if len(walk.objects.odd):
        unread.append(Unread("the file", f"{len(walk.objects.odd)} flags of its objects are none that R sets"))
        result.append(Entry("flags of objects", "array", walk.objects.odd))
    return joined(result) + list(names.values()), unread


def _path(walk: PlaceWalk, place: Place | None) -> tuple[str, ...]:
    """The path of a place, as in `Entry`: elements without names, or of what has no class, are keys."""
    names: list[str] = []
    while place is not None:
        above = place.parent
        key = above is not None and not place.slot and above.kind in KEYED
        key = key and (above is None or not place.named or not walk.objects.classes(above.node))
        names.append(f"{'/' if key else '.'}{place.name}")
        place = above
    return tuple(reversed(names))


def _keys(walk: PlaceWalk, place: Place) -> np.ndarray | None:
    """The names of a list or an environment whose elements are alike, as those of a value for each of many things."""
    objects, node = walk.objects, place.node
    if place.kind not in KEYED or objects.classes(node):
        return None
    elements = objects.elements(node)
    alike = {(objects.kind(child), objects.size(child), tuple(objects.names(child))) for _, child in elements}
    return np.array([name for name, _ in elements]) if len(elements) >= _MANY and len(alike) == 1 else None


def _words(walk: PlaceWalk) -> set[str]:
    """Names that code in the file uses: in calls, formulas and programs."""
    result: set[str] = set()
    for place in walk:
        if place.code is not None:
            result |= set(_WORD.findall(place.code.text))
        elif place.kind == "text" and place.name in _PROGRAMS:
            result |= {word for text in walk.objects.texts(place.node) for word in _WORD.findall(text)}
    return result


def _entry(walk: PlaceWalk, place: Place, role: str, role_of: Mapping[int, str]) -> Entry | None:
    objects, node = walk.objects, place.node
    if place.code is not None and place.kind != "symbol":
        plain = place.code.plain and not place.code.odd
        return Entry(place.where, "text", place.code.text, STRUCTURE if plain else CODE)
    if place.kind in ("symbol", "builtin"):
        return Entry(place.where, "name", " ".join(objects.names_within(node)))
    if place.kind in ("namespace", "package", "persistent"):
        return Entry(place.where, "text", " ".join(objects.names_within(node)), role)
    if place.kind == "alternative":
        raise BayesreconError("a vector in an unknown format")
    if place.kind not in VECTORS or not objects.size(node):
        return None
    parent = place.parent
    if parent is not None and (place.name in _LABELS or parent.name.lower() == "dimnames"):
        owner = parent if place.name in _LABELS else parent.parent
        return None if owner is None else _labels(walk, place, owner, role, role_of.get(id(owner), ""))
    if (
        place.name == "dim"
        and parent is not None
        and objects.shape(parent.node) == tuple(np.ravel(objects.numbers(node)))
    ):
        return None
    if place.name in INTERNAL and place.kind != "text":
        return Entry(place.where, "array", objects.numbers(node), role)
    values = decoded(objects, node)
    if place.kind == "text" and (place.name in _NAMING or (parent is not None and parent.name in ("xlevels", "cnms"))):
        return Entry(place.where, "labels", values, role)
    if place.kind == "text" and np.size(values) == 1 and place.name in _PROGRAMS:
        return Entry(place.where, "text", str(values[0]), CODE)
    if place.kind == "text" and np.size(values) == 1:
        return Entry(place.where, "text", str(np.ravel(values)[0]), role)
    if place.kind == "raw":
        if objects.parts(node):  # another object of R, which is listed below it
            return None
        return entry_of_bytes(place.where, np.asarray(values, np.uint8).tobytes())
    return Entry(place.where, "array", values, role)


def _labels(walk: PlaceWalk, place: Place, owner: Place, role: str, inherited: str) -> Entry | None:
    """The entry of names of values or rows. Names of a list's elements have none, because they are part of places."""
    objects = walk.objects
    labels = np.array(objects.texts(place.node)) if place.kind == "text" else objects.numbers(place.node)
    elements = len(objects.elements(owner.node)) if owner.kind not in VECTORS else 0
    if (place.name == "names" and 0 < len(labels) <= elements) or (place.name == "row.names" and _is_counted(labels)):
        return None
    rows = place.name == "row.names" or (place.name != "levels" and len(labels) == objects.shape(owner.node)[0])
    nonempty = labels[labels != ""] if labels.dtype.kind == "U" else labels
    if inherited == DESIGN and rows and 2 * len(nonempty) < len(labels):  # `effects` names only the coefficients
        return Entry(place.where, "labels", nonempty, ESTIMATE)
    if inherited in (RECORD, DESIGN) and rows:
        return Entry(place.where, "labels", labels, RECORD)
    if inherited == ESTIMATE and place.name != "levels":
        return Entry(place.where, "labels", labels, ESTIMATE)
    if inherited in (LEAF, CUT, TOTAL, TIMES):
        return Entry(place.where, "labels", labels, inherited)
    return Entry(place.where, "labels", labels, role if role != RECORD else "")


def _is_counted(labels: np.ndarray) -> bool:
    """Whether row names are R's default: a missing value and the number of rows."""
    return labels.dtype.kind == "f" and len(labels) == 2 and bool(np.isnan(labels[0]))


# Roles of the items in fits of common packages of R, from their classes, names and lengths.

_NEVER_FRAMES = {"brmsprior", "anova", "draws_df"}
_SEEDS = {".Random.seed", "seed", "rng.state"}
_MOST_WORDS = 8  # largest number of options in one vector
_MOST_PATTERN = 400  # largest size of the table of variables and terms


def _is_permutation(values: np.ndarray) -> bool:
    return np.array_equal(np.sort(values), np.arange(1, len(values) + 1))


def _few(most: int, count: int) -> Callable[[np.ndarray], bool]:
    """A check for at most `count` whole numbers between zero and `most`."""
    return lambda v: len(v) <= count and bool(np.all((v >= 0) & (v <= most) & (v == np.round(v))))


def _rises(values: np.ndarray) -> bool:
    """Whether values rise from zero or one in steps of at most one, as the columns of terms do."""
    steps = np.diff(values)
    return not len(values) or (values[0] in (0, 1) and bool(np.all((steps == 0) | (steps == 1))))


_PATTERNS = {
    "factors": _few(2, _MOST_PATTERN), "order": _few(9, 40), "intercept": _few(1, 1), "response": _few(1, 1),
    "offset": _few(20, 3), "assign": _rises, "pivot": _is_permutation,
}  # fmt: skip
"""Checks of numbers by their name: only those that pass are taken as structure."""

_INHERITED = {RECORD, TABLE, LEAF, CUT, TIMES, TOTAL}
"""Roles that all parts of an object have, whatever their names are."""

_FEWEST = 5  # smallest number of records for which a length says that there is one entry per record


def roles(walk: PlaceWalk) -> dict[int, str]:
    """Roles of places, by their position in the walk.

    A place in an object with a role has the same role, unless it has another one. A vector or matrix with one entry or
    row per record has the role of records, whatever its name is.
    """
    objects, result = walk.objects, {}
    position = {id(place): k for k, place in enumerate(walk.places)}
    inside: list[str] = []  # the innermost known class around each place, or its own
    for k, place in enumerate(walk.places):
        above = -1 if place.parent is None else position[id(place.parent)]
        classes = objects.classes(place.node) if place.kind not in ("text", "double", "integer") else ()
        place_class = next((c for c in classes if c in BY_CLASS), "") or next((c for c in classes if c in FITS), "")
        inside.append(place_class or (inside[above] if above >= 0 else ""))
        role = _role(objects, place, classes, inside[above] if above >= 0 else "")
        if role in (ESTIMATE, DESIGN) and result.get(above, "") in _INHERITED and not place.slot:
            role = result[above]
        if not role and above >= 0 and (not place.slot or walk.places[above].kind == "object"):
            role = result.get(above, "")
        if role:
            result[k] = role
    counts = set(_record_counts(walk, result))
    for k, place in enumerate(walk.places):
        if place.kind in VECTORS and result.get(k, "") in ("", ESTIMATE):
            shape = objects.shape(place.node)
            known = result.get(k) == ESTIMATE and inside[k] in FITS
            if (
                not known
                and place.name not in INTERNAL
                and shape[0] >= _FEWEST
                and (shape[0] in counts or shape[-1] in counts)
            ):
                result[k] = RECORD
    for k, place in enumerate(walk.places):
        replaceable = ("", ESTIMATE, RECORD) if place.kind == "text" else ("", ESTIMATE)
        if result.get(k, "") in replaceable and _is_structure(objects, place):
            result[k] = STRUCTURE
    return result


def _role(objects: RObjects, place: Place, classes: tuple[str, ...], inside: str) -> str:
    name = place.name.removeprefix(_FIELD)
    if place.slot and place.parent is not None and "Dim" in objects.attributes(place.parent.node):
        return ""  # a matrix of the package Matrix, with slots x, i and p
    if name in _SEEDS:
        return SEED
    if (by := BY_CLASS.get(inside, {}).get(name)) is not None:
        return by
    if "data.frame" in classes and not _NEVER_FRAMES & set(classes):
        return RECORD if inside else TABLE
    around = () if place.parent is None else objects.classes(place.parent.node)
    if name in RECORDS and (inside or (around and "data.frame" not in around)):
        return RECORD
    if not inside:
        return ""
    if name in DESIGN_PARTS and place.kind in VECTORS:
        return DESIGN
    return ESTIMATE if name in ESTIMATES and place.kind != "environment" else ""


def _record_counts(walk: PlaceWalk, known_roles: Mapping[int, str]) -> Iterator[int]:
    """Possible numbers of records: lengths of columns of tables, of residuals and similar vectors."""
    for k, place in enumerate(walk.places):
        named = place.name.removeprefix(_FIELD) in RECORDS
        table = place.parent is not None and "data.frame" in walk.objects.classes(place.parent.node)
        if known_roles.get(k) == RECORD and place.kind in VECTORS and (named or table):
            size = walk.objects.shape(place.node)[0]
            if size >= _FEWEST:
                yield size


def _is_structure(objects: RObjects, place: Place) -> bool:
    """Whether values say nothing about records: names of classes, options of functions, a single truth value."""
    node, kind = place.node, place.kind
    if kind == "text":
        known = is_name_of_code if place.name in ("class", "package") else is_option
        texts = objects.texts(node)
        return len(texts) <= _MOST_WORDS and all(map(known, texts))
    if kind == "logical":
        return objects.size(node) == 1
    if kind in ("integer", "double") and place.name in _PATTERNS and objects.size(node) <= _MOST_PATTERN:
        return _PATTERNS[place.name](np.ravel(objects.numbers(node)).astype(float))
    if kind == "integer" and place.parent is not None and place.parent.name == "permutation":
        return _is_permutation(np.ravel(objects.numbers(node)))
    if kind in ("namespace", "package"):
        return all(_is_package(text) for text in objects.names_within(node))
    return False


def _is_package(text: str) -> bool:
    return is_name_of_code(text.removeprefix("package:")) or all(part.isdecimal() for part in text.split("."))


def known_class(objects: RObjects, node: int) -> str:
    """Description of an object of a known class; empty for others."""
    return next((FITS[name] for name in objects.classes(node) if name in FITS), "")


def decoded(objects: RObjects, node: int) -> np.ndarray:
    """Values of a vector; for a factor, the level of each as text."""
    if objects.kind(node) == "text":
        return np.array(objects.texts(node), dtype=str)
    values = objects.array(node)
    attributes = objects.attributes(node)
    levels = objects.texts(attributes["levels"]) if "levels" in attributes else []
    if levels and "factor" in objects.classes(node):
        codes = np.nan_to_num(np.asarray(values, float), nan=0.0).astype(int)
        inside = (codes >= 1) & (codes <= len(levels))
        return np.array([levels[c - 1] if ok else "NA" for c, ok in zip(codes, inside, strict=True)], dtype=str)
    return values
