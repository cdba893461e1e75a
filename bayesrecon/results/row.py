"""One statistic of the private data."""

import math
from dataclasses import dataclass

from bayesrecon.errors import visible

_EXACT = 1e-9  # relative errors below this are rounding errors of the computation
_MOST_PLACES = 6  # decimal places; numbers with more are printed with an exponent


@dataclass(frozen=True, repr=False)
class Row:
    """One recovered statistic.

    Attributes:
        estimate, se: recovered value and its standard error; None if undetermined. `se` is also None at temperature 0,
            and if the statistic is only partly determined, because the bias may be many times larger.
        lower, upper: 95 % interval, widened by the largest bias that the invisible part of the statistic can cause. At
            temperature 0, where nothing was sampled, it consists of that bias only. For an undetermined statistic it is
            the range that is known without the release, with None for an open end.
        floor: Cramer-Rao floor of the standard error for this number of independent draws. If the spectrum decays and
            the draws put the floor above the standard error, it is the standard error itself; if ten times above, the
            statistic is not called "determined".
        visibility: share of the statistic that the release determines, in [0, 1]. Without a gap in the spectrum, the
            share above the noise of these draws.
        verdict: "determined", "partly" (the invisible part may bias it, or its error is too wide) or "undetermined".
        ess: effective number of draws behind it.
        condition: what the numbers rest on that no draws can show, the exact form of the likelihood. Empty if models
            next to the stated one change them by less than the interval. Otherwise they are at most "partly"
            determined.
    """

    name: str
    estimate: float | None = None
    se: float | None = None
    lower: float | None = None
    upper: float | None = None
    floor: float | None = None
    visibility: float = 0.0
    verdict: str = "undetermined"
    ess: float | None = None
    condition: str = ""

    def __repr__(self) -> str:
        parts = [] if self.estimate is None else [_rounded(self.estimate, self.se)]
        if self.estimate is not None and self.se is not None:
            parts[0] += f" ± {_rounded(self.se, self.se)}"
        if self.lower is not None and self.upper is not None:
            ends = [_rounded(end, self.se or self.upper - self.lower) for end in (self.lower, self.upper)]
            parts.append(f"95 % interval {ends[0]} to {ends[1]}")
        return visible(f"{self.name}: {', '.join((*parts, self.verdict))}{' ' * bool(self.condition)}{self.condition}")


def _rounded(value: float, error: float | None) -> str:
    """The value rounded to two digits of its error, and to at most ten significant digits; to five without an error.

    >>> _rounded(91.63137, 4.4012), _rounded(14123.8, 310.0), _rounded(0.5, None), _rounded(3e-9, 2e-10)
    ('91.6', '14120', '0.5', '3.00e-09')
    >>> _rounded(40.000000000000014, 2e-14)
    '40'
    """
    if not error or not math.isfinite(error) or not math.isfinite(value):
        return f"{value:.5g}"
    if abs(error) < _EXACT * abs(value):
        return f"{value:.10g}"
    places = 1 - math.floor(math.log10(abs(error)))
    if places > _MOST_PLACES:
        digits = max(places + math.floor(math.log10(abs(value))), 1) if value else 1
        return f"{value:.{digits}e}"
    return f"{round(value, places):.{max(places, 0)}f}"
