"""Roles of the items in a saved fit, as far as the reader of its format knows them.

A name alone never makes values harmless: only texts and numbers that every fit of a kind has get the role `STRUCTURE`.
"""

import re

_OPTION = re.compile(r"(?=.{1,32}$)([a-z]+|[A-Z]{2,8})\d{0,3}[a-z]*([_.:+*/ -]{1,2}([a-z]+|[A-Z]{2,8})?\d{0,3}){0,5}")
_NAME_OF_CODE = re.compile(r"(?=.{1,48}$)[A-Za-z.]+\d{0,3}([._:]+[A-Za-z]*\d{0,3}){0,6}")


def is_option(text: str) -> bool:
    """Whether a text is a word as options of functions are: lower-case letters, or an abbreviation, with few digits.

    >>> [is_option(t) for t in ("lbfgs", "k-means++", "REML", "multi:softprob", "Ann", "P4711")]
    [True, True, True, True, False, False]
    """
    return bool(_OPTION.fullmatch(text))


def is_name_of_code(text: str) -> bool:
    """Whether a text can be the name of a class, a function or a package."""
    return bool(_NAME_OF_CODE.fullmatch(text))


RECORD = "record"
"""One value or row for each record: the data, and values that were computed from each record."""

TABLE = "table"
"""A column of a table whose rows may be records, or statistics."""

DESIGN = "design"
"""Numbers from which rows of the design can be computed, such as its triangular and orthogonal factors."""

TIMES = "times"
"""Event times."""

LEAF = "leaf"
"""Values that a tree stores about the records in one node."""

CUT = "cut"
"""Thresholds of a tree, each midway between the values of two records."""

TOTAL = "total"
"""Exact sums, means, medians or counts of records."""

ESTIMATE = "estimate"
"""Estimates, their covariance, and values that follow from these."""

SEED = "seed"
"""The state of a random number generator."""

CODE = "code"
"""A call, formula or function with more than names and options."""

STRUCTURE = "structure"
"""Values that every fit of the kind has, whatever its data are."""
