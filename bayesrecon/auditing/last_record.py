"""A trained parameter before somebody who knows every record but one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesrecon.attacks.deletion.left_over import left_over
from bayesrecon.errors import BayesreconError
from bayesrecon.releases import Release, TrainedParameter, refuse_others
from bayesrecon.results.findings import Finding, Item, NotRun

_ATTACK = "missing record"
_PASS = "pass all other records (known=), every field of each, or leave known= out"
_CLOSE = 0.1  # of the record's own size: an error up to which it is recovered


def tells_all_fields(release: Release, knows: Mapping[str, Any]) -> bool:
    """Whether somebody knows whole records: every field of the model."""
    return set(knows.get("known") or ()) == set(release.model.fields)


def last_record(
    release: Release, knows: Mapping[str, Any], untried: tuple[NotRun, ...]
) -> tuple[tuple[Finding, ...], tuple[NotRun, ...]]:
    """A finding on the one record that is not among the known ones; none where nothing is left of the gradient.

    Returns:
        Findings, and what was not tried.
    """
    where = (release.name,)
    try:
        refuse_others(release, (TrainedParameter,), "the informed adversary", _PASS)
        found = left_over(release, knows["known"])
    except BayesreconError as error:
        return (), (*untried, NotRun(_ATTACK, str(error), _PASS, where))
    values = np.concatenate([np.ravel(np.asarray(v, float)) for v in found.record.values()])
    size = float(np.linalg.norm(values))
    if not np.isfinite(found.error):
        reason = "; ".join(("a record is left over, and its error has no bound", *found.warnings[:1]))
        return (), (*untried, NotRun(_ATTACK, reason, _PASS, where))
    close = found.error < _CLOSE * max(size, 1.0)
    field = release.model.linear.x if release.model.linear is not None else ""
    evidence = tuple(
        _item(f"{name}[{i}]" if np.size(v) > 1 else name, float(x), found.error if name == field else None)
        for name, v in found.record.items()
        for i, x in enumerate(np.ravel(np.asarray(v, float)))
    )
    count = len(next(iter(knows["known"].values())))
    finding = Finding(
        _ATTACK,
        "high" if close else "medium",
        "one record follows from all the others",
        where,
        f"knowing {count} records, the last one's {field} is told with an error of at most {found.error:.2g}, if "
        "training ended at its optimum",
        "the model, and every record but one",
        evidence,
        records={name: np.asarray(v)[None] for name, v in found.record.items()},
    )
    return (finding,), untried


def _item(name: str, value: float, error: float | None) -> Item:
    """A value, with the ends of its interval where its error has a bound."""
    return Item(name, value) if error is None else Item(name, value, None, None, value - error, value + error)
