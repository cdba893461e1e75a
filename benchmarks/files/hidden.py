"""Does the audit see data that lie hidden in a file? Makes the page benchmarks/HIDDEN.md.

python -m benchmarks.files.hidden [--only TEXT] [--untouched FOLDER] [--clean] [--page] [--again]

This page measures how many files with hidden data an audit detects. The files belong to a regression of 80 people. Some
have data hidden in them, by mistake or on purpose, and others have nothing hidden. `hiding.py` and `hiding_found.py` in
`tests/support/` say how. Each file is audited four times: alone, with the private data, with the model, and with both.

A file counts as found in three cases: the audit reports a finding of medium or high severity that the unchanged file
does not have, an item is not recognised, or an attack on it did not run. A refused file counts as found too, since the
unchanged file is read. The authors of the audit chose the places and disguises, and the shares hold only for these.

A run that was interrupted goes on where it ended: what it found lies in benchmarks/hidden.part.json until it is done.
A file of the folder of untouched ones belongs to the same regression, or to the Stan program of its name beside it.
"""

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.study import HERE, Study

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

import bayesrecon
from bayesrecon.errors import BayesreconError
from tests.support import hiding
from tests.support.hiding_found import FOUND

PART = HERE / "hidden.part.json"
MODES = ("nothing", "data", "model", "both")
WORDS = {"nothing": "without anything", "data": "with the data", "model": "with the model", "both": "with both"}
CLEARED = "Little is disclosed"
UNTOUCHED = (
    "kidiq-kidscore_momiq", "kidiq-kidscore_momhs", "kidiq-kidscore_interaction", "mesquite-logmesquite", "arK-arK",
    "nes1972-nes", "sblrc-blr", "kilpisjarvi_mod-kilpisjarvi",
    "eight_schools-eight_schools_noncentered", "eight_schools-eight_schools_centered",
)  # fmt: skip

Row = dict[str, Any]


def audited(path: Path, mode: str, model: Any) -> Row:
    """What an audit says of a file, in short."""
    began = time.perf_counter()
    how: dict[str, Any] = {"data": hiding.DATA} if mode in ("data", "both") else {}
    try:
        found = bayesrecon.audit(path, model if mode in ("model", "both") else None, remedies=False, **how)
    except BayesreconError as error:
        return {"refused": str(error).replace(str(path), path.name)[:160]}
    return {
        "findings": [[f.severity, f.kind, f.title] for f in found if f.kind != "unrecognised"],
        "unrecognised": list(found.unrecognised)[:8],
        "not_run": sorted({f"{n.attack}: {', '.join(n.where[:3])}" for n in found.not_run if n.attack != "draws"}),
        "cleared": found.advice.startswith(CLEARED),
        "seconds": round(time.perf_counter() - began, 2),
    }


def judged(row: Row, clean: Row) -> str:
    """How a change was seen: "found", "unrecognised", "not run", "refused", or "" where it was not."""
    if "refused" in row:
        return "refused"
    known = {tuple(f) for f in clean["findings"]}
    if any(tuple(f) not in known and f[0] in ("medium", "high") for f in row["findings"]):
        return "found"
    if row["unrecognised"]:
        return "unrecognised"
    if set(row["not_run"]) - set(clean["not_run"]):
        return "not run"
    # A trace of how the file was made is what it is.
    return "found" if any(tuple(f) not in known and f[0] == "low" and f[1] != "draws" for f in row["findings"]) else ""


def worst(row: Row, clean: Row) -> str:
    """The severity of what the audit reports beyond the clean file."""
    known = {tuple(f) for f in clean.get("findings", ())}
    new = [f[0] for f in row.get("findings", ()) if tuple(f) not in known]
    return next((level for level in ("high", "medium", "low") if level in new), "")


