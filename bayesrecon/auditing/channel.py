"""What an audit attacks: one kind of values in a file, and how."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bayesrecon.auditing.effort import Open
from bayesrecon.auditing.opened import Opened
from bayesrecon.results.audit import Finding, NotRun


@dataclass(frozen=True)
class Channel:
    """Values of a file that say something about its data.

    Attributes:
        name: what is attacked; the warning that it could not be starts with it.
        attack: findings and notes, none of either where a file has no such values. A note is a warning, or a `NotRun`
            for values that are there and were not attacked: without one they count as tried. An `Open` finding has
            remedies that take time: they are tried when all attacks are done.
        rank: channels are attacked in this order, in which findings of one severity are reported.
    """

    name: str
    attack: Callable[[Opened], tuple[Sequence[Finding | Open], Sequence[str | NotRun]]]
    rank: int
