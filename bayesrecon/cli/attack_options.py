"""What attacks on a single release have as options, read from their source: help is shown before JAX is there.

An option is a field `name: annotation = option(default, help)` of the class. Classes of plug-ins are looked at
themselves, and so are all where there is such a plug-in.
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
_OTHERS = ("Outputs", "Pair")  # ends of the names of what is no single release
_APART = "unit"  # an option of what the attacker knows, too


@dataclass(frozen=True)
class Declared:
    """One attack.

    Attributes:
        name: on the command line.
        options: what is typed for each (a number, a switch, a path or a word), and its line of help.
    """

    name: str
    options: dict[str, tuple[type, str]]


def declared() -> tuple[Declared, ...]:
    """Attacks on a single release, in the order of `attacks()`."""
    return tuple(from_classes() if adds("attacks") else from_sources())


def from_sources() -> Iterator[Declared]:
    """Those of this package, none of which is imported."""
    for folder in attacks.__path__:
        for path in sorted(Path(folder).rglob("*.py"), key=lambda path: path.with_suffix("").parts):
            text = path.read_text(encoding="utf-8")
            if "\nATTACK = " in text:
                yield from _of_source(ast.parse(text))


def _of_source(tree: ast.Module) -> Iterator[Declared]:
    (wanted,) = (
        node.value.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "ATTACK"
        and isinstance(node.value, ast.Name)
    )
    (made,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == wanted)
    assigned = {
        ast.unparse(one.target): one for one in made.body if isinstance(one, ast.AnnAssign) and one.value is not None
    }
    takes = [one.id for one in ast.walk(assigned["takes"].value or made) if isinstance(one, ast.Name)]
    if all(one.endswith(_OTHERS) for one in takes):
        return
    options = {}
    for field, one in assigned.items():
        kind, value = _kind_of(one.annotation), one.value
        if kind is not None and field != _APART and isinstance(value, ast.Call) and ast.unparse(value.func) == "option":
            options[field] = kind, str(ast.literal_eval(value.args[1]))
    yield Declared(str(ast.literal_eval(assigned["name"].value or made)), options)


def _kind_of(annotation: ast.expr) -> type | None:
    parts, left = [], [annotation]
    while left:
        one = left.pop()
        left += [one.left, one.right] if isinstance(one, ast.BinOp) else []
        parts.append(ast.unparse(one.value if isinstance(one, ast.Subscript) else one))
    found = next((kind for name, kind in _TYPED.items() if name in parts), None)
    return found or (str if "Literal" in parts else None)


def from_classes() -> Iterator[Declared]:
    """All that there are."""
    from bayesrecon.attacks import attack
    from bayesrecon.releases import Release

    for one in attack.attacks().values():
        if any(issubclass(kind, Release) for kind in one.takes):
            hints = get_type_hints(one)
            kinds = {
                field.name: _typed(hints[field.name]) for field in fields(one) if field.init and field.name != _APART
            }
            options = {
                name: (kind, one.__dataclass_fields__[name].metadata["help"]) for name, kind in kinds.items() if kind
            }
            yield Declared(one.name, options)


def _typed(hint: object) -> type | None:
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    found = next((kind for kind in _TYPED.values() if kind in parts), None)
    return found or (str if any(get_origin(part) is Literal for part in parts) else None)
