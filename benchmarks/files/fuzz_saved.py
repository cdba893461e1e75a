"""Reads mutated pickles, files of joblib and archives of torch, and counts refusals, failures, time and memory.

    python -m benchmarks.files.fuzz_saved --files 10000 [--only pickle] [--keep FOLDER]

Results are kept in benchmarks/fuzz_saved.json, and shown on the page of saved objects.
"""

import sys
from pathlib import Path

from benchmarks.study import Study
from tests.support.fuzzed_saved import BYTES, FORMATS, fuzz

STUDY = Study(__file__)


def main() -> int:
    parser = STUDY.parser(__doc__)
    parser.add_argument("--files", type=int, default=10_000, help="of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=list(FORMATS), help="one format")
    parser.add_argument("--keep", type=Path, help="folder for files that broke something")
    chosen = STUDY.given(parser)
    rows = STUDY.kept()
    broken = False
    for name in [chosen.only] if chosen.only else list(FORMATS):
        tally = fuzz(name, chosen.files, chosen.seed)
        rows[name] = {
            "files": chosen.files,
            **{kind: tally.counts[kind] for kind in ("read", "in part", "refused", "failed")},
            "slowest_seconds": round(tally.slowest, 2),
            "peak_mib": round(tally.peak / 2**20),
        }
        print(name, rows[name], flush=True)
        broken |= bool(tally.failures) or tally.peak > BYTES
        for i, (what, content) in enumerate(tally.failures[:50]):
            print(f"  {what[:300]}", flush=True)
            if chosen.keep is not None:
                chosen.keep.mkdir(parents=True, exist_ok=True)
                (chosen.keep / f"{name}-{i}{FORMATS[name][0]}").write_bytes(content)
    STUDY.keep(rows)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
