"""Totals of parts with their errors, and the rows of a result made of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

from bayesrecon.diagnostics import Z95, effective_sample_size
from bayesrecon.divergence.definite import solver
from bayesrecon.divergence.mean_embedding import MeanEmbedding
from bayesrecon.errors import check_memory
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.categories import known_totals, library_of
from bayesrecon.estimation.deviation import deviation
from bayesrecon.estimation.error_laws import DETERMINED, PARTLY, SAMPLED, SPANNED, STATIONARY, ErrorLaw
from bayesrecon.estimation.influence import Influence
from bayesrecon.estimation.intervals import EquationErrors, StatisticAt
from bayesrecon.estimation.solve import spans
from bayesrecon.estimation.span import Fit
from bayesrecon.estimation.statistics import Library, Statistic
from bayesrecon.knowledge import Knowledge
from bayesrecon.model import Records
from bayesrecon.results.row import Row
from bayesrecon.running.draws_on_disk import column_blocks

FREEDOM = 30  # independent draws beyond the number of features, below which nothing is determined
_ROUNDING = 1e-8  # of an influence, relative to its spread
_ROUNDED = 1e-12  # of a total, relative to that of records of the same size without cancellation
_SPAN_TOLERANCE = 1e-7  # relative, of what rounding leaves of a function that equations span
# Ratio of the floor to the standard error that is tolerated where the spectrum decays; in theory it is at most one.
_LARGEST_FLOOR_RATIO = 10.0
_BLOCK, _NUMBERS = 128, 2**22  # statistics whose series are analysed at once at most, and numbers in them


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Totals of the parts `(P,)`, and how visible each is.

    Attributes:
        visibility: `(P,)` share of each part that the release determines.
        law: the error distribution of the equations.
        spanned: whether the equations either span a function exactly or not at all.
        decays: whether the spectrum decays, without a gap.
    """

    totals: np.ndarray
    visibility: Float[np.ndarray, " P"]
    law: ErrorLaw = SAMPLED
    spanned: bool = False
    decays: bool = False


@dataclass(frozen=True, kw_only=True)
class SampledTotals(Totals):
    """Totals of the parts with their errors.

    Attributes:
        directions: `(r, P)` coefficients of the parts in the basis; the influence is the residual along them.
        influence: `(T, P)` influence of each atom.
        rounding: `(P,)` bounds on the rounding errors of the totals, by the spread of their influence before exact
            knowledge was used, and by the size of what is summed.
        unseen: `(Q, P)` residual of the projection of the parts at the probes, times the number of records. If the
            spectrum decays, it is multiplied by the possible deviation of the records' distribution from the probes'.
        beyond: the same at the more distant records at which visibility is computed.
        floor: `(P, P)` covariance at the Cramer-Rao floor.
        scores: `(T, d)` fitted posterior scores.
        chain: `(T,)` chain numbers.
        errors: errors of the totals of a trained parameter that was released with errors.
    """

    directions: Float[np.ndarray, "r P"]
    influence: Influence
    rounding: Float[np.ndarray, " P"]
    unseen: Float[np.ndarray, "Q P"]
    beyond: np.ndarray
    floor: Float[np.ndarray, "P P"]
    scores: Any
    chain: Int[np.ndarray, " T"]
    errors: EquationErrors | None = None


def totals_of(
    solved: Fit, knowledge: Knowledge, reference: Reference, statistics: Mapping[str, Any] | None = None
) -> tuple[Library, SampledTotals]:
    """The statistics, with `{name: f}` per-record functions in addition, and the totals that they are made of."""
    library = library_of(knowledge, reference.centre, reference.scale, statistics, solved.probes)
    return library, part_totals(solved, library, knowledge)


