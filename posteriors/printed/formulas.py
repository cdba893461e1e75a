"""Formulas of models: which lines of a table are levels of one variable."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from bayesrecon.errors import BayesreconError, MissingExtraError, first_line
from bayesrecon.factors import BASELINE, Factor
from bayesrecon.posteriors.printed.design_cells import parts_of

if TYPE_CHECKING:
    from formulaic.parser.types import Term

_LONGEST = 10_000  # letters of a formula
_CATEGORICAL = re.compile(r"(?:C|factor|as\.factor)\(\s*([\w.]+)")


def factors_of_formula(formula: str, labels: Sequence[str]) -> tuple[Factor, ...]:
    """The factors of a formula, with the lines of a table that are their levels.

    A variable is a factor where the formula says so (`C(g)`, `factor(g)`), or where lines begin with its name and none
    is its name. The formula is parsed, with `formulaic`, and nothing of it is evaluated.

    Raises:
        BayesreconError: no formula, or a line that belongs to none of its terms.
        MissingExtraError: without `formulaic`.

    >>> [f.columns for f in factors_of_formula("y ~ g + x", ["gb", "gc", "x"])]
    [('gb', 'gc')]
    """
    variables = _variables(formula)
    by_factor: dict[str, dict[str, str]] = {}
    for label in labels:
        for part in parts_of(label):
            owner = max((v for v in variables if _is_of(part, v, variables)), key=len, default=None)
            if owner is None:
                raise BayesreconError(
                    f"no term of the formula {formula!r} matches the line {label!r} (variables: {', '.join(variables)})"
                )
            if variables[owner] or part not in (owner, f"C({owner})"):
                level = _level(part, owner)
                if level is not None:
                    by_factor.setdefault(owner, {})[part] = level
    return tuple(
        Factor(name, tuple(levels), (BASELINE, *levels.values()))
        for name, levels in by_factor.items()
        if "[" not in next(iter(levels))  # codings that names tell beyond doubt are read by their names
    )


def _variables(formula: str) -> dict[str, bool]:
    """Names of the variables on the right of a formula, and whether it says that they are factors."""
    try:
        from formulaic import Formula
    except ImportError:
        raise MissingExtraError("a formula", "formulas") from None
    if len(formula) > _LONGEST:
        raise BayesreconError(f"the formula has {len(formula)} characters; at most {_LONGEST} are accepted")
    text = re.sub(r"\b(?:as\.)?factor\(", "C(", formula)
    try:
        parsed = cast("Callable[[str], Iterable[Term]]", Formula)(text)
        right: Iterable[Term] = getattr(parsed, "rhs", parsed)
        factors = {str(factor.expr) for term in right for factor in term.factors}
    except Exception as error:
        raise BayesreconError(f"{formula!r} is not a formula: {first_line(error)}") from None
    variables: dict[str, bool] = {}
    for expression in factors - {"1", "0"}:
        stated = _CATEGORICAL.match(expression)
        name = stated[1] if stated is not None else expression
        variables[name] = variables.get(name, False) or stated is not None
    return variables


def _is_of(part: str, variable: str, variables: dict[str, bool]) -> bool:
    plain = re.sub(r"\s", "", part)
    name = re.sub(r"\s", "", variable)
    return (
        plain == name
        or bool(re.match(rf"(?:C|factor|as\.factor)\({re.escape(name)}\b", plain))
        or (plain.startswith(name) and (variables[variable] or plain not in variables))
    )


def _level(part: str, variable: str) -> str | None:
    """The level that a line is of, where the variable codes levels; None if it is a function of its values."""
    bare = re.sub(r"^(?:C|factor|as\.factor)\([^)]*\)", "", part)
    rest = bare if bare != part else part.removeprefix(variable)
    return None if not rest or (rest == part and "(" in part) else rest.strip("_ ") or rest
