"""Estimates of R's fits: coefficients and covariances of supported fits, and the places of other fits."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bayesrecon.posteriors.printed.estimates_in_files import WEIGHTED, Estimates, Statistic, exactly, field_name
from bayesrecon.posteriors.r.additive import additive
from bayesrecon.posteriors.r.cox import cox
from bayesrecon.posteriors.r.known_names import FITS, REASONS
from bayesrecon.posteriors.r.nonlinear import nonlinear
from bayesrecon.posteriors.r.parts import (
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
from bayesrecon.posteriors.r.r_objects import Place, PlaceWalk, RObjects, code_of

# Generalised linear mixed models of lme4: totals of groups, from the modes of the random effects.
#
# Let `b = theta u` be the effects of the levels of a factor on the intercept. With the canonical link, the mode of u
# satisfies `theta sum_{n in g} (y_n - mu_n) = u_g` (Bates et al. 2015, Fitting linear mixed-effects models using lme4;
# the same for any quadrature). If the intercept is the only coefficient, mu is one number for each level. The number of
# records and their total response, both integers, then follow from it:
#
#     sum_{n in g} y_n = n_g mu_g + u_g / theta.

_STOPS = 1e-7  # lme4's `tolPwrss`: relative decrease of the penalised sum of squares in the last step
_MODE = 1e-6  # largest error of the equation of a group, in records, one Newton step later
_FAR = 0.1  # largest step of the predictors with which weights are reported
_CHANCE = 0.01  # largest probability that a number of records fits by chance
_MOST = 100_000  # largest size of a group that is tried
_LARGEST = 100.0  # largest absolute predictor of a group
_ZERO = 1e-4  # ratio of standard deviations below which the model is at its boundary
_CANONICAL = {"binomial": "logit", "poisson": "log"}
_FAMILY = re.compile(r'^"?(?:stats::)?(binomial|poisson)"?(?:\((?:link\s*=\s*)?"?(logit|log)?"?\))?$')
_INTEGRAL = (
    "its coefficients maximise an integral over the effects of groups, approximated, which is no sum over records"
)


@dataclass(frozen=True, eq=False)
class _Factor:
    """A factor with random intercepts: its levels, the mode of `u` for each, and `theta`."""

    name: str
    levels: list[str]
    modes: np.ndarray
    ratio: float


def generalised(objects: RObjects, place: Place, description: str) -> Estimates:
    """Statistics if the object has the modes of its group effects; its coefficients alone give none."""
    node = place.node
    unsupported = _unsupported_option(objects, node)
    if unsupported:
        return not_attacked(place, description, unsupported)
    factors = _factors(objects, node)
    if not factors:
        reason = f"{_INTEGRAL}; the modes of its group effects, which give totals of groups, are missing or zero"
        return not_attacked(place, description, reason)
    family, response = _family(objects, node), _response(objects, node)
    statistics = tuple(_of_groups(objects, node, factors, family, response))
    because = (
        "the modes of its effects balance what is observed and fitted in each group, sum(y - fitted) = u / theta; "
        f"its coefficients alone determine nothing: {_INTEGRAL}"
    )
    return Estimates(place.where, description, (place.where,), statistics=statistics, because=because)


def _unsupported_option(objects: RObjects, node: int) -> str:
    """The reason why a fit is not supported; empty if it is."""
    if objects.element(node, "coefficients"):
        return f"{_INTEGRAL}; its summary has no modes of its effects, which would tell totals of groups"
    if not _family(objects, node):
        return f"{_INTEGRAL}; its family is not binomial or Poisson with the canonical link"
    call = objects.element(node, "@call")
    if "tolPwrss" in code_of(objects, call).text:
        return "it was fitted with a tolerance of its own"
    return unknown_weights(objects, node, "@call")


def _family(objects: RObjects, node: int) -> str:
    """Name of the family, from the object that stores it or from the call; empty if it is not supported."""
    family = objects.element(node, "@resp", "@.xData", ".->family")
    if family:
        name, link = (" ".join(objects.texts(objects.element(family, k))[:1]) for k in ("family", "link"))
        return name if _CANONICAL.get(name) == link else ""
    call = objects.element(node, "@call")
    arguments = dict(objects.elements(call)) if objects.kind(call) == "call" else {}
    if "family" not in arguments:
        return ""
    family = arguments["family"]
    is_text = objects.kind(family) == "text" and objects.size(family)
    text = f'"{objects.texts(family)[0]}"' if is_text else code_of(objects, family).text
    match = _FAMILY.match(text)
    return match[1] if match and match[2] in (None, _CANONICAL[match[1]]) else ""


def _response(objects: RObjects, node: int) -> str:
    formula = objects.element(node, "@call", "formula")
    parts = objects.elements(formula) if objects.kind(formula) == "call" else []
    return field_name(code_of(objects, parts[1][1]).text[:40]) if len(parts) == 3 else "y"


def _factors(objects: RObjects, node: int) -> list[_Factor]:
    """Factors with a random intercept only, whose `theta` is one number."""
    terms = objects.elements(objects.element(node, "@cnms"))
    if not terms or any(objects.texts(child) != ["(Intercept)"] for _, child in terms):
        return []
    modes, ratios, bounds = (vector_of(objects, node, f"@{name}") for name in ("u", "theta", "Gp"))
    if len(ratios) != len(terms) or len(bounds) != len(terms) + 1 or not np.isfinite([*ratios, *bounds]).all():
        return []
    if np.any(np.diff(bounds) < 1) or bounds[0] != 0 or bounds[-1] != len(modes) or not np.isfinite(modes).all():
        return []
    known = {
        name: objects.texts(objects.attributes(child).get("levels", 0))
        for name, child in objects.elements(objects.element(node, "@flist"))
    }
    result = []
    for (name, _), ratio, low, high in zip(terms, ratios.tolist(), bounds[:-1], bounds[1:], strict=True):
        factor_modes = modes[int(low) : int(high)]
        levels = known.get(name, [])
        levels = levels if len(levels) == len(factor_modes) else [f"level {k + 1}" for k in range(len(factor_modes))]
        if abs(ratio) > _ZERO:
            result.append(_Factor(field_name(name), levels, factor_modes, ratio))
    return result


def _of_groups(objects: RObjects, node: int, factors: list[_Factor], family: str, response: str) -> Iterator[Statistic]:
    dims = objects.element(node, "@devcomp", "dims")
    sizes = dict(zip(objects.names(dims), vector_of(objects, node, "@devcomp", "dims").tolist(), strict=False))
    n = sizes.get("n", math.nan)
    if math.isfinite(n):
        yield exactly("n", n)
    beta = vector_of(objects, node, "@beta")
    alone = len(factors) == len(objects.elements(objects.element(node, "@cnms"))) == 1 and len(beta) == 1
    if alone and math.isfinite(n):
        yield from _integer_pairs(factors[0], float(beta[0]), int(n), family, response)
    for factor in factors:
        for level, residual in zip(factor.levels, (factor.modes / factor.ratio).tolist(), strict=True):
            off = _MODE / min(1.0, abs(factor.ratio))
            yield Statistic(
                f"sum({response} - fitted)[{factor.name}={level}]", residual, residual - off, residual + off
            )
    cmp = objects.element(node, "@devcomp", "cmp")
    sums = dict(zip(objects.names(cmp), vector_of(objects, node, "@devcomp", "cmp").tolist(), strict=False))
    # The stored weights are those before the last step, whose length follows from the decrease of the sum of squares.
    step = 2 * max(factor.ratio for factor in factors) * math.sqrt(_STOPS * max(sums.get("pwrss", math.inf), 0.0))
    yield from _weighted_products(objects, node, labels_of(_columns(objects, node)), step)


def _integer_pairs(factor: _Factor, beta: float, n: int, family: str, response: str) -> Iterator[Statistic]:
    """Number of records and their total response in each group, if all are determined and the numbers sum to n."""
    q = len(factor.levels)
    most = min(n - q + 1, _MOST)
    off = _MODE / min(1.0, abs(factor.ratio))
    if most < 1 or 2 * off * most * q > _CHANCE:
        return
    pairs: list[tuple[int, int]] = []
    counts = np.arange(1, most + 1)
    for mode in factor.modes:
        eta = beta + factor.ratio * mode
        if not abs(eta) < _LARGEST:
            return
        mean = 1 / (1 + math.exp(-eta)) if family == "binomial" else math.exp(eta)
        total = counts * mean + mode / factor.ratio
        near = np.round(total)
        fits = (np.abs(total - near) <= off + 1e-9 * np.abs(total)) & (near >= 0)
        fits &= (near <= counts) if family == "binomial" else True
        if int(fits.sum()) != 1:
            return
        at = int(np.flatnonzero(fits)[0])
        pairs.append((int(counts[at]), int(near[at])))
    if sum(count for count, _ in pairs) != n:
        return  # some rows count several times, or there is an offset
    for level, (count, total) in zip(factor.levels, pairs, strict=True):
        cell = f"{factor.name}={level}"
        yield exactly(f"n[{cell}]", count)
        if family == "binomial":
            yield exactly(f"n[{cell},{response}=1]", total)
            yield exactly(f"n[{cell},{response}=0]", count - total)
        else:
            yield exactly(f"sum({response})[{cell}]", total)


def _columns(objects: RObjects, node: int) -> list[str]:
    return [*objects.axis_names(objects.element(node, "@pp", "@.xData", ".->X")), [], []][1]


def _weighted_products(objects: RObjects, node: int, labels: tuple[str, ...], step: float) -> Iterator[Statistic]:
    """Sums of products of the columns of the design, weighted with the fitted variance of the response.

    Args:
        step: largest change of the predictors since. The relative change of a weight is not larger.
    """
    products = matrix_of(objects, node, "@pp", "@.xData", ".->VtV")
    p = len(labels)
    if not step < _FAR or not p or products.shape != (p, p) or not np.isfinite(products).all() or len(set(labels)) < p:
        return
    for i in range(p):
        for j in range(i, p):
            factors = [name for name in (labels[i], labels[j]) if name != "const"]
            off = step * math.sqrt(abs(products[i, i] * products[j, j]))
            name = "sum(" + " * ".join(["variance of the response", *factors]) + ")"
            yield Statistic(name, products[i, j], products[i, j] - off, products[i, j] + off)


_TABLE = (
    "coefficients", "rank", "df.residual", "deviance", "aic", "null.deviance", "df.null", "iter", "R", "sigma", "df",
    "r.squared", "adj.r.squared", "fstatistic", "cov.unscaled", "cov.scaled", "dispersion", "assign", "qr/rank",
    "qr/tol", "control", "boundary",
)  # fmt: skip
_OF_MIXED = (
    "beta", "theta", "u", "lower", "devcomp", "optinfo", "coefficients", "vcov", "sigma", "logLik", "AICtab", "varcor",
    "ngrps", "pp@.xData", "resp@.xData/.->REML", "Gp",
)  # fmt: skip
"""Parts of a fit that follow from its table of estimates."""

_ITERATIVE, _EPSILON = ("logit", "poisson"), 1e-8  # kinds that are fitted in steps, and `glm.control`'s default
_PARTS = ("VtV", "RZX")
_SAMPLED = {
    "mcmc", "mcmc.list", "stanfit", "brmsfit", "stanreg", "CmdStanMCMC", "draws_array", "draws_df", "draws_matrix",
    "draws_list", "draws_rvars",
}  # fmt: skip
_SUMMARIES = "summaries of draws without the draws are not attacked by this version"
_OTHERS = "estimates of this kind of fit are not attacked by this version"

_KINDS: tuple[tuple[set[str], Callable[[RObjects, Place, str], Estimates]], ...] = (
    ({"glmerMod"}, generalised),
    ({"coxph"}, cox),
    ({"nls", "summary.nls"}, nonlinear),
)
"""Classes of fits with equations of their own, and the functions that read them."""


def estimates_of(walk: PlaceWalk) -> Iterator[Estimates]:
    """Estimates of each fit in a file that is not part of another one."""
    inside: set[int] = set()  # places in a fit; a place comes after its parent
    fits: list[Place] = []
    for place in walk:
        if place.parent is not None and id(place.parent) in inside:
            inside.add(id(place))
        elif place.kind in ("list", "object") and set(walk.objects.classes(place.node)) & set(FITS):
            inside.add(id(place))
            fits.append(place)
    for place in fits:
        yield _of(walk.objects, place)


def _of(objects: RObjects, place: Place) -> Estimates:
    classes = objects.classes(place.node)
    description = next(FITS[name] for name in classes if name in FITS)
    if set(classes) & _SAMPLED:
        return Estimates(place.where, description, (place.where,), unsupported=_SUMMARIES, of_draws=True)
    if {"lmerMod", "summary.merMod"} & set(classes) and "lmerModLmerTest" not in classes:
        return _mixed(objects, place, description)
    for kinds, read in ((("glm",), _glm), (("lm",), _lm), (("summary.glm",), _summary), (("summary.lm",), _summary)):
        if set(kinds) & set(classes) and not {"gam", "mlm", "rlm", "negbin"} & set(classes):
            return read(objects, place, description)
    if "gam" in classes:
        return additive(objects, place, description)
    reason = next((REASONS[name] for name in classes if name in REASONS), _OTHERS)
    if "randomForest" in classes:
        return forest(objects, place, description, reason)
    for kinds, read in _KINDS:
        if kinds & set(classes):
            return read(objects, place, description)
    return not_attacked(place, description, reason)


def _lm(objects: RObjects, place: Place, description: str) -> Estimates:
    node = place.node
    degrees, rank = one_number(objects, node, "df.residual"), one_number(objects, node, "rank")
    residuals = finite_vector_of(objects, node, "residuals")
    if not len(residuals) and rank is not None:  # rotated, the same length
        residuals = finite_vector_of(objects, node, "effects")[int(max(rank, 0)) :]
    unsupported = WEIGHTED if objects.size(objects.element(node, "weights")) else unknown_weights(objects, node)
    scale = float(residuals @ residuals) / degrees if len(residuals) and degrees and degrees > 0 else np.nan
    unscaled = _unscaled(objects, node)
    if not np.isfinite(scale):
        unsupported = unsupported or "neither residuals nor effects nor a residual variance are in it"
        scale = 1.0
    return _estimates(objects, place, description, "ols", unscaled, scale, unsupported)


def _glm(objects: RObjects, place: Place, description: str) -> Estimates:
    node = place.node
    kind, unsupported = family_of(objects, node)
    weights = finite_vector_of(objects, node, "prior.weights")
    if len(weights):
        unsupported = unsupported or ("" if np.all(weights == 1) else "the fit has weights, or several trials a row")
    else:
        unsupported = unsupported or unknown_weights(objects, node)
    degrees, deviance = one_number(objects, node, "df.residual"), one_number(objects, node, "deviance")
    scale = 1.0
    if kind == "ols":
        scale = deviance / degrees if deviance is not None and degrees else np.nan
        if not np.isfinite(scale):
            scale, unsupported = 1.0, unsupported or "the residual variance is not in it"
    result = _estimates(objects, place, description, kind, _unscaled(objects, node), scale, unsupported)
    return replace(result, last_step=last_step_of(objects, node, _EPSILON) if kind in _ITERATIVE else 0.0)


def _summary(objects: RObjects, place: Place, description: str) -> Estimates:
    node = place.node
    unscaled = matrix_of(objects, node, "cov.unscaled")
    unscaled = unscaled if unscaled.ndim == 2 and unscaled.shape[0] == unscaled.shape[1] else None
    if objects.element(node, "family"):
        kind, unsupported = family_of(objects, node)
        scale = one_number(objects, node, "dispersion") or 1.0
    else:
        kind, sigma = "ols", one_number(objects, node, "sigma")
        unsupported, scale = ("", sigma**2) if sigma else ("the residual variance is not in it", 1.0)
    result = _estimates(
        objects, place, description, kind, unscaled, scale, unsupported or unknown_weights(objects, node)
    )
    return replace(result, last_step=last_step_of(objects, node, _EPSILON) if kind in _ITERATIVE else 0.0)


def _mixed(objects: RObjects, place: Place, description: str) -> Estimates:
    """Estimates of a linear mixed model of lme4, given the distribution of the random effects.

    `(X' V^-1 X)^-1` equals `(V'V - RZX' RZX)^-1`, whose matrices the fit stores.
    """
    node = place.node
    counts, sums = (_by_name(objects, node, part) for part in ("dims", "cmp"))
    rows, variance = counts.get("n", 0.0), sums.get("pwrss", np.nan) / max(counts.get("n", 0.0), 1.0)
    if counts.get("GLMM", 1.0) or counts.get("NLMM", 1.0) or not variance > 0:
        return generalised(objects, place, description)
    if objects.element(node, "coefficients"):  # a summary
        table = matrix_of(objects, node, "coefficients")
        names = [*objects.axis_names(objects.element(node, "coefficients")), []][0]
        values = table[:, 0] if table.ndim == 2 else table
        unscaled = vector_of(objects, node, "vcov", "@x") / sums.get("sigmaREML", np.nan) ** 2
        unscaled = unscaled * (1.0 if counts.get("REML") else sums["sigmaREML"] ** 2 / variance)
        groups = vector_of(objects, node, "ngrps")
        call = "call"
    else:
        fields = objects.element(node, "@pp", "@.xData")
        values, names = vector_of(objects, node, "@beta"), _columns(objects, node)
        unscaled = _unscaled_given_effects(*(matrix_of(objects, fields, f".->{k}") for k in _PARTS))
        levels = [child for _, child in objects.elements(objects.element(node, "@flist"))]
        groups = np.array([objects.size(objects.attributes(child).get("levels", 0)) for child in levels], float)
        call = "@call"
    unsupported = "" if len(groups) == 1 else "it does not have exactly one grouping factor"
    unsupported = unsupported or unknown_weights(objects, node, call)
    covariance = None
    if unscaled.size == len(values) ** 2 and np.isfinite(unscaled).all():
        covariance = unscaled.reshape(len(values), -1) * variance
    labels = labels_of(names)
    if len(labels) != len(values) or len(set(labels)) < len(labels) or not np.isfinite(values).all():
        unsupported = unsupported or "its coefficients do not have distinct names"
    places = tuple(f"{place.where}{sign}{name}" for name in _OF_MIXED for sign in "/@")
    result = Estimates(place.where, description, places, "mixed", labels, "response", values, covariance, variance)
    return replace(result, groups=int(groups[0]) if len(groups) == 1 else 0, rows=int(rows), unsupported=unsupported)


def _unscaled_given_effects(product: np.ndarray, across: np.ndarray) -> np.ndarray:
    """`(V'V - RZX' RZX)^-1`. Of `V'V`, only the upper triangle is stored."""
    if product.ndim != 2 or across.ndim != 2 or across.shape[1] != len(product) or len(set(product.shape)) > 1:
        return np.zeros(0)
    schur = np.triu(product) + np.triu(product, 1).T - across.T @ across
    inverse = inverse_of(schur)
    return np.zeros(0) if inverse is None else inverse


def _by_name(objects: RObjects, node: int, part: str) -> dict[str, float]:
    """Numbers of lme4's `devcomp` by their names."""
    numbers = objects.element(node, "devcomp", part) or objects.element(node, "@devcomp", part)
    values = np.ravel(objects.numbers(numbers)).astype(float)
    return dict(zip(objects.names(numbers), values.tolist(), strict=False))


