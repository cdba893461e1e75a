"""What regression tables tell of the levels of factors, beside the rules of output checks. Makes the page FACTORS.md.

python -m benchmarks.tables.factors [tables] [simulated] [acro] [--acro PYTHON] [--tables 300]

Tables are printed without correlations, and recover and audit are given nothing else but what a row says. With --acro,
an interpreter in which ACRO is installed, its checks run on the same data.
"""

import json
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import bayesrecon
from bayesrecon.posteriors import from_table
from bayesrecon.posteriors.printed.footers import cell
from bayesrecon.results.findings import Thresholds
from benchmarks.study import Study
from benchmarks.study import table as markdown
from benchmarks.tables.factor_data import Case, cases

DIGITS = 4  # of the textbook tables
STUDIES = ("tables", "simulated", "acro")
THRESHOLD = 10  # of small counts, as ACRO has it by default
DASH = "–"


def fitted(case: Case):
    fit = getattr(smf, case.kind)(case.formula, case.data)
    return fit.fit() if case.kind == "ols" else fit.fit(disp=0, tol=1e-12, maxiter=500)


def printed(fit, kind: str, digits: int) -> pd.DataFrame:
    rows = [[cell(b, digits), cell(e, digits)] for b, e in zip(fit.params, fit.bse, strict=True)]
    names = list(fit.params.index)
    if kind == "ols":
        rows, names = [*rows, [cell(fit.scale**0.5, digits), ""]], [*names, "sigma"]
    return pd.DataFrame(rows, names, ["estimate", "std. error"])


def truth(case: Case) -> dict[str, float]:
    """Counts of levels and cells, and of events, by the names that results have; the first level is the baseline."""
    data, y = case.data, case.formula.split(" ~ ")[0]
    levels = {f: {v: str(v) for v in sorted(data[f].unique())} for f in case.factors}
    for f, found in levels.items():
        levels[f][min(found)] = "baseline"
    found = {"n": float(len(data))}
    groups = [(f,) for f in case.factors] + ([case.factors] if len(case.factors) > 1 else [])
    for group in groups:
        for values, part in data.groupby(list(group)):
            name = ",".join(f"{f}={levels[f][v]}" for f, v in zip(group, values, strict=True))
            found[f"n[{name}]"] = float(len(part))
            found[f"mean({y})[{name}]"] = float(part[y].mean())
            if case.kind == "logit":
                found[f"n[{name},{y}=1]"] = float(part[y].sum())
            if case.kind == "poisson":
                found[f"sum({y})[{name}]"] = float(part[y].sum())
    return found | {f"mean({y})": float(data[y].mean()), f"var({y})": float(data[y].var(ddof=0))}


def holds(row, true: float) -> bool:
    slack = 1e-9 * (1 + abs(true))
    return (row.lower is None or row.lower - slack <= true) and (row.upper is None or true <= row.upper + slack)


def told(case: Case) -> dict:
    """One textbook table: what recover says, and whether audit says the same."""
    frame, true = printed(fitted(case), case.kind, DIGITS), truth(case)
    y = case.formula.split(" ~ ")[0]
    began = time.perf_counter()
    found = bayesrecon.recover(from_table(frame, case.kind, response=y), **case.known)
    seconds = time.perf_counter() - began
    assert not found.failures, found.failures
    rows = {row.name: row for row in found}
    stated = [name for name in true if name in rows and (rows[name].lower is not None or rows[name].upper is not None)]
    margins = [name for name in true if name.startswith("n[") and "," not in name]
    events = [name for name in rows if name.endswith(f",{y}=1]") and name in true]
    audited = bayesrecon.audit(
        frame, case.kind, response=y, remedies=False, thresholds=Thresholds(small_count=THRESHOLD), **case.known
    ).to_dict()
    evidence = {
        i["name"]: i["estimate"] for f in audited["findings"] for i in f["evidence"] if "small" not in f["kind"]
    }
    small = {
        f["evidence"][0]["name"]: f["evidence"][0]["upper"] for f in audited["findings"] if f["kind"] == "small-count"
    }
    widths = [rows[m].upper - rows[m].lower for m in margins if rows[m].upper is not None]
    return {
        "table": case.name,
        "kind": case.kind,
        "formula": case.formula,
        "n": int(true["n"]),
        "stated": len(stated),
        "held": sum(holds(rows[name], true[name]) for name in stated),
        "levels": len(margins),
        "exact": sum(rows[m].lower == rows[m].upper == true[m] for m in margins),
        "events": len(events),
        "exact events": sum(rows[e].lower == rows[e].upper == true[e] for e in events),
        "widest": max(widths) if len(widths) == len(margins) else None,
        "smallest": int(min(true[m] for m in margins)),
        "audit": evidence == {r.name: r.estimate for r in found if r.estimate is not None},
        "small": small,
        "seconds": seconds,
    }


