"""Totals of parts with their errors, and the rows of a result made of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bayesrecon.diagnostics import Z95, effective_sample_size
from bayesrecon.errors import check_memory
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.categories import known_totals, library_of
from bayesrecon.estimation.deviation import deviation
from bayesrecon.estimation.error_laws import DETERMINED, PARTLY, SAMPLED, SPANNED, STATIONARY, ErrorLaw
from bayesrecon.estimation.influence import Influence
from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.solve import spans
from bayesrecon.estimation.span import Fit
from bayesrecon.estimation.statistics import Library, Statistic
from bayesrecon.kernels.definite import solver
from bayesrecon.kernels.embedding import MeanEmbedding
from bayesrecon.knowledge import Knowledge
from bayesrecon.model import Records
from bayesrecon.results.row import Row
from bayesrecon.running.draws_on_disk import column_blocks

_SPANNED_TO = 1e-7  # relative, of what rounding leaves of a function that equations span
_APART = 10.0  # times that a floor of decaying spectra may exceed the standard error that stands above it in theory
_BLOCK, _NUMBERS = 128, 2**22  # statistics whose series are analysed at once at most, and numbers in them


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Totals of the parts `(P,)`, and how much of each is seen.

    Attributes:
        visibility: `(P,)`.
        law: of the equations.
        spanned: whether its equations span a function exactly or do not.
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
        directions: `(r, P)` the parts' coefficients in the basis: the influence is the residuals along them.
        influence: `(T, P)` per atom.
        spread: `(P,)` the influence's size before exact knowledge was used; next to it, a rounding error is zero.
        unseen: `(Q, P)` what the projection leaves of the parts at the probes, times the number of records; where the
            spectrum decays, times how far their law may be from that of the probes.
        beyond: the same where visibility is judged, which may be farther out.
        floor: `(P, P)` covariance at the Cramer-Rao floor.
        scores: `(T, d)` fitted posterior scores.
        chain: `(T,)`.
        errors: of the totals of a trained parameter that was released with errors.
    """

    directions: Float[np.ndarray, "r P"]
    influence: Influence
    spread: Float[np.ndarray, " P"]
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
    """Totals of the library's parts, with what is known exactly taken into account."""
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
    rest = values - projection.fitted
    far, far_rest = values, rest
    if solved.distant is not None:
        records, cross = solved.distant
        far = evaluate(records)
        far_rest = far - cross @ projection.beta
    spanned, share = spans(getattr(embedding, "release", None)), np.eye(values.shape[1])
    if spanned and exact.size:
        # Equations span f - gamma k where they span neither, and the total of k is known.
        share = _shares(far_rest, count)
        totals, offset = totals @ share, exact @ (np.eye(len(share))[count:] - share[count:])
        totals[:count] += offset[:count]
        directions, floor = directions @ share, share.T @ floor @ share
        rest, far_rest = rest @ share, far_rest @ share
    visibility = library.visibility(far[:, :count], (far - far_rest)[:, :count], solved.basis.size, variance)
    visibility[_constant_by_chance(library, knowledge, solved.probes, values[:, :count])] = 0.0
    # Of what is not seen no error is ever stated: its series, by far the most where fields are many, are left out.
    visible = np.flatnonzero(np.concatenate([visibility >= PARTLY, np.ones(values.shape[1] - count, bool)]))
    raw, scores = solved.influence(projection.beta[:, visible])
    spread = np.zeros(values.shape[1])
    spread[visible] = np.concatenate([np.zeros(0), *(part.std(axis=0) for _, part in column_blocks(raw))])
    spread = spread[:count]
    if solved.errors is not None:
        own = solved.errors.of(_features(solved) @ projection.beta[:, :count])
        spread = np.array([own.sd(one) for one in np.eye(count)])
    every = np.eye(values.shape[1])[visible] @ share
    combined = every[:, :count]
    unseen, beyond = rest[:, :count], far_rest[:, :count]
    if exact.size:
        # Least divergence under the equality constraints. The noise covariance as the metric would be more
        # efficient if it were known, but estimated from heavy-tailed residuals it is worse and overconfident.
        left, whole, least = (far_rest, far, SPANNED) if spanned else (rest, values, DETERMINED)
        lost, size = ((x[:, count:] ** 2).sum(axis=0) for x in (left, whole))
        usable = count + np.flatnonzero(lost <= (1 - least) * size)
        gain = _gain(directions.T @ solved.gram @ directions, count, usable)
        totals = totals[:count] - gain @ (totals[usable] - exact[usable - count])
        combined = combined - every[:, usable] @ gain.T
        directions = directions[:, :count] - directions[:, usable] @ gain.T
        unseen, beyond = unseen - rest[:, usable] @ gain.T, beyond - far_rest[:, usable] @ gain.T
        gain = _gain(floor, count, usable)
        floor = floor[:count, :count] - gain @ floor[usable, :count]
        # What is known is known, whether the release shows it or not.
        for i, name in enumerate(library.parts):
            if name in constraints.parts:
                totals[i], visibility[i] = exact[constraints.index([name])[0]], 1.0
                for array in (combined, directions, unseen, beyond, floor, floor.T):
                    array[:, i] = 0.0
    # What is not seen of one record, times the number of records.
    number = knowledge.total or abs(totals[library.index(["1"])])
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
        spread=spread,
        unseen=unseen * number,
        beyond=beyond * number,
        floor=floor,
        scores=scores,
        chain=embedding.chain,
        errors=None if solved.errors is None else solved.errors.of(_features(solved) @ directions),
    )


