"""Do Stan programs mean the same here as in Stan, and is a record read off them? Makes the page benchmarks/STAN.md.

python -m benchmarks.stan.stan_programs [--only TEXT] [--again STATUS] [--seconds S] [--page]

Every program of posteriordb is parsed and evaluated with the smallest of its data sets. Log densities and gradients at
random points are compared with those of `stanli`, an independent interpreter of the language. Log densities are
compared by their differences between points, since `~` drops constants. Solvers of differential equations run at the
tightest tolerance in both. Then the record is determined from the program and the constants of its data. The model is
built, which compares the records together with the records one by one. Finally every posterior with draws is attacked
with its own program. CPU time per program is limited. Rows are saved in benchmarks/stan_programs.json, and a run
computes missing rows.
"""

import json
import os
import re
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

from benchmarks.stan.apart import Row, Workers
from benchmarks.stan.stan_posteriors import NO_DRAWS, drawn, names, posterior, section
from benchmarks.study import Study

os.environ.setdefault("JAX_PLATFORMS", "cpu")
POINTS = 20
CLOSE = 1e-9
MADE = "made up"  # the data of two networks are not in the database: images, which the programs say the sizes of


def database() -> Path:
    """The folder of posteriordb."""
    return Path(os.environ["POSTERIOR_DB_PATH"])


def programs() -> dict[str, str]:
    """The smallest data set of every program."""
    found: dict[str, tuple[int, str]] = {}
    for file in sorted((database() / "posteriors").glob("*.json")):
        info = json.loads(file.read_text())
        archive = database() / "data" / "data" / f"{info['data_name']}.json.zip"
        size = (archive.stat().st_size, info["data_name"]) if archive.exists() else (2**62, MADE)
        found[info["model_name"]] = min(found.get(info["model_name"], size), size)
    stan = database() / "models" / "stan"
    return {name: data for name, (_, data) in sorted(found.items()) if (stan / f"{name}.stan").exists()}


def data_of(name: str) -> Any:
    if name == MADE:
        import numpy as np

        rng = np.random.default_rng(0)
        return {"N": 30, "M": 6, "K": 3, "x": rng.random((30, 6)), "y": rng.integers(1, 4, 30)}
    with zipfile.ZipFile(database() / "data" / "data" / f"{name}.json.zip") as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def tight(text: str) -> str:
    """A program whose differential equations are solved to the last digits: with a tolerance, solvers agree to that and
    no further."""
    parts = re.split(r"(integrate_ode_\w+\()", text)
    for k in range(2, len(parts), 2):
        depth, commas = 1, 0
        for end, letter in enumerate(parts[k]):
            depth += (letter in "([{") - (letter in ")]}")
            commas += letter == "," and depth == 1
            if depth == 0 or (letter == "," and commas == 7):
                close = end if depth == 0 else end + parts[k][end:].index(");")
                parts[k] = f"{parts[k][:end]}, 1e-12, 1e-12, 1e7{parts[k][close:]}"
                break
    return "".join(parts)


def points_of(oracle: Any, dimension: int) -> list[Any]:
    """Points at which the oracle has a finite density, with value and gradient."""
    import numpy as np

    rng, found = np.random.default_rng(1), []
    for scale in [*np.tile([0.5, 0.1, 0.02, 1.0], POINTS), *np.full(4 * POINTS, 2.0)]:
        if len(found) == POINTS:
            break
        point = rng.uniform(-1, 1, dimension) * scale
        try:
            value, slope = oracle.log_prob_grad(point)
        except RuntimeError:  # how it refuses
            continue
        if np.isfinite(value) and np.isfinite(slope).all():
            found.append((point, value, slope))
    return found


