"""Whether what is stated is true, over many data sets, as the page benchmarks/CALIBRATION.md.

python -m benchmarks.draws.calibration [intervals] [bounds] [planner] [--repetitions 1000] [--data group_effects ...]
    [--workers 4]

To be run when an estimator changes: the slow tests hold a small version of each study. Each data set is made of its own
number, whoever works on it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import bayesrecon
from bayesrecon.evaluate import true_statistics
from bayesrecon.posteriors import from_draws
from bayesrecon.running.engine import swept
from benchmarks import workers
from benchmarks.draws import conjugates
from benchmarks.study import Study, share, table
from tests.support import conjugate, families, gridded

DRAWS, LKJ = 1000, "normal with LKJ"

INTRODUCTION = """# Calibration: do stated errors and intervals hold?

Made by `python -m benchmarks.draws.calibration`. Data sets are simulated, posteriors are sampled exactly, and every
attack is scored against the data.

* *Intervals*: the coverage of nominal 95 % intervals of determined statistics, from 1,000 draws each (2,000 for group
  effects and for the normal distribution with an LKJ prior).
* *Bounds*: the share of data sets whose bounds all hold, nominally 99 %, from 4,000 draws each.
* *Planner*: the root mean square of the error over the predicted error. The ideal is 1.
* *False alarms*: the share of repetitions with any warning, although model and draws are right.

Ranges are 95 % Clopper-Pearson intervals.
"""
HEADINGS = ("study", "quantity", "repetitions", "stated", "found", "95 %")


DATA: dict[str, Callable[[np.random.Generator], conjugates.Simulated]] = {
    "normal_mean": lambda rng: conjugates.normal_mean(rng, DRAWS),
    "linear_regression": lambda rng: conjugates.regression(rng, DRAWS, [0.5]),
    "group_effects": lambda rng: conjugates.effects(rng, 2 * DRAWS),
    "normal_with_lkj": lambda rng: families.simulated(LKJ, families.model_of(LKJ), int(rng.integers(2**31)), 2 * DRAWS),
}


def row(study: str, quantity: str, stated: str, hits: list[bool]) -> dict[str, str]:
    count, *found = share(hits)
    return dict(zip(HEADINGS, (study, quantity, count, stated, *found), strict=True))


def held(data: str, key: int) -> tuple[dict[str, bool], bool]:
    """Whether the intervals of what is determined hold the truth, and whether there was a warning."""
    records, release = DATA[data](np.random.default_rng([20, key]))
    result, truth = bayesrecon.recover(release, key=key), true_statistics(release.model, records)
    rows = [row for row in result if row.verdict == "determined"]
    inside = {row.name: bool(row.lower <= truth[row.name] <= row.upper) for row in rows}
    return inside, bool(result.warnings)


def intervals(repetitions: int, data: Sequence[str] = tuple(DATA)) -> Iterator[dict[str, str]]:
    for name in data:
        inside: dict[str, list[bool]] = {}
        alarms = []
        for hits, alarm in swept(held, name, range(repetitions)):
            alarms.append(alarm)
            for statistic, hit in hits.items():
                inside.setdefault(statistic, []).append(hit)
        study = f"intervals, {name.replace('_', ' ')}"
        yield from (row(study, statistic, "95 %", hits) for statistic, hits in inside.items())
        yield row(study, "all", "95 %", [hit for hits in inside.values() for hit in hits])
        yield row(study, "false alarms", "", alarms)


def bounded(simulate: Callable[..., Any], key: int) -> bool:
    data, release, domain = simulate(np.random.default_rng([1, key]))
    truth = true_statistics(release.model, data)
    found = bayesrecon.bound(release, domain=domain, key=key, variances=False).intervals
    ends = ((i.lower, truth[i.name], i.upper) for i in found)
    return all((low is None or low <= true) and (high is None or true <= high) for low, true, high in ends)


def bounds(repetitions: int) -> Iterator[dict[str, str]]:
    for simulate in (gridded.logistic, gridded.poisson):
        hits = list(swept(bounded, simulate, range(max(repetitions // 10, 1))))
        yield row(f"bounds, {simulate.__name__}", "all together", "99 %", hits)


def missed(planned: tuple[dict[str, np.ndarray], dict[str, float]], key: int) -> list[float]:
    """Errors of a release of planned records over the errors that were predicted."""
    data, predicted = planned
    release = long(data, [2, 1 + key])
    truth = true_statistics(release.model, data)
    return [(row.estimate - truth[row.name]) / predicted[row.name] for row in bayesrecon.recover(release)]


def long(data: dict[str, np.ndarray], key: Sequence[int]) -> Any:
    draws = conjugate.sample_regression(data["x"], data["y"], 10_000, np.random.default_rng(key))
    return from_draws(draws, conjugate.regression_model())


def planner(repetitions: int) -> Iterator[dict[str, str]]:
    """Errors over the error that one release of 10,000 draws predicts."""
    data, _ = DATA["linear_regression"](np.random.default_rng(2))
    plan = bayesrecon.plan(long(data, [2, 0]), draws=(10_000,), digits=(), summaries=False)
    predicted = {row.name: row.se[10_000] for row in plan.outlooks}
    count = max(repetitions // 5, 1)
    ratios = np.concatenate(list(swept(missed, (data, predicted), range(count))))
    size = float(np.sqrt(np.mean(np.square(ratios))))
    cells = ("planner, linear regression", "error / predicted", f"{count}", "1", f"{size:.2f}", "")
    yield dict(zip(HEADINGS, cells, strict=True))


STUDIES: dict[str, Callable[..., Iterator[dict[str, str]]]] = {f.__name__: f for f in (intervals, bounds, planner)}


def page(held: dict[str, list[dict[str, str]]]) -> str:
    rows = [list(row.values()) for name in STUDIES for row in held.get(name, [])]
    return f"{INTRODUCTION}\n{table(list(HEADINGS), rows, words=2)}\n"


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("studies", nargs="*", default=list(STUDIES), help=", ".join(STUDIES))
    parser.add_argument("--repetitions", type=int, default=1000, help="data sets a study; a tenth for bounds")
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA), help="of `intervals`")
    workers.add_arguments(parser)
    given = STUDY.given(parser)
    with workers.engine(given):
        for name in given.studies:
            more = {"data": given.data} if name == "intervals" else {}
            rows: list[dict[str, str]] = []
            for one in STUDIES[name](given.repetitions, **more):
                print(*one.values(), sep=" | ", flush=True)
                rows.append(one)
                made = {each["study"] for each in rows}
                before = [each for each in STUDY.kept().get(name, []) if each["study"] not in made]
                STUDY.add(**{name: before + rows})


if __name__ == "__main__":
    main()
