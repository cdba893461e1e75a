"""Families of likelihoods that nothing was built or tuned on: do errors hold there as they do elsewhere?

python -m benchmarks.draws.unseen [family ...] [--sets 40] [--first 0] [--draws 2000] [--workers 2]
    [--minutes 7] [--anew] [--into FILE] [--add FILE ...]

As `families.py`: simulated data sets, independent draws of the posterior, `recover` without any option. A row is one
data set; those that were measured before stay, so that a run goes on where another ended.
"""

from typing import Any

import numpy as np

from bayesrecon.evaluate import clopper_pearson, true_statistics
from benchmarks import sweep, workers
from benchmarks.draws import held
from benchmarks.study import Study, table
from tests.support.unseen_families import UNSEEN, model_of, simulated

RECORDS = 300

INTRODUCTION = f"""# Likelihoods that were not used in development

Made by `python -m benchmarks.draws.unseen`. `recover` runs with default options on ten families of likelihoods that
occur nowhere else in the repository. Each has one covariate, {RECORDS} records and
exact posterior draws.

* *Refused*: `recover` ended in an error.
* *Failed*: a check of draws and model failed, a false alarm here.
* *z*: errors of n in standard errors, where it was determined.
* *Determined* and *partly*: numbers of statistics with that verdict, each followed by the coverage of their intervals.
* *rms*: root mean square of all errors in half-widths of the intervals, .51 for 95 % intervals and normal errors.
* *s*: median CPU seconds of `recover`.
"""
COLUMNS = (
    "sets", "refused", "failed", "mean of z", "rms of z", "determined", "coverage", "partly", "coverage, partly",
    "rms", "s",
)  # fmt: skip
SHOWN = ("family", "set", "z", "determined", "partly", "failed", "refused")


def studied(_: None, item: dict[str, Any]) -> dict[str, Any]:
    """Of one data set: the error of n, how many intervals held by verdict, and what was said of the draws."""
    data, release = simulated(item["family"], model_of(item["family"]), item["set"], item["draws"], RECORDS)
    row = {**item, "refused": "", "failed": [], "z": None}
    recovery, told = held.attacked(release, item["set"])
    if recovery is None:
        return row | held.counted((), {}) | told
    truth, count = true_statistics(release.model, data), recovery["n"]
    if count.verdict == "determined" and count.se:
        row["z"] = (count.estimate - RECORDS) / count.se
    return row | held.counted(recovery.rows, truth) | told


def shown(name: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    z = np.array([r["z"] for r in rows if r["z"] is not None])
    cells = {"family": name, "sets": f"{len(rows)}"}
    cells |= {k: f"{sum(bool(r[k]) for r in rows)}" for k in ("refused", "failed")}
    cells |= {"mean of z": f"{z.mean():+.2f}" if z.size else "", "rms of z": _root(z) if z.size else ""}
    cells |= held.shares(rows, {"determined": "coverage", "partly": "coverage, partly"})
    return cells | {"s": f"{np.median([r['seconds'] for r in rows]):.1f}"}


def _root(z: np.ndarray) -> str:
    return f"{np.sqrt(np.mean(z**2)):.2f}"


def written(rows: list[dict[str, Any]]) -> str:
    groups = [(name, [r for r in rows if r["family"] == name]) for name in UNSEEN]
    columns = ("family", *COLUMNS)
    cells = [*(shown(name, some) for name, some in groups if some), shown("all", rows)]
    lines = [INTRODUCTION, table(columns, [[row[c] for c in columns] for row in cells])]
    for verdict in held.VERDICTS:
        inside, count = held.sums(rows, verdict)
        if count:
            range_ = clopper_pearson(inside, count)
            lines += ["", f"Verdict `{verdict}`: {inside} of {count} intervals contain the truth, {inside / count:.1%}"]
            lines[-1] += f" ({range_.lower:.1%} to {range_.upper:.1%} as if they were independent)."
    return "\n".join(lines) + "\n"


STUDY = Study(__file__, written, empty=list)


def place(row: dict[str, Any]) -> tuple[int, int]:
    """Of a data set on the page."""
    return list(UNSEEN).index(row["family"]), row["set"]


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("families", nargs="*", default=list(UNSEEN), help=", ".join(UNSEEN))
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first data set")
    parser.add_argument("--draws", type=int, default=2000)
    sweep.add_arguments(parser)
    given = STUDY.given(parser)
    workers.check_names(parser, given.families, UNSEEN)
    rows = sweep.Rows(STUDY, place, given)
    left = rows.left(
        {"family": name, "set": key, "draws": given.draws}
        for name in given.families
        for key in range(given.first, given.sets)
    )
    for number, row in enumerate(sweep.measured(studied, None, left, given), 1):
        rows.add(row)
        print(f"{number}/{len(left)}", *(row[k] for k in SHOWN), f"{row['seconds']:.1f}", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
