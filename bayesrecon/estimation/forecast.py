"""How many draws would determine the number of records, where the spectrum decays and these do not."""

from dataclasses import replace

from bayesrecon.estimation.error_laws import DETERMINED
from bayesrecon.estimation.span import Fit
from bayesrecon.estimation.statistics import moments

_MOST = 2**10  # times as many draws, beyond which a forecast from these says nothing


def times_as_many(solved: Fit) -> int | None:
    """The least power of two of times as many draws that would determine the number of records.

    Noise of the target and of the basis functions falls with the number of draws; what infinitely many draws do not
    show stays. A forecast: more draws also show further features.

    Returns:
        None where even a thousand times as many would not do.
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
    """A line that says how many draws would determine the number of records."""
    if solved.ridge is None:
        return ()
    factor, draws = times_as_many(solved), round(solved.embedding.independent_size)
    if factor is None:
        return ("n is not determined, and these draws do not tell how many more would determine it",)
    return (f"n is not determined: about {factor * draws:,} independent draws would determine it, these are {draws:,}",)
