"""What each posterior of posteriordb reveals: one attack per posterior, compared with its data."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.diagnostics import Z95, evenly
from bayesrecon.errors import BayesreconError
from bayesrecon.games.posteriordb.outcomes import (
    Average,
    GroupsFound,
    RecordsFound,
    SeriesFound,
    StatisticsFound,
    Values,
    Verdict,
)
from bayesrecon.model import Progress, Records, entry
from bayesrecon.releases import Release
from bayesrecon.results.records import Column, RecordTable
from bayesrecon.results.recovery import Recovery, Row
from bayesrecon.running.engine import pooled, swept

_GROUPS = 3  # smallest number of values of a field that defines groups
_WITHIN = (np.inf, 1e3, 100.0, 30.0, 10.0)  # bounds on the values of a series, tried in this order
_DIVERGED = re.compile("NUTS did not converge")
_SHOWN = 0.9  # smallest visibility of a series' average that is reported
_SERIES_DRAWS = 500  # largest number of draws for a series, each of which takes a pass through it
_MANY_ROWS, _DRAWS = 256, 2500  # with more known rows and a real response, at most this many draws are used
_AVERAGES: dict[str, Callable[[str, Records], Array]] = {
    "mean": lambda k, z: z[k].mean(),
    "mean square": lambda k, z: (z[k] ** 2).mean(),
    "lag-1 product": lambda k, z: (z[k][1:] * z[k][:-1]).mean(),
}
_MOST = 12_000  # largest number of unknowns that are solved for: known rows, times levels minus one if there are few


def verdict(posterior: str, *, build: bool = True, progress: Progress | None = None) -> Verdict:
    """Attack one posterior of posteriordb in the way that suits its model, and compare the result with its data.

    Args:
        posterior: posteriordb's name. The model is the shipped one, or its own Stan program if none is shipped.
        build: whether to sample with NUTS if there are neither reference draws nor cached ones.
        progress: called with a label and the completed fraction.

    Raises:
        BayesreconError: the posterior or its model is unknown, its data are missing, or it may not be built.
    """
    from bayesrecon.attacks.records.rows import combinations
    from bayesrecon.posteriors.fitting.database import has_reference_draws, open_database
    from bayesrecon.posteriors.fitting.fitted import built_file, released
    from bayesrecon.posteriors.fitting.programs import served_by

    database = open_database()
    present = has_reference_draws(database, posterior)
    program = served_by(database, posterior)
    release = released(database, program, build=build or (not present and built_file(database, posterior) is not None))
    truth = {k: np.asarray(v) for k, v in program.records().items()}
    count = len(next(iter(truth.values())))
    series = count == 1 and any(v.ndim > 1 for v in truth.values())
    unit = _unit(truth, program.design)
    private = [v for k, v in truth.items() if k not in program.design]
    sought = {k: f for k, f in release.model.fields.items() if k not in program.design}
    values = combinations(sought)
    unknowns = count * (len(next(iter(values.values()))) - 1 if values else 1)
    record_by_record = bool(unit) and bool(private) and all(v.ndim == 1 for v in private) and unknowns <= _MOST
    many = record_by_record and count > _MANY_ROWS and not all(f.domain.discrete for f in sought.values())
    used = _SERIES_DRAWS if series else _DRAWS if many else release.size
    release = release.take(evenly(release.size, used))
    began = time.perf_counter()
    if series:
        outcome, warnings = _series(release, truth, progress)
    elif record_by_record:
        outcome, warnings = _records(release, truth, program.design, unit, progress)
    else:
        outcome, warnings = _totals(release, truth, program.design, unit, progress)
    return Verdict(
        posterior=posterior,
        records=count,
        parameters=release.model.dimension,
        draws=release.size,
        reference=present,
        converged=present or not any(map(_DIVERGED.match, release.notes)),
        found=outcome,
        warnings=warnings,
        seconds=time.perf_counter() - began,
    )


def verdicts(
    posteriors: Sequence[str], *, build: bool = True, progress: Progress | None = None
) -> Iterator[tuple[str, Verdict | BayesreconError]]:
    """`verdict` of each posterior, or its error, in order. Workers of `running.using` share the work.

    Args:
        posteriors: names of posteriors.
        build: as in `verdict`.
        progress: called with a label that names the posterior, and the completed fraction; not called by workers.
    """
    shared = build, None if pooled() else progress
    return zip(posteriors, swept(_verdict_or_error, shared, posteriors), strict=True)


def _verdict_or_error(shared: tuple[bool, Progress | None], posterior: str) -> Verdict | BayesreconError:
    build, progress = shared

    def tell(label: str, share: float) -> None:
        if progress is not None:
            progress(f"{posterior}, {label}", share)

    try:
        return verdict(posterior, build=build, progress=tell)
    except BayesreconError as error:
        return error


def _totals(
    release: Release, truth: Records, design: Sequence[str], unit: Sequence[str], progress: Progress | None
) -> tuple[GroupsFound | StatisticsFound, tuple[str, ...]]:
    fields = release.model.fields
    groups = [k for k, f in fields.items() if len(f.domain.levels) >= _GROUPS]
    if groups and not unit and set(design) <= set(groups):
        counts = _groups(release, truth, max(groups, key=lambda k: len(fields[k].domain.levels)), progress)
        if counts is not None:
            return counts
    return _statistics(release, truth, design, progress)


def _unit(truth: Records, design: Sequence[str]) -> tuple[str, ...]:
    """The first fields of the design that together identify its rows; none if even all of them do not."""
    for size in range(1, len(design) + 1):
        names = tuple(design[:size])
        columns = np.stack([truth[k] for k in names]) if all(truth[k].ndim == 1 for k in names) else np.zeros((1, 1))
        if np.unique(columns, axis=1).shape[1] == len(truth[names[0]]):
            return names
    return ()


def _records(
    release: Release, truth: Records, design: Sequence[str], unit: tuple[str, ...], progress: Progress | None
) -> tuple[RecordsFound, tuple[str, ...]]:
    from bayesrecon.attacks.reconstruction import reconstruct
    from bayesrecon.evaluate import score_records

    known = {k: truth[k] for k in design}
    table = reconstruct(release, known=known, unit=unit, force=True, progress=progress)
    assert isinstance(table, RecordTable), "the attack with a unit"
    scores = score_records(table, truth)
    values = [_values(name, table[name], np.asarray(truth[name], float), score) for name, score in scores.items()]
    return RecordsFound(tuple(values)), (*table.failures, *table.warnings)


def _values(name: str, column: Column, true: np.ndarray, score: dict[str, float]) -> Values:
    """A recovered field and its score. Errors of real values are those of values that are closer than the guess."""
    finite = np.isfinite(column.estimate)
    nearer = np.nan_to_num(column.se, nan=np.inf) < score.get("naive_rmse", np.inf)
    stated = nearer if "exact" not in score and finite.any() and nearer.any() else finite

    def size(errors: np.ndarray) -> float | None:
        return float(np.sqrt(np.mean(errors[stated] ** 2))) if stated.any() else None

    def count(key: str) -> int | None:
        return round(score[key] * len(true)) if key in score else None

    return Values(
        field=name,
        records=len(true),
        determined=int(finite.sum()),
        nearer=int(nearer.sum()),
        correct=count("exact"),
        error=size(column.estimate - true),
        expected=size(column.se),
        floor=size(column.floor),
        naive_correct=count("naive_exact"),
        naive_error=score.get("naive_rmse"),
        p_value=score.get("chance"),
    )


def _groups(
    release: Release, truth: Records, group: str, progress: Progress | None
) -> tuple[GroupsFound, tuple[str, ...]] | None:
    """Counts per group; None if no count is determined."""
    from bayesrecon.attacks.recovery import recover

    result = recover(release, unit=group, force=True, progress=progress)
    table = result.units()
    # The count of the whole group, or of the part of it that is determined for most groups.
    determined = {row.name for row in result if row.verdict == "determined"}

    def is_determined(column: str) -> np.ndarray:
        subset = "," + column[2:-1] if "[" in column else ""
        return np.array([f"n[{group}={level:g}{subset}]" in determined for level in table.index])

    counts = [k for k in table if re.fullmatch(r"n(\[[^\]]*\])?", k) and is_determined(k).any()]
    if not counts:
        return None
    column = max(counts, key=lambda k: (k == "n", is_determined(k).sum()))
    subset, _, value = column[2:-1].partition("=")
    inside = truth[subset] == float(value) if subset else np.ones(len(truth[group]), bool)
    true = np.array([np.sum(inside & (truth[group] == level)) for level in table.index], float)
    seen = is_determined(column)
    error = table[column].to_numpy()[seen] - true[seen]
    exact = table[f"{column}_rounded"].to_numpy()[seen] == true[seen]
    label = f",{subset}={value}]" if subset else ""
    floors = [
        row.floor
        for row in result
        if row.name.startswith("n[")
        and row.floor is not None
        and ("," in row.name) == bool(subset)
        and label in row.name
    ]
    outcome = GroupsFound(
        group=group,
        part=(subset, float(value)) if subset else None,
        groups=len(true),
        determined=int(seen.sum()),
        correct=int(exact.sum()),
        n=result["n"].estimate,
        error=float(np.sqrt(np.mean(error**2))),
        expected=float(np.sqrt(np.mean(table[f"{column}_se"].to_numpy()[seen] ** 2))),
        floor=float(np.sqrt(np.mean(np.square(floors)))) if floors else None,
        consistent=result.consistent,
    )
    return outcome, (*result.failures, *result.warnings)


def _statistics(
    release: Release, truth: Records, design: Sequence[str], progress: Progress | None
) -> tuple[StatisticsFound, tuple[str, ...]]:
    from bayesrecon.attacks.recovery import recover
    from bayesrecon.evaluate import compare, true_statistics

    known = {k: truth[k] for k in design} or None
    result = recover(release, known=known, force=True, progress=progress)
    table = compare(result, true_statistics(release.model, truth, known=tuple(design)))
    estimate, true, se, lower, upper = (
        np.asarray(table[name], float) for name in ("estimate", "truth", "se", "lower", "upper")
    )
    with np.errstate(all="ignore"):
        # Relative to the whole interval, which includes the undetermined part.
        z = Z95 * (estimate - true) / np.where(np.isnan(se) | (se > 0), (upper - lower) / 2, np.nan)
    z = z[~np.isnan(z)]
    n = result["n"] if known is None else None
    outcome = StatisticsFound(
        statistics=len(table),
        estimated=int(np.isfinite(estimate).sum()),
        determined=sum(row.verdict == "determined" for row in result.rows),
        n=n.estimate if n else None,
        n_se=_stated(n) if n else None,
        n_floor=n.floor if n else None,
        z=float(np.abs(z).max()) if len(z) else None,
        rank=result.rank,
        finite=result.gap,
        consistent=result.consistent,
    )
    return outcome, (*result.failures, *result.warnings)


def _stated(row: Row) -> float | None:
    """The standard error of a row; of a partly determined one, that of a normal distribution with its interval."""
    if row.se is not None or row.lower is None or row.upper is None:
        return row.se
    return (row.upper - row.lower) / 2 / Z95


def _first_that_works(recovered: Callable[[float], Recovery]) -> tuple[Recovery, float]:
    """The recovery in the widest interval of values where the likelihood does not overflow, and its bound."""
    for half in _WITHIN[:-1]:
        with suppress(BayesreconError):
            return recovered(half), half
    return recovered(_WITHIN[-1]), _WITHIN[-1]


def _series(release: Release, truth: Records, progress: Progress | None) -> tuple[SeriesFound, tuple[str, ...]]:
    """The entries and averages of a series that are determined, if the whole series is one record."""
    from bayesrecon.attacks.recovery import recover

    fields = release.model.fields
    averages = {
        f"{what} of {k}": partial(f, k)
        for k, v in truth.items()
        if v.ndim == 2 and v.shape[1] > 2
        for what, f in _AVERAGES.items()
    }
    real = [k for k, f in fields.items() if f.domain.kind in ("real", "interval")]

    def recovered(half: float) -> Recovery:
        bounds = {k: (max(fields[k].domain.low, -half), min(fields[k].domain.high, half)) for k in real}
        domain = bounds if np.isfinite(half) else None
        return recover(release, statistics=averages, total=1, domain=domain, force=True, progress=progress)

    result, half = _first_that_works(recovered)
    series = {k: v[0] for k, v in truth.items()}
    entries = {}
    for name, value in series.items():
        for index in np.ndindex(value.shape):
            entries[f"mean({entry(name, index)})"] = float(value[index])
    overall = {f"mean({name})": float(f(series)) for name, f in averages.items()}
    rows, wide = ([row for row in result if row.name in names] for names in (entries, overall))
    flat = entries | overall
    # If the solution fails its own check, nothing is reported.
    consistent = result.consistent
    seen = [row for row in rows if row.verdict == "determined" and consistent]
    spread = np.std([flat[row.name] for row in rows])
    halves = {r.name: ((r.upper or 0) - (r.lower or 0)) / 2 for r in wide if r.estimate is not None and consistent}
    narrow = [r for r in wide if halves.get(r.name, np.inf) < max(abs(r.estimate or 0), spread)]
    known = [r for r in narrow if r.visibility >= _SHOWN]
    errors = np.array([(row.estimate or 0) - flat[row.name] for row in seen])
    outcome = SeriesFound(
        entries=len(rows),
        determined=len(seen),
        averages=tuple(Average(r.name[5:-1], r.estimate or 0.0, flat[r.name], halves[r.name]) for r in known),
        error=float(np.sqrt(np.mean(errors**2))) if seen else None,
        expected=float(np.sqrt(np.mean([(row.se or 0) ** 2 for row in seen]))) if seen else None,
        naive_error=float(spread),
        rank=result.rank,
        finite=result.gap,
        assumed_bound=float(half) if np.isfinite(half) else None,
        consistent=consistent,
    )
    return outcome, (*result.failures, *result.warnings)


def available(*, build: bool = False) -> tuple[list[str], list[str]]:
    """Posteriors of this copy of posteriordb that can be attacked now, and the others.

    Args:
        build: whether to include those whose model is known and that would have to be sampled first.
    """
    from bayesrecon.posteriors.fitting.database import has_reference_draws, open_database, posterior_names
    from bayesrecon.posteriors.fitting.fitted import built_file
    from bayesrecon.posteriors.fitting.programs import is_readable

    database = open_database()
    names = sorted(posterior_names(database))
    ready = [
        name
        for name in names
        if (build and is_readable(name)) or has_reference_draws(database, name) or built_file(database, name)
    ]
    return ready, [name for name in names if name not in ready]
