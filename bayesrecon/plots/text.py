"""Labels from names, and strings from numbers."""

import math

from bayesrecon.results.row import exceeds

_LONGEST_NAME = 48
_MOST_DECIMALS = 8


def label(name: str) -> str:
    """A name as a label: shortened, with only printable characters of the font, and without mathematics in `$`."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in FontProperties().get_family()]
    name = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    known = (c if c.isprintable() and any(font.get_char_index(ord(c)) for font in fonts) else "?" for c in name)
    return "".join(known).replace("$", r"\$")


def minus(text: str) -> str:
    """Replace hyphens by minus signs, unless the user's style prefers hyphens."""
    from matplotlib.ticker import Formatter

    return Formatter.fix_minus(text)


def power(value: float) -> str:
    """A tick label: `0.1`, `5`, or a power of ten with one digit before it."""
    if value == 0 or 1e-4 < abs(value) < 1e6:
        return minus(f"{value:g}")
    mantissa, exponent = f"{value:.0e}".split("e")
    factor = {"1": "", "-1": "-"}.get(mantissa, rf"{mantissa}\cdot ")
    return f"${factor}10^{{{int(exponent)}}}$"


def numbers(
    value: float, se: float, scale: float, lower: float, upper: float, true: float
) -> tuple[str, str, str, str]:
    """Value, error, interval and true value as strings, to the digits that the error supports. NaN is omitted, and so
    is a standard error beside an interval that holds more than that."""
    spec, unit, suffix = ".5g" if math.isnan(value) else ".6g", 1.0, ""
    if scale > 0:
        exponent = math.floor(math.log10(max(abs(value), scale)))
        if exponent >= 7 or -300 < exponent < -3:
            unit, suffix = 10.0**exponent, f"e{exponent}"
        decimals = 1 - math.floor(math.log10(max(scale / unit, 1e-99)))
        spec = f".{min(max(decimals, 0), _MOST_DECIMALS)}f"

    def show(number: float) -> str:
        return "" if math.isnan(number) else minus(f"{number / unit:{spec}}{suffix}")

    error = "exact" if se == 0 else ""
    if se > 0 and not exceeds(se, value, lower, upper):
        beneath = float(f"{se / unit:{spec}}") == 0  # the last digit shown
        error = f"± {minus(f'{se:.1g}') if beneath else show(se)}"
    interval = "" if math.isnan(lower + upper) else f"{show(lower)} to {show(upper)}"
    return show(value), error, interval, show(true)
