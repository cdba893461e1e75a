"""Attacks on the command line: every field of an attack object is an option."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from bayesrecon.attacks.attack import Attack, attacks
from bayesrecon.errors import BayesreconError, near
from bayesrecon.estimation.problem import Estimator
from bayesrecon.releases import Release

if TYPE_CHECKING:
    from rich.table import Table


def options_of() -> dict[str, tuple[Any, Any]]:
    """One option for every field that some attack on a single release has, unset unless given."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, users in _fields().items():
        kind, (first, *_) = _kind(name, users[0]), users
        text = str(first.__dataclass_fields__[name].metadata["help"])
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


def attack_of(name: str | None, chosen: Mapping[str, Any], given: Any) -> tuple[Attack[Any] | None, int | None]:
    """The attack that was asked for; None, and the number of records, where the release chooses.

    Raises `BayesreconError` for an option that the attack does not have.
    """
    stated = {k: v for k, v in chosen.items() if v is not None}
    own = {k for k in stated if k != "n"}
    if name is None and not own and not (given.metric or given.coordinates):
        return None, stated.get("n")
    if name is None and given.unit:
        name = "single-records"
    made = _named(name or "weighted-records")
    for option in stated:
        if option not in made.options():
            owners = " and ".join(one.name for one in attacks().values() if option in one.options())
            flag = f"--{option.replace('_', '-')}"
            raise BayesreconError(f"{flag} is no option of {made.name}; it belongs to {owners} (--attack)")
    if "estimator" in made.options():
        stated["estimator"] = Estimator(given.metric, given.coordinates)
    elif given.metric or given.coordinates:
        raise BayesreconError(f"{made.name} has no metric and coordinates to choose")
    return made(**stated), None


def options_table(name: str) -> "Table":
    """The options of one attack."""
    from rich.markup import escape
    from rich.table import Table

    made = _named(name)
    title = f"{made.name}: {made.summary}; takes {' or '.join(one.what for one in made.takes)}"
    table = Table(title=escape(title), title_justify="left")
    for heading in ("option", "default", "what it is"):
        table.add_column(heading)
    for field in fields(made):
        if field.name in _fields() and made in _fields()[field.name]:
            default = "" if field.default in (None, MISSING) else str(field.default)
            table.add_row(f"--{field.name.replace('_', '-')}", escape(default), escape(field.metadata["help"]))
    table.add_row("--known, --unit, ...", "", escape(f"what the attacker knows: {', '.join(made.uses)}"))
    return table


def _named(name: str) -> type[Attack[Any]]:
    if name not in attacks():
        raise BayesreconError(
            f"--attack {name}: there is no such attack{near(name, attacks())} ({', '.join(attacks())})"
        )
    return attacks()[name]


def _fields() -> dict[str, list[type[Attack[Any]]]]:
    """Fields that can be typed, of the attacks on a single release, and the attacks that have them."""
    found: dict[str, list[type[Attack[Any]]]] = {}
    for one in attacks().values():
        if any(issubclass(kind, Release) for kind in one.takes):
            for field in fields(one):
                if field.init and field.name != "unit" and _kind(field.name, one) is not None:
                    found.setdefault(field.name, []).append(one)
    return found


def _kind(name: str, one: type[Attack[Any]]) -> Any:
    """What is typed for a field: a number, a switch, a path or a word; None where it cannot be typed."""
    hint = get_type_hints(one)[name]
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for kind in (bool, int, float, Path, str):
        if kind in parts:
            return kind
    return str if any(get_origin(part) is Literal for part in parts) else None
