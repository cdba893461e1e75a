"""The main verb: statistics of the private data from a release, with errors."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesrecon.checks import check_draws
from bayesrecon.coordinates import in_coordinates, metric_factor
from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.embedding import Embedding, Progress
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import Knowledge, check_knowledge
from bayesrecon.locate import locate
from bayesrecon.precision import in_float64
from bayesrecon.result import Recovery, Row
from bayesrecon.solve import Fit, fit
from bayesrecon.statistics import (
    Library,
    Statistic,
    add_functions,
    add_units,
    components,
    function_part,
    moments,
)
from bayesrecon.types import Field, Records, Release

DETERMINED, PARTLY = 0.999, 0.5
"""Visibility from which a statistic counts as determined, and below which it is not reported."""


@in_float64
def recover(
    release: Release,
    *,
    statistics: Mapping[str, Callable[[dict[str, Any]], Any]] | None = None,
    known: Mapping[str, Any] | None = None,
    unit: str | None = None,
    total: float | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    domain: Mapping[str, Any] | None = None,
    metric: str | None = None,
    coordinates: str = "unconstrained",
    key: Any = 0,
    progress: Progress | None = None,
) -> Recovery:
    """Recover statistics of the private data behind a release.

    A release determines the mean embedding mu of the data that produced it (see `bayesrecon.embedding`).
    Totals `sum_n f(x_n)` follow exactly for every f in the span of the model's score features; their
    errors by the sandwich `K^+ Cov(r) K^+ / T_eff`, their Cramer-Rao floor from the value kernel
    `V^+ / T`, means and variances by the delta method. `visibility` is
    `1 - |f - P f|^2 / |f - P_low f|^2` over probe records that were not anchors, P the projection on what the
    release determines and P_low the one on simpler functions; a ratio has the smallest of its parts'.

    Args:
        release: from `bayesrecon.posteriors`.
        statistics: `{name: f}` per-record functions in addition to the default ones; `f` takes
            `{field: array}` and returns one number. The result holds their total and their mean.
        known: `{field: (N, *shape)}` fields whose values are known for every record, row by row.
        unit: the known field that names the unit; each of its values has exactly one record.
        total: the number of records, when known.
        bounds, domain: narrower domains of fields than the model's.
        metric: "covariance" (default for draws) or "identity".
        coordinates: "unconstrained" or "constrained".
        key: an integer or a JAX key; seeds the generic records only.
        progress: called with a label and the fraction done.

    Returns:
        A `Recovery`: rows with `estimate, se, lower, upper, floor, visibility, verdict`.

    Raises:
        BayesreconError: for input that cannot be used, saying what to change.

    >>> import bayesrecon
    >>> release = bayesrecon.posteriors.from_posteriordb("kidiq-kidscore_momiq")  # doctest: +SKIP
    >>> bayesrecon.recover(release)["mean(mom_iq)"].estimate  # doctest: +SKIP
    100.05...
    """
    start = time.perf_counter()
    attacker = check_knowledge(release.model, known=known, unit=unit, total=total, bounds=bounds, domain=domain)
    view = in_coordinates(release, coordinates)
    embedding = Embedding(view, metric_factor(view, metric), progress)
    rng = generator(key)
    reference, finite = locate(embedding, attacker, rng)
    levels = [] if unit is None else np.unique(attacker.known[unit]).tolist()
    example = reference.draw(rng, 2)
    library = library_of(
        attacker.fields,
        list(attacker.known),
        reference.centre,
        reference.scale,
        unit,
        levels,
        statistics,
        example,
    )
    solved = fit(embedding, reference, rng, finite=finite)
    totals = _totals(solved, library, attacker)
    warnings = list(release.notes)
    if release.temperature:
        whitened = np.linalg.solve(embedding.metric.T, totals.scores.T).T
        names, theta = view.model.coordinates, np.asarray(view.theta)
        state = check_draws(names, theta, np.asarray(view.weights), np.asarray(view.chain), whitened)
        warnings += state.warnings
    rows = _rows(library, totals, embedding)
    return Recovery(
        rows=rows,
        release=release.name,
        model=release.model.name,
        draws=release.size,
        metric=metric or ("covariance" if release.temperature else "identity"),
        coordinates=coordinates,
        temperature=release.temperature,
        rank=solved.spectrum.rank,
        gap=solved.spectrum.gap,
        spectrum=solved.spectrum.values,
        pseudo=solved.pseudo,
        warnings=tuple(warnings),
        seconds=time.perf_counter() - start,
    )


def generator(key: Any) -> np.random.Generator:
    """A NumPy generator from an integer or a JAX key."""
    if isinstance(key, (int, np.integer)):
        return np.random.default_rng(int(key))
    import jax

    try:
        data = jax.random.key_data(key)
    except TypeError:
        raise BayesreconError(f"key must be an integer or a JAX random key, got {type(key).__name__}") from None
    return np.random.default_rng(np.asarray(data, np.uint32).ravel().tolist())


def library_of(
    fields: Mapping[str, Field],
    known: Sequence[str],
    centre: Mapping[str, np.ndarray],
    scale: Mapping[str, np.ndarray],
    unit: str | None,
    levels: Sequence[float],
    functions: Mapping[str, Callable[..., Any]] | None,
    example: Records,
) -> Library:
    """The default statistics over the fields that are not known, per-unit ones, and the user's."""
    found = components(fields, known, centre, scale)
    # With one record a unit, the units' own values say more than their moments.
    library = moments(found, order=1 if unit is not None else 2)
    if unit is not None:
        add_units(library, unit, levels, found)
    if functions:
        add_functions(library, functions, example)
    return library


