"""What do saved objects of R hold, before and after the usual removal? Makes the page benchmarks/R_OBJECTS.md.

python -m benchmarks.files.r_objects [--only TEXT] [--new] [--fuzz COUNT [--equations]] [--trials FOLDER]

Fits, summaries and draws of 60 made-up patients are saved by R in the usual ways, and again after the usual advice to
make them safe or small. `make.R`, `pairs.R` and `equations.R` in tests/fixtures/r make the files. Each file is audited
alone, and again with the patients' table, which shows the private columns that can be recovered. "high" means values of
single patients. Rows are kept in benchmarks/r_objects.json. `--fuzz` reads so many files with something changed, with
`--equations` those of fits whose equations are solved. `--trials` compares such fits with their data.
"""

import contextlib
import json
import os
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.files.r_trials import section, tried
from benchmarks.study import Study

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

import bayesrecon
from bayesrecon.auditing.channel import examine
from bayesrecon.auditing.fit_findings import findings_of
from bayesrecon.auditing.look import Look
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.results.audit import Thresholds
from bayesrecon.untrusted.r_file import read_r
from tests.support import r_written

PATIENTS = r_written.FIXTURES / "patients.csv"
FORMS = "forms"  # one harmless list in every form that R writes: a test of the reader
SLOW, LARGE = 20.0, 500 * 2**20
"""Seconds of CPU time and bytes of memory beyond which reading a small file counts as a hang, and as a bomb."""

Row = dict[str, Any]
_PRIVATE = re.compile(r"the private column '(\w+)'")


def audited(path: Path) -> Row:
    """What an audit says of a file, without the private data and with them."""
    began = time.process_time()
    alone = bayesrecon.audit(path, remedies=False)
    seconds = time.process_time() - began
    beside = bayesrecon.audit(path, data=str(PATIENTS), remedies=False)
    columns = sorted({name for f in beside for name in _PRIVATE.findall(f.summary)})
    return {
        "file": path.name,
        "what": alone.format.removeprefix("R file: ").removeprefix("R file"),
        "verdict": alone.verdict,
        "severity": alone.severity,
        "findings": [[f.severity, f.title] for f in alone if f.kind != "unrecognised"],
        "exact": sorted(i.name for f in alone for i in f.evidence if i.se is not None and i.se < 1e-6),
        "not_run": [str(n) for n in alone.not_run],
        "unrecognised": len(alone.unrecognised),
        "columns": columns,
        "severity_with_data": beside.severity,
        "seconds": round(seconds, 1),
    }