def _estimates(
    objects: RObjects,
    place: Place,
    description: str,
    kind: str,
    unscaled: np.ndarray | None,
    scale: float,
    unsupported: str,
) -> Estimates:
    coefficients = objects.element(place.node, "coefficients")
    table = np.asarray(objects.array(coefficients), float)
    names = objects.names(coefficients) if table.ndim == 1 else [*objects.axis_names(coefficients), []][0]
    values = table if table.ndim == 1 else table[:, 0]
    places = tuple(f"{place.where}/{name}" for name in _TABLE)
    if not len(values) or len(names) != len(values):
        return Estimates(
            place.where, description, places, unsupported="its coefficients have no names" if len(values) else ""
        )
    if not np.isfinite(values).all():
        unsupported = unsupported or "some coefficients are missing because of collinearity"
    labels = labels_of(names)
    if len(set(labels)) < len(labels):
        unsupported = unsupported or "two coefficients have the same name"
    covariance = None
    if unscaled is not None and unscaled.shape == (len(values), len(values)) and np.isfinite(unscaled).all():
        covariance = (unscaled + unscaled.T) / 2 * (scale if kind == "ols" else 1.0)
    response = response_of(objects, place.node)
    return Estimates(
        place.where, description, places, kind, labels, response, values, covariance, scale, unsupported=unsupported
    )