@np.errstate(over="ignore", invalid="ignore")  # squares of records far out: what is not finite is not determined
def part_totals(solved: Fit, library: Library, knowledge: Knowledge) -> SampledTotals:
    """Totals of the library's parts, using the totals that are known exactly."""
    embedding, count = solved.embedding, len(library.parts)
    remedy = "leave unit= out, or name a field with fewer values"
    check_memory(3 * 8 * count**2, f"statistics of {count} totals", remedy)
    constraints, exact = known_totals(knowledge)

    def evaluate(records: Records) -> np.ndarray:
        parts = library.evaluate(records)
        return np.concatenate([parts, constraints.evaluate(records)], axis=1) if exact.size else parts

    values = evaluate(solved.probes)
    projection = solved.project(values)
    directions = projection.beta
    totals = solved.target @ projection.beta
    floor = projection.beta.T @ _solve_value(solved, projection.beta) / embedding.effective_size
    variance = solved.variance(projection.beta[:, :count])
    residual = values - projection.fitted
    distant, distant_residual = values, residual
    if solved.distant is not None:
        records, cross = solved.distant
        distant = evaluate(records)
        distant_residual = distant - cross @ projection.beta
    spanned, transform = spans(getattr(embedding, "release", None)), np.eye(values.shape[1])
    if spanned and exact.size:
        # Equations span f - gamma k where they span neither, and the total of k is known.
        transform = _known_regression(distant_residual, count)
        totals, offset = totals @ transform, exact @ (np.eye(len(transform))[count:] - transform[count:])
        totals[:count] += offset[:count]
        directions, floor = directions @ transform, transform.T @ floor @ transform
        residual, distant_residual = residual @ transform, distant_residual @ transform
    visibility = library.visibility(
        distant[:, :count], (distant - distant_residual)[:, :count], solved.basis.size, variance
    )
    visibility[_constant_by_chance(library, knowledge, solved.probes, values[:, :count])] = 0.0
    # Invisible parts get no error. With many fields they are by far the most, so their series are not computed.
    visible = np.flatnonzero(np.concatenate([visibility >= PARTLY, np.ones(values.shape[1] - count, bool)]))
    raw, scores = solved.influence(projection.beta[:, visible])
    spread = np.zeros(values.shape[1])
    spread[visible] = np.concatenate([np.zeros(0), *(part.std(axis=0) for _, part in column_blocks(raw))])
    spread = spread[:count]
    if solved.errors is not None:
        equation_errors = solved.errors.of(_features(solved) @ projection.beta[:, :count])
        spread = np.array([equation_errors.sd(one) for one in np.eye(count)])
    selected = np.eye(values.shape[1])[visible] @ transform
    combined = selected[:, :count]
    unseen, beyond = residual[:, :count], distant_residual[:, :count]
    if exact.size:
        # Least divergence under the equality constraints. The noise covariance as the metric would be more
        # efficient if it were known, but estimated from heavy-tailed residuals it is worse and overconfident.
        remaining, full, threshold = (distant_residual, distant, SPANNED) if spanned else (residual, values, DETERMINED)
        missing, size = ((x[:, count:] ** 2).sum(axis=0) for x in (remaining, full))
        usable = count + np.flatnonzero(missing <= (1 - threshold) * size)
        gain = _gain(directions.T @ solved.gram @ directions, count, usable)
        totals = totals[:count] - gain @ (totals[usable] - exact[usable - count])
        combined = combined - selected[:, usable] @ gain.T
        directions = directions[:, :count] - directions[:, usable] @ gain.T
        unseen, beyond = unseen - residual[:, usable] @ gain.T, beyond - distant_residual[:, usable] @ gain.T
        gain = _gain(floor, count, usable)
        floor = floor[:count, :count] - gain @ floor[usable, :count]
        # Known totals are exact, whether the release shows them or not.
        for i, name in enumerate(library.parts):
            if name in constraints.parts:
                totals[i], visibility[i] = exact[constraints.index([name])[0]], 1.0
                spread[i] = 0.0
                for array in (combined, directions, unseen, beyond, floor, floor.T):
                    array[:, i] = 0.0
    # The residual of one record, times the number of records.
    number = knowledge.total or abs(totals[library.index(["1"])])
    size_of_terms = number * np.sqrt(np.mean(values[:, :count] ** 2, axis=0))
    if solved.ridge is not None:
        number = number * deviation(solved.cross, solved.target, solved.ridge, float(np.squeeze(number)))
    return SampledTotals(
        totals=totals,
        visibility=visibility,
        law=solved.law,
        spanned=spanned,
        decays=solved.ridge is not None,
        directions=directions,
        influence=Influence(raw, combined, embedding.weights),
        rounding=np.fmax(_ROUNDING * spread, _ROUNDED * np.where(np.isfinite(size_of_terms), size_of_terms, 0.0)),
        unseen=unseen * number,
        beyond=beyond * number,
        floor=floor,
        scores=scores,
        chain=embedding.chain,
        errors=None if solved.errors is None else solved.errors.of(_features(solved) @ directions),
    )