def simulated(count: int) -> list[dict]:
    """Tables of one factor by chance: whether every count lies inside, how many are told exactly, and how wide."""
    rng, found = np.random.default_rng(57), []
    for i in range(count):
        kind, digits = ("ols", "logit", "poisson")[i % 3], 3 + (i // 3) % 2
        counts = rng.integers(2, 60, int(rng.integers(2, 7)))
        level = np.repeat(np.arange(len(counts)), counts)
        y = rng.normal(level, 2.0) if kind == "ols" else rng.poisson(1.5 + level % 3) + 0.0
        for k, n in enumerate(counts):
            at = np.flatnonzero(level == k)
            if kind == "logit":
                y[at] = np.arange(n) < rng.integers(1, n)
            elif kind == "poisson" and not y[at].any():
                y[at[0]] = 1.0
        data = pd.DataFrame({"g": level, "y": y})
        case = Case(f"table {i}", kind, "y ~ C(g)", data, ("g",), {})
        fit = fitted(case)
        rows = {r.name: r for r in bayesrecon.recover(from_table(printed(fit, kind, digits), kind))}
        names = ["n[g=baseline]", *(f"n[g={k}]" for k in range(1, len(counts)))]
        ends = [(rows[m].lower, rows[m].upper) for m in names]
        found.append(
            {
                "kind": kind,
                "digits": digits,
                "counts": len(counts),
                "inside": sum(a <= n <= b for (a, b), n in zip(ends, counts, strict=True)),
                "exact": sum(a == b for a, b in ends),
                "width": ends[0][1] - ends[0][0],
                "theory": theory(fit, kind, digits, int(counts[0])),
            }
        )
    return found


def theory(fit, kind: str, digits: int, n: int) -> float:
    """How wide the count of the baseline is by rounding alone, to first order: n = s^2 / se^2 of least squares,
    1 / (se^2 p (1 - p)) and 1 / (se^2 exp(b)) of the others; whole numbers can tell more."""

    def half(value: float) -> float:
        return 0.5 * 10.0 ** (np.floor(np.log10(abs(value))) - digits + 1)

    b, se = float(fit.params.iloc[0]), float(fit.bse.iloc[0])
    share = 2 * half(se) / se
    if kind == "ols":
        return 2 * n * (share + 2 * half(fit.scale**0.5) / fit.scale**0.5)
    return 2 * n * (share + half(b) * (1.0 if kind == "poisson" else abs(np.tanh(b / 2))))


ACRO = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import acro, pandas as pd
folder = sys.argv[1]
told = {}
for one in json.load(open(folder + "/cases.json")):
    session = acro.ACRO(suppress=False)
    data = pd.read_csv(f"{folder}/{one['file']}", dtype={name: str for name in one["factors"]})
    fit = {"ols": session.olsr, "logit": session.logitr}[one["kind"]]
    fit(one["formula"], data)
    out = f"{folder}/{one['file'].removesuffix('.csv')}"
    session.results.finalise_json(out) if hasattr(session.results, "finalise_json") else session.finalise(out)
    told[one["name"]] = out
json.dump({"told": told}, open(folder + "/told.json", "w"))
"""


def beside_acro(python: str) -> list[dict]:
    """ACRO's checks of the same regressions, and an audit of the files that it wrote."""
    level = np.repeat([0, 1, 2], [60, 21, 4])
    made = pd.DataFrame({"g": np.array(list("abc"))[level], "y": np.random.default_rng(0).normal(size=85)})
    every = [Case("a level of 4 in 85", "ols", "y ~ C(g)", made, ("g",), {}), *cases()]
    chosen = [c for c in every if c.kind != "poisson" and not c.known]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        listed = []
        for i, case in enumerate(chosen):
            case.data.to_csv(folder / f"case{i}.csv", index=False)
            about = {"kind": case.kind, "formula": case.formula, "factors": case.factors}
            listed.append({"name": case.name, "file": f"case{i}.csv", **about})
        (folder / "cases.json").write_text(json.dumps(listed))
        (folder / "run.py").write_text(ACRO)
        subprocess.run([python, folder / "run.py", folder], check=True, capture_output=True, cwd=folder)
        told = json.loads((folder / "told.json").read_text())["told"]
        return [_beside(case, Path(told[case.name])) for case in chosen]


def _beside(case: Case, out: Path) -> dict:
    document = json.loads((out / "results.json").read_text())
    (output,) = document["results"].values()
    found = bayesrecon.audit(out / "results.json", remedies=False, thresholds=Thresholds(small_count=THRESHOLD))
    small = {f.evidence[0].name: f.evidence[0].upper for f in found if f.kind == "small-count"}
    true = {k: v for k, v in truth(case).items() if k.startswith("n[")}
    return {
        "table": case.name,
        "version": document.get("version", ""),
        "status": output["status"],
        "dof": output["properties"].get("dof"),
        "smallest": int(min(true.values())),
        "below": sum(0 < v < THRESHOLD for k, v in true.items()),
        "found": sum(small.get(k) == v for k, v in true.items()),
        "small": small,
    }


def page(rows: dict) -> str:
    parts = [INTRODUCTION]
    if tables := rows.get("tables"):
        held, stated = sum(r["held"] for r in tables), sum(r["stated"] for r in tables)
        closed = [r for r in tables if r["exact"] == r["levels"]]
        parts += [
            "## Textbook tables",
            "",
            TABLES.format(held=held, stated=stated, same=sum(r["audit"] for r in tables), count=len(tables)),
        ]
        for title, some in (
            (f"All levels are counted ({len(closed)} tables)", closed),
            ("Limits are left", [r for r in tables if r not in closed]),
        ):
            parts += [f"### {title}", "", markdown(HEAD, [_shown(r) for r in some]), ""]
    if found := rows.get("simulated"):
        parts += [
            "## Simulated tables",
            "",
            SIMULATED.format(count=len(found)),
            markdown(SIM_HEAD, _by_kind(found)),
            "",
        ]
    if beside := rows.get("acro"):
        parts += [
            "## Beside ACRO",
            "",
            BESIDE.format(version=beside[0]["version"]),
            markdown(ACRO_HEAD, [_row(r) for r in beside]),
            "",
        ]
    return "\n".join(parts).rstrip() + "\n"


def _shown(r: dict) -> list:
    widest = DASH if r["widest"] is None else f"{r['widest']:g}"
    events = f"{r['exact events']}/{r['events']}" if r["events"] else DASH
    small = ", ".join(f"{k.removeprefix('n[').removesuffix(']')}: {v:g}" for k, v in r["small"].items()) or DASH
    return [
        f"{r['table']}: `{r['formula']}`",
        r["kind"],
        r["n"],
        f"{r['held']}/{r['stated']}",
        f"{r['exact']}/{r['levels']}",
        widest,
        events,
        small,
    ]


def _by_kind(found: list[dict]) -> list[list]:
    lines = []
    for kind in ("ols", "logit", "poisson"):
        for digits in (3, 4):
            some = [r for r in found if (r["kind"], r["digits"]) == (kind, digits)]
            if not some:
                continue
            inside, of = (sum(r[k] for r in some) for k in ("inside", "counts"))
            exact = sum(r["exact"] for r in some)
            widths = f"{np.median([r['width'] for r in some]):.2g} ({np.max([r['width'] for r in some]):.2g})"
            expected = f"{np.median([r['theory'] for r in some]):.2g} ({np.max([r['theory'] for r in some]):.2g})"
            lines.append([f"{kind}, {digits} digits", len(some), f"{inside}/{of}", f"{exact}/{of}", widths, expected])
    return lines


def _row(r: dict) -> list:
    small = ", ".join(f"{k.removeprefix('n[').removesuffix(']')}: {v:g}" for k, v in r["small"].items()) or DASH
    return [r["table"], r["status"], r["dof"], r["smallest"], r["below"], r["found"], small]


INTRODUCTION = f"""# What tables reveal about the levels of factors

Made by `python -m benchmarks.tables.factors`. Regressions are printed without the correlations of their estimates, and
`recover` gets only the table. It uses that products of exclusive dummies are zero in `X'X`, and that counts are whole
numbers. *Held* is the number of stated intervals that contain the truth. *Exact* is the number of levels whose count
is determined uniquely. *Widest* is the width of the widest interval of all levels, in records. *Below {THRESHOLD}*:
what `audit` names as small counts.
"""
TABLES = """Printed with 4 significant digits. {held} of {stated} stated intervals hold; in {same} of {count} tables
`audit` states the same numbers as `recover`, in JSON under the same names.
"""
SIMULATED = """{count} tables of one factor with 2 to 6 levels of 2 to 59 records. *Width* is that of the baseline's
count in records, median and largest; *by rounding* what theory leaves of it to first order, where counts need not be
whole.
"""
BESIDE = """ACRO {version} on the same regressions: its check of a regression is that of residual degrees of freedom
(10 or more pass). The audit reads the files that ACRO wrote, with the digits of statsmodels' summaries (estimates
with four decimals, errors with three). *Below 10*: levels, cells and events with fewer than 10 records, and how many
of these the audit names with their count. ACRO's Poisson regressions were not tried.
"""
HEAD = ["table", "kind", "n", "held", "exact", "widest", "events", f"below {THRESHOLD}"]
SIM_HEAD = ["", "tables", "inside", "exact", "width", "by rounding"]
ACRO_HEAD = ["table", "ACRO", "degrees of freedom", "smallest count", f"below {THRESHOLD}", "named", "by the audit"]


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("studies", nargs="*", default=list(STUDIES), help=", ".join(STUDIES))
    parser.add_argument("--acro", help="an interpreter in which ACRO is installed")
    parser.add_argument("--tables", type=int, default=300, help="simulated tables")
    given = STUDY.given(parser)
    warnings.simplefilter("ignore")
    rows = STUDY.kept()
    for study in given.studies:
        if study == "tables":
            rows[study] = []
            for case in cases():
                rows[study].append(told(case))
                print(*_shown(rows[study][-1]), f"{rows[study][-1]['seconds']:.1f} s", sep=" | ", flush=True)
        elif study == "simulated":
            rows[study] = simulated(given.tables)
        elif study == "acro" and given.acro:
            rows[study] = beside_acro(given.acro)
        STUDY.keep(rows)


if __name__ == "__main__":
    main()
