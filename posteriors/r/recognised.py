"""Roles of the items in fits of R's usual packages, from their classes, names and lengths."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from bayesrecon.posteriors.r.code import WORDS
from bayesrecon.posteriors.r.known_names import BY_CLASS, CLASSES, DESIGN_PARTS, ESTIMATES, FAMILIES, FITS, RECORDS
from bayesrecon.posteriors.r.places import INTERNAL, Place, Walk
from bayesrecon.posteriors.r.r_objects import VECTORS, Objects
from bayesrecon.posteriors.roles import CUT, DESIGN, ESTIMATE, LEAF, RECORD, SEED, STRUCTURE, TIMES, TOTAL

_NEVER_FRAMES = {"brmsprior", "anova", "draws_df"}
_SEEDS = {".Random.seed", "seed", "rng.state"}
_MOST_PATTERN = 400  # whole numbers that say which variable is in which term


def _is_permutation(values: np.ndarray) -> bool:
    return np.array_equal(np.sort(values), np.arange(1, len(values) + 1))


def _few(most: int, count: int) -> Callable[[np.ndarray], bool]:
    """So many whole numbers at most, none of them above a limit."""
    return lambda v: len(v) <= count and bool(np.all((v >= 0) & (v <= most) & (v == np.round(v))))


def _rises(values: np.ndarray) -> bool:
    """Whether values rise from zero or one in steps of at most one, as the columns of terms do."""
    steps = np.diff(values)
    return not len(values) or (values[0] in (0, 1) and bool(np.all((steps == 0) | (steps == 1))))


_PATTERNS = {
    "factors": _few(2, _MOST_PATTERN), "order": _few(9, 40), "intercept": _few(1, 1), "response": _few(1, 1),
    "offset": _few(20, 3), "assign": _rises, "pivot": _is_permutation,
}  # fmt: skip
"""Checks that numbers of these names must pass to be recognised."""

_FIELD = ".->"  # before the names of fields of reference classes
_WHOLE = {RECORD, LEAF, CUT, TIMES, TOTAL}
"""Roles of whole objects, whatever their parts are called."""
_FEWEST = 5  # entries from which an extent tells that there is one for each record


def roles(walk: Walk) -> dict[int, str]:
    """The role of places, by their position in the walk.

    What lies in an object with a role has that role, too, unless it has one of its own. A vector or a matrix with as
    many entries as there are records is one of them, whatever its name.
    """
    objects, result = walk.objects, {}
    at = {id(place): k for k, place in enumerate(walk.places)}
    inside: list[str] = []  # the known class that a place lies in
    for k, place in enumerate(walk.places):
        above = -1 if place.parent is None else at[id(place.parent)]
        classes = objects.classes(place.node) if place.kind not in ("text", "double", "integer") else ()
        own = next((c for c in classes if c in BY_CLASS), "") or next((c for c in classes if c in FITS), "")
        inside.append(own or (inside[above] if above >= 0 else ""))
        role = _role(objects, place, classes, inside[above] if above >= 0 else "")
        if role in (ESTIMATE, DESIGN) and result.get(above, "") in _WHOLE and not place.slot:
            role = result[above]
        if not role and above >= 0 and (not place.slot or walk.places[above].kind == "object"):
            role = result.get(above, "")
        if role:
            result[k] = role
    counts = set(_counts(walk, result))
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
        mild = ("", ESTIMATE, RECORD) if place.kind == "text" else ("", ESTIMATE)
        if result.get(k, "") in mild and _is_structure(objects, place):
            result[k] = STRUCTURE
    return result


def _role(objects: Objects, place: Place, classes: tuple[str, ...], inside: str) -> str:
    name = place.name.removeprefix(_FIELD)
    if place.slot and place.parent is not None and "Dim" in objects.attributes(place.parent.node):
        return ""  # of a matrix of the package Matrix, whose slots are called x, i and p
    if name in _SEEDS:
        return SEED
    if (by := BY_CLASS.get(inside, {}).get(name)) is not None:
        return by
    if "data.frame" in classes and not _NEVER_FRAMES & set(classes):
        return RECORD
    if name in RECORDS:
        return RECORD
    if not inside:
        return ""
    if name in DESIGN_PARTS and place.kind in VECTORS:
        return DESIGN
    return ESTIMATE if name in ESTIMATES and place.kind != "environment" else ""


def _counts(walk: Walk, found: Mapping[int, str]) -> Iterator[int]:
    """Numbers of records: of rows of tables, of residuals and the like."""
    for k, place in enumerate(walk.places):
        named = place.name.removeprefix(_FIELD) in RECORDS
        table = place.parent is not None and "data.frame" in walk.objects.classes(place.parent.node)
        if found.get(k) == RECORD and place.kind in VECTORS and (named or table):
            size = walk.objects.shape(place.node)[0]
            if size >= _FEWEST:
                yield size


def _is_structure(objects: Objects, place: Place) -> bool:
    """Names of classes, options of functions, single yes or no."""
    node, kind = place.node, place.kind
    if kind == "text":
        known = CLASSES if place.name in ("class", "package") else WORDS
        texts = objects.texts(node)
        return (len(texts) <= 12 and all(text in known for text in texts)) or set(texts) <= FAMILIES
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
    return text.removeprefix("package:") in CLASSES or all(part.isdecimal() for part in text.split("."))


def known_class(objects: Objects, node: int) -> str:
    """What an object is, in words, where it is known."""
    return next((FITS[name] for name in objects.classes(node) if name in FITS), "")


def decoded(objects: Objects, node: int) -> np.ndarray:
    """Values of a vector; of a factor its levels as texts."""
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
