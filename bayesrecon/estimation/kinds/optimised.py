"""A fit of an optimiser: equations with optimisation errors, whose size is estimated from them or from iterates."""

from dataclasses import replace
from typing import Any

import numpy as np

from bayesrecon.divergence.adaptive import AdaptiveEmbedding
from bayesrecon.estimation import ascent
from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.kinds.kind import Kind
from bayesrecon.estimation.noise import equation_errors, error_whitening
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.solve import fit
from bayesrecon.estimation.weighted_equations import PASSES, features_of
from bayesrecon.inexact import Noise
from bayesrecon.model import Model
from bayesrecon.releases import OptimisedFit


class OfOptimisedFit(Kind):
    of = OptimisedFit

    def weighted(self, problem: Problem) -> Problem:
        release: Any = problem.release
        return with_ascent(problem, release.noise, release.refined, ascent.DEVIATIONS)


def with_ascent(problem: Problem, noise: Noise, refined: Model | None, unit: ascent.Unit) -> Problem:
    """The problem with equations weighted by their errors, including the optimisation errors."""
    original: Any = problem.release
    release, metric, solved, size = original, problem.embedding.metric, problem.solved, 1.0
    embedding, errors, wrong = problem.embedding, problem.solved.errors, None
    for _ in range(PASSES):
        final = ascent.final_errors(original, metric, solved.pseudo)
        release = replace(original, theta=final.theta[None])
        normal, bounded, rule = equation_errors(release, noise, refined, metric, solved.pseudo)
        weights = error_whitening(np.column_stack([normal, size * final.errors]), bounded)
        embedding = AdaptiveEmbedding(release, metric @ weights, problem.embedding.progress)
        solved = fit(embedding, problem.reference, problem.rng, expected=solved.spectrum.rank)
        features = features_of(embedding, solved)
        weighted = weights.T @ normal, weights.T @ bounded, weights.T @ rule
        known = EquationErrors(*weighted, constraints=np.zeros((0, bounded.shape[1])), constraint_values=np.zeros(0))
        optimisation_errors = weights.T @ final.errors
        errors, size, wrong = ascent.with_optimisation_errors(
            release, metric, weights, features, known, optimisation_errors, final.freedom, unit
        )
        wrong = final.wrong or wrong
    solved, contradictions = replace(solved, errors=errors), () if wrong is None else (wrong,)
    return replace(problem, release=release, embedding=embedding, solved=solved, contradicted=contradictions)


KIND = OfOptimisedFit()
