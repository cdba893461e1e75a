"""`bayesrecon demo`: a first look that needs no file."""

from pathlib import Path
from typing import Annotated

import typer

from bayesrecon.cli import options


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the plot and the JSON file.")] = Path("."),
    seed: options.Seed = 0,
    all_statistics: Annotated[bool, typer.Option("--all", help="Show all recovered statistics, with errors.")] = False,
    json: options.Json = False,
) -> None:
    """Fit a regression to 442 patients, keep only the draws, and recover the patients' statistics from them."""
    from bayesrecon.cli.demo import run_demo

    run_demo(out, seed=seed, all_statistics=all_statistics, json=json)


COMMAND = demo
