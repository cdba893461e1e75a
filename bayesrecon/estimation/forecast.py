"""Forecast of the number of draws that would determine the number of records, if the spectrum decays."""

from dataclasses import replace

from bayesrecon.estimation.error_laws import DETERMINED
from bayesrecon.estimation.span import Fit
from bayesrecon.estimation.statistics import moments

_MOST = 2**10  # largest multiple of the draws for which a forecast is possible


def times_as_many(solved: Fit) -> int | None:
    """The smallest power of two by which the draws must be multiplied to determine the number of records.

    The noise of the target and of the basis functions decreases with the number of draws. The part that infinitely many
    draws would not determine stays. This is a forecast, because more draws also resolve further features.

    Returns:
        The multiple; None if even a thousand times as many draws would not be enough.
    """
    assert solved.ridge is not None, "a spectrum that decays"
    count = moments(())  # of nothing but the records
    records, cross = solved.distant or (solved.probes, solved.cross)
    values, far = count.evaluate(solved.probes), count.evaluate(records)
    factor = 2
    while factor <= _MOST:
        damping = None if solved.damping is None else solved.damping / factor
        more = replace(solved, ridge=solved.ridge / factor, damping=damping)
        beta = more.project(values).beta
        if count.visibility(far, cross @ beta, solved.basis.size, more.variance(beta))[0] >= DETERMINED:
            return factor
        factor *= 2
    return None


def forecast(solved: Fit) -> tuple[str, ...]:
    """A message that states how many draws would determine the number of records."""
    if solved.ridge is None:
        return ()
    factor, draws = times_as_many(solved), round(solved.embedding.independent_size)
    if factor is None:
        return ("n is not determined, and these draws do not show how many more are needed",)
    return (f"n is not determined: about {factor * draws:,} independent draws would determine it, these are {draws:,}",)
