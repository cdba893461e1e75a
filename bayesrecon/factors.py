"""Factors: columns of a design that together code the levels of one variable."""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayesrecon.errors import BayesreconError, near

CONTRASTS = ("treatment", "sum", "helmert", "polynomial")
"""Codings of K levels in K - 1 columns. "treatment" has a dummy for each level except the baseline."""

BASELINE = "baseline"
"""Name of the level without a column, if it is not known."""

_MOST_LEVELS = 1000  # largest number of lines of a table


@dataclass(frozen=True)
class Factor:
    """A variable with K levels, coded in K - 1 columns.

    Attributes:
        name: name of the variable.
        columns: names of the columns; patterns with wildcards if a user states them.
        levels: names of all K levels, in the order of the rows of `matrix`. Defaults to the baseline and the columns.
        contrast: coding of the levels, one of `CONTRASTS`.

    >>> Factor("g", ("g2", "g3")).levels
    ('baseline', 'g2', 'g3')
    """

    name: str
    columns: tuple[str, ...]
    levels: tuple[str, ...] = ()
    contrast: str = "treatment"

    def __post_init__(self) -> None:
        if self.contrast not in CONTRASTS:
            raise BayesreconError(
                f"factor {self.name}: the contrast {self.contrast!r} is not one of {', '.join(CONTRASTS)}"
                f"{near(self.contrast, CONTRASTS)}"
            )
        if not self.columns or len(set(self.columns)) < len(self.columns) or len(self.columns) >= _MOST_LEVELS:
            raise BayesreconError(f"factor {self.name} needs different columns, one for each level but its baseline")
        if not self.levels:
            object.__setattr__(self, "levels", _levels(self.columns, self.contrast))
        if len(self.levels) != len(self.columns) + 1:
            raise BayesreconError(f"factor {self.name} has {len(self.columns)} columns, for one level more than that")

    @property
    def matrix(self) -> np.ndarray:
        """`(K, K - 1)`: the columns' values at each level, as R's `contr.treatment`, `contr.sum`, `contr.helmert` and
        `contr.poly` have them.

        >>> Factor("g", ("a", "b"), contrast="sum").matrix.astype(int).tolist()
        [[1, 0], [0, 1], [-1, -1]]
        """
        count = len(self.levels)
        if self.contrast == "treatment":
            return np.eye(count)[:, 1:]
        if self.contrast == "sum":
            return np.vstack([np.eye(count - 1), -np.ones(count - 1)])
        if self.contrast == "helmert":
            rows, columns = np.indices((count, count - 1))
            return np.where(rows <= columns, -1.0, np.where(rows == columns + 1, columns + 1.0, 0.0))
        powers = np.vander(np.arange(count) - (count - 1) / 2, count, increasing=True)
        orthogonal, triangle = np.linalg.qr(powers)
        return (orthogonal * np.sign(np.diag(triangle)))[:, 1:]


def _levels(columns: Sequence[str], contrast: str) -> tuple[str, ...]:
    if contrast == "treatment":
        return (BASELINE, *columns)
    if contrast == "sum":
        return (*columns, "last")
    return tuple(f"level {k}" for k in range(1, len(columns) + 2))


def stated_factors(stated: object, fields: Sequence[str]) -> tuple[Factor, ...]:
    """Factors as stated by a user, `{name: columns}` or `{name: Factor}`, with columns that are fields.

    Columns may have wildcards. They may be written as in the table (`g[T.b]`) or as the names of the fields (`g_T_b_`).

    Raises:
        BayesreconError: a column is not a field, or belongs to two factors.

    >>> stated_factors({"g": ["g*"]}, ["g2", "g3", "age"])[0].columns
    ('g2', 'g3')
    """
    if not isinstance(stated, Mapping):
        raise BayesreconError(f"factors: expected {{name: columns}}, got a {type(stated).__name__}")
    factors: list[Factor] = []
    for name, statement in stated.items():
        stated_columns = statement.columns if isinstance(statement, Factor) else statement
        patterns = (stated_columns,) if isinstance(stated_columns, str) else tuple(stated_columns)
        columns = [field for column in patterns for field in _matching(str(name), str(column), fields)]
        if isinstance(statement, Factor):
            levels = statement.levels if len(columns) == len(statement.columns) else ()
            factors.append(Factor(str(name), tuple(columns), levels, statement.contrast))
        else:
            factors.append(Factor(str(name), tuple(columns), _short(str(name), columns) if columns else ()))
    all_columns = [column for factor in factors for column in factor.columns]
    for column in all_columns:
        if all_columns.count(column) > 1:
            raise BayesreconError(f"factors: {column} is a column of two factors")
    return tuple(factors)


