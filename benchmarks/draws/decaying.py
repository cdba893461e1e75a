"""Regressions whose spectrum decays: is the number of records recovered without bias, and do the intervals hold?

python -m benchmarks.draws.decaying [family ...] [--covariates 3 5 8 12] [--shapes normal] [--sets 40] [--workers 2]
    [--minutes 7] [--anew] [--into FILE] [--add FILE ...]

Logistic, Poisson, ordered and negative binomial regressions on standard normal covariates that nobody knows, of 200 to
2,000 records, with 1,000 to 10,000 independent draws of the posterior, sampled without a chain; and on covariates of
other distributions than generic records have. `recover` is given draws and program alone. A row is one data set. Rows
of earlier runs are kept, so a run goes on where another one ended.
"""

import argparse
from typing import Any

import numpy as np

from bayesrecon.evaluate import clopper_pearson, true_statistics
from benchmarks import sweep, workers
from benchmarks.draws import held
from benchmarks.study import Study, table
from tests.support.covariates import DRAWS, RECORDS, REGRESSIONS, SHAPES, draws_of, simulated

COVARIATES = (3, 5, 8, 12)

INTRODUCTION = """# Regressions whose spectrum decays

Made by `python -m benchmarks.draws.decaying`. `recover` runs with default options on data sets of 200, 500, 1,000 and
2,000 records. The covariates are standard normal and unknown to the attacker. For each size there are 1,000, 2,000,
4,000 and 10,000 independent posterior draws, every combination in turn: the first four data sets have 1,000 draws, the
next four 2,000.

* *Refused*: `recover` ended in an error.
* *Failed*: a check of draws and model failed, a false alarm here.
* *Stated*: data sets in which n has an estimate.
* *Bias*: mean error of n in half-widths of its interval.
* *n covered*: intervals of n that contain the true number.
* *Determined* and *partly*: numbers of statistics with that verdict, each followed by the coverage of their intervals.
* *rms*: root mean square of all errors in half-widths, .51 for 95 % intervals and normal errors.
* *s*: median CPU seconds of `recover`, with several processes at once.
"""
OTHER = """
## Covariates with other distributions

Five covariates of a logistic regression, three of a Poisson and four of an ordered one, with about the scale of
standard normal ones. Their distributions differ from that of generic records:

* *correlated*, *uniform*, *lognormal*;
* *binary*: two values; *two peaks*: bimodal;
* *a small group*: a tenth of the records is far from the others;
* *a square*: one covariate is the square of another;
* *t, 3 degrees*: a t distribution with three degrees of freedom;
* *outliers*: one record in twenty is six times as far from the centre.

"""
COLUMNS = (
    "sets", "refused", "failed", "stated", "bias", "n covered", "determined", "coverage", "partly", "coverage, partly",
    "rms", "s",
)  # fmt: skip
SHOWN = (
    "family", "covariates", "shape", "set", "records", "draws", "n", "half", "verdict", "determined", "partly",
    "failed", "refused",
)  # fmt: skip
USUAL = {"logistic": 5, "Poisson": 3, "ordered": 4, "negative binomial": 3}  # covariates with other distributions


def studied(_: None, item: dict[str, Any]) -> dict[str, Any]:
    """Of one data set: n with its interval, how many intervals held by verdict, and what was said of the draws."""
    model, data, release = simulated(item["family"], item["covariates"], item["set"], item["shape"])
    row = {**item, "draws": release.size, "records": len(data["y"]), "rank": 0}
    row |= {"refused": "", "failed": [], "n": None, "half": None, "verdict": ""}
    recovery, told = held.attacked(release, item["set"])
    if recovery is None:
        return row | held.counted((), {}) | told
    row["rank"] = recovery.rank
    truth, count = true_statistics(model, data), recovery["n"]
    if count.estimate is not None:
        row |= {"n": count.estimate, "half": (count.upper - count.lower) / 2}
        row |= {"held": bool(count.lower <= row["records"] <= count.upper)}
    # What failed a check states nothing: its verdicts before that are those of `force`.
    row["verdict"] = count.verdict
    return row | held.counted(recovery.rows, truth) | told


