"""Settings of saved objects: values that describe how a model was made and reveal nothing about its data.

A setting is recognised by its value: a switch, a number with few digits, a word, or a plausible
column name.
"""

import re
from collections.abc import Sequence

import numpy as np

from bayesrecon.auditing.accounts.plain_numbers import digits_of, structure_of
from bayesrecon.auditing.accounts.texts import EMAIL, is_date, is_known, kind_of_labels, odd_names
from bayesrecon.posteriors.contents import Entry
from bayesrecon.posteriors.roles import is_option

_DIGITS = 3
"""Largest number of significant digits of a setting that a person chose, such as a penalty or a tolerance."""

_MOST_LABELS = 20
"""Largest number of distinct labels that are levels."""

_PROSE, _NUMBERS = 20_000, 0.05
"""Smallest length of a stored docstring, and the largest share of digits in it."""

_TYPE = re.compile(r"[<>|=]?[biufcSUOVmM?]?\d{0,3}")
_COUNT = re.compile(r"_?n_\w+|\w*iter\w*|\w*random_state|\w*count\w*|t_|no_improvement_count|_no_improvement_count")
_LARGEST_COUNT, _FEW = 10**7, 4
"""Counts such as iterations, and settings in a sequence."""

_VERSION = re.compile(r"v?\d{1,4}(\.\d{1,5}){1,3}([-.+]?(a|b|rc|dev|post|cpu|cu)?\.?\d{0,4})")
_OF_STATSMODELS = "Standard Errors assume that the covariance matrix of the errors is correctly specified."
_PLAIN_NAME = re.compile(r"[^\W\d][\w.:|()\[\], *+~^-]{0,59}")
_OF_NAMES = re.compile(
    r"(formula|ynames|xnames|names|feature_names_in_|feature_names_out|feature_names|_data_attr\w*|_data_in_cache|columns"
    r"|_init_keys|\(columns\)|\(names\)|feature_types|_attr\w*|param_names|_feature_names\w*|pandas_categorical"
    r"|names_out|remainder_columns|dtype|order|missing|_typ|_metadata|state_names|duration_col|event_col"
    r"|_estimate_name|_estimation_method|_method|_class_name|weights_col|cluster_col)"
)
_LAST = re.compile(r"[./]")


def is_setting(part: Entry) -> bool:
    """Whether an item is a setting, a name or a label that any object of its kind has.

    >>> is_setting(Entry("solver", "attribute", "lbfgs")), is_setting(Entry("C", "attribute", 0.5))
    (True, True)
    >>> is_setting(Entry("note", "attribute", "Ann, 41")), is_setting(Entry("z", "attribute", 41.7308))
    (False, False)
    """
    if part.leaves:
        return _are_settings(part.leaves)
    name = _LAST.split(part.where)[-1]
    if (part.of or "").startswith("pandas.") and name in ("name", "_name"):  # of an axis or a column
        return _is_name(str(part.values))
    if part.kind == "attribute":
        return _attribute(name, part.values) or (_is_of_graph(part) and _is_name(str(part.values)))
    if part.kind == "labels" or (part.kind == "array" and np.asarray(part.values).dtype.kind in "OU"):
        return _labels(name, part.values)
    if part.kind == "array":
        flat = np.ravel(part.values)
        few = flat.size <= _FEW and all(_attribute(name, v) for v in flat.tolist())
        return few or bool(structure_of(part.values))
    if part.kind == "text":
        return name == "__doc__" and _is_prose(part.values)
    return False


def _are_settings(leaves: Sequence[Entry]) -> bool:
    """Whether items at alike places are one setting, or settings by their names, not a value of each of many things."""
    names = {leaf.path[-1].lstrip("./") for leaf in leaves}
    one = len({repr(leaf.values) for leaf in leaves}) == 1
    named = len(leaves) <= _MOST_LABELS and len(names) == len(leaves) and all(map(str.isidentifier, names))
    few = sum(map(is_measured, leaves)) <= _FEW
    if not one and not (named and few and not odd_names(list(names))):
        return False
    return all(map(is_setting, leaves))


def is_measured(part: Entry) -> bool:
    """Whether a setting is a number with so many digits that several of them together may be data.

    >>> is_measured(Entry("a", "attribute", 41.7)), is_measured(Entry("C", "attribute", 0.5))
    (True, False)
    """
    number = part.values
    if part.kind != "attribute" or isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return digits_of(float(number)) >= _DIGITS


def _is_of_graph(part: Entry) -> bool:
    """Whether an item is the name of an ONNX graph or of one of its nodes."""
    return part.where.endswith("graph/name") or ((part.of or "").startswith("onnx.") and part.where.endswith(".name"))


def _attribute(name: str, value: object) -> bool:
    if isinstance(value, bool | np.bool_):
        return True
    if isinstance(value, int | float | np.number):
        number = float(value)
        if _COUNT.fullmatch(name) and number == round(number) and 0 <= number <= _LARGEST_COUNT:
            return True
        return not np.isfinite(number) or digits_of(number) <= _DIGITS or number in (2**31 - 1, -(2**31), 2**32 - 1)
    if not isinstance(value, str):
        return False
    if (
        is_option(value)
        or value == _OF_STATSMODELS
        or _TYPE.fullmatch(value)
        or is_date(value)
        or _VERSION.fullmatch(value)
        or is_known(name, value)
    ):
        return True
    if name == "__doc__":
        return _is_prose(value)
    return bool(_OF_NAMES.fullmatch(name)) and _is_name(value)


def _labels(name: str, values: np.ndarray) -> bool:
    texts = [str(v) for v in np.ravel(np.asarray(values))]
    kind = kind_of_labels(values)
    if _OF_NAMES.fullmatch(name):
        return kind in ("positions", "words") and all(map(_is_name, texts)) and not odd_names(texts)
    if kind == "positions":
        return True
    return kind in ("words", "levels") and len(set(texts)) <= _MOST_LABELS and all(map(_is_name, texts))


def _is_name(text: str) -> bool:
    if is_option(text) or not text:
        return True
    return bool(_PLAIN_NAME.fullmatch(text)) and not odd_names(re.split(r"[~+*: ]+", text))


def _is_prose(text: object) -> bool:
    """Whether a text is a docstring: few digits and no e-mail address."""
    if not isinstance(text, str) or len(text) > _PROSE or EMAIL.search(text):
        return False
    return sum(map(str.isdigit, text)) <= _NUMBERS * len(text) + 20