def _constant_by_chance(library: Library, knowledge: Knowledge, probes: Records, values: np.ndarray) -> list[int]:
    """The user's functions that are constant on the probes alone, `values (Q, P)`: a step beyond them looks like a
    multiple of the count. Records all over the fields' domains tell them apart from constants."""
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


def _shares(rest: np.ndarray, count: int) -> np.ndarray:
    """`(P + K, P + K)`: what takes from each of P parts its regression on K known functions, where neither is spanned.

    Args:
        rest: `(Q, P + K)` what the projection leaves of them.
    """
    share = np.eye(rest.shape[1])
    size = np.linalg.norm(rest[:, count:], axis=0)
    usable = size > _SPANNED_TO * max(size.max(), 1.0)
    known = rest[:, count:][:, usable] / size[usable]
    gamma = np.linalg.lstsq(known, rest[:, :count], rcond=_SPANNED_TO)[0] / size[usable][:, None]
    share[count + np.flatnonzero(usable), :count] = -gamma
    return share


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
    kept = eigen > 1e-12 * eigen[-1]
    inverse = (vectors[:, kept] / eigen[kept]) @ vectors[:, kept].T
    return solved.gram @ (scale[:, None] * (inverse @ (scale[:, None] * target)))


def _gain(covariance: np.ndarray, count: int, usable: np.ndarray) -> np.ndarray:
    inner = covariance[np.ix_(usable, usable)]
    scale = 1 / np.sqrt(np.maximum(np.diag(inner), 1e-300))
    inverse = np.linalg.pinv(inner * scale[:, None] * scale, rcond=1e-10, hermitian=True)
    return covariance[:count, usable] @ (scale[:, None] * inverse * scale)


def rows_of(library: Library, totals: SampledTotals, embedding: MeanEmbedding) -> tuple[Row, ...]:
    """One row per statistic; a substitute is shown only where the statistic it stands for is not seen.

    Standard errors are of second order: a variance that is at its largest has no slope in the mean.
    """
    rows, slopes = _seen(library, totals)
    statistics = {statistic.name: statistic for statistic in library.statistics}
    seen = [(statistics[name], slope) for name, slope in slopes.items()]
    for name, errors in _ERRORS[totals.law](seen, rows, library, totals, embedding):
        rows[name] = replace(rows[name], **errors)
    return tuple(rows.values())


_Stated = Iterator[tuple[str, dict[str, Any]]]
"""Names of statistics, with what is stated of the error of each."""


def _of_equations(
    seen: Sequence[tuple[Statistic, np.ndarray]],
    rows: Mapping[str, Row],
    library: Library,
    totals: SampledTotals,
    embedding: MeanEmbedding,
) -> _Stated:
    """One atom: nothing was sampled, so there is no sampling error to state but that of the parameter itself."""
    for statistic, slope in seen:
        estimate, half = rows[statistic.name].estimate, float(np.sqrt(np.mean((totals.unseen @ slope) ** 2)))
        assert estimate is not None
        low = high = estimate
        se = None
        if totals.errors is not None:
            low, high = totals.errors.ends(estimate, slope, _moved(statistic, library, totals))
        if totals.errors is not None and not totals.errors.exact:
            se = totals.errors.sd(slope)
            se = 0.0 if se <= 1e-8 * totals.spread @ np.abs(slope) else se  # fixed by what is known
        yield statistic.name, {"se": se, "lower": low - half, "upper": high + half}


