"""Tables of which nothing says whether their rows are draws or records, and files that were not read."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.wording import places, preview, to_drop
from bayesrecon.posteriors.contents import RECORDS, Unread, Variable
from bayesrecon.results.findings import DRAWS_OR_RECORDS, SAY_WHICH, Finding, NotRun


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """A finding on the table if it holds private columns or is said to hold records; otherwise the open question."""
    undecided = look.contents.undecided
    if not undecided:
        named = [
            (u, _first(look, _parts(u.content)) or look.named(u.content, sampled=True)) for u in look.contents.unread
        ]
        return [_unread(part, name) for part, name in named if name], []
    where = tuple(v.where for v in undecided)
    private = {v.where: name for v in undecided if (name := _named(look, v))}
    if not private and look.contents.sign != RECORDS:
        reason = "nothing in the source says whether its rows are posterior draws or records of people"
        return [], [NotRun(DRAWS_OR_RECORDS, reason, SAY_WHICH, where)]
    first = next((v for v in undecided if v.where in private), undecided[0])
    why = "; ".join(f"{place} is the private column {name}" for place, name in private.items()) or "you say so"
    title, summary = (
        f"{places(where, 3)}: the {len(first.values)} rows are records",
        f"{why}. {first.where} begins with ",
    )
    return [to_drop("copy", "high", title, where, f"{summary}{preview(first.values)}")], []


def _parts(content: bytes) -> Iterator[object]:
    """The bytes; what they are as text; and texts in a JSON document, which may be documents themselves."""
    yield content
    with suppress(ValueError, RecursionError):
        text = content.decode()
        yield text
        document = json.loads(text)
        yield from (v for v in document.values() if isinstance(v, str)) if isinstance(document, dict) else ()


def _first(look: Look, parts: Iterable[object]) -> str | None:
    return next(filter(None, map(look.named, parts)), None)


def _unread(part: Unread, name: str) -> Finding:
    title, told = f"{part.where} holds the private column {name}", f"{part.reason}; its bytes hold the column"
    return replace(to_drop("copy", "high", title, (part.where,), told), drop=())


def _named(look: Look, variable: Variable) -> str | None:
    """The private column that an array is equal to, as a whole or in one of its columns."""
    columns = np.asarray(variable.values).reshape(len(variable.values), -1)
    return _first(look, (variable.values, *columns.T))


CHANNEL = Channel("draws or records", find, 1)
