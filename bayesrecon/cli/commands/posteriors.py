"""`bayesrecon posteriors`: the posteriors of posteriordb."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from bayesrecon.cli import options
from bayesrecon.errors import BayesreconError


def posteriors(
    names: Annotated[list[str] | None, typer.Argument(help="With --verdict: these posteriors only.")] = None,
    verdict: Annotated[
        bool, typer.Option("--verdict", help="Attack each posterior that has draws, and score the results.")
    ] = False,
    build: Annotated[
        bool, typer.Option("--build", help="With --verdict: first sample those without draws, with NUTS.")
    ] = False,
    workers: Annotated[
        int, typer.Option("--workers", help="With --verdict: number of processes, one posterior each.", min=1)
    ] = 1,
    download: Annotated[bool, typer.Option(help="Use posteriordb's public repository.")] = False,
    json: options.Json = False,
) -> None:
    """List the posteriors of posteriordb: which have reference draws, and which have a shipped model.

    Those without a shipped model are read with their own Stan programs.
    """
    from bayesrecon.cli import console
    from bayesrecon.cli.rich_tables import table
    from bayesrecon.models import shipped
    from bayesrecon.posteriors.fitting.database import open_database, posterior_info, posterior_names

    if verdict:
        return _show_verdicts(names or [], build=build, workers=workers, json=json)
    if names or build or workers > 1:
        raise BayesreconError("names, --build and --workers need --verdict")
    database = open_database(download=download)
    covered = {name: entry.name for entry in shipped().values() for name in entry.posteriors}
    rows = []
    for name in sorted(posterior_names(database)):
        info = posterior_info(database, name)
        rows.append(
            {
                "name": name,
                "reference_draws": bool(info.get("reference_posterior_name")),
                "model": covered.get(name),
            }
        )
    if json:
        console.emit_json(rows)
        return
    ready = sum(r["reference_draws"] and r["model"] is not None for r in rows)
    title = f"{len(rows)} posteriors, {ready} with reference draws and a shipped model (others: their own programs)"
    lines = ((r["name"], "yes" if r["reference_draws"] else "", r["model"] or "") for r in rows)
    console.out.print(table(["posterior", "reference draws", "shipped model"], lines, title=title, words=3))


COMMAND = posteriors


def _show_verdicts(names: Sequence[str], *, build: bool, workers: int, json: bool) -> None:
    """Attack the named posteriors, or all that have draws at hand; a posterior that fails is a line on stderr."""
    from bayesrecon.cli import console
    from bayesrecon.cli.rich_tables import table
    from bayesrecon.cli.verdicts import COLUMNS, cells, row
    from bayesrecon.games.posteriordb.verdict import available, verdicts
    from bayesrecon.running.engine import processes

    unavailable: list[str] = []
    if not names:
        names, unavailable = available(build=build)
    attacked = []
    with processes(workers), console.progress_bar() as progress:
        for i, (name, outcome) in enumerate(verdicts(names, progress=progress)):
            if not isinstance(outcome, BayesreconError):
                attacked.append(outcome)
                console.say(f"{i + 1} of {len(names)}: {name}")
            elif len(names) == 1:
                raise outcome
            else:
                console.warn(f"{name}: {outcome}")
    if unavailable:
        console.say(
            f"{len(unavailable)} more were not run: no draws at hand (--build samples those with a shipped model)"
        )
    if json:
        # The row in words, and beside it what the words are made from.
        console.emit_json([row(v) | {"found": asdict(v.found), "warnings": v.warnings} for v in attacked])
        return
    lines = (cells(row(verdict)) for verdict in attacked)
    console.out.print(table(list(COLUMNS.values()), lines, words=len(COLUMNS), fold=True))
