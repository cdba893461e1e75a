"""What do whole verbs make of files that nobody wrote? Makes the page benchmarks/FUZZ.md.

nice -n 19 python -m benchmarks.files.fuzz [--files 100000] [--minutes 60] [--only KIND] [--page]
"""

import os
import sys
import time
from collections import Counter
from typing import Any

from benchmarks.study import Study, table

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from tests.support.fuzz_files import KINDS
from tests.support.fuzzed import LARGE, SLOW, fuzz

OUTCOMES = ("read", "refused", "traceback", "hang", "bomb")
EACH = 100  # files between two times that rows are kept
Row = dict[str, Any]
HEAD = ("kind", "files", *OUTCOMES, "slowest, s", "memory, MiB")
WORDS = """# Files that nobody wrote

Made by `python -m benchmarks.files.fuzz`. Of {total:,} mutated files, {bad} ended in a traceback, used
more than {slow:.0f} s of CPU time or used more than {large:.0f} GiB of memory. Good files are
mutated byte by byte, or with changes that keep the format valid. Draws are audited together with private
data. Mutated tables are used as private data. Results are loaded, shown and saved. For every fourth file
the draws are also attacked.

*Slowest* is the time of one command on one file, including compilation. *Memory* is the growth of the
process of the command, or the total memory of the guarded process. A *refused* file gives a one-line error.
Every file depends on its number alone: `fuzzed.Bench(kind).file(number)` makes a failing file again.
"""


def more(row: Row, name: str, count: int) -> Row:
    """A row with the next files of a kind."""
    begin = row.get("files", 0)
    tally = fuzz(name, range(begin, begin + count))
    counts = Counter({k: row.get(k, 0) for k in OUTCOMES}) + tally.counts
    return {
        "files": begin + count, **{k: counts[k] for k in OUTCOMES},
        "slowest": max(row.get("slowest", 0.0), round(tally.slowest, 1)), "peak": max(row.get("peak", 0), tally.peak),
        "failures": [*row.get("failures", []), *tally.failures][:20],
    }  # fmt: skip


def page(rows: dict[str, Row]) -> str:
    total = sum(row["files"] for row in rows.values())
    bad = sum(row[k] for row in rows.values() for k in OUTCOMES[2:])
    cells = []
    for name, row in rows.items():
        counts = (f"{row[k]:,}" for k in ("files", *OUTCOMES))
        cells.append([name, *counts, f"{row['slowest']:.1f}", f"{row['peak'] / 2**20:.0f}"])
    told = [f"- {name}, file {number}: {what}" for name, row in rows.items() for number, what in row["failures"]]
    lines = [WORDS.format(total=total, bad=bad, slow=SLOW, large=LARGE / 2**30), table(HEAD, cells, gap=""), ""]
    return "\n".join([*lines, *(["## What broke", "", *told, ""] if told else [])])


STUDY = Study(__file__, page)


def main() -> int:
    parser = STUDY.parser(__doc__)
    parser.add_argument("--files", type=int, default=100_000, help="in all kinds together")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="on the clock, at most")
    parser.add_argument("--only", choices=list(KINDS), help="one kind")
    chosen = STUDY.given(parser)
    rows: dict[str, Row] = STUDY.kept()
    end = time.monotonic() + 60 * chosen.minutes
    wanted = {name: chosen.files * kind.share // 100 for name, kind in KINDS.items() if chosen.only in (None, name)}
    while time.monotonic() < end:
        left = {name: most - rows.get(name, {}).get("files", 0) for name, most in wanted.items()}
        name = max(left, key=lambda one: left[one] / wanted[one])  # kinds keep pace with each other
        if left[name] <= 0:
            break
        rows[name] = more(rows.get(name, {}), name, min(EACH, left[name]))
        STUDY.keep({one: rows[one] for one in KINDS if one in rows})
        for number, what in rows[name]["failures"]:
            print(f"{name}, file {number}: {what}", file=sys.stderr)
    return int(any(row[k] for row in rows.values() for k in OUTCOMES[2:]))


if __name__ == "__main__":
    sys.exit(main())
