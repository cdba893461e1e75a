"""The main verb: statistics of the private data from a release, with errors."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bayesrecon.embedding import Progress
from bayesrecon.pooling import pool
from bayesrecon.precision import in_float64
from bayesrecon.problem import solve_release
from bayesrecon.result import Recovery
from bayesrecon.statistics import library_of
from bayesrecon.totals import part_totals, rows_of
from bayesrecon.types import Release


@in_float64
def recover(
    release: Release | Sequence[Release],
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
        release: from `bayesrecon.posteriors`; several releases of one data set are pooled (`bayesrecon.pooling`).
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
    if not isinstance(release, Release):
        options: dict[str, Any] = {"statistics": statistics, "known": known, "unit": unit, "total": total}
        options |= {"bounds": bounds, "domain": domain, "metric": metric, "coordinates": coordinates}
        return pool([recover(one, key=key, progress=progress, **options) for one in release])
    start = time.perf_counter()
    problem = solve_release(
        release,
        known=known,
        unit=unit,
        total=total,
        bounds=bounds,
        domain=domain,
        metric=metric,
        coordinates=coordinates,
        key=key,
        progress=progress,
    )
    solved, attacker, reference = problem.solved, problem.attacker, problem.reference
    library = library_of(
        attacker.fields,
        list(attacker.known),
        reference.centre,
        reference.scale,
        unit,
        attacker.levels,
        statistics,
        solved.probes,
    )
    totals = part_totals(solved, library, attacker)
    return Recovery(
        rows=rows_of(library, totals, solved.embedding),
        release=release.name,
        model=release.model.name,
        draws=release.size,
        metric=problem.metric,
        coordinates=coordinates,
        temperature=release.temperature,
        rank=solved.spectrum.rank,
        gap=solved.spectrum.gap,
        spectrum=solved.spectrum.values,
        pseudo=solved.pseudo,
        warnings=problem.warnings(totals.scores),
        seconds=time.perf_counter() - start,
    )
