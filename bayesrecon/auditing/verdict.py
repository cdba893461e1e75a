"""What each posterior of posteriordb gives away: one attack a posterior, scored against the data it was made from."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.errors import BayesreconError
from bayesrecon.types import Records, Release, entry

_GROUPS = 3  # values of a field from which it counts as a group
_WITHIN = (np.inf, 1e3, 100.0, 30.0, 10.0)  # bounds on the values of a series that are tried in turn
_DIVERGED = re.compile("NUTS did not converge")
_OFF = 4.0  # stated errors from which a number is off
_CHANCE = 0.05  # probability of so many records right by chance from which none count as given away
_SHOWN = 0.9  # visibility from which an average of a series is stated
_SERIES_DRAWS = 500  # of a series, each of which costs a pass through it
_MANY_ROWS, _DRAWS = 256, 2500  # known rows with a real response, many features each, and the draws they are sought in
_AVERAGES: dict[str, Callable[[str, Any], Any]] = {
    "mean": lambda k, z: z[k].mean(),
    "mean square": lambda k, z: (z[k] ** 2).mean(),
    "lag-1 product": lambda k, z: (z[k][1:] * z[k][:-1]).mean(),
}
_MOST = 12_000  # known rows, times values less one where these are few, that are solved for one by one


@dataclass(frozen=True)
class Verdict:
    """One line of the table.

    Attributes:
        attack: "records" (known design, private response), "groups" (counts and sums per group), "statistics" or
            "series" (one record that is the whole series).
        recovered: what came out, against the truth.
        error: size of the error against the truth; `expected` what the attack itself says it is, `floor` the Cramer-Rao
            floor of the same number where there is one.
        naive: the same score for the posterior-mean guess.
        verdict: in one sentence.
    """

    posterior: str
    records: int
    parameters: int
    draws: int
    source: str
    attack: str
    recovered: str
    error: str
    expected: str
    floor: str
    naive: str
    seconds: float
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return asdict(self)


def verdict(posterior: str, *, build: bool = True, progress: Callable[[str, float], None] | None = None) -> Verdict:
    """Attack one posterior of posteriordb with what its model invites, and score the result against its data.

    Args:
        posterior: posteriordb's name; the model must be shipped.
        build: sample with NUTS where there are no reference draws and the cache holds none.

    Raises:
        BayesreconError: the posterior or its model is unknown, its data are missing, or it may not be built.
    """
    from bayesrecon.attacks.records.rows import combinations
    from bayesrecon.models.registry import find, shipped
    from bayesrecon.posteriors import from_posteriordb
    from bayesrecon.posteriors.database import has_reference_draws, open_database, read_data
    from bayesrecon.posteriors.fitted import built_file

    programs = {name: program.name for program in shipped().values() for name in program.posteriors}
    if posterior not in programs:
        raise BayesreconError(f"{posterior}: no shipped model serves this posterior")
    program = find(programs[posterior])
    database = open_database()
    present = has_reference_draws(database, posterior)
    release = from_posteriordb(posterior, build=build or (not present and built_file(database, posterior) is not None))
    if program.records is None:
        raise BayesreconError(f"{posterior}: its model {program.name} has no records of posteriordb")
    data = program.records(read_data(database, posterior.rsplit("-", 1)[0]))
    truth = {k: np.asarray(v) for k, v in data.items()}
    count = len(next(iter(truth.values())))
    series = count == 1 and any(v.ndim > 1 for v in truth.values())
    unit = _unit(truth, program.design)
    private = [v for k, v in truth.items() if k not in program.design]
    sought = {k: f for k, f in release.model.fields.items() if k not in program.design}
    values = combinations(sought)
    unknowns = count * (len(next(iter(values.values()))) - 1 if values else 1)
    alone = bool(unit) and bool(private) and all(v.ndim == 1 for v in private) and unknowns <= _MOST
    many = alone and count > _MANY_ROWS and not all(f.domain.discrete for f in sought.values())
    used = _SERIES_DRAWS if series else _DRAWS if many else release.size
    release = release.take(np.linspace(0, release.size - 1, min(used, release.size)).astype(int))
    began = time.perf_counter()
    if series:
        attack, found = "series", _series(release, truth, progress)
    elif alone:
        attack, found = "records", _records(release, truth, program.design, unit, progress)
    else:
        attack, found = _totals(release, truth, program.design, unit, progress)
    return Verdict(
        posterior=posterior,
        records=count,
        parameters=release.model.dimension,
        draws=release.size,
        source="reference" if present else "own NUTS" + ", not converged" * any(map(_DIVERGED.match, release.notes)),
        attack=attack,
        seconds=time.perf_counter() - began,
        **found,
    )


def _totals(
    release: Release, truth: Records, design: Sequence[str], unit: Sequence[str], progress: Any
) -> tuple[str, dict[str, str]]:
    fields = release.model.fields
    groups = [k for k, f in fields.items() if len(f.domain.levels) >= _GROUPS]
    if groups and not unit and set(design) <= set(groups):
        counts = _groups(release, truth, max(groups, key=lambda k: len(fields[k].domain.levels)), progress)
        if counts is not None:
            return "groups", counts
    return "statistics", _statistics(release, truth, design, progress)


def _unit(truth: Records, design: Sequence[str]) -> tuple[str, ...]:
    """The first fields of the design that tell its rows apart; none if even all of them do not."""
    for size in range(1, len(design) + 1):
        names = tuple(design[:size])
        columns = np.stack([truth[k] for k in names]) if all(truth[k].ndim == 1 for k in names) else np.zeros((1, 1))
        if np.unique(columns, axis=1).shape[1] == len(truth[names[0]]):
            return names
    return ()


def _records(
    release: Release, truth: Records, design: Sequence[str], unit: tuple[str, ...], progress: Any
) -> dict[str, str]:
    from bayesrecon.attacks.reconstruction import reconstruct
    from bayesrecon.evaluate import score_records

    table: Any = reconstruct(release, known={k: truth[k] for k in design}, unit=unit, progress=progress)
    said, error, expected, floor, naive = [], [], [], [], []
    scores = score_records(table, truth)
    for name, score in scores.items():
        column, shown = table[name], np.isfinite(table[name].estimate)
        if "exact" in score:
            said.append(f"{name}: {score['exact']:.1%} exact")
            naive.append(f"{score['naive_exact']:.1%}" if "naive_exact" in score else "")
        elif shown.any():
            near = _nearer(column, score)
            said.append(f"{name}: {shown.mean():.0%} determined, {near.mean():.0%} nearer than the guess")
            naive.append(f"RMSE {score['naive_rmse']:.3g}" if "naive_rmse" in score else "")
            shown = near if near.any() else shown
        else:
            said.append(f"{name}: none determined")
        if shown.any():
            off = column.estimate[shown] - np.asarray(truth[name], float)[shown]
            error.append(f"RMSE {np.sqrt(np.mean(off**2)):.3g}")
            expected.append(f"{np.sqrt(np.mean(column.se[shown] ** 2)):.3g}")
            floor.append(f"{np.sqrt(np.mean(column.floor[shown] ** 2)):.3g}")
    exact = min((s.get("exact", float(_nearer(table[k], s).mean())) for k, s in scores.items()), default=0.0)
    guessed = max((s.get("naive_exact", 0.0) for s in scores.values()), default=0.0)
    # Of the records that the posterior mean does not show to anyone.
    gained = (exact - guessed) / (1 - guessed) if guessed < 1 else 0.0
    chance = max((s.get("chance", 0.0) for s in scores.values()), default=0.0)
    word = "every record" if exact == 1 else "most records" if gained > 0.5 else "some records"
    meaning = "single records are not determined, sums over them are"
    if gained > 0 and chance < _CHANCE:
        meaning = f"{word} given away one by one"
    if exact == guessed == 1:
        meaning = "the posterior mean shows every record to anyone"
    return {
        "recovered": "; ".join(said),
        "error": "; ".join(error),
        "expected": "; ".join(expected),
        "floor": "; ".join(floor),
        "naive": "; ".join(filter(None, naive)),
        "verdict": meaning,
    }


def _nearer(column: Any, score: dict[str, float]) -> np.ndarray:
    """Records whose stated error is below the error of the posterior-mean guess."""
    return np.nan_to_num(column.se, nan=np.inf) < score.get("naive_rmse", np.inf)


def _groups(release: Release, truth: Records, group: str, progress: Any) -> dict[str, str] | None:
    """Counts per group; None where no count is determined."""
    from bayesrecon.attacks.recovery import recover

    result = recover(release, unit=group, progress=progress)
    table = result.units()
    # The whole group's count, or that of the part of it that is seen in most groups.
    determined = {row.name for row in result if row.verdict == "determined"}

    def shown(column: str) -> np.ndarray:
        part = "," + column[2:-1] if "[" in column else ""
        return np.array([f"n[{group}={level:g}{part}]" in determined for level in table.index])

    counts = [k for k in table if re.fullmatch(r"n(\[[^\]]*\])?", k) and shown(k).any()]
    if not counts:
        return None
    column = max(counts, key=lambda k: (k == "n", shown(k).sum()))
    part, _, value = column[2:-1].partition("=")
    inside = truth[part] == float(value) if part else np.ones(len(truth[group]), bool)
    true = np.array([np.sum(inside & (truth[group] == level)) for level in table.index], float)
    seen = shown(column)
    error = table[column].to_numpy()[seen] - true[seen]
    exact = (table[f"{column}_rounded"].to_numpy()[seen] == true[seen]).mean()
    n = result["n"]
    label = f",{part}={value}]" if part else ""
    floors = [
        row.floor
        for row in result
        if row.name.startswith("n[") and row.floor is not None and ("," in row.name) == bool(part) and label in row.name
    ]
    what = f"{group}" + f" with {part} {value}" * bool(part)
    return {
        "recovered": f"{seen.sum()} of {len(true)} counts per {what}, {exact:.0%} exact; n {n.estimate or np.nan:.4g}",
        "error": f"RMSE {np.sqrt(np.mean(error**2)):.3g}",
        "expected": f"{np.sqrt(np.mean(table[f'{column}_se'].to_numpy()[seen] ** 2)):.3g}",
        "floor": f"{np.sqrt(np.mean(np.square(floors))):.3g}" if floors else "",
        "naive": "",
        "verdict": (
            f"count and sums of every {what}"
            if seen.all()
            else f"count and sums, {what}, in {seen.sum()} of {len(seen)}"
        )
        + _doubt(result),
    }


def _statistics(release: Release, truth: Records, design: Sequence[str], progress: Any) -> dict[str, str]:
    from bayesrecon.attacks.recovery import recover
    from bayesrecon.evaluate import compare, true_statistics

    known = {k: truth[k] for k in design} or None
    result = recover(release, known=known, progress=progress)
    table = compare(result, true_statistics(release.model, truth, known=tuple(design)))
    seen = table[table["estimate"].notna()]
    # In units of the whole interval, which allows for what is not seen.
    half = ((seen["upper"] - seen["lower"]) / 2).where(seen["se"] > 0)
    z = (Z95 * (seen["estimate"] - seen["truth"]) / half).dropna().to_numpy()
    said = [f"{len(seen)} of {len(table)} statistics"]
    error = expected = floor = ""
    if known is None and result["n"].estimate is not None:
        n, count = result["n"], len(next(iter(truth.values())))
        said.append(f"n {n.estimate:.5g}")
        error, expected = f"n {(n.estimate or 0) / count - 1:+.1%}", f"{(n.se or 0) / count:.1%}"
        floor = f"{(n.floor or 0) / count:.1%}"
    if len(z):
        error = "; ".join(filter(None, [error, f"largest z {np.abs(z).max():.1f}"]))
    determined = int((table["verdict"] == "determined").sum())
    kind = "features exactly" if result.gap else "decaying spectrum"
    return {
        "recovered": ", ".join(said),
        "error": error,
        "expected": expected,
        "floor": floor,
        "naive": "",
        "verdict": f"{determined} statistics determined ({result.rank} {kind})" + _doubt(result),
    }


def _doubt(result: Any) -> str:
    """Added to a verdict whose result contradicts the draws it was solved from."""
    return " (the solution fails its check)" if any("disagree" in warning for warning in result.warnings) else ""


def _series(release: Release, truth: Records, progress: Any) -> dict[str, str]:
    """One record that is the whole series: which of its entries and averages does its kernel show?"""
    from bayesrecon.attacks.recovery import recover

    fields = release.model.fields
    averages = {
        f"{what} of {k}": partial(f, k)
        for k, v in truth.items()
        if v.ndim == 2 and v.shape[1] > 2
        for what, f in _AVERAGES.items()
    }
    real = [k for k, f in fields.items() if f.domain.kind in ("real", "interval")]
    # Far from any data a likelihood of a whole series overflows; the widest interval that works is stated.
    for half in _WITHIN:
        ends = {k: (max(fields[k].domain.low, -half), min(fields[k].domain.high, half)) for k in real}
        try:
            within = ends if np.isfinite(half) else None
            result = recover(release, statistics=averages, total=1, bounds=within, progress=progress)
        except BayesreconError:
            if half == _WITHIN[-1]:
                raise
        else:
            break
    one = {k: v[0] for k, v in truth.items()}
    entries = {}
    for name, value in one.items():
        for index in np.ndindex(value.shape):
            entries[f"mean({entry(name, index)})"] = float(value[index])
    overall = {f"mean({name})": float(f(one)) for name, f in averages.items()}
    rows, wide = ([row for row in result if row.name in names] for names in (entries, overall))
    flat = entries | overall
    # Where the solution fails its own check, nothing of it is stated.
    sound = not _doubt(result)
    seen = [row for row in rows if row.verdict == "determined" and sound]
    spread = np.std([flat[row.name] for row in rows])
    halves = {r.name: ((r.upper or 0) - (r.lower or 0)) / 2 for r in wide if r.estimate is not None and sound}
    narrow = [r for r in wide if halves.get(r.name, np.inf) < max(abs(r.estimate or 0), spread)]
    known = [r for r in narrow if r.visibility >= _SHOWN]
    errors = np.array([(row.estimate or 0) - flat[row.name] for row in seen])
    kind = "" if result.gap else ", decaying"
    kind += f", values within {half:g}" if np.isfinite(half) else ""
    said = [f"RMSE {np.sqrt(np.mean(errors**2)):.3g}"] if seen else []
    off = 0.0
    if known:
        off = max(Z95 * abs((r.estimate or 0) - flat[r.name]) / halves[r.name] for r in known)
        said.append(f"averages' largest z {off:.1f}")
    far = ", further from the truth than stated" if off > _OFF else ""
    shown = "".join(f"; {row.name[5:-1]} {row.estimate:.3g} ({flat[row.name]:.3g})" for row in known)
    return {
        "recovered": f"{len(seen)} of {len(rows)} entries{shown}; rank {result.rank}{kind}",
        "error": "; ".join(said),
        "expected": f"{np.sqrt(np.mean([(row.se or 0) ** 2 for row in seen])):.3g}" if seen else "",
        "floor": "",
        "naive": f"RMSE {spread:.3g}",
        "verdict": "entries of the series"
        if seen
        else f"does not factorise: {'averages' if known else 'functions'} of the whole series, no entry of it{far}"
        + _doubt(result),
    }


def available(*, build: bool = False) -> tuple[list[str], list[str]]:
    """Posteriors of this copy of posteriordb that can be attacked now, and the rest.

    Args:
        build: count those that would have to be sampled first as well.
    """
    from bayesrecon.models import shipped
    from bayesrecon.posteriors.database import has_reference_draws, open_database, posterior_names
    from bayesrecon.posteriors.fitted import built_file

    database = open_database()
    covered = {name for entry in shipped().values() for name in entry.posteriors}
    names = sorted(posterior_names(database))
    ready = [
        name
        for name in names
        if name in covered and (build or has_reference_draws(database, name) or built_file(database, name))
    ]
    return ready, [name for name in names if name not in ready]


COLUMNS = {
    "posterior": "posterior",
    "records": "N",
    "parameters": "d",
    "draws": "T",
    "source": "draws",
    "attack": "attack",
    "recovered": "recovered",
    "error": "error",
    "expected": "stated error",
    "floor": "floor",
    "naive": "naive guess",
    "seconds": "s",
    "verdict": "verdict",
}
"""Fields of a `Verdict` in the order of the table, with their headings."""


def cells(row: Verdict) -> list[str]:
    """A row of the table as text."""
    return [f"{v:.0f}" if k == "seconds" else str(v) for k, v in row.to_dict().items() if k in COLUMNS]
