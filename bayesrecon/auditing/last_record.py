"""Attack on a trained parameter by an informed adversary, who knows all records but one."""

import numpy as np

from bayesrecon.attacks.deletion.missing_record import missing_record_of
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import Knows
from bayesrecon.releases import Release, TrainedParameter, refuse_others
from bayesrecon.results.findings import Finding, Item, NotRun

_ATTACK = "missing record"
_PASS = "pass every field of all other records (known=), or omit known="
_CLOSE = 0.1  # a record counts as recovered up to this error, relative to its size


def tells_all_fields(release: Release, knows: Knows) -> bool:
    """Whether the attacker knows every field of the model."""
    return set(knows.get("known") or ()) == set(release.model.fields)


def last_record(
    release: Release, knows: Knows, untried: tuple[NotRun, ...]
) -> tuple[tuple[Finding, ...], tuple[NotRun, ...]]:
    """A finding on the record that is not among the known ones; none if the gradient has no remainder.

    Args:
        release: the trained parameter.
        knows: what the attacker knows.
        untried: attacks that were not tried so far.

    Returns:
        Findings, and attacks that were not tried.
    """
    where, known = (release.name,), knows.get("known") or {}
    try:
        refuse_others(release, (TrainedParameter,), "the informed adversary", _PASS)
        missing = missing_record_of(release, known)
    except BayesreconError as error:
        return (), (*untried, NotRun(_ATTACK, str(error), _PASS, where))
    values = np.concatenate([np.ravel(np.asarray(v, float)) for v in missing.record.values()])
    size = float(np.linalg.norm(values))
    if not np.isfinite(missing.error):
        reason = "; ".join(("a record remains, and its error has no bound", *missing.warnings[:1]))
        return (), (*untried, NotRun(_ATTACK, reason, _PASS, where))
    close = missing.error < _CLOSE * max(size, 1.0)
    field = release.model.linear.x if release.model.linear is not None else ""
    evidence = tuple(
        _item(f"{name}[{i}]" if np.size(v) > 1 else name, float(x), missing.error if name == field else None)
        for name, v in missing.record.items()
        for i, x in enumerate(np.ravel(np.asarray(v, float)))
    )
    count = len(next(iter(known.values())))
    finding = Finding(
        _ATTACK,
        "high" if close else "medium",
        "one record follows from all the others",
        where,
        f"from {count} records, the last one's {field} follows with an error of at most {missing.error:.2g}, if "
        "training ended at its optimum",
        "the model, and every record but one",
        evidence,
        records={name: np.asarray(v)[None] for name, v in missing.record.items()},
    )
    return (finding,), untried


def _item(name: str, value: float, error: float | None) -> Item:
    """A value, with an interval if its error has a bound."""
    return Item(name, value) if error is None else Item(name, value, None, None, value - error, value + error)
