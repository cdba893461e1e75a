"""`bayesrecon posteriors --verdict`: what each posterior of posteriordb gives away."""

from collections.abc import Sequence

from bayesrecon.errors import BayesreconError


def show_verdicts(names: Sequence[str], *, build: bool, json: bool) -> None:
    """Attack the named posteriors, or all that have draws at hand; a posterior that fails is a line on stderr."""
    from rich.markup import escape
    from rich.table import Table

    from bayesrecon.auditing import verdict as verdicts
    from bayesrecon.cli import console

    rest: list[str] = []
    if not names:
        names, rest = verdicts.available(build=build)
    rows = []
    for i, name in enumerate(names):
        console.say(f"{i + 1} of {len(names)}: {name}")
        try:
            with console.progress_bar() as progress:
                rows.append(verdicts.verdict(name, progress=progress))
        except BayesreconError as error:
            if len(names) == 1:
                raise
            console.warn(f"{name}: {error}")
    if rest:
        console.say(f"{len(rest)} more were not run: no draws at hand, or no shipped model (--build samples them)")
    if json:
        console.emit_json([row.to_dict() for row in rows])
        return
    table = Table()
    for heading in verdicts.COLUMNS.values():
        table.add_column(heading)
    for row in rows:
        table.add_row(*(escape(cell) for cell in verdicts.cells(row)))
    console.out.print(table)
