"""Families of likelihoods that nothing was built or tuned on: do errors hold there as they do elsewhere?

python -m benchmarks.draws.unseen [family ...] [--sets 40] [--first 0] [--draws 2000] [--workers 2]

As `families.py`: simulated data sets, independent draws of the posterior, `recover` without any option. A row is one
data set; those that were measured before stay, so that a run goes on where another ended. Rows are kept in
benchmarks/unseen.json, the page is benchmarks/UNSEEN.md.
"""

from typing import Any

import jax
import numpy as np

from bayesrecon.evaluate import clopper_pearson, true_statistics
from bayesrecon.running.engine import swept
from benchmarks import workers
from benchmarks.draws import held
from benchmarks.study import Study, table
from tests.support.unseen_families import UNSEEN, model_of, simulated

RECORDS = 300

INTRODUCTION = f"""# Families that nothing was built on

Made by `python -m benchmarks.draws.unseen`. Ten families of likelihoods that occur nowhere else in the repository, each
with one covariate and {RECORDS} records; exact posterior draws, `recover` without any option. *Refused*: it ended in an
error. *Failed*: a check of draws and model failed, which is wrong here. *z*: errors of n in standard errors, where it
was determined. *Covered*: intervals of determined statistics that hold the true value. *Partly*: statistics that are
determined in part, and the share of their intervals that hold. *rms*: root mean square of all errors in half-widths of
the intervals, .51 where errors are normal and intervals hold 95 %.
"""
COLUMNS = (
    "sets", "refused", "failed", "mean of z", "rms of z", "determined", "covered", "partly", "held", "rms", "s",
)  # fmt: skip


def studied(shared: tuple[str, int], key: int) -> dict[str, Any]:
    """Of one data set: the error of n, how many intervals held by verdict, and what was said of the draws."""
    name, draws = shared
    data, release = simulated(name, model_of(name), key, draws, RECORDS)
    row: dict[str, Any] = {"family": name, "set": key, "draws": draws, "refused": "", "failed": [], "z": None}
    recovery, told = held.attacked(release, key)
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
    cells |= held.shares(rows, {"determined": "covered", "partly": "held"})
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
            lines += ["", f"Of what is {verdict}, {inside} of {count} intervals hold, {inside / count:.1%}"]
            lines[-1] += f" ({range_.lower:.1%} to {range_.upper:.1%} as if they were independent)."
    return "\n".join(lines) + "\n"


STUDY = Study(__file__, written, empty=list)


def keep(found: dict[str, Any]) -> None:
    """Adds a row, or replaces that of the same data set."""
    names = list(UNSEEN)
    rows = {(names.index(r["family"]), r["set"]): r for r in (*STUDY.kept(), found)}
    STUDY.keep([rows[k] for k in sorted(rows)])


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("families", nargs="*", default=list(UNSEEN), help=", ".join(UNSEEN))
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first data set")
    parser.add_argument("--draws", type=int, default=2000)
    workers.add_arguments(parser)
    given = STUDY.given(parser)
    workers.check_names(parser, given.families, UNSEEN)
    with workers.engine(given):
        for name in given.families:
            done = {r["set"] for r in STUDY.kept() if r["family"] == name and r["draws"] == given.draws}
            left = [key for key in range(given.first, given.sets) if key not in done]
            for row in swept(studied, (name, given.draws), left):
                keep(row)
                print(*(row[k] for k in ("family", "set", "z", "determined", "partly", "failed", "refused")),
                      f"{row['seconds']:.1f}", sep=" | ", flush=True)  # fmt: skip
            jax.clear_caches()


if __name__ == "__main__":
    main()