def _constant_by_chance(library: Library, knowledge: Knowledge, probes: Records, values: np.ndarray) -> list[int]:
    """The user's functions that are constant on the probes but not everywhere, `values (Q, P)`. A step outside of the
    probes would seem to be a multiple of the count. Records all over the fields' domains distinguish both."""
    flat = [i for i, name in enumerate(library.parts) if name.startswith("f:") and np.ptp(values[:, i]) == 0]
    if not flat:
        return []
    rng = np.random.default_rng(0)
    wide = {
        name: probes[name]
        if name in knowledge.known
        else knowledge.fields[name].domain.draw_broad(rng, np.shape(probes[name]))
        for name in probes
    }
    parts = list(library.parts.values())
    with np.errstate(all="ignore"):
        return [i for i in flat if not np.all(parts[i].values(wide) == values[0, i])]


def _known_regression(residual: np.ndarray, count: int) -> np.ndarray:
    """`(P + K, P + K)` transform that subtracts from each of P parts its regression on K known functions, if neither
    is spanned.

    Args:
        residual: `(Q, P + K)` residual of their projection.
    """
    transform = np.eye(residual.shape[1])
    size = np.linalg.norm(residual[:, count:], axis=0)
    usable = size > _SPAN_TOLERANCE * max(size.max(), 1.0)
    known = residual[:, count:][:, usable] / size[usable]
    gamma = np.linalg.lstsq(known, residual[:, :count], rcond=_SPAN_TOLERANCE)[0] / size[usable][:, None]
    transform[count + np.flatnonzero(usable), :count] = -gamma
    return transform


def _features(solved: Fit) -> np.ndarray:
    """The basis in the equations of one trained parameter, `(k, r)`."""
    return solved.embedding.scores(solved.basis.records, np.array([0])) @ solved.basis.coefficients


def _solve_value(solved: Fit, beta: np.ndarray) -> np.ndarray:
    """`G V^+ G beta`: the inverse value kernel between the functions' inner products with the basis."""
    value, target = solved.value, solved.gram @ beta
    solve = solver(value)
    if solve is not None:
        return solved.gram @ solve(target)
    scale = 1 / np.sqrt(np.maximum(np.diag(value), 1e-300))
    eigen, vectors = np.linalg.eigh(value * scale[:, None] * scale)
    positive = eigen > 1e-12 * eigen[-1]
    inverse = (vectors[:, positive] / eigen[positive]) @ vectors[:, positive].T
    return solved.gram @ (scale[:, None] * (inverse @ (scale[:, None] * target)))


def _gain(covariance: np.ndarray, count: int, usable: np.ndarray) -> np.ndarray:
    inner = covariance[np.ix_(usable, usable)]
    scale = 1 / np.sqrt(np.maximum(np.diag(inner), 1e-300))
    inverse = np.linalg.pinv(inner * scale[:, None] * scale, rcond=1e-10, hermitian=True)
    return covariance[:count, usable] @ (scale[:, None] * inverse * scale)


def rows_of(library: Library, totals: SampledTotals, embedding: MeanEmbedding) -> tuple[Row, ...]:
    """One row per statistic; a substitute is shown only if the statistic that it replaces is not visible.

    Standard errors are of second order: a variance that is at its largest has no slope in the mean.
    """
    rows, slopes = _visible_rows(library, totals)
    statistics = {statistic.name: statistic for statistic in library.statistics}
    visible = [(statistics[name], slope) for name, slope in slopes.items()]
    for name, errors in _ERRORS[totals.law](visible, rows, library, totals, embedding):
        rows[name] = replace(rows[name], **errors)
    return tuple(rows.values())


_RowErrors = Iterator[tuple[str, dict[str, Any]]]
"""Names of statistics, with the error fields of their rows."""


