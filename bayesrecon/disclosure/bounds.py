"""Bounds on a statistic that is only partly determined: all values that are consistent with a release.

The bounds are over all non-negative measures w on candidate records of a stated domain. In the directions that the
release resolves, the totals under w must match the target within its noise:

    | u_k' (e' w - target) | <= q   for all k,   u_k the whitened directions of the noise.

The width q is such that all inequalities hold together at the stated level (Bonferroni over the directions). It is a
little larger if the candidates, which are a sample, need it. For a variational fit, a mode with its covariance or a
summary of draws, q is given by the errors of the approximation, which nearly vanish at an optimum. For example, a mean
field fit of a regression determines five totals out of six, and the sixth is bounded by the domain.

Totals are linear in w. Means are linear-fractional, and become linear by the Charnes-Cooper transformation. A variance
is the smallest second moment about any centre. It is bounded from both sides by linear programs on a grid of centres.
"""

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
import scipy.optimize
import scipy.sparse
from scipy.special import ndtri

from bayesrecon.arrays import Key
from bayesrecon.disclosure.categories import counted
from bayesrecon.divergence.metrics import Metric
from bayesrecon.errors import BayesreconError, near
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.error_laws import SAMPLED, STATIONARY, ErrorLaw
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.estimation.statistics import Component, components
from bayesrecon.factors import stated_factors
from bayesrecon.knowledge import Knowledge, Knows
from bayesrecon.model import Progress, Records
from bayesrecon.releases import (
    EQUATIONS,
    LIMITED,
    Approximation,
    OptimisedFit,
    PosteriorDraws,
    Release,
    Summary,
    VariationalOptimum,
)
from bayesrecon.results.diagnosis import Bounds, Interval, Witness
from bayesrecon.stated_domains import domains_of
from bayesrecon.verbs.verb import verb

_CANDIDATES = 4500  # candidate records: with fewer, the intervals would exclude data sets that also fit
_PER_ROW, _MOST_CANDIDATES = 18, 2**14  # for each row of known fields, and in all
_MOST_GROUPS = 512  # of known rows whose numbers are constraints
_MOST_COUNTED = 50  # largest number of categories that are counted one by one: each takes two linear programs
_CENTRES = 9  # grid points for the centre of a second moment; the grid's step is allowed for
# If no measure on the candidates fits, the slack is widened to this multiple of the smallest one that fits, so that
# more than one measure does. Beyond the second number, a multiple of the slack at the stated level, the release is
# refused.
_MARGIN, _FARTHEST = 1.2, 3.0
_ROUNDING = 1e-13  # variances below this share of the largest are rounding
_MET = 1e-6  # relative tolerance of equations that have no error of their own
_TAKES = (PosteriorDraws, Approximation, VariationalOptimum, Summary, OptimisedFit)  # the size of their errors is known
_WHY = "the size of its equations' errors is not known in every direction; `recover` takes it"