@dataclass(frozen=True)
class _Totals:
    """Totals of the parts with their per-atom influence `(T, P)`, floor covariance `(P, P)` and visibility.

    `spread` is the influence's size before exact knowledge was used; next to it, a rounding error is zero.
    `unseen` `(Q, P)` is what the projection leaves of the parts at the probes, times the number of records.
    """

    totals: np.ndarray
    influence: np.ndarray
    spread: np.ndarray
    unseen: np.ndarray
    floor: np.ndarray
    visibility: np.ndarray
    scores: np.ndarray
    chain: np.ndarray


def _totals(solved: Fit, library: Library, attacker: Knowledge) -> _Totals:
    embedding = solved.embedding
    constraints, exact = _constraints(attacker)
    parts = library.evaluate(solved.probes)
    values = np.concatenate([parts, constraints.evaluate(solved.probes)], axis=1) if exact.size else parts
    projection = solved.project(values)
    totals = solved.moments.target @ projection.beta
    series, scores = embedding.influence(solved.basis, solved.y, projection.beta)
    spread = series.std(axis=0)[: parts.shape[1]]
    floor = projection.beta.T @ _solve_value(solved, projection.beta) / embedding.effective_size
    visibility = library.visibility(parts, projection.fitted[:, : parts.shape[1]])
    count = parts.shape[1]
    unseen = abs(totals[library.index(["1"])]) * (parts - projection.fitted[:, :count])
    if exact.size:
        # Least divergence under the equality constraints. The noise covariance as the metric would be more
        # efficient if it were known, but estimated from heavy-tailed residuals it is worse and overconfident.
        lost = ((values - projection.fitted)[:, count:] ** 2).sum(axis=0)
        usable = count + np.flatnonzero(lost <= (1 - DETERMINED) * (values[:, count:] ** 2).sum(axis=0))
        gain = _gain(projection.beta.T @ solved.moments.gram @ projection.beta, count, usable)
        totals = totals[:count] - gain @ (totals[usable] - exact[usable - count])
        series = series[:, :count] - series[:, usable] @ gain.T
        gain = _gain(floor, count, usable)
        floor = floor[:count, :count] - gain @ floor[usable, :count]
    return _Totals(totals, series, spread, unseen, floor, visibility, scores, np.asarray(embedding.release.chain))


def _solve_value(solved: Fit, beta: np.ndarray) -> np.ndarray:
    """`V^+ G beta`-type solve: the value kernel in the basis against the functions' anchor values."""
    value, target = solved.moments.value, solved.moments.gram @ beta
    scale = 1 / np.sqrt(np.maximum(np.diag(value), 1e-300))
    eigen, vectors = np.linalg.eigh(value * scale[:, None] * scale)
    kept = eigen > 1e-12 * eigen[-1]
    inverse = (vectors[:, kept] / eigen[kept]) @ vectors[:, kept].T
    solved_ = scale[:, None] * (inverse @ (scale[:, None] * target))
    return solved.moments.gram @ solved_


