"""One statistic of the private data."""

import math
from dataclasses import dataclass

from bayesrecon.errors import visible

_EXACT = 1e-9  # relative errors below this are rounding errors of the computation
_MOST_PLACES = 6  # decimal places; numbers with more are printed with an exponent
_WIDER = 1.5 * 1.96  # standard errors: an interval with a longer side holds more than sampling errors


@dataclass(frozen=True, repr=False)
class Row:
    """One recovered statistic.

    Attributes:
        estimate, se: recovered value and its standard error; None if undetermined. `se` is also None at temperature 0,
            and if the statistic is only partly determined, because the bias may be many times larger.
        lower, upper: 95 % interval, widened by the largest bias that the invisible part of the statistic can cause, and
            by heavier tails of normal errors that the draws allow. At
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

    @property
    def error(self) -> str:
        """The error behind an estimate: `± 4.4`, or the interval if it holds more than the standard error says.

        >>> Row("n", 310.5, 6.6, 297.6, 323.4).error, Row("n", 310.5, 6.6, 297.6, 379.0).error
        (' ± 6.6', ' (95 % interval 297.6 to 379.0)')
        """
        held = self.lower is not None and self.upper is not None
        if held and (self.se is None or exceeds(self.se, self.estimate, self.lower, self.upper)):
            return f" (95 % interval {self._ends})"
        return "" if self.se is None else f" ± {_rounded(self.se, self.se)}"

    @property
    def _ends(self) -> str:
        assert self.lower is not None
        assert self.upper is not None
        low, high = (_rounded(end, self.se or self.upper - self.lower) for end in (self.lower, self.upper))
        return f"{low} to {high}"

    def __repr__(self) -> str:
        parts = [] if self.estimate is None else [_rounded(self.estimate, self.se)]
        if parts and "±" in self.error:
            parts[0] += self.error
        if self.lower is not None and self.upper is not None:
            parts.append(f"95 % interval {self._ends}")
        return visible(f"{self.name}: {', '.join((*parts, self.verdict))}{' ' * bool(self.condition)}{self.condition}")


def exceeds(se: float, estimate: float | None, lower: float | None, upper: float | None) -> bool:
    """Whether an interval holds more than its standard error says: a bias, or models next to the stated one."""
    if estimate is None or lower is None or upper is None:
        return False
    return 0 < _WIDER * se < max(estimate - lower, upper - estimate)


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