@verb(_TAKES, uses=("known", "total", "domain", "factors"), instead=_WHY)
def bound(
    release: Release,
    *,
    model: object = None,
    level: float = 0.99,
    variances: bool = True,
    metric: Metric | str | None = None,
    force: bool = False,
    key: Key = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Bounds:
    """Intervals for n and for the means and variances of the unknown fields; for codes, the count of each.

    Args:
        release: posterior draws of `bayesrecon.posteriors`, or any object or file that holds draws, together with its
            `model`. Also a variational fit, a mode with its covariance or a summary of draws.
        model: for draws that do not name their model: a `Model`, the name of a shipped model, or a PyMC or Bambi model.
        variances: whether to bound variances as well. They take most of the time.
        level: probability that all intervals hold together, over the draws or over the errors of a fit.
        metric, force, key, progress: as in `recover`.
        knows: as in `recover`, without `unit`. `domain={field: domain}` is required for every unknown field, except for
            columns of `factors=`. The bounds hold for data inside the domain, and a wider domain gives wider bounds.

    Raises:
        BayesreconError: an unknown field has no domain, the release is a single trained parameter or a log density, the
            level is outside 0.5 to 1, or no data set on the domain fits the release.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> found = bayesrecon.bound(release, domain={"x": (-4, 4), "y": (-9, 9)}, variances=False)
    >>> found["n"].lower < 100 < found["n"].upper
    True
    """
    domain, known = knows.get("domain") or {}, knows.get("known") or {}
    if not 0.5 < level < 1:
        raise BayesreconError(f"level={level}: expected a probability between 0.5 and 1, e.g. 0.99")
    stated = domains_of(domain, release.model.fields)
    factors = stated_factors(knows.get("factors") or {}, list(release.model.fields))
    in_factors = {column for factor in factors for column in factor.columns}
    for name, spec in release.model.fields.items():
        if name not in stated and name not in known and name not in in_factors and spec.domain.kind not in ("levels",):
            raise BayesreconError(
                f"bounds need the domain of field {name!r}, which is not known (the model's: {spec.domain.words}): "
                f"domain={{{name!r}: (low, high)}}, on the command line --domain {name}=LOW:HIGH"
            )
    problem = solve_release(release, metric, key=key, progress=progress, **knows)
    program = _Program(problem, level)
    unknown = components(problem.knowledge.fields, list(problem.knowledge.known), {}, {})
    intervals = [Interval("n", *program.total(np.ones(program.size)))]
    categories, partly_determined = counted(problem.solved, problem.knowledge.fields, unknown)
    for component in unknown:
        indicators = (categories | partly_determined).get(component.name, [])
        if len(indicators) <= _MOST_COUNTED:
            intervals += [
                Interval(f"n{part.name}", *program.total(part.values(program.records))) for part in indicators
            ]
        if component.name in categories:
            continue
        mean = program.ratio(component.values(program.records))
        intervals.append(Interval(f"mean({component.name})", *mean))
        if variances:
            intervals.append(Interval(f"var({component.name})", *program.variance(component, mean)))
    ranges = {k: (d.levels or (d.low, d.high)) for k, d in ((k, f.domain) for k, f in problem.knowledge.fields.items())}
    return Bounds(release.name, level, ranges, tuple(intervals), problem.unfit, release.model.name, release.size)


class _Program:
    """The feasible measures, as linear constraints on weights over candidate records."""

    def __init__(self, problem: Problem, level: float):
        solved, embedding = problem.solved, problem.embedding
        self.records = _candidates(problem)
        cross = embedding.cross(solved.basis, self.records)
        noise, bounded, smallest = _ERRORS[solved.law](problem, cross)
        values, vectors = np.linalg.eigh(noise + bounded @ bounded.T / 3)
        # Directions far below the largest noise are rounding; the rest are measured in standard errors.
        resolved = values > smallest * values[-1]
        whiten = vectors[:, resolved] / np.sqrt(values[resolved])
        self.matrix, self.target = whiten.T @ cross.T, whiten.T @ solved.target
        quantile = -ndtri((1 - level) / (2 * len(self.target)))
        # Rounding errors are bounded, so they are added with their largest value and get no normal quantile.
        normal = np.sqrt(np.einsum("rk,rs,sk->k", whiten, noise, whiten, optimize=True)) if bounded.size else 1.0
        allowed = np.broadcast_to(quantile * normal + np.abs(whiten.T @ bounded).sum(axis=1), self.target.shape)
        self.size = cross.shape[0]
        self.equal, self.right = _counts(problem.knowledge, self.records)
        self.slack = allowed * max(1.0, _MARGIN * self._least_slack(allowed))

    def _least_slack(self, allowed: np.ndarray) -> float:
        """The smallest multiple of the allowed slack at which some measure on the candidates fits.

        It can exceed one, because the candidates are a sample.
        """
        ones = allowed[:, None]
        upper = np.concatenate([np.hstack([self.matrix, -ones]), np.hstack([-self.matrix, -ones])])
        limit = np.concatenate([self.target, -self.target])
        equal = scipy.sparse.hstack([self.equal, np.zeros((len(self.right), 1))], "csc")
        least, _ = self._solve(np.append(np.zeros(self.size), 1.0), upper, limit, equal, self.right)
        if least is None or least > _FARTHEST:
            raise BayesreconError(
                "no data set on this domain is consistent with the release: widen the domain, or the draws do not "
                "belong to the model"
            )
        return least

    def total(self, values: np.ndarray) -> tuple[float | None, float | None]:
        """Range of `sum_m w_m f(z_m)`."""
        upper = np.concatenate([self.matrix, -self.matrix])
        limit = np.concatenate([self.target + self.slack, -self.target + self.slack])
        return self._solve(values, upper, limit, self.equal, self.right)

    def ratio(self, values: np.ndarray) -> tuple[float | None, float | None]:
        """Range of `sum w f / sum w`: variables `v = t w` with `sum v = 1` and `t >= 0`."""
        upper = np.concatenate(
            [
                np.column_stack([self.matrix, -(self.target + self.slack)]),
                np.column_stack([-self.matrix, self.target - self.slack]),
            ]
        )
        one = np.append(np.ones(self.size), 0.0)[None]
        equal = scipy.sparse.vstack([one, scipy.sparse.hstack([self.equal, -self.right[:, None]])], "csc")
        right = np.append(1.0, np.zeros(len(self.right)))
        return self._solve(np.append(values, 0.0), upper, np.zeros(len(upper)), equal, right)

    def variance(
        self, component: Component, mean: tuple[float | None, float | None]
    ) -> tuple[float | None, float | None]:
        """Range of the variance, which is the smallest second moment about any centre."""
        low, high = mean
        if low is None or high is None:
            return None, None
        values = component.values(self.records)
        moments = [self.ratio((values - centre) ** 2) for centre in np.linspace(low, high, _CENTRES)]
        # A centre of the grid is off by at most `step`, so the second moment exceeds the variance by at most its
        # square.
        step = (high - low) / (_CENTRES - 1) / 2
        lowest = [m[0] for m in moments if m[0] is not None]
        highest = [m[1] for m in moments if m[1] is not None]
        lower = max(0.0, min(lowest) - step**2) if len(lowest) == _CENTRES else None
        return lower, min(highest) if highest else None

    def _solve(
        self, objective: np.ndarray, upper: np.ndarray, limit: np.ndarray, equal: Any, right: np.ndarray
    ) -> tuple[float | None, float | None]:
        # Columns scaled: HiGHS works with absolute tolerances. Where nothing is resolved there are no inequalities.
        scale = 1 / np.maximum(np.abs(upper).max(axis=0), 1e-12) if len(upper) else np.ones(len(objective))
        optima: list[float | None] = []
        for sign in (1.0, -1.0):
            solution = scipy.optimize.linprog(
                sign * objective * scale,
                A_ub=upper * scale,
                b_ub=limit,
                A_eq=equal @ scipy.sparse.diags(scale) if len(right) else None,
                b_eq=right if len(right) else None,
                bounds=(0, None),
                method="highs",
            )
            optima.append(None if solution.status == 3 or solution.fun is None else float(sign * solution.fun))
        return optima[0], optima[1]


def _of_draws(problem: Problem, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Errors of the target of posterior draws.

    Returns:
        Covariance `(r, r)`, bounded errors `(r, 0)`, and the share of the largest variance below which all is rounding.
    """
    noise = problem.solved.noise()
    return noise, np.zeros((len(noise), 0)), _ROUNDING


def _of_equations(problem: Problem, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Errors of the target of a trained parameter: as `_of_draws`, with bounded errors `(r, b)`.

    Args:
        cross: `(M, r)` the basis functions at the candidates. They set the scale of the tolerance.
    """
    solved, errors = problem.solved, problem.solved.errors
    records = abs(float(np.sum(solved.pseudo.weights)))
    noise = (_MET * max(1.0, records)) ** 2 * (cross.T @ cross) / len(cross)
    if errors is None:
        return noise, np.zeros((len(noise), 0)), 0.0
    features = solved.embedding.scores(solved.basis.records, np.array([0])) @ solved.basis.coefficients
    normal = features.T @ errors.normal
    return noise + normal @ normal.T, features.T @ np.column_stack([errors.bounded, errors.rule]), 0.0


_Errors = Callable[[Problem, np.ndarray], tuple[np.ndarray, np.ndarray, float]]
_ERRORS: dict[ErrorLaw, _Errors] = {SAMPLED: _of_draws, STATIONARY: _of_equations}


def _counts(knowledge: Knowledge, records: Records) -> tuple[Any, np.ndarray]:
    """What is known of the number of records: `(E, M)` indicators of the candidates, and the counts `(E,)`.

    They are the numbers of records with the same known values, of several neighbouring values if there are many, or
    the total.
    """
    if not knowledge.known:
        there = knowledge.total is not None
        return scipy.sparse.csc_matrix(np.ones((int(there), len(next(iter(records.values())))))), np.array(
            [knowledge.total] if there else [], float
        )
    tables = [
        np.column_stack([np.asarray(r[k], float).reshape(len(r[k]), -1) for k in knowledge.known])
        for r in (knowledge.known, records)
    ]
    distinct, row = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
    group = np.ravel(row) * min(len(distinct), _MOST_GROUPS) // len(distinct)
    stated, found = np.split(group, [len(tables[0])])
    present, column = np.unique(found, return_inverse=True)
    places = np.ravel(column), np.arange(len(found))
    equal = scipy.sparse.csc_matrix((np.ones(len(found)), places))
    return equal, np.bincount(stated, minlength=int(group.max()) + 1)[present].astype(float)


def _candidates(problem: Problem) -> Records:
    """Candidate records: some around the recovered data, and some over the whole domain."""
    rng, fields, known = problem.rng, problem.knowledge.fields, problem.knowledge.known
    count = max(_CANDIDATES, min(_PER_ROW * max((len(v) for v in known.values()), default=0), _MOST_CANDIDATES))
    # Wider than the recovered distribution: records in its tails need candidates near them, too.
    wider = {name: 1.4 * np.asarray(scale) for name, scale in problem.reference.scale.items()}
    near = Reference(fields, known, problem.reference.centre, wider).draw(rng, count * 2 // 3)
    candidates: Records = {}
    broad = Reference(fields, known).draw(rng, count // 3)
    for name, spec in fields.items():
        low, high = spec.domain.low, spec.domain.high
        bounded = name not in known and spec.domain.kind in ("interval", "integer") and np.isfinite(low + high)
        if bounded:
            values = np.linspace(low, high, len(broad[name])) if spec.shape == () else broad[name]
            values = rng.permutation(values) if spec.shape == () else values
            broad[name] = np.round(values).astype(np.int64) if spec.domain.kind == "integer" else values
        candidates[name] = np.concatenate([near[name], broad[name]])
    for factor in problem.knowledge.factors:  # columns of one variable are at one level together
        if not set(factor.columns) & set(known):
            rows = factor.matrix[rng.integers(len(factor.levels), size=len(next(iter(candidates.values()))))]
            candidates |= {
                name: column.astype(candidates[name].dtype) for name, column in zip(factor.columns, rows.T, strict=True)
            }
    usable = np.isfinite(problem.embedding.information(candidates))
    return {name: values[usable] for name, values in candidates.items()}


# The verb `witness`: the density of the private data along one or two fields, as far as the release determines it.
#
# The witness at a point is the recovered total of a narrow bump function there. The bump is projected on what the
# release determines, and the mean embedding evaluates the projection. The undetermined part of the bump is replaced
# by its average over the reference distribution, a smooth distribution with the recovered moments. `visibility` is
# the determined share. The witness divided by the number of records and the mass of the bump is a density.


_WIDTH = 0.3  # of the bump, in standard deviations of the field


@verb(EQUATIONS, uses=("total", "domain"), instead=LIMITED)
def witness(
    release: Release,
    fields: str | Sequence[str],
    *,
    model: object = None,
    points: int = 60,
    metric: Metric | str | None = None,
    key: Key = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Witness:
    """Estimate the density of the private data over one or two scalar fields.

    Args:
        release: a release from `bayesrecon.posteriors`, or any object or file that holds draws, together with its
            `model`.
        model: for draws that do not name their model: a `Model`, the name of a shipped model, or a PyMC or Bambi model.
        fields: name of one field, or names of two.
        points: grid points per field. The grid spans three standard deviations around the recovered mean. A field with
            finitely many values uses these values instead.
        metric, key, progress, knows: as in `recover`, without `known` and `unit`.

    Raises:
        BayesreconError: the model has no such field, a field holds several numbers, there are fewer than two points, or
            the release does not determine the number of records, which the density is divided by.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> found = bayesrecon.witness(release, "y", points=9)
    >>> found.values.shape, int(found.values.argmax())
    ((9,), 4)
    """
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    model_fields = release.model.fields
    for name in names:
        if name not in model_fields:
            listed = ", ".join(model_fields)
            raise BayesreconError(
                f"{name!r} is not a field of {release.model.name} ({listed}){near(name, model_fields)}"
            )
    if not 1 <= len(set(names)) == len(names) <= 2 or any(model_fields[n].shape for n in names):
        raise BayesreconError("the witness is drawn over one or two different fields that hold one number each")
    if points < 2:
        raise BayesreconError("the witness needs at least two points per field")
    problem = solve_release(release, metric, key=key, progress=progress, **knows)
    solved = problem.solved
    grids = tuple(_grid(problem, name, points) for name in names)
    bumps = np.ones((len(solved.cross), 1))
    for name, grid in zip(names, grids, strict=True):
        along = _bumps(problem, name, grid)
        bumps = (bumps[:, :, None] * along[:, None, :]).reshape(len(bumps), -1)
    values = np.column_stack([np.ones(len(bumps)), bumps])
    projection = solved.project(values)
    residual = ((values - projection.fitted) ** 2).sum(axis=0)
    count, *totals = solved.target @ projection.beta
    if residual[0] > 0.5 * len(values) or count <= 0:
        raise BayesreconError(
            f"{release.name} does not determine how many records there are, so no density can be drawn"
        )
    noise = solved.noise()
    density = np.array(totals) / count
    slopes = (projection.beta[:, 1:] - density * projection.beta[:, :1]) / count  # of the ratio
    se = np.sqrt(np.maximum(np.einsum("rq,rs,sq->q", slopes, noise, slopes, optimize=True), 0.0))
    total = ((values[:, 1:] - values[:, 1:].mean(axis=0)) ** 2).sum(axis=0)
    visibility = np.clip(1 - residual[1:] / np.maximum(total, 1e-300), 0, 1)
    shape = tuple(len(grid) for grid in grids)
    return Witness(
        release.name,
        names,
        grids,
        density.reshape(shape),
        se.reshape(shape),
        visibility.reshape(shape),
        release.model.name,
        release.size,
    )


def _bumps(problem: Problem, name: str, grid: np.ndarray) -> np.ndarray:
    """Bumps of unit mass centred on the grid, at the probes, `(Q, G)`; indicators for finitely many values."""
    values = np.asarray(problem.solved.probes[name], float)[:, None]
    if problem.knowledge.fields[name].domain.kind == "levels":
        return (values == grid).astype(float)
    width = _WIDTH * float(problem.reference.scale[name])
    return np.exp(-0.5 * ((values - grid) / width) ** 2) / (width * np.sqrt(2 * np.pi))


def _grid(problem: Problem, name: str, points: int) -> np.ndarray:
    domain = problem.knowledge.fields[name].domain
    if domain.kind == "levels":
        return np.array(domain.levels)
    centre, scale = float(problem.reference.centre[name]), float(problem.reference.scale[name])
    low, high = max(domain.low, centre - 3 * scale), min(domain.high, centre + 3 * scale)
    return np.linspace(low, high, points)