def shown(rows: list[dict[str, Any]], first: tuple[str, str], names: tuple[str, ...]) -> dict[str, str]:
    stated = [r for r in rows if r["n"] is not None]
    cells = dict(zip(first, names, strict=True)) | {"sets": f"{len(rows)}"}
    cells |= {
        "refused": f"{sum(bool(r['refused']) for r in rows)}",
        "failed": f"{sum(bool(r['failed']) for r in rows)}",
    }
    cells |= {"stated": f"{len(stated)}", "n covered": f"{sum(r['held'] for r in stated)}"}
    bias = np.mean([(r["n"] - r["records"]) / r["half"] for r in stated]) if stated else np.nan
    cells["bias"] = f"{bias:+.2f}" if stated else ""
    cells |= held.shares(rows, {"determined": "coverage", "partly": "coverage, partly"})
    return cells | {"s": f"{np.median([r['seconds'] for r in rows]):.1f}"}


def part(rows: list[dict[str, Any]], first: tuple[str, str], names: list[tuple[str, int | str]]) -> str:
    """A row for every cell that was tried, and one of all."""
    groups = [(name, [r for r in rows if tuple(r[k] for k in first) == name]) for name in names]
    cells = [shown(some, first, tuple(map(str, name))) for name, some in groups if some]
    columns = (*first, *COLUMNS)
    cells.append(shown(rows, first, ("all", "")))
    lines = [table(columns, [[row[c] for c in columns] for row in cells])]
    inside, count = held.sums(rows, *held.VERDICTS)
    if count:
        range_ = clopper_pearson(inside, count)
        lines += ["", f"All intervals: {inside} of {count} contain the truth, {inside / count:.1%}"]
        lines[-1] += f" ({range_.lower:.1%} to {range_.upper:.1%} as if they were independent)."
    return "\n".join(lines) + "\n"


def page(rows: list[dict[str, Any]]) -> str:
    normal, other = ([r for r in rows if (r["shape"] == "normal") == one] for one in (True, False))
    text = INTRODUCTION + "\n"
    text += part(normal, ("family", "covariates"), [(f, d) for f in REGRESSIONS for d in COVARIATES])
    if other:
        text += OTHER + part(other, ("shape", "family"), [(s, f) for s in SHAPES for f in REGRESSIONS])
    return text


STUDY = Study(__file__, page, empty=list)


def place(row: dict[str, Any]) -> tuple[int, int, int, int]:
    """Of a data set on the page."""
    return list(SHAPES).index(row["shape"]), REGRESSIONS.index(row["family"]), row["covariates"], row["set"]


def items(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Data sets to be measured: a round of all sizes of every cell after another, so that what was measured is even
    when time is over, and the longest of a round first, so that no worker waits for another."""
    found = [
        {"family": family, "covariates": covariates, "shape": shape, "set": key}
        for shape in given.shapes
        for family in given.families
        for covariates in (given.covariates if shape == "normal" else [USUAL[family]])
        for key in range(given.first, given.sets)
    ]
    sizes = len(RECORDS) * len(DRAWS)
    return sorted(found, key=lambda one: (one["set"] // sizes, -draws_of(one["set"]), -one["covariates"]))


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("families", nargs="*", default=list(REGRESSIONS), help=", ".join(REGRESSIONS))
    parser.add_argument("--covariates", type=int, nargs="*", default=list(COVARIATES))
    parser.add_argument(
        "--shapes", nargs="*", choices=list(SHAPES), default=["normal"], help="distributions of the covariates"
    )
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first data set")
    sweep.add_arguments(parser)
    given = STUDY.given(parser)
    workers.check_names(parser, given.families, REGRESSIONS)
    rows = sweep.Rows(STUDY, place, given)
    left = rows.left(items(given))
    for number, row in enumerate(sweep.measured(studied, None, left, given), 1):
        rows.add(row)
        print(f"{number}/{len(left)}", *(row[k] for k in SHOWN), f"{row['seconds']:.1f}", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
