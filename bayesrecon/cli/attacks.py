"""Attacks on the command line: every field of an attack object is an option."""

import ast
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Union, get_args, get_origin, get_type_hints

import typer

from bayesrecon import attacks
from bayesrecon.cli.command import Arguments, Parameters
from bayesrecon.discovery import adds
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
    from bayesrecon.cli.rich_tables import table
    from bayesrecon.releases import in_words

    attack_class = _class_of(name)
    shown_options = {option for attack in declared() if attack.name == attack_class.name for option in attack.options}
    rows = [
        (f"--{f.name.replace('_', '-')}", "" if f.default in (None, MISSING) else str(f.default), f.metadata["help"])
        for f in fields(attack_class)
        if f.name in shown_options
    ]
    rows.append(("--known, --unit, ...", "", f"what the attacker knows: {', '.join(attack_class.uses)}"))
    title = f"{attack_class.name}: {attack_class.summary}; takes {in_words(attack_class.takes)}"
    return table(["option", "default", "meaning"], rows, title=title, words=3, fold=True)


def _class_of(name: str) -> "type[Attack[Result]]":
    from bayesrecon.attacks.attack import attacks

    if name not in attacks():
        raise BayesreconError(
            f"--attack {name}: there is no such attack{near(name, attacks())} ({', '.join(attacks())})"
        )
    return attacks()[name]


# Options of attacks on a single release. They are read from the source, so that help does not import JAX.
#
# An option is a field `name: annotation = option(default, help)` of the class. If a plug-in adds an attack, all classes
# are imported instead.

_TYPED = {kind.__name__: kind for kind in (bool, int, float, Path, str)}  # in the order in which they are tried
_OTHERS = ("Outputs", "Pair")  # endings of the names of types that are not single releases
_APART = "unit"  # also an option of the attacker's knowledge


@dataclass(frozen=True)
class DeclaredAttack:
    """An attack and its options.

    Attributes:
        name: name on the command line.
        options: `{name: (type of the value, help)}`.
    """

    name: str
    options: dict[str, tuple[type, str]]


def declared() -> tuple[DeclaredAttack, ...]:
    """Attacks on a single release, in the order of `attacks()`."""
    return tuple(from_classes() if adds("attacks") else from_sources())


def from_sources() -> Iterator[DeclaredAttack]:
    """Attacks of this package, read from their source."""
    for folder in attacks.__path__:
        for path in sorted(Path(folder).rglob("*.py"), key=lambda path: path.with_suffix("").parts):
            text = path.read_text(encoding="utf-8")
            if "\nATTACK = " in text:
                yield from _of_source(ast.parse(text))


def _of_source(tree: ast.Module) -> Iterator[DeclaredAttack]:
    (class_name,) = (
        node.value.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "ATTACK"
        and isinstance(node.value, ast.Name)
    )
    (class_node,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name)
    assigned = {
        ast.unparse(node.target): node
        for node in class_node.body
        if isinstance(node, ast.AnnAssign) and node.value is not None
    }
    takes = [node.id for node in ast.walk(assigned["takes"].value or class_node) if isinstance(node, ast.Name)]
    if all(name.endswith(_OTHERS) for name in takes):
        return
    options = {}
    for field, node in assigned.items():
        kind, value = _type_of_annotation(node.annotation), node.value
        if kind is not None and field != _APART and isinstance(value, ast.Call) and ast.unparse(value.func) == "option":
            options[field] = kind, str(ast.literal_eval(value.args[1]))
    yield DeclaredAttack(str(ast.literal_eval(assigned["name"].value or class_node)), options)


def _type_of_annotation(annotation: ast.expr) -> type | None:
    names, waiting = [], [annotation]
    while waiting:
        node = waiting.pop()
        waiting += [node.left, node.right] if isinstance(node, ast.BinOp) else []
        names.append(ast.unparse(node.value if isinstance(node, ast.Subscript) else node))
    option_type = next((kind for name, kind in _TYPED.items() if name in names), None)
    return option_type or (str if "Literal" in names else None)


def from_classes() -> Iterator[DeclaredAttack]:
    """All attacks on a single release, from their classes."""
    from bayesrecon.attacks import attack
    from bayesrecon.releases import Release

    for attack_class in attack.attacks().values():
        if any(issubclass(kind, Release) for kind in attack_class.takes):
            hints = get_type_hints(attack_class)
            kinds = {
                field.name: _type_of_hint(hints[field.name])
                for field in fields(attack_class)
                if field.init and field.name != _APART
            }
            options = {
                name: (kind, attack_class.__dataclass_fields__[name].metadata["help"])
                for name, kind in kinds.items()
                if kind
            }
            yield DeclaredAttack(attack_class.name, options)


def _type_of_hint(hint: object) -> type | None:
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    option_type = next((kind for kind in _TYPED.values() if kind in parts), None)
    return option_type or (str if any(get_origin(part) is Literal for part in parts) else None)
