"""A look around a file before any model opens it: all plain channels, one after another."""

from dataclasses import replace

import numpy as np

from bayesrecon.auditing.accounts.account import is_public
from bayesrecon.auditing.look import Look, Plain
from bayesrecon.discovery import discover
from bayesrecon.errors import first_line
from bayesrecon.model import Progress
from bayesrecon.results.findings import Finding, NotRun

READING = "reading"
"""What an audit calls what it could not walk."""

INCALCULABLE = (ArithmeticError, np.linalg.LinAlgError)
"""What numbers near the largest or the smallest come to in somebody else's code."""


def not_computed(name: str, error: Exception) -> NotRun:
    """An attack that ended at numbers that it cannot work with: what it would find is not cleared.

    >>> not_computed("densities", ZeroDivisionError("division by zero")).reason
    'its numbers cannot be worked with (ZeroDivisionError: division by zero)'
    """
    reason = f"its numbers cannot be worked with ({first_line(error)})"
    return NotRun(name, reason, "scale what is near the largest numbers, or drop it")


def plain_channels() -> tuple[Plain, ...]:
    """All that is looked for without a model, in order."""
    return tuple(sorted(discover("bayesrecon.auditing.plain", "PLAIN"), key=lambda channel: channel.rank))


def look_around(
    look: Look, public: tuple[str, ...] = (), progress: Progress | None = None
) -> tuple[list[Finding], list[NotRun]]:
    """What every plain channel finds, and what could not be looked at.

    Args:
        public: what may stay, and is no finding.
    """
    findings: list[Finding] = []
    untried = [NotRun(READING, u.reason, f"drop {u.where}", (u.where,)) for u in look.contents.unread]
    for channel in plain_channels():
        if progress is not None:
            progress(f"looking at {channel.name}", 0.0)
        try:
            more, notes = channel.find(replace(look, found=tuple(findings)))
        except INCALCULABLE as error:
            more, notes = [], [not_computed(channel.name, error)]
        findings += [f for f in more if not (public and all(is_public(w, public) for w in f.where))]
        untried += notes
    return findings, untried
