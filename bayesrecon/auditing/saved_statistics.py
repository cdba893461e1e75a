"""Findings on statistics that follow from parts of a saved fit other than its table of estimates."""

from bayesrecon.auditing.small_counts import Count, small_counts
from bayesrecon.auditing.wording import items
from bayesrecon.posteriors.printed.estimates_in_files import Estimates
from bayesrecon.results.audit import Finding, Remedy, Thresholds

_PUBLISH = "publish a table of what readers need, and audit that"
_COUNT = "n["  # how names of counts of a level or a cell begin


def findings_of(estimates: Estimates, where: tuple[str, ...], limits: Thresholds) -> list[Finding]:
    """One finding on all statistics of a fit, and one on each small count; none without statistics.

    Args:
        estimates: the fit.
        where: places of the numbers from which the statistics follow.
        limits: thresholds of the audit.
    """
    if not estimates.statistics:
        return []
    exact = sum(row.se == 0.0 for row in estimates.statistics)
    bounded = len(estimates.statistics) - exact
    finding = Finding(
        "estimates",
        "medium",
        f"{estimates.where} is {estimates.what}: what it keeps gives statistics of the data"
        + (" exactly" if exact else ""),
        where,
        f"{exact} statistics exactly" + (f", limits of {bounded} more" if bounded else "") + f": {estimates.because}",
        evidence=items(estimates.statistics),
        remedies=(Remedy(_PUBLISH),),
    )
    counts = [
        Count(row.name.removeprefix(_COUNT).removesuffix("]"), row.estimate, row.lower, row.upper, "what the fit keeps")
        for row in estimates.statistics
        if row.name.startswith(_COUNT)
    ]
    return [finding, *small_counts(counts, limits.small_count, where, "nothing but the file")]
