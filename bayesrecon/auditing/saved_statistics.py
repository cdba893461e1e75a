"""Findings of statistics that follow from what a saved fit keeps, where no table of estimates says them."""

from bayesrecon.auditing.evidence import items
from bayesrecon.auditing.small_counts import Count, small_counts
from bayesrecon.posteriors.printed.estimates_in_files import Estimates
from bayesrecon.results.audit import Finding, Remedy, Thresholds

_PUBLISH = "publish a table of what readers need, and audit that"
_COUNT = "n["  # how names of counts of a level or a cell begin


def findings_of(one: Estimates, where: tuple[str, ...], limits: Thresholds) -> list[Finding]:
    """One of all statistics of a fit, and one for each count that is small; none of a fit that tells none.

    Args:
        where: places of the numbers that they follow from.
    """
    if not one.statistics:
        return []
    exact = sum(row.se == 0.0 for row in one.statistics)
    bounded = len(one.statistics) - exact
    found = Finding(
        "estimates",
        "medium",
        f"{one.where} is {one.what}: what it keeps gives statistics of the data" + (" exactly" if exact else ""),
        where,
        f"{exact} statistics exactly" + (f", limits of {bounded} more" if bounded else "") + f": {one.because}",
        evidence=items(one.statistics),
        remedies=(Remedy(_PUBLISH),),
    )
    counts = [
        Count(row.name.removeprefix(_COUNT).removesuffix("]"), row.estimate, row.lower, row.upper, "what the fit keeps")
        for row in one.statistics
        if row.name.startswith(_COUNT)
    ]
    return [found, *small_counts(counts, limits.small_count, where, "nothing but the file")]
