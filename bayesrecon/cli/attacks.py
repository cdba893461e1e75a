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
    """One option for every field of an attack on a single release, with the default None."""
    parameters: dict[str, tuple[object, object]] = {}
    declarations = declared()
    for name in dict.fromkeys(name for attack in declarations for name in attack.options):
        users = [attack for attack in declarations if name in attack.options]
        option_type, description = users[0].options[name]
        description = description.rstrip(".") + f" ({', '.join(attack.name for attack in users)})."
        flag = [f"--{name.replace('_', '-')}"]
        if option_type is bool:
            flag = [f"{flag[0]}/--no-{name.replace('_', '-')}"]
        flag = ["-n", "--n"] if name == "n" else flag
        annotation = Annotated[
            option_type | None,
            typer.Option(*flag, help=description, show_default=False, rich_help_panel="Options of attacks"),
        ]
        parameters[name] = (annotation, None)
    return parameters


def attack_of(
    name: str | None, chosen: Mapping[str, object], args: Arguments
) -> "tuple[Attack[Result] | None, int | None]":
    """The requested attack and None; or None and the number of records, if the release determines the attack.

    Raises `BayesreconError` for an option that the attack does not have.
    """
    from bayesrecon.attacks.attack import attacks
    from bayesrecon.divergence.metrics import Metric

    stated = {k: v for k, v in chosen.items() if v is not None}
    attack_options = {k for k in stated if k != "n"}
    if name is None and not attack_options and not (args.metric or args.coordinates):
        n = stated.get("n")
        return None, n if isinstance(n, int) else None
    if name is None and args.unit:
        name = "single-records"
    attack_class = _class_of(name or "weighted-records")
    for option in stated:
        if option not in attack_class.options():
            owners = " and ".join(attack.name for attack in attacks().values() if option in attack.options())
            flag = f"--{option.replace('_', '-')}"
            raise BayesreconError(f"{flag} is not an option of {attack_class.name}; it belongs to {owners} (--attack)")
    if "metric" in attack_class.options():
        stated["metric"] = Metric(args.metric, args.coordinates)
    elif args.metric or args.coordinates:
        raise BayesreconError(f"{attack_class.name} does not accept --metric and --coordinates")
    return attack_class(**stated), None


def options_table(name: str) -> "Table":
    """The options of one attack."""
    from rich.markup import escape
    from rich.table import Table

    from bayesrecon.releases import in_words

    attack_class = _class_of(name)
    shown_options = {option for attack in declared() if attack.name == attack_class.name for option in attack.options}
    title = f"{attack_class.name}: {attack_class.summary}; takes {in_words(attack_class.takes)}"
    table = Table(title=escape(title), title_justify="left")
    for heading in ("option", "default", "meaning"):
        table.add_column(heading)
    for field in fields(attack_class):
        if field.name in shown_options:
            default = "" if field.default in (None, MISSING) else str(field.default)
            table.add_row(f"--{field.name.replace('_', '-')}", escape(default), escape(field.metadata["help"]))
    table.add_row("--known, --unit, ...", "", escape(f"what the attacker knows: {', '.join(attack_class.uses)}"))
    return table


def _class_of(name: str) -> "type[Attack[Result]]":
    from bayesrecon.attacks.attack import attacks

    if name not in attacks():
        raise BayesreconError(
            f"--attack {name}: there is no such attack{near(name, attacks())} ({', '.join(attacks())})"
        )
    return attacks()[name]