def _of_series(
    seen: Sequence[tuple[Statistic, np.ndarray]],
    rows: Mapping[str, Row],
    library: Library,
    totals: SampledTotals,
    embedding: MeanEmbedding,
) -> _Stated:
    """Standard errors of second order, floors, and what is not seen."""
    wide = min(_BLOCK, max(1, _NUMBERS // len(totals.influence)))
    for start in range(0, len(seen), wide):
        block = seen[start : start + wide]
        errors = _errors(np.stack([slope for _, slope in block], axis=1), totals, embedding)
        for (statistic, _), (se, floor, unseen, beyond, ess) in zip(block, errors, strict=True):
            estimate, verdict = rows[statistic.name].estimate, rows[statistic.name].verdict
            assert estimate is not None
            if se:
                se = float(np.hypot(se, _curvature_error(statistic, library, totals, ess)))
            if totals.decays and se and floor > se:
                # No error lies below its floor: of heavy tails too few draws were seen to tell both.
                if floor > _APART * se and verdict == "determined":
                    verdict = "partly"
                floor = se
            # What is not seen can bias the estimate by about its size on the generic records; where the spectrum
            # decays, it is as random as how the private records differ from these.
            hidden = unseen if verdict == "determined" else max(unseen, beyond)
            half = Z95 * np.hypot(se, hidden) if totals.decays else Z95 * se + hidden
            half = float(half) if se else 0.0
            stated = {"se": se, "floor": floor if se else 0.0, "ess": ess, "verdict": verdict}
            yield statistic.name, stated | {"lower": estimate - half, "upper": estimate + half}


_ERRORS: dict[ErrorLaw, Callable[..., _Stated]] = {STATIONARY: _of_equations, SAMPLED: _of_series}


def _moved(
    statistic: Statistic, library: Library, totals: SampledTotals
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Value and gradient `(P,)` of a statistic where the totals `(P,)` are off by so much."""

    def at(change: np.ndarray) -> tuple[float, np.ndarray]:
        values = dict(zip(library.parts, totals.totals + change, strict=True))
        slope = np.zeros(len(library.parts))
        with np.errstate(divide="ignore", invalid="ignore"):
            gradient = statistic.gradient(values)
            slope[library.index(list(gradient))] = list(gradient.values())
            return float(statistic.value(values)), slope

    return at


def _curvature_error(statistic: Statistic, library: Library, totals: SampledTotals, ess: float) -> float:
    """What the curvature H of a statistic in its parts' totals, of error covariance C, adds to its standard error:
    `(tr(H C H C) / 2 + tr(H C)^2 / 4)^(1/2)`, H from slopes one standard error apart."""
    at = library.index(statistic.parts)
    covariance = totals.influence.covariance[np.ix_(at, at)] / ess
    step, here = np.sqrt(np.diag(covariance)), totals.totals[at]
    hessian = np.zeros((len(at), len(at)))
    with np.errstate(divide="ignore", invalid="ignore"):
        for k in np.flatnonzero(step):
            for sign in (1, -1):
                moved = here + sign * step[k] * np.eye(len(at))[k]
                slope = statistic.gradient(dict(zip(statistic.parts, moved, strict=True)))
                hessian[k] += [sign * slope.get(name, 0.0) / (2 * step[k]) for name in statistic.parts]
    product = hessian @ covariance
    added = np.sum(product * product.T) / 2 + np.trace(product) ** 2 / 4
    return float(np.sqrt(added)) if np.isfinite(added) and added > 0 else 0.0


def slopes_of(library: Library, totals: Totals) -> tuple[tuple[Row, ...], np.ndarray]:
    """The statistics that are seen, without errors, and their gradients in the parts' totals `(P, S)`."""
    rows, slopes = _seen(library, totals)
    columns = np.stack(list(slopes.values()), axis=1) if slopes else np.zeros((len(library.parts), 0))
    return tuple(rows[name] for name in slopes), columns


def _seen(library: Library, totals: Totals) -> tuple[dict[str, Row], dict[str, np.ndarray]]:
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
        own = statistic.name in slopes
        if statistic.unless and not (own and any(rows[k].verdict != "determined" for k in statistic.unless)):
            rows.pop(statistic.name, None)
            slopes.pop(statistic.name, None)
    return rows, slopes


def _estimate(
    statistic: Statistic, library: Library, totals: Totals, values: dict[str, float]
) -> tuple[Row, np.ndarray | None]:
    """The row without its errors, and the statistic's gradient in the parts' totals `(P,)`, None if not seen."""
    visibility = float(min(totals.visibility[i] for i in library.index(statistic.parts)))
    verdict = totals.law.verdict(visibility, totals.spanned)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate, gradient = float(statistic.value(values)), statistic.gradient(values)
    slope = np.zeros(len(library.parts))
    slope[library.index(list(gradient))] = list(gradient.values())
    if verdict == "undetermined" or not (np.isfinite(estimate) and np.isfinite(slope).all()):
        return Row(statistic.name, visibility=visibility, verdict="undetermined"), None
    return Row(statistic.name, estimate, visibility=visibility, verdict=verdict), slope


def _errors(slopes: np.ndarray, totals: SampledTotals, embedding: MeanEmbedding) -> list[tuple[float, ...]]:
    """Standard error, floor, unseen parts near and far and effective sample size for gradients `(P, S)`."""
    weights = embedding.weights
    series = totals.influence @ slopes
    variance = weights @ (series - weights @ series) ** 2
    ess = effective_sample_size(series, totals.chain) * embedding.effective_size / len(weights)
    fixed = np.sqrt(variance) <= 1e-8 * totals.spread @ np.abs(slopes)  # by what is known
    se = np.where(fixed, 0.0, np.sqrt(variance / ess))
    floor = np.sqrt(np.maximum(np.einsum("ps,pq,qs->s", slopes, totals.floor, slopes, optimize=True), 0.0))
    unseen, beyond = (np.sqrt(np.mean((rest @ slopes) ** 2, axis=0)) for rest in (totals.unseen, totals.beyond))
    columns = (x.tolist() for x in (se, floor, unseen, beyond, ess))
    return list(zip(*columns, strict=True))
