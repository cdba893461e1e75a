"""Attacks on the command line: every field of an attack object is an option."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Annotated

import typer

from bayesrecon.cli.attack_options import declared
from bayesrecon.cli.command import Arguments, Parameters
from bayesrecon.errors import BayesreconError, near

if TYPE_CHECKING:
    from rich.table import Table

    from bayesrecon.attacks.attack import Attack
    from bayesrecon.results.base import Result


def options_of() -> Parameters:
    """One option for every field that some attack on a single release has, unset unless given."""
    found: dict[str, tuple[object, object]] = {}
    every = declared()
    for name in dict.fromkeys(name for one in every for name in one.options):
        users = [one for one in every if name in one.options]
        kind, text = users[0].options[name]
        text = text.rstrip(".") + f" ({', '.join(one.name for one in users)})."
        flag = [f"--{name.replace('_', '-')}"]
        if kind is bool:
            flag = [f"{flag[0]}/--no-{name.replace('_', '-')}"]
        flag = ["-n", "--n"] if name == "n" else flag
        annotation = Annotated[
            kind | None, typer.Option(*flag, help=text, show_default=False, rich_help_panel="Options of attacks")
        ]
        found[name] = (annotation, None)
    return found


def attack_of(
    name: str | None, chosen: Mapping[str, object], args: Arguments
) -> "tuple[Attack[Result] | None, int | None]":
    """The attack that was asked for; None, and the number of records, where the release chooses.

    Raises `BayesreconError` for an option that the attack does not have.
    """
    from bayesrecon.attacks.attack import attacks
    from bayesrecon.estimation.estimator import Estimator

    stated = {k: v for k, v in chosen.items() if v is not None}
    own = {k for k in stated if k != "n"}
    if name is None and not own and not (args.metric or args.coordinates):
        n = stated.get("n")
        return None, n if isinstance(n, int) else None
    if name is None and args.unit:
        name = "single-records"
    made = _named(name or "weighted-records")
    for option in stated:
        if option not in made.options():
            owners = " and ".join(one.name for one in attacks().values() if option in one.options())
            flag = f"--{option.replace('_', '-')}"
            raise BayesreconError(f"{flag} is no option of {made.name}; it belongs to {owners} (--attack)")
    if "estimator" in made.options():
        stated["estimator"] = Estimator(args.metric, args.coordinates)
    elif args.metric or args.coordinates:
        raise BayesreconError(f"{made.name} has no metric and coordinates to choose")
    return made(**stated), None


def options_table(name: str) -> "Table":
    """The options of one attack."""
    from rich.markup import escape
    from rich.table import Table

    from bayesrecon.releases import in_words

    made = _named(name)
    typed = {option for one in declared() if one.name == made.name for option in one.options}
    title = f"{made.name}: {made.summary}; takes {in_words(made.takes)}"
    table = Table(title=escape(title), title_justify="left")
    for heading in ("option", "default", "what it is"):
        table.add_column(heading)
    for field in fields(made):
        if field.name in typed:
            default = "" if field.default in (None, MISSING) else str(field.default)
            table.add_row(f"--{field.name.replace('_', '-')}", escape(default), escape(field.metadata["help"]))
    table.add_row("--known, --unit, ...", "", escape(f"what the attacker knows: {', '.join(made.uses)}"))
    return table


def _named(name: str) -> "type[Attack[Result]]":
    from bayesrecon.attacks.attack import attacks

    if name not in attacks():
        raise BayesreconError(
            f"--attack {name}: there is no such attack{near(name, attacks())} ({', '.join(attacks())})"
        )
    return attacks()[name]