def _short(name: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Levels of exclusive dummies, without the name of the variable that their columns begin with."""
    return (BASELINE, *(column.removeprefix(name).strip("_") or column for column in columns))


def _matching(name: str, column: str, fields: Sequence[str]) -> list[str]:
    plain = re.sub(r"\W", "_", column)
    exact = [field for field in fields if field in (column, plain)]
    matching = exact or [field for field in fields if fnmatch.fnmatchcase(field, column)]
    if not matching:
        raise BayesreconError(
            f"factors: {column!r} of {name} is not a field ({', '.join(fields)}){near(column, list(fields))}"
        )
    return matching


_CODED = re.compile(r"(?:C\((?P<inside>[^,()]+)(?P<how>,.*)?\)|(?P<bare>[\w.]+))\[(?P<coding>[TSH])\.(?P<level>.*)\]$")
_R = re.compile(r"(?:as\.)?(?:factor|ordered)\((?P<bare>[\w.$]+)\)(?P<level>.+)$")  # `factor(g)2`
_PLAIN = re.compile(
    r"(?P<bare>\w+?)_+(?P<coding>[TSH])_(?P<level>\w+?)_+$"
)  # the same with the characters of a field's name
_STATA = re.compile(r"(?P<level>\d+)(?:bn?|o)?\.(?P<bare>[A-Za-z_]\w*)$")
_NAMED = re.compile(r"\[?(?P<bare>[A-Za-z][\w.]*)=(?P<level>[^\]]+)\]?$")  # of SPSS, and of authors
_POLYNOMIAL = re.compile(
    r"(?:C\((?P<inside>[^,()]+)(?:,.*)?\)|(?P<bare>[\w.]+?))(?:\.(?P<word>Linear|Quadratic|Cubic|L|Q|C)|\^(?P<power>\d))$"
)
_REFERENCE = re.compile(r"reference=['\"]?([^'\")]+)")
_CODINGS = {"T": "treatment", "S": "sum", "H": "helmert"}
_DEGREES = {"Linear": 1, "Quadratic": 2, "Cubic": 3, "L": 1, "Q": 2, "C": 3}


def factors_by_name(columns: Sequence[str]) -> tuple[Factor, ...]:
    """Factors that the names of columns identify, as written by formulas of Python, R, Stata and SPSS.

    `g[T.b]`, `C(g)[T.b]`, `C(g, Sum)[S.a]`, `C(g, Helmert)[H.b]`, `C(g, Poly).Linear`, `g.L`, `factor(g)2`,
    `2.g`, `[g=2]`, `g=2`.

    >>> [(f.name, f.columns, f.levels) for f in factors_by_name(["g[T.b]", "g[T.c]", "age"])]
    [('g', ('g[T.b]', 'g[T.c]'), ('baseline', 'b', 'c'))]
    """
    coded: dict[tuple[str, str], list[tuple[str, str]]] = {}
    degrees: dict[str, dict[int, str]] = {}
    baselines: dict[str, str] = {}
    for column in dict.fromkeys(columns):
        match = next((m for p in (_CODED, _R, _PLAIN, _STATA, _NAMED) if (m := p.match(column)) is not None), None)
        if match is not None:
            parts = match.groupdict()
            name = (parts.get("inside") or parts["bare"]).strip()
            name = re.sub(r"^C_+(?=\w)", "", name) if match.re is _PLAIN else name
            contrast = _CODINGS[parts.get("coding") or "T"]
            coded.setdefault((name, contrast), []).append((column, parts["level"]))
            if (reference := _REFERENCE.search(parts.get("how") or "")) is not None:
                baselines[name] = reference[1]
        elif (match := _POLYNOMIAL.match(column)) is not None:
            name = (match["inside"] or match["bare"]).strip()
            degrees.setdefault(name, {})[int(match["power"] or _DEGREES[match["word"]])] = column
    factors = []
    for (name, contrast), coded_columns in coded.items():
        names, levels = zip(*coded_columns, strict=True)
        all_levels: tuple[str, ...] = ()
        if contrast == "treatment":
            all_levels = (baselines.get(name, BASELINE), *levels)
        elif contrast == "sum":
            all_levels = (*levels, "last")
        elif contrast == "helmert":
            all_levels = ("first", *levels)
        if len(set(all_levels)) == len(all_levels):
            factors.append(Factor(name, tuple(names), all_levels, contrast))
    for name, column_of_degree in degrees.items():
        if len(column_of_degree) > 1 and sorted(column_of_degree) == list(range(1, len(column_of_degree) + 1)):
            factors.append(Factor(name, tuple(column_of_degree[k] for k in sorted(column_of_degree)), (), "polynomial"))
    return tuple(factors)


_NUMBERED = re.compile(r"(?P<stem>.*?[A-Za-z_.])(?P<level>\d+)$")
_UNDERSCORED = re.compile(r"(?P<stem>\w+?)_(?P<level>[A-Za-z0-9]+)$")
_STEM = 3  # shortest common prefix of letters


def families(columns: Sequence[str]) -> tuple[Factor, ...]:
    """Groups of columns that may code one variable, because their names have a common prefix.

    Examples are `gb` and `gc` (of R), `g2` and `g3`, `g_b` and `g_c`.

    >>> [f.columns for f in families(["age", "g2", "g3", "grouptrt1", "grouptrt2"])]
    [('g2', 'g3'), ('grouptrt1', 'grouptrt2')]
    """
    remaining, factors = list(dict.fromkeys(columns)), []
    for pattern in (_UNDERSCORED, _NUMBERED):
        stems: dict[str, list[str]] = {}
        for column in remaining:
            if (match := pattern.match(column)) is not None:
                stems.setdefault(match["stem"], []).append(column)
        for stem, columns_of_stem in stems.items():
            if len(columns_of_stem) > 1:
                factors.append(Factor(stem.strip("_."), tuple(columns_of_stem), _short(stem, columns_of_stem)))
                remaining = [column for column in remaining if column not in columns_of_stem]
    while remaining:
        first, *rest = remaining
        stem = max((_common(first, other) for other in rest), key=len, default="")
        columns_of_stem = [c for c in remaining if len(stem) >= _STEM and c.startswith(stem)]
        if len(columns_of_stem) > 1:
            factors.append(Factor(stem.strip("_."), tuple(columns_of_stem), _short(stem, columns_of_stem)))
        remaining = [column for column in rest if column not in columns_of_stem]
    return tuple(sorted(factors, key=lambda factor: list(columns).index(factor.columns[0])))


def _common(first: str, second: str) -> str:
    """The common prefix of two names."""
    length = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    return first[: min(len(first), len(second)) if length is None else length]
