"""Tables of which nothing says whether their rows are draws or records."""

import numpy as np

from bayesrecon.auditing.look import Look, Plain
from bayesrecon.auditing.short_text import places, preview
from bayesrecon.posteriors.contents import RECORDS, Variable
from bayesrecon.results.findings import DRAWS_OR_RECORDS, SAY_WHICH, Finding, NotRun, Remedy


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """A finding on the table if it holds private columns or is said to hold records; otherwise the open question."""
    undecided = look.contents.undecided
    if not undecided:
        return [], []
    where = tuple(v.where for v in undecided)
    private = {v.where: name for v in undecided if (name := _named(look, v))}
    if not private and look.contents.sign != RECORDS:
        reason = "nothing in the source says whether its rows are posterior draws or records of people"
        return [], [NotRun(DRAWS_OR_RECORDS, reason, SAY_WHICH, where)]
    first = next((v for v in undecided if v.where in private), undecided[0])
    why = "; ".join(f"{place} is the private column {name}" for place, name in private.items()) or "you say so"
    found = Finding(
        "copy",
        "high",
        f"{places(where, 3)}: the {len(first.values)} rows are records",
        where,
        f"{why}. {first.where} begins with {preview(first.values)}",
        remedies=(Remedy(f"drop {places(where, 3)}"),),
        drop=where,
    )
    return [found], []


def _named(look: Look, variable: Variable) -> str | None:
    """The private column that an array is equal to, as a whole or in one of its columns."""
    columns = np.asarray(variable.values).reshape(len(variable.values), -1)
    return next(filter(None, (look.named(values) for values in (variable.values, *columns.T))), None)


PLAIN = Plain("draws or records", find, 1)
