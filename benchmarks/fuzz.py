"""Reads mutated files of every format, and counts clean refusals, tracebacks, hangs and the peak of memory.

    python benchmarks/fuzz.py --files 100000 --minutes 60

Files that end in a traceback or a hang are kept beside this program's `--keep` folder.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from fuzzed import FORMATS, LARGE, fuzz


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=100_000, help="in all formats together")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="at most, in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=list(FORMATS), help="one format")
    parser.add_argument("--keep", type=Path, help="folder for files that broke something")
    chosen = parser.parse_args()
    names = [chosen.only] if chosen.only else list(FORMATS)
    each, seconds = -(-chosen.files // len(names)), 60 * chosen.minutes / len(names)
    print(f"{'format':10} {'read':>8} {'refused':>8} {'traceback':>10} {'hang':>6} {'slowest':>9} {'peak':>10}")
    broken = False
    for name in names:
        tally = fuzz(name, each, chosen.seed, seconds)
        counts = [tally.counts[kind] for kind in ("read", "refused", "traceback", "hang")]
        print(
            "{:10} {:8} {:8} {:10} {:6}".format(name, *counts), f"{tally.slowest:7.1f} s {tally.peak / 2**20:6.0f} MiB"
        )
        broken |= bool(tally.failures) or tally.peak > LARGE
        for i, (file, what, content) in enumerate(tally.failures):
            print(f"  {file}: {what[:200]}")
            if chosen.keep is not None:
                chosen.keep.mkdir(parents=True, exist_ok=True)
                (chosen.keep / f"{name}-{i}-{file}").write_bytes(content)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
