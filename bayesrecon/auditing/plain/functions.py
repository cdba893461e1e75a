"""Arrays that are smooth functions of the other draws: fitted means, likelihoods, log densities, and ratios of these.

A polynomial of the other draws is fitted to half of the draws and tested on the rest. Of noise, and of parameters that
are only correlated, a part stays unexplained at every degree. Of a smooth function this part shrinks with the degree.
The gradients at the centre then say what the columns of an array are. Where they point in different directions, each
column has covariates of its own, so that the columns are records.
"""

import math
from itertools import combinations_with_replacement

import numpy as np

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.plain.combinations import are_labelled, arrays_of
from bayesrecon.auditing.sensitive_values import DRAWS, PASS_A_MODEL, parameters_of, sensitive_values
from bayesrecon.auditing.severity import ROWS, of_rows
from bayesrecon.auditing.wording import places, to_drop
from bayesrecon.posteriors.contents import WIDE, Variable
from bayesrecon.results.findings import Finding, NotRun

NAME = "functions of the draws"
_MOST_PARAMETERS, _MOST_TERMS, _MOST_COLUMNS = 20, 500, 400  # largest size of a fit, which takes a second
_PER_TERM = 4  # draws per term of a polynomial, half of which are for the fit
# Unexplained share of a function: at most, relative to a plane's, and at once.
_LEFT, _SHRINKS, _EXACT = 0.05, 0.3, 1e-8
_PEAKED, _STRAIGHT = 0.25, 0.5  # of a log density: unexplained share at most by a polynomial, at least by a plane
_QUANTILE = 0.75  # of errors, because a polynomial is wrong for the most distant draws
_DEPENDENT = 1e-10  # part of a term that the terms before it do not explain, such as the square of zeros and ones
_NEAR = 0.02  # differences between directions that are errors of the fit
_SMOOTH = 0.3  # second differences of the directions along a grid, relative to first differences

Fit = tuple[np.ndarray, np.ndarray]
"""Unexplained shares `(degrees, N)` of N columns, and slopes `(N, d)` at the centre."""


