"""A mode from an optimiser, without covariance: the equations of its gradient, with optimisation errors."""

import numpy as np

from bayesrecon.estimation.ascent import REGULARISER
from bayesrecon.estimation.kinds.kind import Kind
from bayesrecon.estimation.kinds.optimised import with_ascent
from bayesrecon.estimation.problem import Problem
from bayesrecon.inexact import Noise
from bayesrecon.releases import OptimisedMode


class OfOptimisedMode(Kind):
    of = OptimisedMode

    def weighted(self, problem: Problem) -> Problem:
        none = np.zeros((problem.release.theta.shape[1], 0))
        return with_ascent(problem, Noise(none, none), None, REGULARISER)


KIND = OfOptimisedMode()
