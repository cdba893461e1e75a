"""A mode with its covariance: the equations of its gradient and Hessian, without errors."""

import numpy as np

from bayesrecon.estimation.kinds.kind import Kind
from bayesrecon.estimation.kinds.trained import beyond_data
from bayesrecon.estimation.problem import Problem
from bayesrecon.releases import Approximation


class OfApproximation(Kind):
    of = Approximation

    def failures(self, problem: Problem, fitted: np.ndarray) -> tuple[str, ...]:
        return beyond_data(problem)


KIND = OfApproximation()
