"""`bayesrecon game`: deletion games, named ones and on one's own table."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesrecon.cli import options
from bayesrecon.cli.command import ENDING, Arguments, command
from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bayesrecon.games.inference import Game
    from bayesrecon.results.game import GameResult

_TABLES = (".csv", ".json", ".npz")
_LISTED = 8  # columns that a message names


@command(ENDING, written=(".json", ".csv", ".npz"))
def game(
    args: Arguments,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[GAME|TABLE]",
            help="A named game, or your own table (.csv, .json, .npz). Without it, the games are listed.",
            autocompletion=options.offering(lambda: _names()["games"]),
        ),
    ] = None,
    response: Annotated[str | None, typer.Option(help="For a table: the column to predict.")] = None,
    learner: Annotated[
        str | None,
        typer.Option(
            help="For a table: the learner; default logistic.",
            autocompletion=options.offering(lambda: _names()["learners"]),
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="For a private learner: epsilon; default 1.", show_default=False)
    ] = None,
    domain: Annotated[
        list[str] | None,
        typer.Option("--domain", help="For a private learner: FIELD=LOW:HIGH, public range of each numeric column."),
    ] = None,
    adversary: Annotated[
        list[str] | None,
        typer.Option(
            help="An adversary to play; default those that suit what is shown. Repeatable.",
            autocompletion=options.offering(lambda: _names()["adversaries"]),
        ),
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", help="Number of rounds.", min=1)] = 1000,
    workers: Annotated[
        int | None, typer.Option(help="Number of processes; default one per core.", show_default=False)
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Folder that keeps finished rounds, to resume from.")] = None,
    show: Annotated[
        str,
        typer.Option(
            help="What the adversary sees of the two challenges (one was deleted): records, instances or labels."
        ),
    ] = "records",
    single: Annotated[bool, typer.Option("--single", help="Show one challenge only: was it deleted?")] = False,
    outside: Annotated[bool, typer.Option("--outside", help="Take the other challenge from outside the data.")] = False,
    added: Annotated[bool, typer.Option("--added", help="The record is added to the data, not deleted.")] = False,
    labels_only: Annotated[
        bool, typer.Option("--labels-only", help="A defence: the models show their most likely class alone.")
    ] = False,
    deletions: Annotated[int, typer.Option(help="Number of records deleted together.", min=1)] = 1,
    auxiliary: Annotated[
        int | None,
        typer.Option(help="Number of public records that the adversary holds; -1 for all.", show_default=False),
    ] = None,
    choose: Annotated[
        str | None, typer.Option(help="How the adversary chooses both challenges: outlying.", show_default=False)
    ] = None,
    others: Annotated[bool, typer.Option("--others", help="The adversary holds all other private records.")] = False,
    share: Annotated[
        float | None, typer.Option(help="Share of the table that is private in each round.", show_default=False)
    ] = None,
) -> None:
    """Measure how often an outsider identifies the record that was deleted (or added) between two trained models.

    Exit codes: 0 done, 1 success is above what the learner's claimed epsilon allows, 2 bad input.
    """
    if name is None:
        if response is not None or learner is not None:
            raise BayesreconError("name the table: bayesrecon game customers.csv --response churned")
        return _list(args.json)
    flags: dict[str, Any] = {"given": show, "single": single, "outside": outside, "deletions": deletions}
    flags |= {"added": added, "labels_only": labels_only, "others": others} | (
        {} if share is None else {"share": share}
    )
    if choose is not None:
        from bayesrecon.games.choosing import named_choice

        flags["choose"] = named_choice(choose)
    if domain is not None:
        from bayesrecon.cli.option_values import parse_intervals

        flags["domain"] = parse_intervals(domain)
    flags |= {} if epsilon is None else {"epsilon": epsilon}
    flags |= {} if auxiliary is None else {"auxiliary": None if auxiliary == -1 else auxiliary}
    chosen = _game(name, response, learner, adversary or [], flags)
    from bayesrecon.games.playing import play

    with args.working() as working:
        result = play(
            chosen,
            rounds,
            seed=working["key"],
            workers=workers,
            folder=folder,
            progress=working["progress"],
        )
    args.deliver(result, None, _show)
    if result.failures:
        raise typer.Exit(1)


COMMAND = game


def _game(name: str, response: str | None, learner: str | None, adversary: list[str], flags: dict[str, Any]) -> "Game":
    from bayesrecon.games.adversary import named_adversary
    from bayesrecon.games.named_games import load

    players = tuple(named_adversary(one) for one in adversary) or None
    if Path(name).suffix.lower() not in _TABLES:
        if response is not None or learner is not None or "domain" in flags:
            raise BayesreconError(
                f"{name} is a named game: --response, --learner and --domain apply only to your own table (.csv, "
                ".json, .npz)"
            )
        return load(name, adversaries=players, **flags)
    from bayesrecon.games.named_games import own_game
    from bayesrecon.posteriors.tables import read_table

    table = read_table(name)
    if response is None:
        listed = ", ".join(list(table)[:_LISTED]) + (", ..." if len(table) > _LISTED else "")
        raise BayesreconError(f"{name}: name the column that the model predicts, --response COLUMN ({listed})")
    return own_game(table, response, learner or "logistic", adversaries=players, name=Path(name).stem, **flags)


def _names() -> dict[str, dict[str, str]]:
    """What there is of each kind, with a line about it."""
    from bayesrecon.games.adversary import named_adversaries
    from bayesrecon.games.named_games import named_learners, shipped

    return {
        "games": dict(shipped()),
        "adversaries": {name: line for name, (line, _) in named_adversaries().items()},
        "learners": {name: line for name, (line, _) in named_learners().items()},
    }


def _list(json: bool) -> None:
    from bayesrecon.cli import console
    from bayesrecon.cli.rich_tables import table

    kinds = _names()
    if json:
        return console.emit_json(kinds)
    for title, listed in kinds.items():
        head, heading = [title[:-1], "what it is"], f"{len(listed)} {title}"
        console.out.print(table(head, listed.items(), title=heading, words=2, fold=True))


def _show(result: "GameResult") -> "Iterable[RenderableType]":
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(result.headline), title_justify="left")
    table.add_column("adversary", no_wrap=True)
    for heading in (
        f"names the {'added' if 'added' in result.variant else 'deleted'} record",
        "95 % interval",
        "ties",
        "ties as wins",
        "advantage",
        "epsilon >=",
    ):
        table.add_column(heading, justify="right")
    for row in result.rows:
        pairs, rate = row.wins + row.ties + row.losses, row.success
        cells = [f"{rate.estimate:.1%}", f"{rate.lower:.1%} to {rate.upper:.1%}", f"{row.ties / pairs:.1%}"]
        cells += [f"{row.success_with_ties.estimate:.1%}", f"{row.advantage.estimate:.2f}", f"{row.epsilon:.2f}"]
        table.add_row(escape(row.adversary), *cells)
    if result.bound is not None:
        cells = [f"{result.bound:.1%}", "", "", "", f"{2 * result.bound - 1:.2f}", f"{result.claimed_epsilon:.2f}"]
        table.add_row("bound of the claimed epsilon", *cells, style="bold red" if result.failures else "dim")
    yield table
    if (count := len(result.rows)) > 1:
        best, rate = result.best, result.best.simultaneous
        yield (
            f"best of {count}: {best.adversary}, {rate.estimate:.1%}, epsilon >= {best.simultaneous_epsilon:.2f} "
            f"({rate.lower:.1%} to {rate.upper:.1%}, corrected for the choice among {count})"
        )