def fuzzed(count: int, of: list[Path]) -> Row:
    """What reading changed files came to, in ways that an audit reads them."""
    outcomes: Counter[str] = Counter()
    slowest, peak, failures = 0.0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.rds"
        for k, content in enumerate(r_written.mutations(count, of=of)):
            path.write_bytes(content)
            began = sum(os.times()[:4])
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("error")
                    contents = read_contents(path)
                    examine(Look(contents))
                    for one in contents.estimates:
                        findings_of(one, (one.where,), Thresholds())
                outcome = "read"
            except BayesreconError as error:
                outcome = "traceback" if "\n" in str(error) else "refused"
            except Exception as error:
                outcome = "traceback"
                failures.append(repr(error)[:200])
            slowest = max(slowest, sum(os.times()[:4]) - began)
            peak = max(peak, r_written.memory_of(lambda: _parsed(path)))
            outcomes[outcome] += 1
            if k % 500 == 499:
                print(f"{k + 1} of {count}: {dict(outcomes)}, {slowest:.1f} s, {peak / 2**20:.0f} MiB", file=sys.stderr)
    return {
        "files": count,
        **{name: outcomes[name] for name in ("read", "refused", "traceback")},
        "hangs": int(slowest > SLOW),
        "slowest": round(slowest, 1),
        "peak_mib": -(-peak // 2**20),
        "failures": failures[:5],
    }


def _parsed(path: Path) -> None:
    """What the guarded process does, here where its memory can be seen."""
    with contextlib.suppress(BayesreconError):
        read_r(path)


def _told(row: Row) -> str:
    high = [title for severity, title in row["findings"] if severity == "high"]
    medium = [title for severity, title in row["findings"] if severity == "medium"]
    shown = [_short(title) for title in (high or medium)[:2]]
    more = len(high or medium) - len(shown)
    return "; ".join(shown) + (f"; {more} more" if more > 0 else "")


def _short(title: str) -> str:
    text = title.replace("object", "fit", 1) if title.startswith("object") else title
    return (text if len(text) <= 90 else text[:89] + "…").replace("|", "\\|")


def page(rows: dict[str, Any]) -> str:
    """The page from the kept rows."""
    files = {row["file"].split(".")[0]: row for row in rows["files"]}
    pairs = [
        (files[name.split("-")[0]], row)
        for name, row in files.items()
        if _is_after(name) and name.split("-")[0] in files
    ]
    alone = [row for name, row in files.items() if not _is_after(name) and all(row is not b for b, _ in pairs)]
    lines = ["# Saved objects of R", "", "Made by `python -m benchmarks.files.r_objects`.", ""]
    lines += [*__doc__.split("\n\n")[2].splitlines(), ""]  # type: ignore[union-attr]
    before = {b["file"]: b for b, _ in pairs}
    firsts, afters = list(before.values()), [after for _, after in pairs]
    classes = {b["what"] or b["file"].split(".")[0] for b in firsts}
    lines += [
        f"{len(files)} files. {len(before)} objects of {len(classes)} classes are there as they are saved and after "
        f"{len(pairs)} removals: {_share(firsts)} hold values of single patients as they are saved, and "
        f"{_share(afters)} after the removal. With the patients' table beside them, private "
        f"columns are named in {_named(firsts)} and {_named(afters)}. The slowest "
        f"audit took {max(r['seconds'] for r in rows['files']):.1f} s of computing.",
        "",
        "## Before and after",
        "",
        "| object | what it is | as saved | private columns | removal | after it | private columns | still found |",
        "|" + "---|" * 8,
    ]
    for one, after in pairs:
        name, removal = after["file"].split(".")[0].split("-", 1)
        cells = [f"`{name}`", one["what"] or "not known by its class", one["severity"], _columns(one)]
        cells += [removal.replace("_", " "), after["severity"], _columns(after), _told(after) or "nothing"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## Only as they are saved", ""]
    lines += ["| file | severity | what is found | private columns | not run | not recognised |", "|" + "---|" * 6]
    for row in alone:
        cells = [f"`{row['file']}`", row["severity"], _told(row) or "nothing", _columns(row)]
        lines.append("| " + " | ".join([*cells, str(len(row["not_run"])), str(row["unrecognised"])]) + " |")
    lines.append("")
    lines += section(rows["trials"]) if "trials" in rows else []
    lines += ["## Files with something changed in them", ""] if "fuzz" in rows else []
    for kind, what in (("fuzz", "files"), ("fuzz_equations", "files of fits whose equations are solved")):
        if kind not in rows:
            continue
        fuzz = rows[kind]
        lines += [
            f"Of {fuzz['files']} {what}, {fuzz['read']} were read and {fuzz['refused']} refused in one line; there "
            f"were {fuzz['traceback']} tracebacks and {fuzz['hangs']} that took more than {SLOW:.0f} s. The slowest "
            f"took {fuzz['slowest']:.1f} s of computing, and parsing none took more than {fuzz['peak_mib']} MiB.",
            "",
        ]
    return "\n".join(lines)


def _is_after(name: str) -> bool:
    """Whether something was taken away from an object, or its digits."""
    return (
        name.rpartition("-")[2].endswith(("stripped", "removed", "axed", "_false", "emptied", "rounded"))
        and "-" in name
    )


def _columns(row: Row) -> str:
    return ", ".join(row["columns"]) or "none"


def _share(rows: list[Row]) -> str:
    return f"{sum(r['severity'] == 'high' for r in rows)} of {len(rows)}"


def _named(rows: list[Row]) -> str:
    return f"{sum(bool(r['columns']) for r in rows)} of {len(rows)}"


STUDY = Study(__file__, page, empty=lambda: {"files": []})


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("--only", default="", help="files whose name holds this; others stay as they are")
    parser.add_argument("--new", action="store_true", help="files that have no row yet")
    parser.add_argument("--fuzz", type=int, help="read so many changed files; the other rows stay as they are")
    parser.add_argument("--equations", action="store_true", help="with --fuzz: of fits whose equations are solved")
    parser.add_argument("--trials", type=Path, help="compare the fits in a folder that trials.R filled")
    given = STUDY.given(parser)
    rows = STUDY.kept()
    if given.fuzz:
        kind, of = ("fuzz_equations", r_written.OF_EQUATIONS) if given.equations else ("fuzz", r_written.SMALL)
        rows[kind] = fuzzed(given.fuzz, of)
    elif given.trials:
        rows["trials"] = tried(given.trials)
    else:
        paths = [p for p in r_written.FILES if given.only in p.name and not p.name.startswith(FORMS)]
        told = {r["file"] for r in rows["files"]} if given.new else set()
        for path in sorted((p for p in paths if p.name not in told), key=lambda p: p.stat().st_size):
            row = audited(path)
            print(json.dumps(row), file=sys.stderr)
            rows = STUDY.kept()  # runs may go on side by side
            others = {r["file"]: r for r in rows["files"] if (r_written.FIXTURES / r["file"]).exists()}
            rows["files"] = [r for _, r in sorted({**others, row["file"]: row}.items())]
            STUDY.keep(rows)
    STUDY.keep(rows)


if __name__ == "__main__":
    main()
