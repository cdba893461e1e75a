"""Does the stated number of records agree with the draws?"""

from dataclasses import replace

from bayesrecon.estimation.near_models import conditioned
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.statistics import moments
from bayesrecon.estimation.totals import part_totals, rows_of


def miscounted(problem: Problem) -> tuple[str, ...]:
    """A warning if the stated number of records is outside the interval of n without it."""
    stated, solved, library = problem.knowledge.total, problem.solved, moments(())
    if stated is None:
        return ()
    totals = part_totals(solved, library, replace(problem.knowledge, total=None))
    (row,) = conditioned(problem, rows_of(library, totals, solved.embedding), ["n"], totals.directions)
    if row.lower is None or row.upper is None or row.lower <= stated <= row.upper:
        return ()
    return (
        f"{stated:g} records were stated, which is outside the interval of n by the draws alone, {row.lower:.4g} to "
        f"{row.upper:.4g}: results may be wrong{row.condition and f' (the interval holds {row.condition})'}",
    )