def clean_file(model: Any) -> dict[str, list[str]]:
    """The severity of the file in which nothing is hidden, in every mode, with each column that numbers the records."""
    numbers = hiding.numbers_of_records(hiding.SIZE, np.random.default_rng(1))
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = hiding.write(hiding.groups(), Path(folder) / "fit.nc")
        for mode in MODES:
            tables = (
                [{**hiding.DATA, "id": column} for column in numbers.values()] if mode in ("data", "both") else [None]
            )
            used = model if mode in ("model", "both") else None
            found[mode] = [bayesrecon.audit(path, used, data=data, remedies=False).severity for data in tables]
    return found


def rows_of(files: list[hiding.File], model: Any, done: dict[str, Any]) -> Iterator[tuple[hiding.File, dict[str, Row]]]:
    """Every file in every mode, but for what is done."""
    for i, file in enumerate(files):
        if file.id not in done:
            with tempfile.TemporaryDirectory() as folder:
                path = file.make(Path(folder))
                done[file.id] = {mode: audited(path, mode, model) for mode in MODES}
        yield file, done[file.id]
        print(f"{i + 1} of {len(files)}: {file.kind}: {file.id}", file=sys.stderr)


def untouched(folder: Path | None) -> dict[str, Row]:
    """Files that nobody changed, audited with their model: reference draws, and those of a folder."""
    from bayesrecon.models import from_stan
    from bayesrecon.posteriors.fitting.database import open_database, read_reference_draws
    from bayesrecon.posteriors.fitting.programs import served_by

    found: dict[str, Row] = {}
    database = open_database()
    for name in UNTOUCHED:
        try:
            draws = read_reference_draws(database, name, draws=1000)
            own = served_by(database, name).model
            report = bayesrecon.audit(draws, own, remedies=False)
        except BayesreconError as error:
            found[f"posteriordb {name}"] = {"refused": str(error)[:160]}
            continue
        found[f"posteriordb {name}"] = _short(report)
    regression = hiding.model()
    for path in sorted(folder.iterdir()) if folder is not None else []:
        program = path.with_suffix(".stan")
        if path == program:
            continue
        try:
            own = from_stan(program) if program.exists() else regression
            found[path.name] = _short(bayesrecon.audit(path, own, remedies=False))
        except BayesreconError as error:
            found[path.name] = {"refused": str(error).replace(str(path), path.name)[:160]}
    return found


def _short(report: Any) -> Row:
    return {"unrecognised": list(report.unrecognised), "severity": report.severity, "verdict": report.verdict}