def density(file: Path, data: Any) -> Row:
    """Log densities and gradients beside those of the oracle."""
    import jax
    import numpy as np
    import stanli

    from bayesrecon.models.stan.parsing import parse
    from bayesrecon.models.stan.posterior import Posterior

    began = time.process_time()
    text = tight(file.read_text())
    program = parse(text, file.name)
    parsed = time.process_time()
    posterior = Posterior(program, data)
    oracle = stanli.Model(stan_code=text, data=data)
    if not posterior.dimension:
        return {"status": "no parameters"}
    usable = points_of(oracle, posterior.dimension)
    if len(usable) < 2:
        return {"status": "no point of finite density"}
    started = time.process_time()
    traced = jax.jit(jax.value_and_grad(posterior.log_density)).lower(np.zeros(posterior.dimension))
    lowered = time.process_time()
    run = traced.compile()
    mine = [run(p) for p, *_ in usable]
    row: Row = {
        "parse": round(parsed - began, 3),
        "trace": round(lowered - started, 3),
        "points": len(usable),
        "dimension": posterior.dimension,
    }
    values, slopes = np.array([float(v) for v, _ in mine]), np.array([g for _, g in mine])
    theirs, gradients = np.array([v for _, v, _ in usable]), np.array([g for *_, g in usable])
    row["value"] = float(np.abs(np.diff(values) - np.diff(theirs)).max() / np.abs(theirs).max())
    row["gradient"] = float((np.abs(slopes - gradients).max(axis=1) / np.abs(gradients).max(axis=1)).max())
    if row["value"] <= CLOSE < row["gradient"]:
        row |= of_its_own_values(oracle, [p for p, *_ in usable], slopes, gradients)
    agrees = row["value"] <= CLOSE and (row["gradient"] <= CLOSE or row.get("consistent", False))
    return {**row, "status": "agrees" if agrees else "differs"}


def of_its_own_values(oracle: Any, points: list[Any], slopes: Any, gradients: Any) -> Row:
    """Whether ours are the derivatives of the oracle's own values where its own are not: Stan approximates a few
    derivatives. By central differences of fourth order, at every point the coordinate in which both are farthest
    apart."""
    import numpy as np

    ours, its = [], []
    for point, slope, gradient in zip(points, slopes, gradients, strict=True):
        j = int(np.abs(slope - gradient).argmax())
        step = 1e-3 * np.eye(len(point))[j]
        one, two = (
            oracle.log_prob_grad(point + k * step)[0] - oracle.log_prob_grad(point - k * step)[0] for k in (1, 2)
        )
        measured = (8 * one - two) / 12e-3
        ours.append(abs(slope[j] - measured))
        its.append(abs(gradient[j] - measured))
    consistent = bool(max(ours) < 0.01 * max(its))
    return {"consistent": consistent, "of differences": [float(max(ours)), float(max(its))]}


def record(file: Path, data: Any) -> Row:
    """The model with a record read off, or the reason against it."""
    from bayesrecon.errors import BayesreconError
    from bayesrecon.models import stan_data

    began = time.perf_counter()
    try:
        model, _ = stan_data(file, data)
    except BayesreconError as error:
        return {"status": "refused", "why": str(error)[:300], "seconds": round(time.perf_counter() - began, 1)}
    parts = model.parts
    assert parts is not None
    return {
        "status": "accepted" if parts.count else "one record",
        "count": parts.count,
        "fields": list(model.fields),
        "own": list(parts.own),
        "cut": list(parts.cut),
        "computed": [r.name for r in parts.coordinates.rules],
        "identities": list(model.identities),
        "seconds": round(time.perf_counter() - began, 1),
    }


def asked(what: str, name: str, data: str = "") -> Row:
    """One program: its density, its record, or a posterior of it."""
    if what == "posterior":
        return posterior(name)
    file = database() / "models" / "stan" / f"{name}.stan"
    return (density if what == "density" else record)(file, data_of(data))


