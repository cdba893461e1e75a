"""Names as labels, and numbers as texts."""

import math

from bayesrecon.plots.points import Point

_LONGEST_NAME = 48
_MOST_DECIMALS = 8


def label(name: str) -> str:
    """A name as a label: printable characters that the font has, not too long, no mathematics between `$`."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in FontProperties().get_family()]
    name = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    known = (c if c.isprintable() and any(font.get_char_index(ord(c)) for font in fonts) else "?" for c in name)
    return "".join(known).replace("$", r"\$")


def minus(text: str) -> str:
    """Hyphens as minus signs, unless the user's style says otherwise."""
    from matplotlib.ticker import Formatter

    return Formatter.fix_minus(text)


def power(value: float) -> str:
    """A tick label: `0.1`, `5`, or a power of ten with one digit before it."""
    if value == 0 or 1e-4 < abs(value) < 1e6:
        return minus(f"{value:g}")
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    digit = round(abs(value) / 10.0**exponent)
    factor = "" if digit == 1 else rf"{digit}\cdot "
    return f"${'-' if value < 0 else ''}{factor}10^{{{exponent}}}$"


def numbers(point: Point) -> tuple[str, str, str, str]:
    """Value, error, interval and true value, to the digits that the standard error supports."""
    spec, scale, suffix = ".5g" if point.value is None else ".6g", 1.0, ""
    if point.value is not None and point.se:
        exponent = math.floor(math.log10(max(abs(point.value), point.se)))
        if exponent >= 7 or -300 < exponent < -3:
            scale, suffix = 10.0**exponent, f"e{exponent}"
        decimals = 1 - math.floor(math.log10(max(point.se / scale, 1e-99)))
        spec = f".{min(max(decimals, 0), _MOST_DECIMALS)}f"

    def show(value: float | None) -> str:
        return "" if value is None else minus(f"{value / scale:{spec}}{suffix}")

    error = "exact" if point.se == 0 else ""
    if point.se:
        error = show(point.se)
        if not any(c in "123456789" for c in error.split("e")[0]):
            error = minus(f"{point.se:.1g}")  # below the last digit shown
        error = f"± {error}"
    interval = " to ".join(map(show, point.interval or ()))
    return show(point.value), error, interval, show(point.true)