def _gain(covariance: np.ndarray, count: int, usable: np.ndarray) -> np.ndarray:
    inner = covariance[np.ix_(usable, usable)]
    scale = 1 / np.sqrt(np.maximum(np.diag(inner), 1e-300))
    inverse = np.linalg.pinv(inner * scale[:, None] * scale, rcond=1e-10, hermitian=True)
    return covariance[:count, usable] @ (scale[:, None] * inverse * scale)


def _constraints(attacker: Knowledge) -> tuple[Library, np.ndarray]:
    """Functions of a record whose totals are known exactly, and those totals."""
    library, exact = Library(), np.zeros(0)
    if attacker.known:
        table = attacker.known
        centre = {k: v.mean(axis=0) for k, v in table.items()}
        scale = {k: np.where(v.std(axis=0) > 0, v.std(axis=0), 1.0) for k, v in table.items()}
        fields = {k: attacker.fields[k] for k in table if k != attacker.unit}
        library = moments(components(fields, (), centre, scale))
        if attacker.unit is not None:
            add_units(library, attacker.unit, np.unique(table[attacker.unit]).tolist(), ())
        exact = library.evaluate(table).sum(axis=0)
    elif attacker.total is not None:
        library, exact = moments(()), np.array([attacker.total])
    for name, (f, total) in attacker.identities.items():
        library.parts[f"identity:{name}"] = function_part(f"identity:{name}", f)
        exact = np.append(exact, total)
    return library, exact


def _rows(library: Library, totals: _Totals, embedding: Embedding) -> tuple[Row, ...]:
    """One row per statistic; a substitute is shown only where the statistic it stands for is not seen."""
    rows: dict[str, Row] = {}
    for statistic in library.statistics:
        row = _row(statistic, library, totals, embedding)
        stands_for = statistic.substitute_for
        hidden = stands_for and (rows[stands_for].verdict != "undetermined" or row.verdict == "undetermined")
        if not hidden:
            rows[statistic.name] = row
    return tuple(rows.values())


def _row(statistic: Statistic, library: Library, totals: _Totals, embedding: Embedding) -> Row:
    values = dict(zip(library.parts, totals.totals, strict=True))
    visibility = float(min(totals.visibility[i] for i in library.index(statistic.parts)))
    verdict = "determined" if visibility >= DETERMINED else "partly" if visibility >= PARTLY else "undetermined"
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate, gradient = statistic.value(values), statistic.gradient(values)
    if verdict == "undetermined" or not np.isfinite(estimate):
        return Row(statistic.name, visibility=visibility, verdict="undetermined")
    where = library.index(list(gradient))
    slope = np.array(list(gradient.values()))
    release = embedding.release
    if not release.temperature:
        # One atom: nothing was sampled, so there is no sampling error to state.
        return Row(statistic.name, float(estimate), visibility=visibility, verdict=verdict)
    series = totals.influence[:, where] @ slope
    weights = np.asarray(release.weights)
    variance = weights @ (series - weights @ series) ** 2
    ess = effective_sample_size(series[:, None], totals.chain)[0] * embedding.effective_size / release.size
    se = float(np.sqrt(variance / ess))
    if np.sqrt(variance) <= 1e-8 * np.abs(slope) @ totals.spread[where]:
        se = 0.0  # fixed by what is known
    floor = float(np.sqrt(max(slope @ totals.floor[np.ix_(where, where)] @ slope, 0.0)))
    # What is not seen can bias the estimate by about its size on the generic records.
    half = 1.959964 * se + float(np.sqrt(np.mean((totals.unseen[:, where] @ slope) ** 2))) * bool(se)
    return replace(
        Row(statistic.name, float(estimate), se, visibility=visibility, verdict=verdict, ess=float(ess)),
        lower=float(estimate - half),
        upper=float(estimate + half),
        floor=floor if se else 0.0,
    )
