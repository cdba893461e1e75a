"""Options that several commands share."""

from typing import Annotated

import typer

Sources = Annotated[
    list[str],
    typer.Argument(help="posteriordb name, or a file of draws (.nc, .zarr, .npz, CmdStan .csv: one per chain)."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else there.")]
ModelOption = Annotated[str | None, typer.Option("--model", help="Shipped model's name, or file.py:function.")]
Settings = Annotated[str | None, typer.Option(help="Settings of the model, as a JSON object.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Draws = Annotated[int | None, typer.Option(help="Use only the last so many draws.")]
Metric = Annotated[str, typer.Option(help="covariance or identity.")]
Coordinates = Annotated[str, typer.Option(help="unconstrained or constrained.")]
Known = Annotated[str | None, typer.Option(help="Table (.csv, .json, .npz) of fields known row by row.")]
Unit = Annotated[
    str | None,
    typer.Option(help="Known field that names the unit, one record each; or a field of groups, counted one by one."),
]
Total = Annotated[float | None, typer.Option(help="Known number of records.")]
Download = Annotated[bool, typer.Option(help="Fetch posteriordb from its public repository.")]
