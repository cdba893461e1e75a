"""What an audit attacks: one kind of values in a file, and how."""

from collections.abc import Callable
from dataclasses import dataclass

from bayesrecon.auditing.opened import Opened
from bayesrecon.results.audit import Finding


@dataclass(frozen=True)
class Channel:
    """Values of a file that say something about its data.

    Attributes:
        name: what is attacked; the warning that it could not be starts with it.
        attack: findings and warnings, none of either where a file has no such values.
        rank: channels are attacked in this order, in which findings of one severity are reported.
    """

    name: str
    attack: Callable[[Opened], tuple[list[Finding], list[str]]]
    rank: int
