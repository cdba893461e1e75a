"""The state of an audit after some of its channels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.auditing.effort import Budget, Open, unmeasured_note
from bayesrecon.errors import first_line
from bayesrecon.results.findings import LEVELS, Finding, NotRun

INCALCULABLE = (ArithmeticError, np.linalg.LinAlgError)
"""Errors that extreme numbers cause in numerical code."""


def not_computed(name: str, error: Exception) -> NotRun:
    """A `NotRun` for a channel that failed numerically.

    >>> not_computed("densities", ZeroDivisionError("division by zero")).reason
    'computing with its numbers failed (ZeroDivisionError: division by zero)'
    """
    reason = f"computing with its numbers failed ({first_line(error)})"
    return NotRun(name, reason, "rescale extreme numbers, or drop them")


@dataclass(frozen=True)
class Stage:
    """What the channels said so far.

    Attributes:
        found: findings, some of which have remedies that are tried later.
        warnings: warnings.
        untried: attacks that could not be run.
    """

    found: tuple[Finding | Open, ...] = ()
    warnings: tuple[str, ...] = ()
    untried: tuple[NotRun, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(f.finding if isinstance(f, Open) else f for f in self.found)

    def __add__(self, other: "Stage") -> "Stage":
        return Stage(self.found + other.found, self.warnings + other.warnings, self.untried + other.untried)

    def without(self, allowed: Callable[[str], bool]) -> "Stage":
        """What remains if findings all of whose places are allowed are none."""
        kept = (f for f in self.found if isinstance(f, Open) or not f.where or not all(map(allowed, f.where)))
        return replace(self, found=tuple(kept))

    def with_remedies(self, budget: Budget, progress: Progress | None) -> Iterator["Stage"]:
        """Try the remedies of one finding after the other, the most severe first, as long as there is time."""
        found = list(self.found)
        waiting = sorted((i for i, f in enumerate(found) if isinstance(f, Open)), key=lambda i: -_level(found[i]))
        for done, i in enumerate(waiting):
            if progress is not None:
                progress("trying remedies", done / len(waiting))
            if isinstance(finding := found[i], Open):
                found[i] = finding.closed(budget)
            yield replace(self, found=tuple(found))
        last = replace(self, found=tuple(found))
        note = unmeasured_note(list(last.findings))
        yield replace(last, warnings=(*self.warnings, note)) if note else last


def _level(finding: Finding | Open) -> int:
    return LEVELS.index((finding.finding if isinstance(finding, Open) else finding).severity)
