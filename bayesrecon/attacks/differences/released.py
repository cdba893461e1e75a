"""Gram matrices of releases: the totals that the equations of any release determine, and those of a table without."""

import math
from collections.abc import Callable
from functools import singledispatch

import numpy as np

from bayesrecon.attacks.differences.gram import ARITHMETIC, STEP, Gram, gram_of, moved_gram
from bayesrecon.knowledge import Knows, check_knowledge
from bayesrecon.posteriors.approximated.normal import order_of
from bayesrecon.posteriors.printed.coded_tables import Coded
from bayesrecon.precision import in_float64
from bayesrecon.releases import Derived, Release, StatedLimits

Solve = Callable[[Release, Knows], Gram | None]
"""Function that solves a release, given what an attacker knows, and returns its totals (`solved.gram_of_problem`)."""


@in_float64
def grams_of(
    release: Release,
    n: float | None = None,
    knows: Knows | None = None,
    solve: Solve | None = None,
) -> list[Gram]:
    """The Gram matrices that a release determines: none, one, or two that differ in the sign of a covariate's mean.

    Args:
        release: any release.
        n: number of records, if the release does not tell.
        knows: what an attacker knows. A covariate's domain may tell the sign where correlations were not released.
        solve: function that solves a release. Without it only least squares, which need none, have totals.
    """
    settings = release.about.settings
    if settings.get("offset") or settings.get("fit_weights"):
        return []
    return _grams(release, n, knows or {}, solve)


@singledispatch
def _grams(release: Release, n: float | None, knows: Knows, solve: Solve | None) -> list[Gram]:
    """The totals that the equations of a release determine."""
    gram = None if solve is None else solve(release, knows)
    gram = None if gram is None else gram.counted(n)
    return [] if gram is None else [gram]


@_grams.register
def _of_table(release: StatedLimits, n: float | None, knows: Knows, solve: Solve | None) -> list[Gram]:
    table, settings = release.limits, release.about.settings
    if release.about.name != "ols" or not settings["intercept"] or not isinstance(table, Coded) or table.scale is None:
        return []
    counted = table.footer.records(len(table.coefficients))
    if counted is not None:
        n = counted[0] if counted[0] == counted[1] else n
    known = check_knowledge(release.about, **knows).fields
    low, high = (-math.inf, math.inf) if len(known) != 2 else known[settings["covariates"][0]].domain.ends
    if len(table.coefficients) == 2:
        for r, half in table.related:
            low, high = (0.0, high) if r < -half else (low, 0.0) if r > half else (low, high)
    signs = [1.0] if low >= 0 or len(table.coefficients) == 1 else [-1.0] if high <= 0 else [1.0, -1.0]
    fields = (*settings["covariates"], settings["response"])
    numbers = table.coefficients, table.errors, table.scale
    related = table.related if len(table.coefficients) > 2 and table.related else None
    found = [gram_of(release.name, fields, *numbers, related, n, sign) for sign in signs]
    return [gram for gram in found if gram is not None]


@_grams.register
def _of_estimates(release: Derived, n: float | None, knows: Knows, solve: Solve | None) -> list[Gram]:
    """Those of least squares in closed form, which is exact in all units."""
    model, noise, phi = release.about, getattr(release, "noise", None), np.asarray(release.theta)[0]
    sampled = noise is not None and bool(np.asarray(noise.normal).any())
    alone = np.shape(release.directions)[1] <= model.dimension  # the mode, without its covariance
    if model.name != "ols" or not model.settings["intercept"] or sampled or alone:
        return _grams.dispatch(Release)(release, n, knows, solve)
    fields = (*model.settings["covariates"], model.settings["response"])
    d, p = model.dimension, len(fields)
    half = np.zeros((len(phi), 0)) if noise is None else np.asarray(noise.bounded)
    half = np.column_stack([half, np.diag(ARITHMETIC * np.abs(phi))])
    size = np.maximum(np.abs(half) / np.maximum(np.abs(phi), 1e-300)[:, None], 0.0).max(axis=0)
    stretch = np.maximum(1.0, STEP / np.maximum(size, 1e-300)) * (size > 0)
    moved = phi + np.concatenate([np.zeros((1, len(phi))), (half * stretch).T, -(half * stretch).T])
    factor = np.zeros((len(moved), d, d))
    factor[:, *np.tril_indices(d)] = moved[:, d:]
    back = np.argsort(order_of(model))
    factor = factor[:, back]
    covariance = factor @ factor.transpose(0, 2, 1)
    distances = 2 * np.where(stretch, stretch, 1.0)
    gram = moved_gram(release.name, fields, moved[:, :p], covariance[:, :p, :p], moved[:, p], n, distances)
    return [] if gram is None else [gram]