def _unscaled(objects: RObjects, node: int) -> np.ndarray | None:
    """`(R'R)^-1` of the triangular factor of the (weighted) design, in the order of the coefficients."""
    stored = objects.element(node, "qr", "qr")
    factor = np.asarray(objects.array(stored or objects.element(node, "R")), float)
    if factor.ndim != 2 or not factor.size or factor.shape[0] < factor.shape[1]:
        return None
    p = factor.shape[1]
    triangle = np.triu(factor[:p])
    pivot = vector_of(objects, node, "qr", "pivot")
    if len(pivot) and not np.array_equal(pivot, np.arange(1, p + 1)):
        return None  # some columns are linearly dependent
    inverse = inverse_of(triangle)
    return None if inverse is None else inverse @ inverse.T


# Forests of classes of the package randomForest: how many records of each class there are.
#
# Rows of the confusion matrix count the records of a class that some tree did not draw. Each leaf of a tree drew at
# least one record of the class that it predicts, and no record twice: with k leaves and n records of a class, at least
# `2 k - n` of its leaves hold a single one of their class.

_DRAWN, _FEW_DRAWN = 0.65, 0.75  # bounds of the probability that a tree draws a record, if there are many and if few
_MANY, _IN_CLASS = 12, 5  # smallest number of records, and of each class, for the first: a tree draws two classes
_NEGLIGIBLE = 1e-6  # expected number of records that all trees drew, below which there are none
_OTHER_SAMPLING = {"sampsize", "replace", "strata", "keep.inbag", "..."}  # arguments that change how trees draw
_TERMINAL = -1
_BECAUSE = (
    "rows of its confusion matrix count the records of each class that a tree did not draw, and every leaf drew a "
    "record of its class"
)