def page(held: dict[str, Any]) -> str:
    """The page."""
    rows = held["programs"]
    count = len(rows)
    agree = [n for n, r in rows.items() if r["density"]["status"] == "agrees"]
    accepted = [n for n, r in rows.items() if r["record"]["status"] == "accepted"]
    single = [n for n, r in rows.items() if r["record"]["status"] == "one record"]
    lines = [
        "# Stan programs",
        "",
        "Made by `python -m benchmarks.stan.stan_programs`.",
        "",
        *(__doc__ or "").split("\n\n")[2].split("\n"),
        "",
        f"Of {count} programs {len(agree)} agree with the oracle to {CLOSE:g}. A record is read off {len(accepted)}; "
        f"{len(single)} more have no count, and all their data are one record.",
        "",
        "## Densities that do not agree, or were not compared",
        "",
        "| program | what | value | gradient |",
        "|---|---|---|---|",
    ]
    for name, r in rows.items():
        d = r["density"]
        if d["status"] != "agrees":
            numbers = [f"{d[k]:.1e}" if k in d else "" for k in ("value", "gradient")]
            lines.append(f"| {name} | {d.get('why', d['status'])} | {numbers[0]} | {numbers[1]} |")
    lines += ["", "## Programs of which no record is read", "", "| program | why |", "|---|---|"]
    for name, r in rows.items():
        if r["record"]["status"] not in ("accepted", "one record"):
            why = r["record"].get("why", "").replace("|", "\\|")
            lines.append(f"| {name} | {why} |")
    lines += [
        "",
        "## Records",
        "",
        "| program | count | fields | its own parameters | transformed data that are fields | computed parameters |",
        "|---|---|---|---|---|---|",
    ]
    for name, r in rows.items():
        d = r["record"]
        if d["status"] in ("accepted", "one record"):
            cells = [", ".join(d[k]) for k in ("fields", "own", "cut", "computed")]
            lines.append(f"| {name} | {d['count'] or 'all data'} | " + " | ".join(cells) + " |")
    lines += section(held.get("posteriors", {}))
    return "\n".join(lines) + "\n"


STUDY = Study(__file__, page, place="STAN")


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("--only", default="", help="programs whose name holds this")
    parser.add_argument("--again", default="", help="do those again whose density or record has one of these statuses")
    parser.add_argument("--terms", action="store_true", help="compare the terms of posteriors without draws, too")
    parser.add_argument("--seconds", type=float, default=120.0, help="of CPU time that a program may take")
    given = STUDY.given(parser)
    again = set(given.again.split(",")) if given.again else set()
    workers = Workers(given.seconds, asked)
    for name, data in programs().items():
        rows = STUDY.kept().get("programs", {})
        row = rows.get(name, {})
        if given.only not in name:
            continue
        for what in ("density", "record"):
            if what not in row or row[what]["status"] in again:
                row[what] = workers.ask(what, name, data)
                print(name, what, row[what]["status"], row[what].get("why", ""), file=sys.stderr, flush=True)
        rows[name] = row
        STUDY.add(programs=dict(sorted(rows.items())))
    for name in names():
        rows = STUDY.kept().get("posteriors", {})
        missing = name not in rows or (given.terms and rows[name] == NO_DRAWS)
        if given.only not in name or not (missing or rows[name]["status"] in again):
            continue
        row = known(name) or (workers.ask("posterior", name) if given.terms or drawn(name) else NO_DRAWS)
        print(name, row["status"], row.get("why", ""), file=sys.stderr, flush=True)
        STUDY.add(posteriors=dict(sorted((rows | {name: row}).items())))


def known(name: str) -> Row | None:
    """Why no record is read off the program of a posterior, where it was tried with the same data."""
    told = json.loads((database() / "posteriors" / f"{name}.json").read_text())
    read = STUDY.kept()["programs"].get(told["model_name"], {}).get("record", {})
    same = programs().get(told["model_name"]) == told["data_name"]
    return read if same and read.get("status") in ("refused", "slow") else None


if __name__ == "__main__":
    main()
