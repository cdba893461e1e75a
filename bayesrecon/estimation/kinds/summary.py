"""A printed table, or the mean and covariance of draws: equations with errors of rounding and of sampling.

Equations are weighted by these errors. If no data can have the numbers within their errors, they are contradicted.
"""

from typing import Any

from bayesrecon.estimation.kinds.kind import Kind
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.weighted_equations import with_errors
from bayesrecon.releases import Summary


class OfSummary(Kind):
    of = Summary

    def weighted(self, problem: Problem) -> Problem:
        release: Any = problem.release
        return with_errors(problem, release.noise, release.refined, release.matched)


KIND = OfSummary()