def forest(objects: RObjects, place: Place, description: str, unsupported: str) -> Estimates:
    """Statistics of a classification forest; none for others."""
    statistics = tuple(_statistics(objects, place.node))
    return Estimates(
        place.where,
        description,
        (place.where,),
        statistics=statistics,
        because=_BECAUSE if statistics else "",
        unsupported=unsupported,
    )


def _statistics(objects: RObjects, node: int) -> Iterator[Statistic]:
    labels = objects.texts(objects.element(node, "classes"))
    if objects.texts(objects.element(node, "type")) != ["classification"] or len(set(labels)) < len(labels):
        return  # an unsupervised forest has classes of real and synthetic records
    counts = _counts(objects, node, "confusion", labels)
    least = _leaves(objects, node, len(labels))
    if counts is not None:
        complete = _every_record(objects, node, counts)
        for label, count in zip(labels, counts.tolist(), strict=True):
            yield Statistic(f"n[class={label}]", count if complete else None, count, count if complete else np.inf)
        total = float(counts.sum())
        yield Statistic("n", total if complete else None, total, total if complete else np.inf)
        if complete and least is not None:
            alone = np.maximum(2 * least - counts[None, :], 0).astype(int)
            t = int(alone.sum(axis=1).argmax())
            most = int(least[t].sum())
            if alone[t].any():
                yield Statistic(
                    f"leaves of tree {t + 1} with one record of their class", None, float(alone[t].sum()), most
                )
    elif least is not None:
        for label, count in zip(labels, least.max(axis=0).tolist(), strict=True):
            yield Statistic(f"n[class={label}]", None, float(count), np.inf)
    tested = _counts(objects, objects.element(node, "test"), "confusion", labels)
    if tested is not None:
        for label, count in zip(labels, tested.tolist(), strict=True):
            yield exactly(f"n[tested class={label}]", count)


