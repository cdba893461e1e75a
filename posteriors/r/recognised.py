"""Roles of the items in fits of common packages of R, from their classes, names and lengths."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from bayesrecon.posteriors.r.known_names import BY_CLASS, DESIGN_PARTS, ESTIMATES, FITS, RECORDS
from bayesrecon.posteriors.r.places import INTERNAL, Place, PlaceWalk
from bayesrecon.posteriors.r.r_objects import VECTORS, RObjects
from bayesrecon.posteriors.roles import (
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

_FIELD = ".->"  # prefix of the fields of reference classes
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
