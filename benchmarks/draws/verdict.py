"""The verdict table over posteriordb, as the page benchmarks/VERDICT.md.

python -m benchmarks.draws.verdict [--build] [--missing] [--minutes 20 | --workers 4] [NAME ...]
"""

import subprocess
import sys
from dataclasses import replace
from typing import Any

from bayesrecon.cli.verdicts import COLUMNS, cells, row
from bayesrecon.errors import BayesreconError
from bayesrecon.games.posteriordb.outcomes import Verdict
from bayesrecon.games.posteriordb.verdict import available, verdicts
from bayesrecon.posteriors.fitting.database import open_database
from bayesrecon.posteriors.fitting.fitted import built_file
from benchmarks import workers
from benchmarks.study import Study, table

Row = dict[str, Any]
"""A verdict in words, by `COLUMNS`."""

INTRODUCTION = """# What the posteriors of posteriordb give away

Made by `python -m benchmarks.draws.verdict`. Every row is one run of the attack that suits the model, scored
against the data of posteriordb.

* *Records*: the design is known, each unit has one record, and the response is private. *Groups*: a count per group,
  with nothing known. *Statistics*: nothing is known. *Series*: one record is the whole series.
* *Error* is the error against the truth. *Stated error* is the attack's own standard error. *Floor* is the Cramér-Rao
  bound for independent draws (for single records as if the posterior were normal).
* *Naive guess* is the model's prediction for a row without an attack: the most probable value or the expectation, over
  the draws. It is scored in the same way.
* Records count as disclosed if more of them are right (for real values: nearer) than with the naive guess, and not by
  chance (p < 0.05).
* Draws: "reference" are posteriordb's, "own NUTS" are 10,000 draws sampled here. T is the number of draws used.
"""


def page(held: dict[str, Any]) -> str:
    rows, reasons = {row["posterior"]: row for row in held["rows"]}, held["reasons"]
    listed = [[c.replace("|", "\\|") for c in cells(rows[name])] for name in sorted(rows)]
    lines = [INTRODUCTION, table(list(COLUMNS.values()), listed, words=len(COLUMNS))]
    lines += ["", f"## Not run ({len(reasons)})", "", *(f"* {name}: {why}" for name, why in sorted(reasons.items()))]
    return "\n".join(lines) + "\n"


def read() -> tuple[dict[str, Row], dict[str, str]]:
    before = STUDY.kept()
    return {kept["posterior"]: kept for kept in before["rows"]}, before["reasons"]


def write(rows: dict[str, Row], reasons: dict[str, str]) -> None:
    STUDY.keep({"rows": list(rows.values()), "reasons": reasons})


STUDY = Study(__file__, page, empty=lambda: {"rows": [], "reasons": {}})


def keep(name: str, given: Verdict | BayesreconError) -> None:
    found, why = (None, str(given)) if isinstance(given, BayesreconError) else (given, "")
    print(*(cells(row(found)) if found else (name, why)), sep=" | ", flush=True)
    rows, reasons = read()  # now: another process may have written meanwhile
    if found:
        for twin in same_draws(found):
            rows[twin] = row(replace(found, posterior=twin))
            reasons.pop(twin, None)
    else:
        reasons[name] = why
    write(rows, reasons)


def same_draws(found: Verdict) -> list[str]:
    """The verdict's posterior and those whose programs are one program written in two ways, which share its draws."""
    if found.reference:
        return [found.posterior]
    database, data = open_database(), found.posterior.rsplit("-", 1)[0]
    alike = [name for name in available(build=True)[0] if name.rsplit("-", 1)[0] == data]
    file = built_file(database, found.posterior)
    return [n for n in alike if n == found.posterior or (file and built_file(database, n) == file)]


def run_within(name: str, minutes: float) -> None:
    """In a process of its own, which is ended when the time is over."""
    try:
        subprocess.run([sys.executable, "-m", "benchmarks.draws.verdict", name], timeout=60 * minutes, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        rows, reasons = read()
        if name not in rows:
            late = isinstance(error, subprocess.TimeoutExpired)
            reasons[name] = f"not finished in {minutes:g} minutes" if late else "stopped with an error"
            write(rows, reasons)
        print(name, error, flush=True)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--build", action="store_true", help="sample posteriors without draws first")
    parser.add_argument("--missing", action="store_true", help="only those that have no row yet")
    parser.add_argument("--minutes", type=float, help="leave a posterior that takes longer, sampling included")
    workers.add_arguments(parser)
    given = STUDY.given(parser)
    names = given.names
    if not names:
        names = available(build=given.build)[0]
        shipped, others = available(build=True)
        rows, reasons = read()
        reasons = dict.fromkeys(others, "no shipped model") | reasons
        for name in shipped:
            if name not in rows:
                reasons.setdefault(name, "not sampled here")
        write(rows, reasons)
        names = [name for name in names if not (given.missing and name in rows)]
    if given.minutes:
        for name in names:
            run_within(name, given.minutes)
        return
    with workers.engine(given):
        for name, found in verdicts(names):
            keep(name, found)


if __name__ == "__main__":
    main()
