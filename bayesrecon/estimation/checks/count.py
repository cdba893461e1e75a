"""Does the stated number of records, or that of the rows of a known design, agree with the draws?

It is the scale of the draws against the curvature of the likelihood. Averages of draws, the better of two draws, powers
of the likelihood and left-out records change it, and nothing else in draws of finite rank shows them.
"""

from dataclasses import replace

from bayesrecon.estimation.near_models import conditioned
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.statistics import moments
from bayesrecon.estimation.totals import part_totals, rows_of


def miscounted(problem: Problem) -> tuple[str, ...]:
    """A warning if the stated number of records is outside the interval of n without it."""
    knowledge, solved, library = problem.knowledge, problem.solved, moments(())
    rows = [float(len(values)) for values in knowledge.known.values()]
    stated = next(iter(rows), knowledge.total)
    if stated is None:
        return ()
    totals = part_totals(solved, library, replace(knowledge, total=None, known={}, unit=None))
    (row,) = conditioned(problem, rows_of(library, totals, solved.embedding), ["n"], totals.directions)
    if row.lower is None or row.upper is None or row.lower <= stated <= row.upper:
        return ()
    return (
        f"{stated:g} records were stated, which is outside the interval of n by the draws alone, {row.lower:.4g} to "
        f"{row.upper:.4g}: results may be wrong{row.condition and f' (the interval holds {row.condition})'}",
    )
