"""Do the example models of the Stan developers mean the same here as in Stan? Makes benchmarks/STAN_EXAMPLES.md.

python -m benchmarks.stan.stan_examples FOLDER [--only TEXT] [--again STATUS] [--seconds S] [--page]

Programs in FOLDER, a copy of https://github.com/stan-dev/example-models, are evaluated here and by the oracle
`stanli`. Each program is run with the data set of the same name, or else with the first one in its folder that has all
names of its data block. Log densities and gradients are compared at random points, as for [posteriordb](STAN.md).
Programs that the oracle cannot run are listed and not counted. Rows are saved in benchmarks/stan_examples.json, and a
run computes missing rows.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.stan.apart import Row, Workers
from benchmarks.stan.stan_programs import CLOSE, density
from benchmarks.study import Study

os.environ.setdefault("JAX_PLATFORMS", "cpu")
WORDS = {
    "agrees": "agree",
    "differs": "differ",
    "failed": "are refused here",
    "slow": "take too long",
    "oracle": "are not run by the oracle",
    "no data": "have no data in their folder",
    "no parameters": "have no parameters",
    "no point of finite density": "have no two points of finite density",
}
JUDGED = ("agrees", "differs", "failed", "slow")


def data_for(file: Path) -> Any:
    """The data of a program, {} where it declares none, None where no file of its folder has them."""
    from bayesrecon.models.stan.posterior import declarations
    from bayesrecon.models.stan.source import read_program

    own = [p for p in (file.with_suffix(".data.json"), file.with_suffix(".json")) if p.exists()]
    if own:
        return json.loads(own[0].read_text())
    wanted = {d.name for d in declarations(read_program(file).data)}
    if not wanted:
        return {}
    for path in sorted(file.parent.glob("*.json")):
        data = json.loads(path.read_text())
        if isinstance(data, dict) and wanted <= data.keys():
            return data
    return None


def compared(folder: Path, name: str) -> Row:
    """One program beside the oracle."""
    import stanli

    from bayesrecon.errors import BayesreconError

    file = folder / name
    try:
        data = data_for(file)
    except BayesreconError as error:  # refused before its data are known
        data, refused = None, error
        own = file.with_suffix(".data.json")
        if not own.exists():
            return {"status": "failed", "why": str(refused)[:200]}
        data = json.loads(own.read_text())
    if data is None:
        return {"status": "no data"}
    try:
        stanli.Model(stan_code=file.read_text(), data=data)
    except Exception as error:  # whatever the oracle raises
        return {"status": "oracle", "why": str(error).splitlines()[0][:200]}
    try:
        return density(file, data)
    except BayesreconError as error:
        return {"status": "failed", "why": str(error)[:200]}


def page(held: dict[str, Any]) -> str:
    """The page, of so many programs that there are."""
    rows, count = held["programs"], held["count"]
    counted = Counter(r["status"] for r in rows.values())
    judged = sum(counted[s] for s in JUDGED)
    approximate = sum(bool(r.get("consistent")) for r in rows.values())
    told = [f"{counted[s]} {WORDS[s]}" for s in WORDS if counted[s]]
    lines = [
        "# The example models of the Stan developers",
        "",
        "Made by `python -m benchmarks.stan.stan_examples FOLDER`.",
        "",
        *(__doc__ or "").split("\n\n")[2].split("\n"),
        "",
        f"{len(rows)} of the {count} programs were tried: {', '.join(told)}. Of the {judged} that the oracle runs "
        f"with their data {100 * counted['agrees'] / max(judged, 1):.1f} % agree to {CLOSE:g}; {approximate} of these "
        "in the values alone: differences of the oracle's values are a hundred times nearer to our gradient than to "
        "its own, which Stan approximates.",
        "",
        "## Programs that do not agree, or are refused",
        "",
        "| program | what | value | gradient |",
        "|---|---|---|---|",
    ]
    for name, r in rows.items():
        if r["status"] in JUDGED[1:]:
            numbers = [f"{r[k]:.1e}" if k in r else "" for k in ("value", "gradient")]
            why = str(r.get("why", r["status"])).replace("|", "\\|")
            lines.append(f"| {name} | {why} | {numbers[0]} | {numbers[1]} |")
    return "\n".join(lines) + "\n"


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="programs whose path holds this")
    parser.add_argument("--again", default="", help="do those again that have one of these statuses")
    parser.add_argument("--seconds", type=float, default=60.0, help="that a program may take")
    given = STUDY.given(parser)
    again = set(given.again.split(",")) if given.again else set()
    workers = Workers(given.seconds, compared, given.folder)
    files = sorted(given.folder.rglob("*.stan"))
    if files:
        STUDY.add(count=len(files), programs=STUDY.kept().get("programs", {}))
    for name in (str(f.relative_to(given.folder)) for f in files):
        rows = STUDY.kept().get("programs", {})
        if given.only not in name or (name in rows and rows[name]["status"] not in again):
            continue
        row = workers.ask(name)
        print(name, row["status"], row.get("why", ""), file=sys.stderr, flush=True)
        rows = {**STUDY.kept().get("programs", {}), name: row}  # runs may go on side by side
        STUDY.add(programs=dict(sorted(rows.items())))


if __name__ == "__main__":
    main()
