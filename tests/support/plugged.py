"""Packages of others that add something, and everything that remembers what was found."""

import importlib
import re
import sys
from pathlib import Path

from bayesrecon import discovery
from bayesrecon.attacks import attack
from bayesrecon.cli import main
from bayesrecon.estimation.kinds import kind
from bayesrecon.models import registry
from bayesrecon.posteriors import formats
from bayesrecon.untrusted.guarded import PROCESS

ROOT = Path(__file__).resolve().parent.parent.parent
REMEMBERED = (
    discovery._declared,
    registry.shipped,
    formats.formats,
    formats.suffixes,
    kind._kinds,
    attack.attacks,
    main._plugin_commands,
)


def skeleton(page, word):
    """The code of a page that has a word."""
    (found,) = [
        text
        for text in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
        if word in text
    ]
    return found


def forget(package):
    """What was found, and a package, are looked for anew."""
    for cached in REMEMBERED:
        cached.cache_clear()
    # The options of attacks are those that there were when the command was imported.
    options = "bayesrecon.cli.commands.reconstruct"
    for name in [name for name in sys.modules if name.partition(".")[0] == package or name == options]:
        del sys.modules[name]
    importlib.invalidate_caches()
    PROCESS.stop()


def write(folder, package, files, points):
    """A package with its files, and what it says that it adds, as an installer leaves both."""
    (folder / package).mkdir()
    for name, text in {"__init__": "", **files}.items():
        (folder / package / f"{name}.py").write_text(text, encoding="utf-8")
    told = folder / f"{package}-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"[bayesrecon.{group}]\n{point}\n" for group, point in points]
    (told / "entry_points.txt").write_text("".join(lines))
