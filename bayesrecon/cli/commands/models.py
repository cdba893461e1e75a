"""`bayesrecon models`: what is shipped."""

from bayesrecon.cli import options


def models(json: options.Json = False) -> None:
    """List the shipped models."""
    from bayesrecon.cli import console
    from bayesrecon.cli.rich_tables import table
    from bayesrecon.models import shipped

    entries = list(shipped().values())
    if json:
        console.emit_json([{"name": e.name, "summary": e.summary, "posteriors": list(e.posteriors)} for e in entries])
        return
    rows = ((e.name, e.summary, ", ".join(e.posteriors)) for e in entries)
    head = ["model", "what it is", "posteriordb posteriors"]
    console.out.print(table(head, rows, title=f"{len(entries)} models", words=3, fold=True))


COMMAND = models
