"""Search a file without a model: all plain channels, one after another."""

from dataclasses import replace

import numpy as np

from bayesrecon.auditing.accounts.account import is_public
from bayesrecon.auditing.look import Look, Plain
from bayesrecon.discovery import discover
from bayesrecon.errors import first_line
from bayesrecon.model import Progress
from bayesrecon.results.findings import Finding, NotRun

READING = "reading"
"""The name of a `NotRun` for contents that could not be read completely."""

INCALCULABLE = (ArithmeticError, np.linalg.LinAlgError)
"""Errors that extreme numbers cause in numerical code."""


def not_computed(name: str, error: Exception) -> NotRun:
    """A `NotRun` for an attack that failed numerically.

    >>> not_computed("densities", ZeroDivisionError("division by zero")).reason
    'computing with its numbers failed (ZeroDivisionError: division by zero)'
    """
    reason = f"computing with its numbers failed ({first_line(error)})"
    return NotRun(name, reason, "rescale extreme numbers, or drop them")


def plain_channels() -> tuple[Plain, ...]:
    """All channels that need no model, in order."""
    return tuple(sorted(discover("bayesrecon.auditing.plain", "PLAIN"), key=lambda channel: channel.rank))


def run_plain_channels(
    look: Look, public: tuple[str, ...] = (), progress: Progress | None = None
) -> tuple[list[Finding], list[NotRun]]:
    """Findings of all plain channels, and what they could not examine.

    Args:
        look: the file.
        public: names and places that may stay and are not findings.
        progress: called with a label and the completed fraction.
    """
    findings: list[Finding] = []
    untried = [NotRun(READING, u.reason, f"drop {u.where}", (u.where,)) for u in look.contents.unread]
    for channel in plain_channels():
        if progress is not None:
            progress(f"looking at {channel.name}", 0.0)
        try:
            more, notes = channel.find(replace(look, findings=tuple(findings)))
        except INCALCULABLE as error:
            more, notes = [], [not_computed(channel.name, error)]
        findings += [f for f in more if not (public and all(is_public(w, public) for w in f.where))]
        untried += notes
    return findings, untried