def _equation_errors(
    visible: Sequence[tuple[Statistic, np.ndarray]],
    rows: Mapping[str, Row],
    library: Library,
    totals: SampledTotals,
    embedding: MeanEmbedding,
) -> _RowErrors:
    """One atom: nothing was sampled, so the only sampling error is that of the parameter itself."""
    for statistic, slope in visible:
        estimate, half = rows[statistic.name].estimate, float(np.sqrt(np.mean((totals.unseen @ slope) ** 2)))
        assert estimate is not None
        low = high = estimate
        se = None
        if totals.errors is not None:
            low, high = totals.errors.ends(estimate, slope, _shifted_statistic(statistic, library, totals))
        if totals.errors is not None and not totals.errors.exact:
            se = totals.errors.sd(slope)
            se = 0.0 if se <= totals.rounding @ np.abs(slope) else se  # fixed by what is known
        half = max(half, float(totals.rounding @ np.abs(slope)))
        yield statistic.name, {"se": se, "lower": low - half, "upper": high + half}


def _series_errors(
    visible: Sequence[tuple[Statistic, np.ndarray]],
    rows: Mapping[str, Row],
    library: Library,
    totals: SampledTotals,
    embedding: MeanEmbedding,
) -> _RowErrors:
    """Standard errors of second order, floors, and bounds on the bias by the invisible part.

    With a gap in the spectrum, r features are fitted to N independent draws. As in a regression, N - r degrees of
    freedom are left, limits are those of a t distribution, and few draws understate an error: none is below its floor.
    """
    freedom = embedding.independent_size - len(totals.directions)
    quantile = Z95 if totals.decays else float(stdtrit(max(freedom, 1.0), 0.975))
    block_size = min(_BLOCK, max(1, _NUMBERS // len(totals.influence)))
    for start in range(0, len(visible), block_size):
        block = visible[start : start + block_size]
        errors = _sampling_errors(np.stack([slope for _, slope in block], axis=1), totals, embedding)
        for (statistic, _), (se, floor, unseen, beyond, ess, rounding) in zip(block, errors, strict=True):
            estimate, verdict = rows[statistic.name].estimate, rows[statistic.name].verdict
            assert estimate is not None
            if se:
                se = float(np.hypot(se, _curvature_error(statistic, library, totals, ess)))
                if not totals.decays:
                    se = max(se, floor * float(np.sqrt(max(embedding.effective_size / ess, 1.0))))
                verdict = "partly" if verdict == "determined" and freedom < FREEDOM else verdict
            if totals.decays and se and floor > se:
                # No error lies below its floor: with heavy tails there are too few draws to estimate both.
                if floor > _LARGEST_FLOOR_RATIO * se and verdict == "determined":
                    verdict = "partly"
                floor = se
            # The invisible part can bias the estimate by about its size on the generic records. Where the spectrum
            # decays, it is random, as the difference between private and generic records is.
            bias = unseen if verdict == "determined" else max(unseen, beyond)
            half = quantile * np.hypot(se, bias) if totals.decays else quantile * se + bias
            half = max(float(half) if se else 0.0, rounding)
            stated = {"se": se, "floor": floor if se else 0.0, "ess": ess, "verdict": verdict}
            yield statistic.name, stated | {"lower": estimate - half, "upper": estimate + half}


_ERRORS: dict[ErrorLaw, Callable[..., _RowErrors]] = {STATIONARY: _equation_errors, SAMPLED: _series_errors}


def _shifted_statistic(statistic: Statistic, library: Library, totals: SampledTotals) -> StatisticAt:
    def at(changes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shifted, slopes = totals.totals[:, None] + changes, np.zeros(changes.shape)
        values: Any = dict(zip(library.parts, shifted, strict=True))  # arrays instead of numbers
        with np.errstate(divide="ignore", invalid="ignore"):
            for name, slope in statistic.gradient(values).items():
                slopes[library.index([name])] = slope
            return np.broadcast_to(statistic.value(values), changes.shape[1:]), slopes

    return at


def _curvature_error(statistic: Statistic, library: Library, totals: SampledTotals, ess: float) -> float:
    """The contribution of a statistic's curvature H to its standard error, `(tr(H C H C) / 2 + tr(H C)^2 / 4)^(1/2)`.
    C is the error covariance of the parts' totals. H is computed from slopes one standard error apart."""
    indices = library.index(statistic.parts)
    covariance = totals.influence.covariance[np.ix_(indices, indices)] / ess
    step, totals_here = np.sqrt(np.diag(covariance)), totals.totals[indices]
    hessian = np.zeros((len(indices), len(indices)))
    with np.errstate(divide="ignore", invalid="ignore"):
        for k in np.flatnonzero(step):
            for sign in (1, -1):
                shifted = totals_here + sign * step[k] * np.eye(len(indices))[k]
                slope = statistic.gradient(dict(zip(statistic.parts, shifted, strict=True)))
                hessian[k] += [sign * slope.get(name, 0.0) / (2 * step[k]) for name in statistic.parts]
    product = hessian @ covariance
    added = np.sum(product * product.T) / 2 + np.trace(product) ** 2 / 4
    return float(np.sqrt(added)) if np.isfinite(added) and added > 0 else 0.0


def slopes_of(library: Library, totals: Totals) -> tuple[tuple[Row, ...], np.ndarray]:
    """The visible statistics, without errors, and their gradients in the parts' totals `(P, S)`."""
    rows, slopes = _visible_rows(library, totals)
    columns = np.stack(list(slopes.values()), axis=1) if slopes else np.zeros((len(library.parts), 0))
    return tuple(rows[name] for name in slopes), columns


def _visible_rows(library: Library, totals: Totals) -> tuple[dict[str, Row], dict[str, np.ndarray]]:
    values = dict(zip(library.parts, totals.totals, strict=True))
    rows: dict[str, Row] = {}
    slopes: dict[str, np.ndarray] = {}
    for statistic in library.statistics:
        row, slope = _estimate(statistic, library, totals, values)
        stands_for = statistic.substitute_for
        if stands_for and (rows[stands_for].verdict != "undetermined" or slope is None):
            continue
        rows[statistic.name] = row
        if slope is not None:
            slopes[statistic.name] = slope
    for statistic in library.statistics:
        estimated = statistic.name in slopes
        if statistic.unless and not (estimated and any(rows[k].verdict != "determined" for k in statistic.unless)):
            rows.pop(statistic.name, None)
            slopes.pop(statistic.name, None)
    return rows, slopes


def _estimate(
    statistic: Statistic, library: Library, totals: Totals, values: dict[str, float]
) -> tuple[Row, np.ndarray | None]:
    """The row without its errors, and the statistic's gradient in the parts' totals `(P,)`, None if it is not
    visible."""
    visibility = float(min(totals.visibility[i] for i in library.index(statistic.parts)))
    verdict = totals.law.verdict(visibility, totals.spanned)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate, gradient = float(statistic.value(values)), statistic.gradient(values)
    slope = np.zeros(len(library.parts))
    slope[library.index(list(gradient))] = list(gradient.values())
    if verdict == "undetermined" or not (np.isfinite(estimate) and np.isfinite(slope).all()):
        return Row(statistic.name, visibility=visibility, verdict="undetermined"), None
    return Row(statistic.name, estimate, visibility=visibility, verdict=verdict), slope


def _sampling_errors(slopes: np.ndarray, totals: SampledTotals, embedding: MeanEmbedding) -> list[tuple[float, ...]]:
    """Standard error, floor, unseen parts near and far, effective sample size and bound on rounding errors for
    gradients `(P, S)`."""
    weights = embedding.weights
    series = totals.influence @ slopes
    variance = weights @ (series - weights @ series) ** 2
    ess = effective_sample_size(series, totals.chain) * embedding.effective_size / len(weights)
    rounding = totals.rounding @ np.abs(slopes)
    known_exactly = np.sqrt(variance) <= rounding
    se = np.where(known_exactly, 0.0, np.sqrt(variance / ess))
    floor = np.sqrt(np.maximum(np.einsum("ps,pq,qs->s", slopes, totals.floor, slopes, optimize=True), 0.0))
    unseen, beyond = (np.sqrt(np.mean((residual @ slopes) ** 2, axis=0)) for residual in (totals.unseen, totals.beyond))
    columns = (x.tolist() for x in (se, floor, unseen, beyond, ess, rounding))
    return list(zip(*columns, strict=True))
