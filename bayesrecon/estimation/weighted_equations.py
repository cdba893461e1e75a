"""Solve equations weighted by their errors: noise, rounding and quadrature."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesrecon.divergence.adaptive import AdaptiveEmbedding
from bayesrecon.divergence.metric_view import OneRelease
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.noise import consistent_errors, equation_errors, error_whitening, too_coarse
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.solve import fit
from bayesrecon.estimation.span import Fit
from bayesrecon.inexact import Noise
from bayesrecon.model import Model, PseudoData

PASSES = 2
"""Number of passes over the errors of a parameter, since the errors depend on the fitted data."""

_MATCHED, _CLOSE = 40, 1e-6  # most passes to match a mean and covariance, and the last change in whitened units

Matched = Callable[[Any, Any, PseudoData], Any]
"""As `Summary.matched`."""

_ONLY = np.array([0])  # the one parameter of an approximation


def with_errors(problem: Problem, noise: Noise, refined: Model | None, matched: Matched | None = None) -> Problem:
    """Solve the problem again with equations weighted by their errors, and with `matched` match an approximation."""
    release, metric, solved, contradicted = problem.release, problem.embedding.metric, problem.solved, ()
    embedding, released = problem.embedding, np.asarray(release.theta)[0]
    weights, normal = np.eye(metric.shape[1]), np.zeros((metric.shape[1], 0))
    bounded = rule = normal
    for _ in range(_MATCHED if matched else PASSES):
        previous = np.asarray(release.theta)[0]
        if matched:
            try:
                theta = matched(released, previous, solved.pseudo)
            except BayesreconError as error:
                contradicted = (str(error),)
                break
            release = replace(release, theta=theta[None])
        normal, bounded, rule = equation_errors(release, noise, refined, metric, solved.pseudo)
        weights = error_whitening(normal, bounded)
        embedding = AdaptiveEmbedding(release, metric @ weights, problem.embedding.progress)
        # The data alone are needed here: what is unseen is judged once, at the end.
        solved = fit(embedding, problem.reference, problem.rng, atoms=_ONLY, expected=solved.spectrum.rank)
        change = np.abs(np.linalg.lstsq(metric, np.asarray(release.theta)[0] - previous, rcond=None)[0]).max()
        if matched and change < _CLOSE:
            break
    else:
        if matched:
            contradicted = ("no data could be matched to the mean and covariance; supply the draws themselves",)
    coarse = too_coarse(noise, metric)
    contradicted = contradicted or (() if coarse is None else (coarse,))
    if contradicted:
        normal, bounded, rule = equation_errors(release, noise, refined, metric, solved.pseudo)
        weights = np.eye(metric.shape[1])
        embedding = replace(problem.embedding, release=release)
        solved = problem.solved
    else:
        solved = fit(embedding, problem.reference, problem.rng, expected=solved.spectrum.rank)
    parts = [weights.T @ x for x in (normal, bounded, rule)]
    errors, wrong = consistent_errors(release, embedding.metric, features_of(embedding, solved), *parts)
    contradicted = contradicted or (() if wrong is None else (wrong,))
    solved = replace(solved, errors=errors)
    return replace(problem, release=release, embedding=embedding, solved=solved, contradicted=contradicted)


def features_of(embedding: OneRelease, solved: Fit) -> Float[np.ndarray, "k r"]:
    """The contributions of data to the equations of one parameter, as columns `(k, r)`."""
    return embedding.scores(solved.basis.records, np.array([0])) @ solved.basis.coefficients
