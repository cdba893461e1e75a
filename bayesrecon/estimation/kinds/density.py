"""A log density at points: one equation for every point but one, with an error estimated from the misfit."""

from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy.linalg

from bayesrecon.divergence.score import prior_score
from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.kinds.kind import Kind
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.span import shrunk
from bayesrecon.estimation.weighted_equations import features_of
from bayesrecon.releases import LogDensity, Release

_AS_MUCH = 3.0  # of what no data make of a log density, what they make is off at most; measured: benchmarks/DENSITY.md
_OFF = 0.5  # root mean squared error of a log density from which it is no posterior of the model
_FREEDOM = 10  # points beyond twice the features, that tell how far a log density is off
_ARITHMETIC = 1e-12  # rounding errors of a sum of log densities, relative to its spread


class OfLogDensity(Kind):
    of = LogDensity

    def weighted(self, problem: Problem) -> Problem:
        solved, release = problem.solved, problem.release
        errors, note, wrong = errors_from_misfit(
            release, problem.embedding.metric, features_of(problem.embedding, solved)
        )
        release = release if note is None else replace(release, notes=(*release.notes, note))
        solved, contradicted = replace(solved, errors=errors), () if wrong is None else (wrong,)
        if solved.spectrum.decays:
            solved = shrunk(solved, float(errors.normal[0, 0]) ** 2 * solved.gram)
        return replace(problem, release=release, solved=solved, contradicted=contradicted)


def errors_from_misfit(
    release: Release, metric: np.ndarray, features: np.ndarray
) -> tuple[EquationErrors, str | None, str | None]:
    """Errors of equations with an unknown misfit `e (k,)`, a note on them, and the reason if they are unusable.

    The part of e that is orthogonal to the features cannot come from data, so it is observed. The other part changes
    totals. It is assumed to be at most three times as long. Approximations have smooth errors: more points determine
    their size, but do not average them out. So the interval of a total along `d (k,)` does not shrink with the number
    of points. It is `+- 3 |observed e| |d|` (Cauchy-Schwarz inequality).
    """
    base = np.asarray(prior_score(release.model, metric, np.asarray(release.theta), release.temperature))[0]
    count, rank = len(base), features.shape[1]
    basis: Any = scipy.linalg.qr(features, mode="economic")[0]
    rounding = _ARITHMETIC * max(1.0, float(np.linalg.norm(base)))
    seen = float(np.linalg.norm(base - basis @ (basis.T @ base)))
    size = _AS_MUCH * max(seen, rounding) / NormalDist().inv_cdf(0.975)
    nothing = np.zeros((count, 0))
    errors = EquationErrors(size * np.eye(count), nothing, nothing, np.zeros((0, 0)), np.zeros(0))
    if count < 2 * rank + _FREEDOM:
        return (
            errors,
            None,
            (
                f"{count + 1} points do not determine {rank} features of the data and the error of the log density; "
                f"{2 * rank + _FREEDOM + 1} or more are needed"
            ),
        )
    off = seen / np.sqrt(count - rank)
    if seen <= rounding:
        return errors, None, None
    found = f"the log density is off by {off:.2g} (root mean square over the points) for any data"
    if off > _OFF:
        return errors, None, f"{found}: is it of this model, with this prior, in unconstrained coordinates?"
    return errors, f"{found}: errors allow for an unobserved deviation three times as large", None


KIND = OfLogDensity()
