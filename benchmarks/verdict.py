"""The verdict table over posteriordb, as the page benchmarks/VERDICT.md.

python benchmarks/verdict.py [--build] [NAME ...]

Every posterior with draws at hand is attacked once and scored against its data; with --build the others are sampled
with NUTS first. Rows of earlier runs are kept beside the page (benchmarks/verdict.json) and replaced by name, so that
the table can be made in several goes.
"""

import argparse
import json
from pathlib import Path

from bayesrecon.errors import BayesreconError
from bayesrecon.verdict import COLUMNS, Verdict, available, cells, verdict

HERE = Path(__file__).resolve().parent
ROWS, PAGE = HERE / "verdict.json", HERE / "VERDICT.md"

INTRODUCTION = """# What the posteriors of posteriordb give away

Made by `python benchmarks/verdict.py`; every row is one run of the attack that the model invites, scored against the
data of posteriordb. *Records*: the design is known, one record a unit, the response private; *groups*: a count per
group, nothing known; *statistics*: nothing known; *series*: one record that is the whole series. *Error* is against the
truth, *stated error* what the attack says of itself, *floor* the Cramer-Rao floor of the same number, *naive guess* the
posterior-mean guess scored alike. Draws: "reference" are posteriordb's, "own NUTS" 10,000 draws sampled here.
"""


def page(rows: dict[str, Verdict], reasons: dict[str, str]) -> str:
    lines = [INTRODUCTION, "| " + " | ".join(COLUMNS.values()) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(c.replace("|", "\\|") for c in cells(rows[name])) + " |" for name in sorted(rows)]
    lines += ["", f"## Not run ({len(reasons)})", ""]
    lines += [f"* {name}: {why}" for name, why in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--build", action="store_true", help="sample posteriors without draws first")
    given = parser.parse_args()
    before = json.loads(ROWS.read_text()) if ROWS.exists() else {"rows": [], "reasons": {}}
    rows = {row["posterior"]: Verdict(**row) for row in before["rows"]}
    reasons = before["reasons"]
    names = given.names
    if not names:
        names, rest = available(build=given.build)
        for name in rest:
            if name not in rows:
                reasons.setdefault(name, "no draws at hand and not sampled, or no shipped model")
    for name in names:
        try:
            rows[name] = verdict(name)
            reasons.pop(name, None)
            print(*cells(rows[name]), sep=" | ", flush=True)
        except BayesreconError as error:
            reasons[name] = str(error)
            print(name, error, flush=True)
        ROWS.write_text(json.dumps({"rows": [r.to_dict() for r in rows.values()], "reasons": reasons}, indent=1) + "\n")
        PAGE.write_text(page(rows, reasons))


if __name__ == "__main__":
    main()
