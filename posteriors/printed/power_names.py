"""Which lines of a table are powers of another line's covariate, as their names say beyond doubt or suggest."""

import re
from collections.abc import Sequence

_NAMED = r"(?P<x>[\w.]+?)[._]?(?:2|sqr?|squared?)"  # what nothing but a name says: x2, x_sq, xsquared
_POWERS = (
    r"I\(\s*(?P<x>[\w.]+)\s*(?:\^|\*\*)\s*(?P<k>\d+)\s*\)",
    r"(?:np|numpy)\.power\(\s*(?P<x>[\w.]+)\s*,\s*(?P<k>\d+)\s*\)",
    r"(?P<x>[\w.]+)\s*(?:\^|\*\*)\s*(?P<k>\d+)",
    r"(?P<x>(?:c\.)?[\w.]+)(?P<times>(?:\s*[#:*]\s*(?P=x))+)",
    r"I\(\s*(?P<x>[\w.]+)(?P<times>(?:\s*\*\s*(?P=x))+)\s*\)",
    r"(?:np|numpy)\.square\(\s*(?P<x>[\w.]+)\s*\)",
    r"(?P<x>poly\([\w.]+,\s*(?:degree\s*=\s*)?\d+,\s*raw\s*=\s*T(?:RUE)?\))(?P<k>\d+)",
)  # as formulas of R, of Python and of Stata write powers


def power_of(label: str) -> tuple[str, int] | None:
    """The covariate that a line of a table is a power of, and which one, as its name says beyond doubt.

    >>> [power_of(label) for label in ("I(age^2)", "np.power(age, 3)", "c.age#c.age", "I(age * age)", "age2", "age")]
    [('age', 2), ('age', 3), ('age', 2), ('age', 2), None, None]
    """
    for pattern in _POWERS:
        if (match := re.fullmatch(pattern, label.strip())) is not None:
            groups = match.groupdict()
            times = len(re.findall(r"[#:*]", groups.get("times") or "")) or 1
            power = int(groups.get("k") or times + 1)
            name = groups["x"].removeprefix("c.")
            if power > 1:
                return (f"{name}1" if name.startswith("poly(") else name), power
    return None


def square_of(label: str) -> str | None:
    """The covariate whose square a line of a table is, as its name says beyond doubt.

    >>> [square_of(label) for label in ("I(age^2)", "np.square(age)", "c.age#c.age", "I(age^3)", "age2", "age")]
    ['age', 'age', 'age', None, None, None]
    """
    power = power_of(label)
    return power[0] if power is not None and power[1] == 2 else None


def powers(labels: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Lines that are powers of a covariate that has a line of its own: `{line: (covariate, power)}`.

    >>> powers(["x", "I(x^2)", "I(x^3)", "I(z^2)"])
    {'I(x^2)': ('x', 2), 'I(x^3)': ('x', 3)}
    """
    plain = {label.strip().removeprefix("c.") for label in labels}
    parsed = {label: power_of(label) for label in labels}
    return {label: power for label, power in parsed.items() if power is not None and power[0] in plain}


def presumed_square(labels: Sequence[str]) -> tuple[int, int] | None:
    """Positions of a covariate and of what its name alone says is its square, where a table has these two alone.

    >>> [presumed_square(["age", label]) for label in ("age2", "age_sq", "agesquared", "I(age^2)", "height2")]
    [(0, 1), (0, 1), (0, 1), None, None]
    """
    if len(labels) != 2:
        return None
    for i, j in ((0, 1), (1, 0)):
        match = re.fullmatch(_NAMED, labels[j].strip(), re.IGNORECASE)
        if match is not None and match["x"] == labels[i].strip():
            return i, j
    return None


def with_square(labels: Sequence[str]) -> tuple[int, int] | None:
    """Positions of a covariate and of its square where a table has these two alone.

    >>> with_square(["age", "I(age^2)"]), with_square(["age", "height"])
    ((0, 1), None)
    """
    if len(labels) != 2:
        return None
    for i, j in ((0, 1), (1, 0)):
        if square_of(labels[j]) == labels[i].strip().removeprefix("c."):
            return i, j
    return None
