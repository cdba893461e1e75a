"""What saved objects of Python give away, and what an audit sees of it. Makes the page benchmarks/PICKLES.md.

    python tests/support/saving.py FOLDER      (in an environment that has the libraries)
    python -m benchmarks.files.pickles FOLDER [--page]

Models of common libraries are fitted to a table of 83 made-up people and saved in the usual ways. While an object is in
memory, its bytes are searched for the columns of the table: whole, in runs of twelve, or row by row. If five runs, rows
or names are found, *rows lie in the file*. Then each file is audited without loading it, once without the table and
once with it. An object counts as found if the audit reports records, leaves or labels at high severity. The audit knows
only the places that its authors thought of. Objects of other versions or other libraries are listed by their values
alone.
"""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import bayesrecon
from bayesrecon.errors import BayesreconError
from benchmarks.study import HERE, Study, table

FUZZ = HERE / "fuzz_saved.json"
KINDS = ("records", "leaves", "labels", "copy", "text", "attributes")
"""Findings that are of single people."""

Row = dict[str, Any]


def audited(path: Path, data: Path | None) -> Row:
    """What an audit says of a file, in short."""
    began = time.perf_counter()
    try:
        found = bayesrecon.audit(path, data=None if data is None else str(data), remedies=False)
    except BayesreconError as problem:
        return {"refused": str(problem).replace(str(path), path.name)[:160]}
    fits = [n.reason for n in found.not_run if n.attack == "fit"]
    return {
        "format": found.format,
        "severity": found.severity,
        "verdict": found.verdict,
        "people": sorted({f.kind for f in found if f.severity == "high" and f.kind in KINDS}),
        "kinds": sorted({f"{f.kind}: {f.severity}" for f in found if f.kind != "unrecognised"}),
        "matched": sum("private column" in f.title + f.summary for f in found),
        "attacked": any(f.kind == "fit" for f in found) or any("nothing is determined" in r for r in fits),
        "exact": any(f.kind == "fit" and f.severity == "medium" for f in found),
        "unrecognised": len(found.unrecognised),
        "not_run": fits,
        "seconds": round(time.perf_counter() - began, 2),
    }


def measured(folder: Path) -> list[Row]:
    """Every file of the folder, without the table and with it."""
    truth = json.loads((folder / "truth.json").read_text())
    rows = []
    for name, about in truth.items():
        both = {"nothing": audited(folder / name, None), "data": audited(folder / name, folder / "data.csv")}
        rows.append({"name": name, **about, **both})
        print(name, about["rows"], both["nothing"].get("kinds"), flush=True)
    return rows


def page(rows: list[Row]) -> str:
    """The page from the kept rows."""
    read = [r for r in rows if "refused" not in r["nothing"]]
    held = [r for r in read if r["rows"]]
    free = [r for r in read if not r["rows"]]
    lines = ["# Saved objects of Python", "", "Made by `python -m benchmarks.files.pickles`.", ""]
    lines += [*__doc__.split("\n\n")[2].splitlines(), ""]  # type: ignore[union-attr]
    summary = [
        ["saved objects", str(len(rows))],
        ["read, not refused", str(len(read))],
        ["rows lie in the file", str(len(held))],
        ["of these, found without the table", _share(held, "nothing")],
        ["of these, found with the table", _share(held, "data")],
        ["no rows byte by byte", str(len(free))],
        ["of these, with a finding of single people at high", _share(free, "data")],
        ["fits attacked by their numbers", str(sum(r["nothing"]["attacked"] for r in read))],
        ["of these, statistics exact", str(sum(r["nothing"]["exact"] for r in read))],
        ["something not recognised, with the table", str(sum(r["data"]["unrecognised"] > 0 for r in read))],
    ]
    lines += [table(["", "number"], summary), ""]
    missed = [r["name"] for r in held if not r["data"]["people"]]
    lines += ["Files with rows in which the audit saw nobody, with the table:", "", *_listed(missed)]
    lines += [
        "Files whose rows are seen with the table alone, and how many items in them are not recognised without it:",
        "",
    ]
    alone = [r for r in held if r["data"]["people"] and not r["nothing"]["people"]]
    lines += _listed([f"{r['name']}: {r['nothing']['unrecognised']}" for r in alone])
    lines += ["Files without rows byte by byte, and what of single people the audit reports in them all the same:", ""]
    told = [f"{r['name']}: {', '.join(r['data']['people'])}" for r in free if r["data"]["people"]]
    lines += [*_listed(told)]
    lines += [
        "They are sorted copies, numbers between other bytes, outcomes in leaves of one record, the cluster of each",
        "training row: data of single people, but not as they stood in the table.",
        "",
        "## All of them",
        "",
        "*Fit*: attacked by its numbers as the same fit in Python is, with exact statistics or with none that is",
        "determined without further knowledge; or not run, since no attack here reads it.",
        "",
    ]
    head = ["file", "library", "rows in it", "without the table", "with it", "fit", "not recognised"]
    lines += [table(head, [_row(r) for r in rows]), ""]
    counts = Counter(r["library"] for r in rows)
    lines += [f"Of {', '.join(f'{library} {n}' for library, n in sorted(counts.items()))}.", ""]
    if FUZZ.exists():
        lines += _fuzzed(json.loads(FUZZ.read_text()))
    return "\n".join(lines)


def _share(rows: list[Row], mode: str) -> str:
    return f"{sum(bool(r[mode]['people']) for r in rows)} of {len(rows)}"


def _listed(names: list[str]) -> list[str]:
    return [*(f"- {name}" for name in names or ["none"]), ""]


def _row(row: Row) -> list[str]:
    if "refused" in row["nothing"]:
        return [row["name"], row["library"], ", ".join(row["rows"]), row["nothing"]["refused"], "", "", ""]
    first, second = row["nothing"], row["data"]
    fit = "exact" if first["exact"] else "attacked" if first["attacked"] else "not run" if first["not_run"] else ""
    kinds = [", ".join(one["kinds"]) or "nothing" for one in (first, second)]
    kinds[1] = "the same" if kinds[1] == kinds[0] else kinds[1]
    matched = f" ({second['matched']} matched)" if second["matched"] else ""
    columns = ", ".join(row["rows"]) or "none"
    return [row["name"], row["library"], columns, kinds[0], kinds[1] + matched, fit, str(second["unrecognised"])]


def _fuzzed(found: Row) -> list[str]:
    head = ["format", "files", "read", "in part", "refused", "failed", "slowest, seconds of CPU", "most memory, MiB"]
    keys = ("files", "read", "in part", "refused", "failed", "slowest_seconds", "peak_mib")
    rows = [[name, *(str(row[key]) for key in keys)] for name, row in found.items()]
    return [
        "## Files that nobody wrote",
        "",
        "Made by `python -m benchmarks.files.fuzz_saved`: good files, opcodes, lengths and bytes of them changed.",
        "*In part*: damaged behind what they name, which the audit says. *Failed* are those",
        "that end in a traceback, in more than one line, or in the end of the process that reads them.",
        "",
        table(head, rows),
        "",
    ]


STUDY = Study(__file__, page, empty=list)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("folder", type=Path, help="where `tests/support/saving.py` wrote")
    chosen = STUDY.given(parser)
    STUDY.keep(measured(chosen.folder))


if __name__ == "__main__":
    main()
