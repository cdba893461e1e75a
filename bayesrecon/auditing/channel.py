"""What an audit attacks: one kind of values in a file, and how."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bayesrecon.auditing.effort import Open
from bayesrecon.auditing.opened import Opened
from bayesrecon.discovery import added, discover
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.results.findings import Finding, NotRun


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


def channels() -> tuple[tuple[Channel, ...], tuple[NotRun, ...]]:
    """All that is attacked in a file besides its draws, in order, and the plug-ins that cannot be."""
    own: list[Channel] = discover("bayesrecon.auditing.channels", "CHANNEL")
    every = added("channels", "channel", lambda given: isinstance(given, Channel), lambda channel: channel.name, own)
    ours = {channel.name for channel in own}
    found = [channel if name in ours else _of_plugin(channel) for name, channel in every.found.items()]
    skipped = (NotRun(plugin.name, plugin.reason, "mend the plug-in, or uninstall it") for plugin in every.skipped)
    return tuple(sorted(found, key=lambda channel: channel.rank)), tuple(skipped)


def _of_plugin(channel: Channel) -> Channel:
    """A channel of another package, which fails in whatever way: what it would find is not cleared then."""

    def attack(opened: Opened) -> tuple[Sequence[Finding | Open], Sequence[str | NotRun]]:
        try:
            return channel.attack(opened)
        except BayesreconError:
            raise
        except Exception as error:
            raise BayesreconError(f"the attack of the plug-in ended ({first_line(error)})") from error

    return replace(channel, attack=attack)
