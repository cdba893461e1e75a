"""Generalised linear mixed models of lme4: totals of groups, from the modes of the random effects.

Let `b = theta u` be the effects of the levels of a factor on the intercept. With the canonical link, the mode of u
satisfies `theta sum_{n in g} (y_n - mu_n) = u_g` (Bates et al. 2015, Fitting linear mixed-effects models using lme4;
the same for any quadrature). If the intercept is the only coefficient, mu is one number for each level. The number of
records and their total response, both integers, then follow from it:

    sum_{n in g} y_n = n_g mu_g + u_g / theta.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bayesrecon.posteriors.printed.estimates_in_files import Estimates, Statistic, exactly, field_name
from bayesrecon.posteriors.r.code import code_of
from bayesrecon.posteriors.r.parts import labels_of, unknown_weights, vector_of
from bayesrecon.posteriors.r.places import Place
from bayesrecon.posteriors.r.r_objects import RObjects

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
        return Estimates(place.where, description, (place.where,), unsupported=unsupported)
    factors = _factors(objects, node)
    if not factors:
        reason = f"{_INTEGRAL}; the modes of its group effects, which give totals of groups, are missing or zero"
        return Estimates(place.where, description, (place.where,), unsupported=reason)
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
    known = {name: objects.texts(objects.attributes(child).get("levels", 0)) for name, child in _levels(objects, node)}
    result = []
    for (name, _), ratio, low, high in zip(terms, ratios.tolist(), bounds[:-1], bounds[1:], strict=True):
        factor_modes = modes[int(low) : int(high)]
        levels = known.get(name, [])
        levels = levels if len(levels) == len(factor_modes) else [f"level {k + 1}" for k in range(len(factor_modes))]
        if abs(ratio) > _ZERO:
            result.append(_Factor(field_name(name), levels, factor_modes, ratio))
    return result


def _levels(objects: RObjects, node: int) -> list[tuple[str, int]]:
    at = objects.element(node, "@flist")
    return objects.elements(at) if at else []


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
    products = np.asarray(objects.array(objects.element(node, "@pp", "@.xData", ".->VtV")), float)
    p = len(labels)
    if not step < _FAR or not p or products.shape != (p, p) or not np.isfinite(products).all() or len(set(labels)) < p:
        return
    for i in range(p):
        for j in range(i, p):
            factors = [name for name in (labels[i], labels[j]) if name != "const"]
            off = step * math.sqrt(abs(products[i, i] * products[j, j]))
            name = "sum(" + " * ".join(["variance of the response", *factors]) + ")"
            yield Statistic(name, products[i, j], products[i, j] - off, products[i, j] + off)
