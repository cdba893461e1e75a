"""How long an audit measures remedies: what is left out is predicted by theory, or said not to have been tried."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, get_args

from bayesrecon.errors import BayesreconError
from bayesrecon.results.findings import Finding, Remedy

Effort = Literal["quick", "full"]
FEWEST = 12  # trials from which an error is known to a fifth
QUICK_SECONDS = 45.0
"""Of CPU time from the beginning of an audit; about a minute on an idle machine with what comes before and after it. A
busy machine takes longer and says the same."""

_NEVER = float("inf")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Budget:
    """The time that is left for measuring.

    Attributes:
        ends: when it is over, on `clock`.
        thorough: whether also what theory tells is measured.
    """

    ends: float
    thorough: bool
    clock: Callable[[], float] = field(default=time.process_time, repr=False)

    def allows(self, seconds: float = 0.0) -> bool:
        """Whether something that takes so long would be ready in time."""
        return self.clock() + seconds < self.ends

    def part(self, of: int) -> "Budget":
        """One of so many equal parts of what is left."""
        now = self.clock()
        return replace(self, ends=now + (self.ends - now) / of)

    def enough(self, of: int) -> Callable[[int, float], bool]:
        """Whether to end after so many trials, the last of which took so many seconds: when one of `of` parts of the
        time is over, but `FEWEST` are made as long as all of it allows them."""
        part = self.part(of)

        def over(done: int, seconds: float) -> bool:
            return not (part.allows(seconds) if done >= FEWEST else self.allows((FEWEST - done) * seconds))

        return over

    def timed(self, make: Callable[[], _T]) -> tuple[_T, float]:
        """What a function returns, and how long it took."""
        began = self.clock()
        return make(), self.clock() - began


def budget_of(effort: str, clock: Callable[[], float] = time.process_time) -> Budget:
    """The budget of an audit that begins now.

    Raises:
        BayesreconError: another effort than "quick" or "full".

    >>> budget_of("quick", clock=lambda: 0.0).allows(44), budget_of("quick", clock=lambda: 0.0).allows(46)
    (True, False)
    >>> budget_of("full").allows(1e9)
    True
    """
    if effort not in get_args(Effort):
        raise BayesreconError(f"effort {effort}: expected {' or '.join(get_args(Effort))}")
    return Budget(_NEVER if effort == "full" else clock() + QUICK_SECONDS, effort == "full", clock)


@dataclass(frozen=True)
class Open:
    """A finding whose remedies are still to be tried, after everything was attacked.

    Attributes:
        try_remedies: the remedies within a budget; they stand after the finding's own.
        first: before them.
    """

    finding: Finding
    try_remedies: Callable[[Budget], tuple[Remedy, ...]]
    first: bool = False

    def closed(self, budget: Budget) -> Finding:
        """The finding with what was tried."""
        tried, own = self.try_remedies(budget), self.finding.remedies
        return replace(self.finding, remedies=(*tried, *own) if self.first else (*own, *tried))


def told(findings: list[Finding]) -> str:
    """What was not measured, in a line; empty where all was."""
    remedies = [r for f in findings for r in f.remedies if r.status in ("predicted", "not tried")]
    if not remedies:
        return ""
    predicted, untried = (len({r.action for r in remedies if r.status == s}) for s in ("predicted", "not tried"))
    parts = [f"{n} {word}" for n, word in ((predicted, "predicted and not measured"), (untried, "not tried")) if n]
    return f"of the remedies {' and '.join(parts)}, to answer in about a minute; --effort full measures every one"