def _counts(objects: RObjects, node: int, name: str, labels: list[str]) -> np.ndarray | None:
    """Sums of the rows of a confusion matrix; None if its last column is not the error of each class."""
    table, k = matrix_of(objects, node, name), len(labels)
    if k < 2 or table.shape != (k, k + 1) or np.any(table[:, :k] < 0) or np.any(table[:, :k] % 1):
        return None
    if not np.isfinite(table[:, :k]).all():
        return None
    counts = table[:, :k].sum(axis=1)
    right = np.diag(table[:, :k])
    full = counts > 0
    if not np.allclose(table[full, k], 1 - right[full] / counts[full], rtol=0, atol=1e-9):
        return None
    return counts


def _every_record(objects: RObjects, node: int, counts: np.ndarray) -> bool:
    """Whether the confusion matrix counts all records, because each was left out by some tree.

    A class with one record needs the larger bound: every tree draws a record of at least two classes.
    """
    counted = float(counts.sum())
    times = vector_of(objects, node, "oob.times")
    if len(times):
        return bool(np.all(times > 0)) and len(times) == counted
    call = objects.element(node, "call")
    if objects.kind(call) != "call":
        return False  # every tree may have drawn all records
    arguments = {name for name, _ in objects.elements(call)}
    trees = one_number(objects, node, "ntree")
    drawn = _DRAWN if counted >= _MANY and counts.min() >= _IN_CLASS else _FEW_DRAWN
    if trees is None or trees < 1 or arguments & _OTHER_SAMPLING or counts.min() < 1:
        return False
    return counted * drawn**trees < _NEGLIGIBLE


def _leaves(objects: RObjects, node: int, classes: int) -> np.ndarray | None:
    """Numbers of leaves `(trees, classes)` that predict each class; None if the forest was not saved."""
    trees = objects.element(node, "forest")
    status, predicted = (matrix_of(objects, trees, k) for k in ("nodestatus", "nodepred"))
    sizes = vector_of(objects, trees, "ndbigtree")
    if status.ndim != 2 or status.shape != predicted.shape or status.shape[1] != len(sizes) or not len(sizes):
        return None
    if not np.isfinite(sizes).all() or np.any((sizes < 1) | (sizes > len(status))):
        return None
    used = np.arange(len(status))[:, None] < sizes[None, :]
    ends = used & (status == _TERMINAL)
    if np.any(ends & ~np.isin(predicted, np.arange(1, classes + 1))) or np.any(~ends.any(axis=0)):
        return None
    return np.stack([(ends & (predicted == k + 1)).sum(axis=0) for k in range(classes)], axis=1)
