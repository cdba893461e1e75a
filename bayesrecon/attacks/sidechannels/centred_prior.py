"""Means of covariates from the values of a prior of a centred intercept.

Programs of brms centre the covariates: the prior is one of `alpha = b_0 + sum_j m_j b_j`, with m the means of the
private design, while `b_0` is released. Draws come with `lprior`, the log prior, whose other terms are known at every
draw. What is left is `log t(alpha | nu, location, scale)`, and with `u = b_0 - location`

    scale^2 nu (exp(-2 (log t - c) / (nu + 1)) - 1) = (u + sum_j m_j b_j)^2
                                                    = u^2 + 2 sum_j m_j u b_j + sum_jk m_j m_k b_j b_k

is linear in the means and their products: as many draws as unknowns tell them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

INTERCEPT, SLOPES, PRIOR = "b_Intercept", "b_", "lprior"
"""Names that brms gives to the released intercept, to the slopes, and to the log prior."""

_TERM = re.compile(
    r"lprior \+= student_t_lpdf\((\w+) \| ([\d.]+), (-?[\d.]+), ([\d.]+)\)"
    r"(?:\s*- (\d+) \* student_t_lccdf\(0 \| [\d.]+, -?[\d.]+, [\d.]+\))?;"
)
_EXACT = 1e-6  # of the spread of what is explained: what is left is rounding alone
_LEAST = 1e-3  # of the largest: draws whose root is so small lose its digits


@dataclass(frozen=True, eq=False)
class Means:
    """Means of covariates `(p,)` by the names of their slopes, and how far two halves of the draws lie apart."""

    names: tuple[str, ...]
    values: np.ndarray
    errors: np.ndarray


def means_by_prior(program: str, draws: Mapping[str, np.ndarray]) -> Means | None:
    """Means of the covariates; None if the program has another prior, or the draws do not obey it.

    Args:
        program: of brms, with its default priors or others that are Student's t distributions.
        draws: `{name: (T,)}`, as brms names them.

    >>> program = "lprior += student_t_lpdf(Intercept | 3, 50, 10);"
    >>> b, centred = np.linspace(1, 2, 20), 50 + np.linspace(-3, 4, 20)
    >>> prior = stats.t.logpdf(centred, 3, 50, 10)
    >>> found = means_by_prior(program, {"b_Intercept": centred - 7.5 * b, "b_x": b, "lprior": prior})
    >>> found.names, found.values.round(6).tolist()
    (('b_x',), [7.5])
    """
    terms = _TERM.findall(program)
    names = tuple(n for n in draws if n.startswith(SLOPES) and n != INTERCEPT)
    complete = program.count("lprior +=") == len(terms) and INTERCEPT in draws and PRIOR in draws
    if not complete or not names or [t[0] for t in terms].count("Intercept") != 1:
        return None
    remaining = np.array(draws[PRIOR], float)
    law: tuple[float, float, float] = (0.0, 0.0, 1.0)
    for variable, *numbers, cut in terms:
        nu, location, scale = (float(x) for x in numbers)
        if variable == "Intercept":
            law = nu, location, scale
            continue
        own = [variable] if variable in draws else []
        if re.fullmatch(r"sd_\d+", variable):  # released by the names of their groups
            own = [n for n in draws if n.startswith("sd_")]
        if not own or (own != [variable] and sum(t[0].startswith("sd_") for t in terms) > 1):
            return None
        remaining = remaining - sum(stats.t.logpdf(draws[n], nu, location, scale) for n in own)
        remaining = remaining + (int(cut) * stats.t.logsf(0.0, nu, location, scale) if cut else 0.0)
    return _solved(remaining, law, np.array(draws[INTERCEPT], float), np.column_stack([draws[n] for n in names]), names)


def law_of_intercept(program: str) -> tuple[float, float, float] | None:
    """Degrees of freedom, location and scale of Student's t distribution of the centred intercept, None for other
    priors.

    >>> law_of_intercept("lprior += student_t_lpdf(Intercept | 3, 50, 10);")
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
    """As `means_by_prior`, where the log prior at each draw with the intercept at its location `(T,)` is known.

    Args:
        slopes: names of the slopes of centred covariates.
    """
    law = law_of_intercept(program)
    if law is None or not slopes or not {INTERCEPT, PRIOR, *slopes} <= draws.keys():
        return None
    nu, location, scale = law
    remaining = np.asarray(draws[PRIOR], float) - at_location + stats.t.logpdf(location, nu, location, scale)
    table = np.column_stack([draws[n] for n in slopes])
    return _solved(remaining, law, np.array(draws[INTERCEPT], float), table, tuple(slopes))


def _solved(
    residual: np.ndarray,
    law: tuple[float, float, float],
    intercept: np.ndarray,
    slopes: np.ndarray,
    names: tuple[str, ...],
) -> Means | None:
    nu, location, scale = law
    count, p = slopes.shape
    square = scale**2 * nu * np.expm1(-2 * (residual - stats.t.logpdf(0.0, nu, 0.0, scale)) / (nu + 1))
    u = intercept - location
    row, column = np.triu_indices(p)
    features = np.column_stack(
        [2 * u[:, None] * slopes, slopes[:, row] * slopes[:, column] * np.where(row == column, 1, 2)]
    )
    if count < 2 * (features.shape[1] + 2) or not np.isfinite(square).all():
        return None
    size = np.linalg.norm(features, axis=0)
    if not (size > 0).all():
        return None
    first = (np.linalg.lstsq(features / size, square - u**2, rcond=None)[0] / size)[:p]
    # Once its sign is known, the root is linear.
    centred = u + slopes @ first
    root = np.sign(centred) * np.sqrt(np.maximum(square, 0.0))
    kept = np.abs(root) > _LEAST * np.abs(root).max(initial=0.0)
    if kept.sum() < 2 * (p + 2):
        return None
    slopes, wanted = slopes[kept], (root - u)[kept]
    result = np.linalg.lstsq(slopes, wanted, rcond=None)[0]
    if np.std(wanted - slopes @ result) > _EXACT * np.std(root[kept]):
        return None
    halves = [np.linalg.lstsq(slopes[k::2], wanted[k::2], rcond=None)[0] for k in (0, 1)]
    return Means(names, result, np.abs(halves[0] - halves[1]))