def page(rows: dict[str, Any]) -> str:
    """The page from the kept rows."""
    files, lines = rows["files"], []
    lines += ["# Data that lie hidden in a file", "", "Made by `python -m benchmarks.files.hidden`.", ""]
    lines += [*__doc__.split("\n\n")[2].splitlines(), ""]  # type: ignore[union-attr]
    lines += ["| files | number | " + " | ".join(WORDS[m] for m in MODES) + " |", "|---|---|" + "---|" * len(MODES)]
    severities = [Counter(rows["clean"][m]) for m in MODES]
    told = [", ".join(f"{n} of {sum(c.values())} {level}" for level, n in c.items()) for c in severities]
    lines.append("| nothing hidden: severity | 1 | " + " | ".join(told) + " |")
    for kind, words in (("honest", "an honest mistake"), ("malice", "made on purpose")):
        mine = [f for f in files if f["kind"] == kind]
        cells = []
        for mode in MODES:
            seen = Counter(f["seen"][mode] for f in mine)
            hits = len(mine) - seen[""]
            parts = ", ".join(f"{seen[w]} {w}" for w in ("found", "unrecognised", "not run", "refused") if seen[w])
            cells.append(f"{hits} of {len(mine)} ({hits / max(len(mine), 1):.1%}): {parts}")
        lines.append(f"| {words} | {len(mine)} | " + " | ".join(cells) + " |")
    lines += ["", f'Files with something hidden that end at "{CLEARED}":', ""]
    cleared = [
        f"- {f['kind']}, {WORDS[m]}: {f['id']}"
        for f in files
        if f["kind"] != "harmless"
        for m in MODES
        if f["cleared"][m]
    ]
    lines += cleared or ["- none"]
    lines += ["", "Files in which the audit saw nothing of what is hidden:", ""]
    missed = [
        f"- {f['kind']}, {WORDS[m]}: {f['id']}"
        for f in files
        if f["kind"] != "harmless"
        for m in MODES
        if not f["seen"][m]
    ]
    lines += missed or ["- none"]
    harmless = [f for f in files if f["kind"] == "harmless"]
    lines += [
        "",
        "## Harmless files",
        "",
        "| | " + " | ".join(WORDS[m] for m in MODES) + " |",
        "|---|" + "---|" * len(MODES),
    ]
    for title, levels in (("high", ("high",)), ("medium or high", ("high", "medium"))):
        lines.append(
            f"| {title} of {len(harmless)} | "
            + " | ".join(str(sum(f["worst"][m] in levels for f in harmless)) for m in MODES)
            + " |"
        )
    lines.append(
        "| something not recognised | " + " | ".join(str(sum(f["unknown"][m] for f in harmless)) for m in MODES) + " |"
    )
    alarms = [
        f"- {f['worst'][m]}, {WORDS[m]}: {f['id']}"
        for f in harmless
        for m in MODES
        if f["worst"][m] in ("medium", "high")
    ]
    lines += ["", "False alarms:", "", *(alarms or ["- none"]), ""]
    lines += [
        "## Untouched files, audited with their model",
        "",
        "| file | not recognised | verdict |",
        "|---|---|---|",
    ]
    for name, row in rows["untouched"].items():
        told = row.get("refused") or ", ".join(row["unrecognised"]) or "nothing"
        lines.append(f"| {name} | {told} | {row.get('verdict', 'refused')} |")
    return "\n".join(lines) + "\n"


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("--only", default="", help="files whose name holds this; nothing is kept")
    parser.add_argument("--untouched", type=Path, help="a folder of files of the same regression by other programs")
    parser.add_argument("--again", action="store_true", help="forget what a run that was interrupted has found")
    parser.add_argument("--clean", action="store_true", help="audit only the file in which nothing is hidden")
    given = STUDY.given(parser)
    model, found, clean = hiding.model(), [], {}
    if given.clean:
        STUDY.add(clean=clean_file(model))
        return
    files = [f for f in [*hiding.FILES, *FOUND] if given.only in f"{f.kind}: {f.id}" or f.name == "nothing"]
    files.sort(key=lambda f: f.name != "nothing")
    done = {} if given.only or given.again or not PART.exists() else json.loads(PART.read_text())
    for file, rows in rows_of(files, model, done):
        if not given.only:
            PART.write_text(json.dumps(done))
        clean.setdefault(file.form, rows)
        base = clean[file.form]
        one = {"id": file.id, "kind": file.kind, "seen": {}, "worst": {}, "cleared": {}, "unknown": {}}
        for mode in MODES:
            row = rows[mode]
            one["seen"][mode] = judged(row, base[mode])
            one["worst"][mode] = worst(row, base[mode])
            one["cleared"][mode] = bool(row.get("cleared"))
            one["unknown"][mode] = bool(row.get("unrecognised")) or "refused" in row
        found.append(one)
        bad = [
            m
            for m in MODES
            if (file.kind == "harmless") == (one["worst"][m] in ("medium", "high") or "refused" in rows[m])
        ]
        if bad if file.kind == "harmless" else not all(one["seen"].values()):
            print("  ->", one["seen"], one["worst"], [rows[m] for m in bad[:1]], file=sys.stderr)
    if given.only:
        return
    STUDY.keep({"files": found, "clean": clean_file(model), "untouched": {}})
    STUDY.add(untouched=untouched(given.untouched))
    PART.unlink()


if __name__ == "__main__":
    main()
