"""Estimates of additive models of mgcv, from the matrices that a fit stores.

With X the model matrix, smooths included, and S the sum of their penalties, each times its smoothing parameter, the
coefficients of a Gaussian model satisfy `(X'X + S) beta = X'y` (Wood, Generalized Additive Models, 2017, section 4.2).
The object has R of `X = QR`, hence `X'X = R'R`, the penalties, and the sum of squared residuals: `X'y` and `y'y`
follow, and with them the table of the least-squares fit without penalty, which is attacked.

A logistic or Poisson model has `X'WX = R'R` at its estimates, and `X'(y - mu) = S beta` (section 3.1): the equations of
a regression with the penalty `beta' S beta / 2`, which is attacked.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np

from bayesrecon.posteriors.printed.estimates_in_files import Estimates, Statistic, exactly
from bayesrecon.posteriors.r.parts import (
    epsilon_of,
    family_of,
    finite_vector_of,
    inverse_of,
    labels_of,
    last_step_of,
    matrix_of,
    not_attacked,
    one_number,
    response_of,
    unknown_weights,
    vector_of,
)
from bayesrecon.posteriors.r.r_objects import Place, RObjects

_PLACES = (
    "coefficients", "R", "sp", "smooth", "deviance", "sig2", "Ve", "Vp", "Vc", "edf", "edf1", "edf2", "rV", "rank",
    "full.sp", "gcv.ubre", "aic", "null.deviance", "df.null", "df.residual", "min.edf", "nsdf", "cmX", "iter",
    "db.drho", "outer.info", "mgcv.conv", "scale.estimated", "reml.scale", "assign", "control",
)  # fmt: skip
"""Parts that follow from the table of coefficients, and diagnostics of the fit."""

_BECAUSE = (
    "it stores a factor of its weighted design and its penalties, and its scores equal the gradients of its penalties"
)
_DISAGREE = "its covariance does not agree with its penalties"
_DEPENDENT = "columns of its design are linearly dependent"
_WHOLE = 1e-6  # largest difference of a number of records from an integer
_MOST_NAMED = 8  # largest number of columns without a penalty whose products are reported
_EPSILON = 1e-7  # `gam.control`'s default
_TOLERANCE = 1e-6  # largest relative difference of two ways to compute the penalised equations


def additive(objects: RObjects, place: Place, description: str) -> Estimates:
    """Estimates of a Gaussian, logistic or Poisson model with its canonical link, or the reason why there are none."""
    node = place.node
    kind, family = _family(objects, node)
    beta = vector_of(objects, node, "coefficients")
    labels = labels_of(objects.names(objects.element(node, "coefficients")))
    unsupported = family or _weighted(objects, node)
    places = tuple(f"{place.where}/{name}" for name in _PLACES)
    factor = matrix_of(objects, node, "R")
    residual = one_number(objects, node, "deviance")
    p = len(beta)
    if not p or len(labels) != p or len(set(labels)) < p or not np.isfinite(beta).all():
        unsupported = unsupported or "its coefficients do not have distinct names"
    elif factor.shape != (p, p) or not np.isfinite(factor).all() or "const" not in labels:
        unsupported = unsupported or "the factor of its design is not in it, or it has no intercept"
    penalty = None if unsupported else _penalty(objects, node, p)
    if unsupported or penalty is None or residual is None:
        unsupported = unsupported or "it stores no penalties of a supported kind"
        return not_attacked(place, description, unsupported)
    products = factor.T @ factor
    if kind != "ols":
        estimates = Estimates(place.where, description, places, kind, labels, response_of(objects, node), beta)
        return _penalised(objects, node, estimates, products + penalty, penalty)
    across = (products + penalty) @ beta
    covariance, scale = matrix_of(objects, node, "Vp"), one_number(objects, node, "sig2")
    if not _agree(products + penalty, covariance, scale):
        return not_attacked(place, description, _DISAGREE)
    unscaled = inverse_of(products)
    if unscaled is None:
        return not_attacked(place, description, _DEPENDENT)
    plain = unscaled @ across
    rows = products[labels.index("const"), labels.index("const")]
    residual_sum = residual + 2 * beta @ across - beta @ products @ beta - plain @ across
    variance = float(residual_sum / (rows - p))
    if not variance > 0:
        return not_attacked(place, description, "it has no more rows than coefficients")
    covariance = (unscaled + unscaled.T) / 2 * variance
    response = response_of(objects, node)
    return Estimates(place.where, description, places, "ols", labels, response, plain, covariance, variance)


def _penalised(
    objects: RObjects, node: int, estimates: Estimates, hessian: np.ndarray, penalty: np.ndarray
) -> Estimates:
    """Estimates of a logistic or Poisson model, whose scale is one."""
    covariance, scale = matrix_of(objects, node, "Vp"), one_number(objects, node, "sig2")
    if scale != 1.0 or not _agree(hessian, covariance, scale):
        return replace(estimates, unsupported=_DISAGREE, values=None)
    beta, products = np.asarray(estimates.values), hessian - penalty
    inverse = inverse_of(hessian)
    if inverse is None:
        return replace(estimates, unsupported=_DEPENDENT, values=None)
    epsilon = epsilon_of(objects, node, _EPSILON)
    last_step, score = last_step_of(objects, node, _EPSILON), np.sqrt(np.abs(np.diag(products)))
    if objects.texts(objects.element(node, "optimizer"))[:1] == ["outer"]:  # stops at a gradient of this size
        slope = epsilon * float(np.abs(beta).max())
        last_step, score = slope * float(np.sqrt(np.abs(inverse).sum())), np.full(len(beta), slope)
    else:
        score = last_step * score
    statistics = tuple(_sums(objects, node, estimates, products, penalty @ beta, last_step, score))
    covariance = (inverse + inverse.T) / 2
    return replace(
        estimates, covariance=covariance, penalty=penalty, last_step=last_step, statistics=statistics, because=_BECAUSE
    )


def _sums(
    objects: RObjects,
    node: int,
    estimates: Estimates,
    products: np.ndarray,
    pull: np.ndarray,
    last_step: float,
    score: np.ndarray,
) -> Iterator[Statistic]:
    """Sums over records that follow from a fit. For a Poisson model, sums with the response are among them.

    Args:
        products: X'WX `(p, p)`.
        pull: S beta `(p,)`, the remaining score.
        last_step, score: largest relative error of a weight, and largest errors of the scores `(p,)`.
    """
    degrees, effective = one_number(objects, node, "df.residual"), finite_vector_of(objects, node, "edf")
    rows = None if degrees is None or len(effective) != len(pull) else degrees + float(effective.sum())
    if rows is not None and np.isfinite(rows) and abs(rows - round(rows)) <= _WHOLE:
        yield exactly("n", round(rows))
    first = estimates.labels.index("const")
    spread = np.sqrt(np.abs(np.diag(products)))
    if estimates.kind == "poisson":
        for k, label in enumerate(estimates.labels):
            value, off = products[first, k] + pull[k], last_step * spread[first] * spread[k] + score[k]
            name = estimates.response if k == first else f"{estimates.response} * {label}"
            yield Statistic(f"sum({name})", value, value - off, value + off)
    plain = one_number(objects, node, "nsdf") or 0.0
    for i, j in combinations_with_replacement(range(min(int(plain), len(pull), _MOST_NAMED)), 2):
        value, off = products[i, j], last_step * spread[i] * spread[j]
        factors = [estimates.labels[k] for k in (i, j) if k != first]
        name = " * ".join(["variance of the response", *factors])
        yield Statistic(f"sum({name})", value, value - off, value + off)


def _family(objects: RObjects, node: int) -> tuple[str, str]:
    """The estimator, and the reason why there is none, as in `family_of`. Without `family` in a call it is Gaussian."""
    if objects.element(node, "family"):
        return family_of(objects, node)
    call = objects.element(node, "call")
    arguments = {name for name, _ in objects.elements(call)} if objects.kind(call) == "call" else {"family"}
    return ("", "its family is missing") if "family" in arguments else ("ols", "")


def _weighted(objects: RObjects, node: int) -> str:
    weights = finite_vector_of(objects, node, "prior.weights")
    if len(weights):
        return (
            ""
            if np.all(weights == 1) and not np.any(finite_vector_of(objects, node, "offset"))
            else "the fit has weights"
        )
    return unknown_weights(objects, node)


def _penalty(objects: RObjects, node: int, p: int) -> np.ndarray | None:
    """The sum of the penalties, each times its smoothing parameter; None if they are not all there."""
    parameters = finite_vector_of(objects, node, "full.sp")
    parameters = parameters if len(parameters) else finite_vector_of(objects, node, "sp")
    penalty, k = np.zeros((p, p)), 0
    for _, smooth in objects.elements(objects.element(node, "smooth")):
        first, last = (one_number(objects, smooth, name) for name in ("first.para", "last.para"))
        if first is None or last is None or not 1 <= first <= last <= p:
            return None
        span = slice(int(first) - 1, int(last))
        for _, matrix in objects.elements(objects.element(smooth, "S")):
            part = np.asarray(objects.array(matrix), float)
            if k >= len(parameters) or part.shape != penalty[span, span].shape or not np.isfinite(part).all():
                return None
            penalty[span, span] += parameters[k] * part
            k += 1
    return penalty if k == len(parameters) else None


def _agree(hessian: np.ndarray, covariance: np.ndarray, scale: float | None) -> bool:
    """Whether `Vp (X'X + S) = scale`, as for all fits whose factor and penalties were read correctly."""
    if covariance.shape != hessian.shape or not scale or not np.isfinite(covariance).all():
        return False
    size = np.sqrt(np.diag(covariance))
    residual = (
        (covariance @ hessian / scale - np.eye(len(hessian))) * size[None, :] / np.where(size > 0, size, 1)[:, None]
    )
    return bool(np.abs(residual).max() <= _TOLERANCE)
