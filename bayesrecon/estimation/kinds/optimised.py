"""A fit of an optimiser: equations with what is left of the optimisation, of a size that they or iterates tell."""

from dataclasses import replace
from typing import Any

import numpy as np

from bayesrecon.estimation import ascent
from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.kinds.kind import Kind
from bayesrecon.estimation.noise import equation_errors, error_whitening
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.solve import fit
from bayesrecon.estimation.weighted_equations import PASSES, features_of
from bayesrecon.inexact import Noise
from bayesrecon.kernels.adaptive import AdaptiveEmbedding
from bayesrecon.model import Model
from bayesrecon.releases import OptimisedFit


class OfOptimisedFit(Kind):
    of = OptimisedFit

    def weighted(self, problem: Problem) -> Problem:
        release: Any = problem.release
        return with_ascent(problem, release.noise, release.refined, ascent.DEVIATIONS)


def with_ascent(problem: Problem, noise: Noise, refined: Model | None, unit: ascent.Unit) -> Problem:
    """The same with what an optimiser left as errors of the equations, weighed by them."""
    given: Any = problem.release
    release, own, solved, size = given, problem.embedding.metric, problem.solved, 1.0
    embedding, errors, wrong = problem.embedding, problem.solved.errors, None
    for _ in range(PASSES):
        rest = ascent.final_errors(given, own, solved.pseudo)
        release = replace(given, theta=rest.theta[None])
        normal, bounded, rule = equation_errors(release, noise, refined, own, solved.pseudo)
        weights = error_whitening(np.column_stack([normal, size * rest.errors]), bounded)
        embedding = AdaptiveEmbedding(release, own @ weights, problem.embedding.progress)
        solved = fit(embedding, problem.reference, problem.rng, expected=solved.spectrum.rank)
        features = features_of(embedding, solved)
        weighed = weights.T @ normal, weights.T @ bounded, weights.T @ rule
        known = EquationErrors(*weighed, left=np.zeros((0, bounded.shape[1])), right=np.zeros(0))
        left = weights.T @ rest.errors
        errors, size, wrong = ascent.with_optimisation_errors(
            release, own, weights, features, known, left, rest.freedom, unit
        )
        wrong = rest.wrong or wrong
    solved, found = replace(solved, errors=errors), () if wrong is None else (wrong,)
    return replace(problem, release=release, embedding=embedding, solved=solved, contradicted=found)


KIND = OfOptimisedFit()
