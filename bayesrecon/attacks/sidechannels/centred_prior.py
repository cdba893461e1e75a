"""Means of covariates from the log prior of a centred intercept.

Programs of brms centre the covariates. The prior is on `alpha = b_0 + sum_j m_j b_j`, where m are the means of the
private design, and `b_0` is released. Draws have `lprior`, the log prior. All of its terms are known at every draw
except for `log t(alpha | nu, location, scale)`. With `u = b_0 - location`, the equation

    scale^2 nu (exp(-2 (log t - c) / (nu + 1)) - 1) = (u + sum_j m_j b_j)^2
                                                    = u^2 + 2 sum_j m_j u b_j + sum_jk m_j m_k b_j b_k

is linear in the means and their products. They are determined if there are as many draws as unknowns.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

INTERCEPT, SLOPES, PRIOR = "b_Intercept", "b_", "lprior"
"""Names that brms gives to the released intercept, to the slopes, and to the log prior."""

_TERM = re.compile(
    r"lprior \+= student_t_lpdf\((\w+) \| ([\d.]+), (-?[\d.]+), ([\d.]+)\)"
    r"(?:\s*- (\d+) \* student_t_lccdf\(0 \| [\d.]+, -?[\d.]+, [\d.]+\))?;"
)
_EXACT = 1e-6  # largest relative residual of an exact relation
_LEAST = 1e-3  # draws with a smaller relative root are left out, because it has lost its digits


@dataclass(frozen=True, eq=False)
class Means:
    """Means of covariates.

    Attributes:
        names: names of the slopes of the covariates.
        values: `(p,)` the means.
        errors: `(p,)` differences between the two halves of the draws.
    """

    names: tuple[str, ...]
    values: np.ndarray
    errors: np.ndarray


def means_by_prior(program: str, draws: Mapping[str, np.ndarray]) -> Means | None:
    """Means of the covariates; None if the program has another prior, or the draws do not obey it.

    Args:
        program: Stan program of brms, with its default priors or other Student's t distributions.
        draws: `{name: (T,)}`, with the names of brms.
    """
    terms = _TERM.findall(program)
    from scipy import stats

    names = tuple(name for name in draws if name.startswith(SLOPES) and name != INTERCEPT)
    complete = program.count("lprior +=") == len(terms) and INTERCEPT in draws and PRIOR in draws
    if not complete or not names or [term[0] for term in terms].count("Intercept") != 1:
        return None
    remaining = np.array(draws[PRIOR], float)
    prior: tuple[float, float, float] = (0.0, 0.0, 1.0)
    for variable, *numbers, cut in terms:
        nu, location, scale = (float(x) for x in numbers)
        if variable == "Intercept":
            prior = nu, location, scale
            continue
        released = [variable] if variable in draws else []
        if re.fullmatch(r"sd_\d+", variable):  # released by the names of their groups
            released = [name for name in draws if name.startswith("sd_")]
        if not released or (released != [variable] and sum(term[0].startswith("sd_") for term in terms) > 1):
            return None
        remaining = remaining - sum(stats.t.logpdf(draws[name], nu, location, scale) for name in released)
        remaining = remaining + (int(cut) * stats.t.logsf(0.0, nu, location, scale) if cut else 0.0)
    return _solved(
        remaining, prior, np.array(draws[INTERCEPT], float), np.column_stack([draws[name] for name in names]), names
    )


def prior_of_intercept(program: str) -> tuple[float, float, float] | None:
    """Degrees of freedom, location and scale of the prior of the centred intercept, if it is a Student's t.

    >>> prior_of_intercept("lprior += student_t_lpdf(Intercept | 3, 50, 10);")
    (3.0, 50.0, 10.0)
    """
    terms = [t for t in _TERM.findall(program) if t[0] == "Intercept"]
    if len(terms) != 1:
        return None
    nu, location, scale = (float(x) for x in terms[0][1:4])
    return nu, location, scale


def means_from_log_prior(
    program: str, draws: Mapping[str, np.ndarray], at_location: np.ndarray, slopes: Sequence[str]
) -> Means | None:
    """The same as `means_by_prior`, from the log prior with the intercept at its location.

    Args:
        at_location: `(T,)` log prior at each draw, with the intercept replaced by its location.
        slopes: names of the slopes of centred covariates.
    """
    from scipy import stats

    prior = prior_of_intercept(program)
    if prior is None or not slopes or not {INTERCEPT, PRIOR, *slopes} <= draws.keys():
        return None
    nu, location, scale = prior
    remaining = np.asarray(draws[PRIOR], float) - at_location + stats.t.logpdf(location, nu, location, scale)
    table = np.column_stack([draws[n] for n in slopes])
    return _solved(remaining, prior, np.array(draws[INTERCEPT], float), table, tuple(slopes))


def _solved(
    residual: np.ndarray,
    prior: tuple[float, float, float],
    intercept: np.ndarray,
    slopes: np.ndarray,
    names: tuple[str, ...],
) -> Means | None:
    from scipy import stats

    nu, location, scale = prior
    count, p = slopes.shape
    square = scale**2 * nu * np.expm1(-2 * (residual - stats.t.logpdf(0.0, nu, 0.0, scale)) / (nu + 1))
    u = intercept - location
    row, column = np.triu_indices(p)
    features = np.column_stack(
        [2 * u[:, None] * slopes, slopes[:, row] * slopes[:, column] * np.where(row == column, 1, 2)]
    )
    if count < 2 * (features.shape[1] + 2) or not np.isfinite(square).all():
        return None
    norms = np.linalg.norm(features, axis=0)
    if not (norms > 0).all():
        return None
    means = (np.linalg.lstsq(features / norms, square - u**2, rcond=None)[0] / norms)[:p]
    # With its sign known, the root is linear in the means.
    centred = u + slopes @ means
    root = np.sign(centred) * np.sqrt(np.maximum(square, 0.0))
    usable = np.abs(root) > _LEAST * np.abs(root).max(initial=0.0)
    if usable.sum() < 2 * (p + 2):
        return None
    slopes, target = slopes[usable], (root - u)[usable]
    result = np.linalg.lstsq(slopes, target, rcond=None)[0]
    if np.std(target - slopes @ result) > _EXACT * np.std(root[usable]):
        return None
    halves = [np.linalg.lstsq(slopes[k::2], target[k::2], rcond=None)[0] for k in (0, 1)]
    return Means(names, result, np.abs(halves[0] - halves[1]))
