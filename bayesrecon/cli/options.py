"""Options that several commands share."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer


def offering(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What the shell offers for the beginning of a word: those of the names, which are loaded when it asks."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def _models() -> Iterable[str]:
    from bayesrecon.models import shipped

    return shipped()


Sources = Annotated[
    list[str],
    typer.Argument(help="posteriordb name, or a file of draws (.nc, .zarr, .npz, CmdStan .csv: one per chain)."),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Show numbers even if a check of draws and model failed; no verdict is above partly."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Name of a shipped model, own.py or own.py:NAME (a model, or a function returning one), or program.stan.",
        autocompletion=offering(_models),
    ),
]
Constants = Annotated[
    str | None, typer.Option("--constants", help="For a Stan program: data that are not part of a record (.json).")
]
Settings = Annotated[str | None, typer.Option(help="Settings of the model, as a JSON object.")]
Correlations = Annotated[
    list[str] | None,
    typer.Option(
        "--correlations", help="For a table of estimates: their correlation matrix with names (.csv); one per table."
    ),
]
Power = Annotated[
    float | None,
    typer.Option(help="Power of the likelihood, if the posterior is tempered.", show_default=False),
]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Draws = Annotated[int | None, typer.Option(help="Use only this number of draws, the last ones.")]
Weights = Annotated[
    str | None,
    typer.Option(
        help="Column with the weights of the draws; default weight, mult or log_weight. none: equal weights.",
        show_default=False,
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(help="Metric of the kernel: covariance (default for draws) or identity.", show_default=False),
]
Coordinates = Annotated[
    str | None, typer.Option(help="Coordinates: unconstrained (default) or constrained.", show_default=False)
]
KNOWLEDGE = "What an attacker knows"
"""The panel of the help that these options share."""

Known = Annotated[
    str | None,
    typer.Option(help="Table (.csv, .json, .npz) of the fields that are known row by row.", rich_help_panel=KNOWLEDGE),
]
Unit = Annotated[
    str | None,
    typer.Option(
        help="Known field (or fields a,b) that identifies a record; or a field of groups, to recover each group.",
        rich_help_panel=KNOWLEDGE,
    ),
]
Total = Annotated[float | None, typer.Option(help="Number of records, if it is known.", rich_help_panel=KNOWLEDGE)]
Download = Annotated[bool, typer.Option(help="Fetch posteriordb from its public repository.")]
Trusted = Annotated[
    bool,
    typer.Option("--trusted", help="The files are your own: read them without limits on size and time."),
]
Domain = Annotated[
    list[str] | None,
    typer.Option(
        "--domain",
        help="Domain of a field: FIELD=LOW:HIGH; or, instead of the model's own domain, FIELD=NAME (real, positive, "
        "unit, binary, count, integer) or a list of legal values FIELD=A,B,C. Repeatable.",
        rich_help_panel=KNOWLEDGE,
    ),
]
Factors = Annotated[
    list[str] | None,
    typer.Option(
        "--factor",
        help="NAME=COLUMN,COLUMN: the dummy columns of one variable, without its baseline (wildcards allowed); "
        "NAME=sum:COLUMNS, helmert or polynomial for other contrasts. Repeatable.",
        rich_help_panel=KNOWLEDGE,
    ),
]
FitWeights = Annotated[
    str | None,
    typer.Option(
        "--fit-weights",
        help="For a table of estimates: weights of its fit: frequency (how often each record occurs), analytic "
        "(precision or sampling weights) or none.",
        rich_help_panel=KNOWLEDGE,
    ),
]
Offset = Annotated[
    bool | None,
    typer.Option(
        "--offset/--no-offset",
        help="For a table of estimates: whether its fit had an offset.",
        show_default=False,
        rich_help_panel=KNOWLEDGE,
    ),
]
Formula = Annotated[
    str | None,
    typer.Option(
        "--formula",
        help="For a table of estimates: formula of the regression, which names the factors: 'y ~ C(g) + x'.",
    ),
]
Details = Annotated[bool, typer.Option("--details", help="Also show how the numbers were computed, for specialists.")]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="For a table with several models side by side: name or number of the model to read. Repeatable.",
    ),
]
Delta = Annotated[float | None, typer.Option(help="With --epsilon, e.g. 1e-6.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="With --epsilon: protect the values of a record; their number is public.")
]
Plot = Annotated[Path | None, typer.Option(help="Plot the result (.png, .pdf or .svg).")]


def out(suffixes: tuple[str, ...]) -> object:
    """`--out` for files of these kinds."""
    listed = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
    return Annotated[Path | None, typer.Option("--out", "-o", help=f"Save the result ({listed}).")]
