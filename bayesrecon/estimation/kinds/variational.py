"""A variational fit at its optimum: equations of expectations, with the errors of the quadrature rule."""

from typing import Any

import numpy as np

from bayesrecon.estimation.kinds.kind import Kind
from bayesrecon.estimation.kinds.trained import beyond_data
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.weighted_equations import with_errors
from bayesrecon.inexact import Noise
from bayesrecon.releases import VariationalOptimum


class OfVariationalOptimum(Kind):
    of = VariationalOptimum

    def weighted(self, problem: Problem) -> Problem:
        release: Any = problem.release
        none = np.zeros((release.theta.shape[1], 0))
        return with_errors(problem, Noise(none, none), release.refined)

    def failures(self, problem: Problem, fitted: np.ndarray) -> tuple[str, ...]:
        return beyond_data(problem)


KIND = OfVariationalOptimum()
