"""Options of attacks on a single release. They are read from the source, so that help does not import JAX.

An option is a field `name: annotation = option(default, help)` of the class. If a plug-in adds an attack, all classes
are imported instead.
"""

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, Union, get_args, get_origin, get_type_hints

from bayesrecon import attacks
from bayesrecon.discovery import adds

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
