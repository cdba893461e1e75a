"""Estimates of additive models of mgcv, whose sums of products follow from what they keep of their fit.

With X the model matrix, smooths included, and S the sum of their penalties, each times its smoothing parameter, the
coefficients of a Gaussian model satisfy `(X'X + S) beta = X'y` (Wood, Generalized Additive Models, 2017, section 4.2).
The object has R of `X = QR`, hence `X'X = R'R`, the penalties, and the sum of squared residuals: `X'y` and `y'y`
follow, and with them the least-squares fit without penalty, which is attacked as the table that it is.
"""

import numpy as np

from bayesrecon.posteriors.printed.estimates import Estimates
from bayesrecon.posteriors.r.parts import family_of, labels_of, left_of, one_number, response_of, unsaid
from bayesrecon.posteriors.r.tree import Objects
from bayesrecon.posteriors.r.walk import Place

_PLACES = (
    "coefficients", "R", "sp", "smooth", "deviance", "sig2", "Ve", "Vp", "Vc", "edf", "edf1", "edf2", "rV", "rank",
    "full.sp", "gcv.ubre", "aic", "null.deviance", "df.null", "df.residual", "min.edf", "nsdf", "cmX", "iter",
    "db.drho", "outer.info", "mgcv.conv", "scale.estimated", "reml.scale", "assign", "control",
)  # fmt: skip
"""Parts that say what a table of the coefficients says, and how the fit went."""

_CLOSED = 1e-6  # relative difference of two ways to the same penalised equations: beyond it one was misread


def additive(objects: Objects, place: Place, what: str) -> Estimates:
    """Of a Gaussian model with the identity as its link; of another one, why it is not attacked."""
    node = place.node
    at = objects.element(node, "coefficients")
    beta, labels = np.ravel(np.asarray(objects.numbers(at), float)), labels_of(objects.names(at))
    closed = _family(objects, node) or _weighted(objects, node)
    places = tuple(f"{place.where}/{name}" for name in _PLACES)
    factor = np.asarray(objects.array(objects.element(node, "R")), float)
    residual = one_number(objects, node, "deviance")
    p = len(beta)
    if not p or len(labels) != p or len(set(labels)) < p or not np.isfinite(beta).all():
        closed = closed or "its coefficients have no names of their own"
    elif factor.shape != (p, p) or not np.isfinite(factor).all() or "const" not in labels:
        closed = closed or "the factor of its design is not in it, or it has no intercept"
    penalty = None if closed else _penalty(objects, node, p)
    if closed or penalty is None or residual is None:
        closed = closed or "its penalties are not in it, or are of a kind that is not read"
        return Estimates(place.where, what, (place.where,), closed=closed)
    products = factor.T @ factor
    across = (products + penalty) @ beta
    covariance, scale = np.asarray(objects.array(objects.element(node, "Vp")), float), one_number(objects, node, "sig2")
    if not _agree(products + penalty, covariance, scale):
        return Estimates(place.where, what, (place.where,), closed="its covariance is not that of its penalties")
    try:
        unscaled = np.linalg.inv(products)
    except np.linalg.LinAlgError:
        return Estimates(place.where, what, (place.where,), closed="columns of its design depend on each other")
    plain = unscaled @ across
    rows = products[labels.index("const"), labels.index("const")]
    residual_sum = residual + 2 * beta @ across - beta @ products @ beta - plain @ across
    variance = float(residual_sum / (rows - p))
    if not variance > 0:
        return Estimates(place.where, what, (place.where,), closed="there are no more rows in it than coefficients")
    covariance = (unscaled + unscaled.T) / 2 * variance
    response = response_of(objects, node)
    return Estimates(place.where, what, places, "ols", labels, response, plain, covariance, variance)


def _family(objects: Objects, node: int) -> str:
    """Why it is no Gaussian model with the identity; that is the default of a call that names no other one."""
    if objects.element(node, "family"):
        kind, closed = family_of(objects, node)
        return closed or ("" if kind == "ols" else "of penalised fits only Gaussian ones are attacked by this version")
    call = objects.element(node, "call")
    given = {name for name, _ in objects.elements(call)} if objects.kind(call) == "call" else {"family"}
    return "its family is not in it" if "family" in given else ""


def _weighted(objects: Objects, node: int) -> str:
    weights = left_of(objects, node, "prior.weights")
    if len(weights):
        return "" if np.all(weights == 1) and not np.any(left_of(objects, node, "offset")) else "the fit has weights"
    return unsaid(objects, node)


def _penalty(objects: Objects, node: int, p: int) -> np.ndarray | None:
    """The sum of the penalties, each times its smoothing parameter; None where they are not all there."""
    parameters = left_of(objects, node, "full.sp")
    parameters = parameters if len(parameters) else left_of(objects, node, "sp")
    found, k = np.zeros((p, p)), 0
    for _, smooth in objects.elements(objects.element(node, "smooth")):
        first, last = (one_number(objects, smooth, name) for name in ("first.para", "last.para"))
        if first is None or last is None or not 1 <= first <= last <= p:
            return None
        own = slice(int(first) - 1, int(last))
        for _, matrix in objects.elements(objects.element(smooth, "S")):
            part = np.asarray(objects.array(matrix), float)
            if k >= len(parameters) or part.shape != found[own, own].shape or not np.isfinite(part).all():
                return None
            found[own, own] += parameters[k] * part
            k += 1
    return found if k == len(parameters) else None


def _agree(whole: np.ndarray, covariance: np.ndarray, scale: float | None) -> bool:
    """Whether `Vp (X'X + S) = scale`: a fit of other penalties, or whose factor is another one, is none of these."""
    if covariance.shape != whole.shape or not scale or not np.isfinite(covariance).all():
        return False
    size = np.sqrt(np.diag(covariance))
    apart = (covariance @ whole / scale - np.eye(len(whole))) * size[None, :] / np.where(size > 0, size, 1)[:, None]
    return bool(np.abs(apart).max() <= _CLOSED)
