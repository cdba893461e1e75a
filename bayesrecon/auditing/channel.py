"""The channels of an audit, found in two folders.

Modules of `auditing.plain` need nothing but the subject, and those of `auditing.channels` a model. The names of the
folders say so before anything is loaded, because attacks load JAX.
"""

from collections.abc import Sequence
from dataclasses import replace

from bayesrecon.auditing.look import Channel, Found, Look, Needs
from bayesrecon.auditing.stage import Stage
from bayesrecon.discovery import added, discover
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.results.findings import NotRun

_FOLDERS: dict[Needs, str] = {"nothing": "plain", "model": "channels"}


def channels(needs: Sequence[Needs] = ("nothing", "model")) -> tuple[tuple[Channel, ...], tuple[NotRun, ...]]:
    """Channels that need one of these, in order, and plug-ins that could not be loaded."""
    folders = [_FOLDERS[one] for one in needs if one in _FOLDERS]
    shipped: list[Channel] = [c for folder in folders for c in discover(f"{__package__}.{folder}", "CHANNEL")]
    names = {channel.name for channel in shipped}
    available = added("channels", "channel", lambda v: isinstance(v, Channel), lambda c: c.name, shipped)
    listed = [channel if name in names else _of_plugin(channel) for name, channel in available.by_name.items()]
    skipped = (NotRun(plugin.name, plugin.reason, "repair the plug-in or uninstall it") for plugin in available.skipped)
    return tuple(sorted((c for c in listed if c.needs in needs), key=lambda c: c.rank)), tuple(skipped)


def _of_plugin(channel: Channel) -> Channel:
    """A channel of another package. If it raises any error, it counts as not run."""

    def find(subject: Look) -> Found:
        try:
            return channel.find(subject)
        except Exception as error:
            ended = f"the attack of the plug-in ended ({first_line(error)})"
            reason = str(error) if isinstance(error, BayesreconError) else ended
            return (), [NotRun(channel.name, reason, "repair the plug-in or uninstall it")]

    return replace(channel, find=find)


def examine(subject: Look) -> Stage:
    """What the channels that need nothing find, one after another."""
    stage = subject.begun
    for channel in channels(("nothing",))[0]:
        stage += channel.stage(replace(subject, findings=stage.findings))
    return stage
