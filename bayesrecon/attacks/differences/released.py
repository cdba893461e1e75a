"""Gram matrices of releases: tables of regressions, and estimates with their covariance from any library or file."""

import math
from functools import singledispatch

import numpy as np

from bayesrecon.attacks.differences.gram import ARITHMETIC, STEP, Gram, gram_of, moved_gram
from bayesrecon.posteriors.approximated.normal import order_of
from bayesrecon.posteriors.printed.coded_tables import Coded
from bayesrecon.releases import Derived, Release, StatedLimits


def grams_of(release: Release, n: float | None = None, low: float = -math.inf, high: float = math.inf) -> list[Gram]:
    """The Gram matrices that a release determines: none, one, or two that differ in the sign of a covariate's mean.

    Args:
        release: a Gaussian regression with an intercept: a table, or estimates and covariance of a fit.
        n: number of records, if the release does not tell.
        low, high: limits of the covariate, which may tell the sign where correlations were not released.
    """
    settings = release.about.settings
    gaussian = release.about.name == "ols" and settings["intercept"]
    if not gaussian or settings.get("offset") or settings.get("fit_weights"):
        return []
    return _grams(release, (*settings["covariates"], settings["response"]), n, (low, high))


@singledispatch
def _grams(release: Release, fields: tuple[str, ...], n: float | None, limits: tuple[float, float]) -> list[Gram]:
    """The Gram matrices of a Gaussian regression; those of other kinds of releases have errors that hide a record."""
    return []


@_grams.register
def _of_table(
    release: StatedLimits, fields: tuple[str, ...], n: float | None, limits: tuple[float, float]
) -> list[Gram]:
    table = release.limits
    if not isinstance(table, Coded) or table.scale is None:
        return []
    counted = table.footer.records(len(table.coefficients))
    if counted is not None:
        n = counted[0] if counted[0] == counted[1] else n
    low, high = limits
    signs = [1.0] if low >= 0 or len(table.coefficients) == 1 else [-1.0] if high <= 0 else [1.0, -1.0]
    numbers = table.coefficients, table.errors, table.scale
    found = [gram_of(release.name, fields, *numbers, n=n, sign=sign) for sign in signs]
    return [gram for gram in found if gram is not None]


@_grams.register
def _of_estimates(
    release: Derived, fields: tuple[str, ...], n: float | None, limits: tuple[float, float]
) -> list[Gram]:
    model = release.about
    phi, noise = np.asarray(release.theta)[0], getattr(release, "noise", None)
    if noise is not None and np.asarray(noise.normal).any():
        return []  # moments of draws: their noise hides single records
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
    gram = moved_gram(
        release.name, fields, moved[:, :p], covariance[:, :p, :p], moved[:, p], n, 2 * np.where(stretch, stretch, 1.0)
    )
    return [] if gram is None else [gram]
