"""A channel of an audit: one kind of values in a file, and the attack on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bayesrecon.auditing.effort import Open
from bayesrecon.auditing.opened import Opened
from bayesrecon.discovery import added, discover
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.results.findings import Finding, NotRun


@dataclass(frozen=True)
class Channel:
    """An attack on one kind of values in a file.

    Attributes:
        name: name of the channel, with which its warnings start.
        attack: function that returns findings and notes, or neither if the file has no such values. A note is a
            warning, or a `NotRun` for values that are present and were not attacked; without it they count as tried. An
            `Open` finding has remedies that take time. They are tried after all attacks.
        rank: order of the channels, and of findings with the same severity.
    """

    name: str
    attack: Callable[[Opened], tuple[Sequence[Finding | Open], Sequence[str | NotRun]]]
    rank: int


def channels() -> tuple[tuple[Channel, ...], tuple[NotRun, ...]]:
    """All channels besides the draws, in order, and plug-ins that could not be loaded."""
    shipped: list[Channel] = discover("bayesrecon.auditing.channels", "CHANNEL")
    available = added(
        "channels", "channel", lambda value: isinstance(value, Channel), lambda channel: channel.name, shipped
    )
    names = {channel.name for channel in shipped}
    listed = [channel if name in names else _of_plugin(channel) for name, channel in available.by_name.items()]
    skipped = (NotRun(plugin.name, plugin.reason, "repair the plug-in or uninstall it") for plugin in available.skipped)
    return tuple(sorted(listed, key=lambda channel: channel.rank)), tuple(skipped)


def _of_plugin(channel: Channel) -> Channel:
    """A channel of another package. If it raises any error, its attack counts as not run."""

    def attack(opened: Opened) -> tuple[Sequence[Finding | Open], Sequence[str | NotRun]]:
        try:
            return channel.attack(opened)
        except BayesreconError:
            raise
        except Exception as error:
            raise BayesreconError(f"the attack of the plug-in ended ({first_line(error)})") from error

    return replace(channel, attack=attack)
