"""`bayesrecon models`: what is shipped."""

from bayesrecon.cli import options


def models(json: options.Json = False) -> None:
    """List the shipped models."""
    from rich.table import Table

    from bayesrecon.cli import console
    from bayesrecon.models import shipped

    entries = list(shipped().values())
    if json:
        console.emit_json([{"name": e.name, "summary": e.summary, "posteriors": list(e.posteriors)} for e in entries])
        return
    table = Table(title=f"{len(entries)} models", title_justify="left")
    for heading in ("model", "what it is", "posteriordb posteriors"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        table.add_row(entry.name, entry.summary, ", ".join(entry.posteriors))
    console.out.print(table)


COMMAND = models
