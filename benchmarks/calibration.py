"""Whether what is stated is true, over many data sets, as the page benchmarks/CALIBRATION.md.

python benchmarks/calibration.py [intervals] [bounds] [planner] [--repetitions 1000] [--data group_effects ...]

To be run when an estimator changes: the slow tests hold a small version of each study. Data sets are simulated and
their posteriors sampled exactly (tests/support), so that nothing but the estimator is judged. Rows are kept in
benchmarks/calibration.json as they are made, and replaced by study.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from multiprocessing import TimeoutError, get_context
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

import conjugate  # noqa: E402
import families  # noqa: E402
import gridded  # noqa: E402

import bayesrecon  # noqa: E402
from bayesrecon.evaluate import clopper_pearson, true_statistics  # noqa: E402
from bayesrecon.posteriors import from_draws  # noqa: E402

ROWS, PAGE = HERE / "calibration.json", HERE / "CALIBRATION.md"
DRAWS, LKJ = 1000, "normal with LKJ"
TOGETHER, MINUTES, TRIES = 100, 15, 3

INTRODUCTION = """# Whether what is stated is true

Made by `python benchmarks/calibration.py`: simulated data sets, posteriors sampled exactly, every attack scored against
the data. *Intervals*: 1,000 draws each, 2,000 of group effects and of the normal law with an LKJ prior; the share of
repetitions in which the interval of a statistic that is called determined, stated at 95 %, holds the truth. *Bounds*:
4,000 draws each; the share in which all bounds of a data set hold together, stated at 99 %. *Planner*: error over
predicted error, the root of its mean square; right is 1. *False alarms*: repetitions with any warning, though model and
draws are right. Ranges are 95 % Clopper-Pearson intervals.
"""
HEADINGS = ("study", "quantity", "repetitions", "stated", "found", "95 %")


def normal_mean(rng):
    y = rng.normal(2, 1, 60)
    return {"y": y}, from_draws(conjugate.sample_normal_mean(y, DRAWS, rng), conjugate.normal_mean_model())


def linear_regression(rng):
    x = rng.normal(3, 2, (60, 1))
    y = 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, 60)
    return {"x": x, "y": y}, from_draws(conjugate.sample_regression(x, y, DRAWS, rng), conjugate.regression_model())


def group_effects(rng):
    group = np.repeat(np.arange(1, 6), 12)
    y = rng.normal(0, 1, 5)[group - 1] + rng.normal(size=60)
    draws = conjugate.sample_effects(group, y, 5, 2 * DRAWS, rng)
    return {"group": group, "y": y}, from_draws(draws, conjugate.effects_model(5))


def normal_with_lkj(rng):
    return families.simulated(LKJ, _lkj(), int(rng.integers(2**31)), 2 * DRAWS)


@cache
def _lkj():
    return families.model_of(LKJ)


def share(study: str, quantity: str, stated: str, hits: list[bool]) -> dict[str, str]:
    range_ = clopper_pearson(sum(hits), len(hits))
    cells = (study, quantity, f"{len(hits)}", stated, f"{np.mean(hits):.1%}")
    return dict(zip(HEADINGS, (*cells, f"{range_.lower:.1%} to {range_.upper:.1%}"), strict=True))


DATA = {f.__name__: f for f in (normal_mean, linear_regression, group_effects, normal_with_lkj)}


def held(data: str, keys: Sequence[int]) -> list[tuple[dict[str, bool], bool]]:
    """For each data set whether the interval of what is determined holds the truth, and whether there was a warning."""
    found = []
    for key in keys:
        records, release = DATA[data](np.random.default_rng([20, key]))
        result, truth = bayesrecon.recover(release, key=key), true_statistics(release.model, records)
        rows = [row for row in result if row.verdict == "determined"]
        inside = {row.name: bool(row.lower <= truth[row.name] <= row.upper) for row in rows}
        found.append((inside, bool(result.warnings)))
    return found


def apart(data: str, keys: Sequence[int]) -> list[tuple[dict[str, bool], bool]]:
    """`held` in a process of its own: after some hundred fits in one process XLA has been seen to wait for ever."""
    for _ in range(TRIES):
        with get_context("spawn").Pool(1) as pool:
            try:
                return pool.apply_async(held, (data, keys)).get(MINUTES * 60)
            except TimeoutError:
                print(f"{data}: {len(keys)} fits did not end in {MINUTES} minutes, once more", file=sys.stderr)
    raise SystemExit(f"{data}: fits {keys[0]} to {keys[-1]} did not end in {TRIES} goes of {MINUTES} minutes")


def intervals(repetitions: int, data: Sequence[str] = tuple(DATA)) -> Iterator[dict[str, str]]:
    """Coverage of every statistic that is called determined."""
    for name in data:
        inside: dict[str, list[bool]] = {}
        alarms = []
        for first in range(0, repetitions, TOGETHER):
            for hits, alarm in apart(name, range(first, min(first + TOGETHER, repetitions))):
                alarms.append(alarm)
                for statistic, hit in hits.items():
                    inside.setdefault(statistic, []).append(hit)
        study = f"intervals, {name.replace('_', ' ')}"
        yield from (share(study, statistic, "95 %", hits) for statistic, hits in inside.items())
        yield share(study, "all", "95 %", [hit for hits in inside.values() for hit in hits])
        yield share(study, "false alarms", "", alarms)


def bounds(repetitions: int) -> Iterator[dict[str, str]]:
    """Joint coverage of all bounds of a data set."""
    for simulate in (gridded.logistic, gridded.poisson):
        rng, hits = np.random.default_rng(1), []
        for key in range(max(repetitions // 10, 1)):
            data, release, domain = simulate(rng)
            truth = true_statistics(release.model, data)
            found = bayesrecon.bound(release, domain=domain, key=key, variances=False).intervals
            hits.append(
                all(
                    (i.lower is None or i.lower <= truth[i.name]) and (i.upper is None or truth[i.name] <= i.upper)
                    for i in found
                )
            )
        yield share(f"bounds, {simulate.__name__}", "all together", "99 %", hits)


def planner(repetitions: int) -> Iterator[dict[str, str]]:
    """Errors over the error that one release of 10,000 draws predicts."""
    rng = np.random.default_rng(2)
    data, first = linear_regression(rng)
    model = first.model
    truth, ratios = true_statistics(model, data), []

    def release():
        return from_draws(conjugate.sample_regression(data["x"], data["y"], 10_000, rng), model)

    plan = bayesrecon.plan(release(), draws=(10_000,), digits=(), summaries=False)
    count = max(repetitions // 5, 1)
    for _ in range(count):
        ratios += [
            (row.estimate - truth[row.name]) / plan[row.name].se[10_000] for row in bayesrecon.recover(release())
        ]
    size = float(np.sqrt(np.mean(np.square(ratios))))
    cells = ("planner, linear regression", "error / predicted", f"{count}", "1", f"{size:.2f}", "")
    yield dict(zip(HEADINGS, cells, strict=True))


STUDIES: dict[str, Callable[..., Iterator[dict[str, str]]]] = {
    "intervals": intervals,
    "bounds": bounds,
    "planner": planner,
}


def keep(name: str, rows: list[dict[str, str]]) -> None:
    held = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    made = {row["study"] for row in rows}
    held[name] = [row for row in held.get(name, []) if row["study"] not in made] + rows
    ROWS.write_text(json.dumps(held, indent=1) + "\n")
    lines = [INTRODUCTION, "| " + " | ".join(HEADINGS) + " |", "| --- | --- |" + " ---: |" * (len(HEADINGS) - 2)]
    lines += ["| " + " | ".join(row.values()) + " |" for name in STUDIES for row in held.get(name, [])]
    PAGE.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("studies", nargs="*", default=list(STUDIES), help=", ".join(STUDIES))
    parser.add_argument("--repetitions", type=int, default=1000, help="data sets a study; a tenth for bounds")
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA), help="of `intervals`")
    given = parser.parse_args()
    for name in given.studies:
        more = {"data": given.data} if name == "intervals" else {}
        rows: list[dict[str, str]] = []
        for row in STUDIES[name](given.repetitions, **more):
            print(*row.values(), sep=" | ", flush=True)
            rows.append(row)
            keep(name, rows)


if __name__ == "__main__":
    main()
