"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

Sources = Annotated[
    list[str],
    typer.Argument(help="posteriordb name, or a file of draws (.nc, .zarr, .npz, CmdStan .csv: one per chain)."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Show numbers where draws and model do not belong together; none is determined.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else there.")]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Shipped model's name, own.py (or own.py:NAME, a model or a function that returns one), or program.stan.",
    ),
]
Constants = Annotated[
    str | None, typer.Option("--constants", help="Of a Stan program: data that belong to no record (.json).")
]
Settings = Annotated[str | None, typer.Option(help="Settings of the model, as a JSON object.")]
Correlations = Annotated[
    list[str] | None,
    typer.Option(
        "--correlations", help="Of a table of estimates (.csv): a square with their names (.csv); one for each table."
    ),
]
Power = Annotated[
    float | None,
    typer.Option(help="Power of the likelihood, where the posterior is tempered.", show_default=False),
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Draws = Annotated[int | None, typer.Option(help="Use only the last so many draws.")]
Weights = Annotated[
    str | None,
    typer.Option(
        help="Column of the draws' weights, if not called weight, mult or log_weight; none takes draws as equal.",
        show_default=False,
    ),
]
Metric = Annotated[
    str | None, typer.Option(help="covariance or identity; default covariance for draws.", show_default=False)
]
Coordinates = Annotated[
    str | None, typer.Option(help="unconstrained or constrained; default unconstrained.", show_default=False)
]
KNOWLEDGE = "What an attacker knows"
"""The panel of the help that these options share."""

Known = Annotated[
    str | None,
    typer.Option(help="Table (.csv, .json, .npz) of fields known row by row.", rich_help_panel=KNOWLEDGE),
]
Unit = Annotated[
    str | None,
    typer.Option(
        help="Known field, or fields a,b together, that name a record; or a field of groups, counted one by one.",
        rich_help_panel=KNOWLEDGE,
    ),
]
Total = Annotated[float | None, typer.Option(help="Known number of records.", rich_help_panel=KNOWLEDGE)]
Download = Annotated[bool, typer.Option(help="Fetch posteriordb from its public repository.")]
Trusted = Annotated[
    bool,
    typer.Option("--trusted", help="The files are your own: no limits on what they unpack to, or how long it takes."),
]
Domain = Annotated[
    list[str] | None,
    typer.Option(
        "--domain",
        help="Where a field's values lie, once per field: FIELD=LOW:HIGH; or, in the place of the model's own domain, "
        "FIELD=NAME (real, positive, unit, binary, count, integer) or the legal values FIELD=A,B,C.",
        rich_help_panel=KNOWLEDGE,
    ),
]
Factors = Annotated[
    list[str] | None,
    typer.Option(
        "--factor",
        help="NAME=COLUMN,COLUMN: exclusive dummies of one variable, its baseline left out (wildcards are understood); "
        "NAME=sum:COLUMNS, helmert or polynomial for other contrasts; once per factor.",
        rich_help_panel=KNOWLEDGE,
    ),
]
FitWeights = Annotated[
    str | None,
    typer.Option(
        "--fit-weights",
        help="Of a table of estimates: how its fit weighed records: frequency (as often as each occurs), analytic (by "
        "precision or sampling weights) or none.",
        rich_help_panel=KNOWLEDGE,
    ),
]
Offset = Annotated[
    bool | None,
    typer.Option(
        "--offset/--no-offset",
        help="Of a table of estimates: whether its fit had an offset.",
        show_default=False,
        rich_help_panel=KNOWLEDGE,
    ),
]
Formula = Annotated[
    str | None,
    typer.Option("--formula", help="Of a table of estimates: the regression's, which tells factors, 'y ~ C(g) + x'."),
]
Details = Annotated[
    bool, typer.Option("--details", help="Also what only specialists need: how the numbers came about.")
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="Of a table of several models side by side: the name of one, or its number; several are read together.",
    ),
]
Plot = Annotated[Path | None, typer.Option(help="Draw the result (.png, .pdf or .svg).")]


def out(suffixes: tuple[str, ...]) -> Any:
    """`--out` for files of these kinds."""
    listed = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
    return Annotated[Path | None, typer.Option("--out", "-o", help=f"Save the result ({listed}).")]
