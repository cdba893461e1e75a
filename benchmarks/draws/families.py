"""Families of likelihoods that people use: does `recover` find its way without any option, and do its errors hold?

python -m benchmarks.draws.families [family ...] [--sets 80] [--draws 2000] [--workers 4]

Data sets are simulated, posteriors sampled without a chain: from a t distribution around the mode, accepted by the
ratio of the densities. `recover` is given the draws and the program, no bounds, no domain that the program does not
tell.
"""

import json
import time
import warnings
from typing import Any

import numpy as np

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import true_statistics
from bayesrecon.running.engine import swept
from benchmarks import workers
from benchmarks.study import Study, share, table
from tests.support.families import FAMILIES, RECORDS, model_of, simulated

INTRODUCTION = """# Families of likelihoods

Made by `python -m benchmarks.draws.families`. `recover` runs with default options on exact posterior draws of
simulated data sets of {records} records each.

* *Refused*: `recover` ended in an error.
* *Failed*: a check of draws and model failed, a false alarm here.
* *z*: errors of n in standard errors, where n was determined.
* *Covered*: coverage of the intervals of determined statistics, with a 95 % Clopper-Pearson interval that treats them
  as independent.
* *Partly*: statistics with the verdict `partly`, and the coverage of their intervals (blank where it was not counted).
"""
COLUMNS = ("family", "draws", "sets", "refused", "failed", "mean of z", "rms of z", "determined", "covered", "95 %")
COLUMNS += ("partly", "held", "s")


def studied(shared: tuple[str, int], key: int) -> tuple[float | None, list[tuple[str, bool]], str]:
    """Of one data set: the error of its count in standard errors, verdicts with whether the truth is inside, and what
    was said where draws were "refused" or a check "failed"."""
    name, draws = shared
    model = model_of(name)
    data, release = simulated(name, model, key, draws)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recovery = bayesrecon.recover(release, key=key, force=True)
    except BayesreconError as error:
        return None, [], f"refused: {error}"
    count, truth = recovery["n"], true_statistics(model, data)
    z = None if count.estimate is None or not count.se else (count.estimate - RECORDS) / count.se
    stated = [row for row in recovery.rows if row.lower is not None and row.upper is not None]
    hits = [(row.verdict, bool(row.lower <= truth[row.name] <= row.upper)) for row in stated]
    return z, hits, "" if recovery.consistent else "failed: " + " ".join(recovery.failures)


def study(name: str, sets: int, draws: int) -> dict[str, Any]:
    z, refused, failed = [], 0, 0
    held: dict[str, list[bool]] = {"determined": [], "partly": []}
    began = time.perf_counter()
    for key, (error, hits, said) in enumerate(swept(studied, (name, draws), range(sets))):
        if said:
            print(name, key, said, flush=True)
        refused, failed = refused + said.startswith("refused"), failed + said.startswith("failed")
        z += [] if error is None else [error]
        for verdict, hit in hits:
            held.get(verdict, []).append(hit)
    found = {verdict: (sum(each), len(each)) for verdict, each in held.items()}
    return summary(name, (draws, sets, refused, failed), np.array(z), found, time.perf_counter() - began)


def summary(
    name: str, counts: tuple[int, ...], z: np.ndarray, hits: dict[str, tuple[int, int]], seconds: float
) -> dict[str, Any]:
    inside, determined = hits["determined"]
    held, partly = hits["partly"]
    found = share([True] * inside + [False] * (determined - inside))
    about = (f"{z.mean():+.2f}", f"{np.sqrt(np.mean(z**2)):.2f}") if z.size else ("", "")
    told = (f"{partly}", f"{held / partly:.1%}") if partly else ("", "")
    cells = (name, *map(str, counts), *about, *found, *told, f"{seconds / counts[1]:.1f}")
    return dict(zip(COLUMNS, cells, strict=True)) | {"zs": json.dumps(np.round(z, 3).tolist()), "hits": hits}


def page(rows: list[dict[str, Any]]) -> str:
    z = np.concatenate([json.loads(r["zs"]) for r in rows])
    sets, refused, failed = (sum(int(r[c]) for r in rows) for c in ("sets", "refused", "failed"))
    hits = {v: tuple(sum(r["hits"][v][i] for r in rows) for i in range(2)) for v in ("determined", "partly")}
    all_ = summary("all", (0, sets, refused, failed), z, hits, 0.0) | {"draws": "", "s": ""}
    cells = [[row[c] for c in COLUMNS] for row in (*rows, all_)]
    return f"{INTRODUCTION.format(records=RECORDS)}\n{table(COLUMNS, cells)}\n"


STUDY = Study(__file__, page, empty=list)


def main() -> None:
    parser = STUDY.parser(__doc__, sets=80, draws=2000)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), help=", ".join(FAMILIES))
    workers.add_arguments(parser)
    given = STUDY.given(parser)
    workers.check_names(parser, given.families, FAMILIES)
    with workers.engine(given):
        for name in given.families:
            row = study(name, given.sets, given.draws)
            print(*(row[c] for c in COLUMNS), sep=" | ", flush=True)
            held = {r["family"]: r for r in STUDY.kept()} | {name: row}
            STUDY.keep([held[one] for one in FAMILIES if one in held])


if __name__ == "__main__":
    main()
