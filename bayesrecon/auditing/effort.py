"""The time that an audit spends on measuring remedies. Others are predicted by theory or reported as not tried."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, get_args

from bayesrecon.errors import BayesreconError
from bayesrecon.results.findings import Finding, Remedy

Effort = Literal["quick", "full"]
FEWEST = 12  # smallest number of trials: enough to know an error to 20 %
QUICK_SECONDS = 45.0
"""Seconds of CPU time from the start of an audit. An audit then takes about a minute on an idle machine. On a busy
machine it takes longer and gives the same result."""

_NEVER = float("inf")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Budget:
    """The remaining time for measuring remedies.

    Attributes:
        ends: end time on `clock`, in seconds.
        thorough: whether to measure also what theory predicts well.
        clock: function that returns the time in seconds.
    """

    ends: float
    thorough: bool
    clock: Callable[[], float] = field(default=time.process_time, repr=False)

    def allows(self, seconds: float = 0.0) -> bool:
        """Whether there is time for something that takes `seconds`."""
        return self.clock() + seconds < self.ends

    def part(self, count: int) -> "Budget":
        """A budget of one of `count` equal parts of the remaining time."""
        now = self.clock()
        return replace(self, ends=now + (self.ends - now) / count)

    def enough(self, count: int) -> Callable[[int, float], bool]:
        """A function of the number of trials and of the last trial's seconds that says whether to stop.

        It stops after one of `count` equal parts of the remaining time. At least `FEWEST` trials are made if the whole
        time allows them.
        """
        part = self.part(count)

        def over(done: int, seconds: float) -> bool:
            return not (part.allows(seconds) if done >= FEWEST else self.allows((FEWEST - done) * seconds))

        return over

    def timed(self, make: Callable[[], _T]) -> tuple[_T, float]:
        """The result of a function and the time that it took, in seconds."""
        began = self.clock()
        return make(), self.clock() - began


def effort_of(name: str) -> Effort:
    """The effort with this name.

    Raises:
        BayesreconError: the name is neither "quick" nor "full".
    """
    for effort in get_args(Effort):
        if name == effort:
            return effort
    raise BayesreconError(f"effort {name}: expected {' or '.join(get_args(Effort))}")


def budget_of(effort: str, clock: Callable[[], float] = time.process_time) -> Budget:
    """The budget of an audit that starts now.

    Raises:
        BayesreconError: the effort is neither "quick" nor "full".

    >>> budget_of("quick", clock=lambda: 0.0).allows(44), budget_of("quick", clock=lambda: 0.0).allows(46)
    (True, False)
    >>> budget_of("full").allows(1e9)
    True
    """
    thorough = effort_of(effort) == "full"
    return Budget(_NEVER if thorough else clock() + QUICK_SECONDS, thorough, clock)


@dataclass(frozen=True)
class Open:
    """A finding whose remedies are tried later, after all attacks.

    Attributes:
        finding: the finding.
        try_remedies: function that tries remedies within a budget. They are listed after the finding's own.
        first: whether to list them before the finding's own.
    """

    finding: Finding
    try_remedies: Callable[[Budget], tuple[Remedy, ...]]
    first: bool = False

    def closed(self, budget: Budget) -> Finding:
        """The finding with the remedies that were tried."""
        measured, stated = self.try_remedies(budget), self.finding.remedies
        return replace(self.finding, remedies=(*measured, *stated) if self.first else (*stated, *measured))


def unmeasured_note(findings: list[Finding]) -> str:
    """A warning about remedies that were not measured; empty if all were."""
    remedies = [r for f in findings for r in f.remedies if r.status in ("predicted", "not tried")]
    if not remedies:
        return ""
    predicted, untried = (len({r.action for r in remedies if r.status == s}) for s in ("predicted", "not tried"))
    parts = [f"{n} {word}" for n, word in ((predicted, "predicted and not measured"), (untried, "not tried")) if n]
    return f"remedies: {' and '.join(parts)}, to finish in about a minute; --effort full measures all of them"
