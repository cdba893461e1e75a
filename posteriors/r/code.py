"""Calls, formulas and functions of R as text, and the objects in them that are not code."""

import re
from dataclasses import dataclass, field

import numpy as np

from bayesrecon.posteriors.r.r_objects import VECTORS, RObjects
from bayesrecon.posteriors.roles import is_option

_LONGEST, _DEEPEST, _MOST_NODES = 20_000, 200, 20_000  # largest number of characters, nested calls and nodes
_INFIX = {
    "~", "+", "-", "*", "/", "^", "==", "!=", "<", ">", "<=", ">=", "&", "&&", "|", "||", "<-", "=", ":", "%in%",
    "%*%", "%%", "%/%", "$", "@", "::", ":::", "|>", "%o%", "<<-",
}  # fmt: skip
_OTHER = {"!", "if", "for", "while", "repeat", "break", "next", "function", "[<-", "[[<-", "$<-", "@<-", "..."}
_CLOSED = {"(": ")", "{": "}", "[": "]", "[[": "]]"}
_SYMBOL = re.compile(r"[A-Za-z.][\w.]{0,63}")
_DIGITS = 4  # largest number of digits of a constant that was typed
_MOST_CONSTANTS = 20


@dataclass
class Code:
    """A piece of code.

    Attributes:
        text: the code as it would be typed, shortened if it is long.
        odd: nodes in it that are not code: vectors, lists, environments.
        plain: whether it consists of names, words such as options and a few short numbers.
    """

    text: str = ""
    odd: list[int] = field(default_factory=list)
    plain: bool = True


def code_of(objects: RObjects, node: int) -> Code:
    """A call, a symbol or a constant as text.

    Operators are written between their operands. Long code is shortened.
    """
    result = Code()
    parts: list[str] = []
    numbers = 0
    waiting: list[tuple[int, int] | str] = [(node, 0)]
    seen = 0
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            parts.append(current)
            continue
        at, depth = current
        seen += 1
        if seen > _MOST_NODES or depth > _DEEPEST:
            result.plain = False
            parts.append("...")
            continue
        kind = objects.kind(at)
        if kind == "symbol":
            (name, *_) = objects.names_within(at) or ["?"]
            usual = _SYMBOL.fullmatch(name) or name in _INFIX or name in _CLOSED or name in _OTHER
            parts.append(name if usual else f"`{name}`")
            result.plain &= bool(usual)
        elif kind == "call":
            waiting += reversed(_call(objects, at, depth))
        elif kind in VECTORS and objects.size(at) == 1 and "dim" not in objects.attributes(at):
            text, plain = _constant(objects, at, kind)
            parts.append(text)
            result.plain &= plain
            numbers += kind != "text"
        elif kind in ("null", "missing", "unbound", "builtin", "global", "base", "empty"):
            parts.append("NULL" if kind == "null" else "")
        elif kind in ("pairs", "dots"):
            inner: list[tuple[int, int] | str] = []
            for name, child in objects.elements(at):
                inner += [", "] if inner else []
                inner += [name, " = "] if name else []
                inner.append((child, depth + 1))
            waiting += reversed(inner)
        else:
            result.odd.append(at)
            parts.append(f"<{kind}>")
    result.plain &= numbers <= _MOST_CONSTANTS
    text = "".join(parts)
    result.text = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
    return result


def _call(objects: RObjects, at: int, depth: int) -> list[tuple[int, int] | str]:
    elements = objects.elements(at)
    if not elements:
        return ["()"]
    (_, head), rest = elements[0], elements[1:]
    names = objects.names_within(head) if objects.kind(head) == "symbol" else []
    name = names[0] if names else ""
    if name in _INFIX and len(rest) == 2:
        space = "" if name in ("$", "@", "::", ":::", ":", "^") else " "
        return [(rest[0][1], depth + 1), f"{space}{name}{space}", (rest[1][1], depth + 1)]
    if name in _INFIX and len(rest) == 1:
        return [name, (rest[0][1], depth + 1)]
    inner: list[tuple[int, int] | str] = []
    for label, child in rest:
        inner += [", " if name != "{" else "; "] if inner else []
        inner += [f"{label} = "] if label else []
        inner.append((child, depth + 1))
    if name in ("(", "{"):
        return [name, *inner, _CLOSED[name]]
    if name in ("[", "[[") and inner:
        return [inner[0], name, *inner[2:], _CLOSED[name]]
    return [(head, depth + 1), "(", *inner, ")"]


def _constant(objects: RObjects, at: int, kind: str) -> tuple[str, bool]:
    if kind == "text":
        text = objects.texts(at)[0]
        return f'"{text}"', is_option(text) or not text
    value = np.ravel(objects.numbers(at)).astype(float)
    text = ", ".join(f"{v:.15g}" for v in value)
    digits = len(text.lower().split("e")[0].replace(".", "").strip("-0")) if len(value) else 0
    return text, digits <= _DIGITS or not np.isfinite(value).all()