class _Polynomials:
    """Polynomials of degree one, two and three in the parameters `(T, d)`, fitted to half of the draws."""

    def __init__(self, pool: np.ndarray, rng: np.random.Generator) -> None:
        (count, size), self.pool = pool.shape, pool
        z, terms, sizes = (pool - pool.mean(axis=0)) / pool.std(axis=0) if size else pool, [np.ones(count)], list[int]()
        for degree in (1, 2, 3):
            more = math.comb(size + degree - 1, degree)
            if not more or _PER_TERM * (len(terms) + more) > count or more > _MOST_TERMS:
                break
            terms += [z[:, k].prod(axis=1) for k in map(list, combinations_with_replacement(range(size), degree))]
            sizes.append(len(terms))
        self.solvers: list[tuple[np.ndarray, ...]] = []  # of each degree, two factors of its loadings, and its terms
        if len(sizes) < 2:  # there are too few draws
            return
        order, whole = rng.permutation(count), np.column_stack(terms)
        self.fit, self.test = order[: count // 2], order[count // 2 :]
        if not np.isfinite(whole).all():
            raise FloatingPointError("products of the draws overflow")
        (q, r), lengths = np.linalg.qr(whole[self.fit]), np.linalg.norm(whole[self.fit], axis=0)
        independent = np.abs(np.diag(r)) > _DEPENDENT * lengths
        if not independent.all():
            q, r = np.linalg.qr(whole[np.ix_(self.fit, independent)])
        self.linear, held = independent[1 : size + 1], whole[np.ix_(self.test, independent)]
        for most in (int(independent[:k].sum()) for k in sizes):
            self.solvers.append((q[:, :most].T, np.linalg.inv(r[:most, :most]), held[:, :most]))

    def fitted(self, columns: np.ndarray) -> Fit | None:
        """Fits of columns `(T, N)`; None if there are too few draws for degree two."""
        if not self.solvers:
            return None
        columns = columns[:, :_MOST_COLUMNS]
        spread = columns.std(axis=0)
        values = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        if not np.isfinite(values).all():
            raise FloatingPointError("the spread of a column overflows")
        left, slopes = list[np.ndarray](), np.zeros((columns.shape[1], self.pool.shape[1]))
        for q, inverse, terms in self.solvers:
            loadings = inverse @ (q @ values[self.fit])
            left.append(np.quantile(np.abs(values[self.test] - terms @ loadings), _QUANTILE, axis=0))
            slopes[:, self.linear] = loadings[1 : self.linear.sum() + 1].T
        left = np.array(left) / np.quantile(np.abs(values[self.test]), _QUANTILE, axis=0)
        return left**2, slopes * spread[:, None] / self.pool.std(axis=0)


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings on arrays whose columns are records, and on scalars that follow the draws as log densities do."""
    polynomials, candidates, untried = _pool(look)
    related, scalars, findings = [], [], []
    for variable, values in candidates:
        fit = None if look.model is not None and untried else polynomials.fitted(values)
        if fit is None:
            untried += [variable.where] * (variable.group == "posterior")
        elif values.shape[1] > 1:
            related.append((variable, _slopes(fit)))
        elif (look.model is None and _is_peaked(fit)) or _is_ratio(look, polynomials.pool, variable, values):
            findings.append(_density(variable))
        elif len(_slopes(fit)):
            scalars.append((variable, _slopes(fit)))
    notes = [NotRun("log densities", "no model was given", PASS_A_MODEL, f.where) for f in findings if not look.model]
    if len(scalars) >= ROWS:
        findings += _of_records([v for v, _ in scalars], np.concatenate([slopes for _, slopes in scalars]))
    for variable, slopes in related:
        findings += [] if are_labelled(look, variable) else _of_records([variable], slopes)
    stated = parameters_of(look.model) or set()
    where = tuple(w for w in untried if w.removeprefix("posterior/") not in stated)
    if where and (look.model is None or stated):
        reason = f"it needs at most {_MOST_PARAMETERS} parameters and {_PER_TERM} draws for each term of a polynomial"
        notes.append(NotRun(NAME, reason, f"drop {places(where, 3)}", where))
    return findings, notes


def _pool(look: Look) -> tuple[_Polynomials, list[tuple[Variable, np.ndarray]], list[str]]:
    """Polynomials in the parameters, arrays that may be functions of these, and arrays too large for parameters.

    Without a model, each array that is no function of smaller ones is a parameter.
    """
    known = {where for f in sensitive_values(look.contents, look.model) if f.kind != DRAWS for where in f.where}
    arrays = [(v, values) for v, values in arrays_of(look) if v.group not in WIDE and v.where not in known]
    drawn = sorted((a for a in arrays if look.is_parameter(a[0])), key=lambda pair: pair[1].shape[1])
    others = [(v, values) for v, values in arrays if not look.is_parameter(v)]
    stated = look.model is not None and look.model.prepare is None
    polynomials = _Polynomials(np.zeros((len(arrays[0][1]) if arrays else 0, 0)), look.rng)
    untried: list[str] = []
    for variable, values in drawn:
        pool, fit = polynomials.pool, None if stated else polynomials.fitted(values)
        if fit is not None and (2 * len(_slopes(fit)) > values.shape[1] or _is_peaked(fit)):
            others.append((variable, values))
        elif pool.shape[1] + values.shape[1] <= _MOST_PARAMETERS:
            polynomials = _Polynomials(np.column_stack([pool, *map(_symmetric, values.T)]), look.rng)
        else:
            untried.append(variable.where)
    return polynomials, others, untried


def _symmetric(values: np.ndarray) -> np.ndarray:
    """The values, or their logarithms if they are positive and these are less skewed."""
    both = (values, np.log(values)) if (values > 0).all() else (values,)
    return min(both, key=lambda v: abs(np.mean((v - v.mean()) ** 3)) / v.std() ** 3)


def _slopes(fit: Fit) -> np.ndarray:
    """Slopes of the columns that are smooth functions."""
    left, slopes = fit
    least = left.min(axis=0)
    return slopes[(least < _EXACT) | ((least < _LEFT) & (least < _SHRINKS * left[0]))]


def _is_peaked(fit: Fit) -> bool:
    """Whether a scalar has its extreme value among the draws, as a log density does."""
    left = fit[0]
    return left.shape[1] == 1 and bool(left.min() < _PEAKED and left[0, 0] > _STRAIGHT)


def _is_ratio(look: Look, pool: np.ndarray, variable: Variable, values: np.ndarray) -> bool:
    """Whether a statistic of a sampler is a function of a draw and the one before, such as a ratio of densities."""
    if variable.group != "sample_stats" or look.contents.draws is None or not (values > 0).all():
        return False
    chains = look.contents.draws.chains
    if len(values) != chains * look.contents.draws.length:
        return False
    first = np.arange(len(values)) % (len(values) // chains) == 0
    after, before = np.flatnonzero(~first), np.flatnonzero(~first) - 1
    fit = _Polynomials(np.column_stack([pool[after], pool[before]]), look.rng).fitted(np.log(values[after]))
    return fit is not None and len(_slopes(fit)) == 1


def _of_records(variables: list[Variable], slopes: np.ndarray) -> list[Finding]:
    """The finding on columns with these slopes, unless they are levels, points of a grid, or functions of one sum."""
    size = np.abs(slopes).max(axis=1, initial=0)
    slopes = slopes[size > 0] / size[size > 0, None]
    if len(slopes) < 2:
        return []
    first = np.abs(slopes).min(axis=0).argmax()  # such as an intercept, on which all columns depend
    scaled = slopes * np.sign(slopes[:, [first]])
    plain = np.abs(scaled - np.round(scaled)) < _NEAR
    distinct = len(np.unique(np.round(scaled / _NEAR), axis=0))
    repeated = 2 * distinct <= len(scaled)
    own = len(np.unique(np.abs(scaled).argmax(axis=1))) == len(scaled)  # each column has a parameter of its own
    if distinct < 2 or own or (plain.all() and not repeated) or _is_grid(slopes / slopes[:, [first]]):
        return []
    count, where = len(scaled) if repeated else distinct, tuple(v.where for v in variables)
    title = f"{places(where, 3)}: {len(scaled)} columns are functions of the draws, each with covariates of its own"
    summary = (
        f"each column is a smooth function of the other draws; their gradients have {distinct} directions, which are "
        "the covariates of single records up to a factor"
    )
    return [to_drop(NAME, of_rows(count) or "medium", title, where, summary, "the draws of the parameters")]


def _is_grid(directions: np.ndarray) -> bool:
    """Whether directions follow a line or a curve in small steps, as those of predictions along a grid do.

    >>> ages = np.array([41.0, 17.0, 63.0, 28.0, 35.0, 52.0, 44.0])
    >>> [_is_grid(np.column_stack([np.ones(7), x])) for x in (np.linspace(0, 1, 7), ages / 63)]
    [True, False]
    """
    if len(directions) < ROWS:
        return False
    steps = np.diff(directions, axis=0)
    return bool(np.median(np.abs(np.diff(steps, axis=0)).max(axis=1)) < _SMOOTH * np.median(np.abs(steps).max(axis=1)))


def _density(variable: Variable) -> Finding:
    title = f"{variable.where} follows the other draws as a log density does"
    summary = "with the model, it gives the number of records and their moments"
    return to_drop("log-density", "medium", title, (variable.where,), summary, "the model and its prior")


CHANNEL = Channel(NAME, find, 35)
