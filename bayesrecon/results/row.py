"""One statistic of the private data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One recovered statistic.

    Attributes:
        estimate, se: recovered value and its standard error; None when undetermined (se also where only partly
            determined, since bias can be many times as large, and at temperature 0).
        lower, upper: 95 % interval, widened by the bias that the unseen part of the statistic can cause; that part
            alone at temperature 0, where nothing was sampled. Of an undetermined statistic what is known all the same:
            None where an end is open.
        floor: Cramer-Rao floor of the standard error for this many independent draws; the standard error itself where
            the spectrum decays and the draws put the floor above it (ten times above: not "determined" any more).
        visibility: share of the statistic that the release determines, in [0, 1]; without a gap in the spectrum, that
            stands out of the noise of these draws.
        verdict: "determined", "partly" (the unseen rest may bias it, or its error is too wide) or "undetermined".
        ess: effective number of draws behind it.
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
