"""Messages for the user: the error type, notes, and imports of optional dependencies that raise the error."""

import difflib
import importlib
import os
import re
import unicodedata
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType


class BayesreconError(ValueError):
    """Bad input. The message is one line that says what is wrong and what to do.

    >>> str(BayesreconError("no column a\\nb"))  # as names from files may be
    'no column a b'
    """

    def __init__(self, message: object = ""):
        super().__init__(" ".join(str(message).splitlines()))


class MissingExtraError(BayesreconError):
    """An optional dependency is not installed; the message names the extra."""

    def __init__(self, feature: str, extra: str):
        super().__init__(f"{feature} needs an optional dependency: pip install 'bayesrecon[{extra}]'")


def version(name: str) -> tuple[int, int]:
    """The first two numbers of a distribution's version; (0, 0) if it is not installed.

    >>> version("jax") >= (0, 7)
    True
    """
    match = re.match(r"(\d+)\.(\d+)", _text(name))
    return (int(match[1]), int(match[2])) if match else (0, 0)


@cache
def _text(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def library(name: str, feature: str, extra: str, *, least: tuple[int, int] = (0, 0)) -> ModuleType:
    """Import a module of an optional dependency.

    Args:
        name: name of the module. Its first part is the name of the distribution.
        feature: the feature that needs it, for the message.
        extra: the extra that installs it.
        least: lowest supported version.

    Raises:
        MissingExtraError: it is not installed.
        BayesreconError: it is too old, or cannot be imported together with the other installed packages.
    """
    distribution = name.partition(".")[0]
    if (0, 0) < version(distribution) < least:
        raise BayesreconError(
            f"{feature} needs {distribution} {least[0]}.{least[1]} or newer, and {_text(distribution)} is installed: "
            f"pip install --upgrade 'bayesrecon[{extra}]'"
        )
    try:
        return importlib.import_module(name)
    except Exception as error:  # incompatible versions of libraries raise errors of many types
        if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] == distribution:
            raise MissingExtraError(feature, extra) from error
        raise BayesreconError(
            f"{feature}: {distribution} {_text(distribution)} is installed but cannot be imported "
            f"({_brief(error)}): are the versions compatible? pip install --upgrade 'bayesrecon[{extra}]'"
        ) from error


def how_to_install(module: str) -> str:
    """The command that installs a missing module, if an extra of this package brings it.

    >>> how_to_install("pymc"), how_to_install("lifelines")
    ("pip install 'bayesrecon[pymc]'", 'install it in the environment of bayesrecon')
    """
    name = module.partition(".")[0].replace("_", "-").lower()
    try:
        required = metadata.requires("bayesrecon") or []
    except metadata.PackageNotFoundError:
        required = []
    found = [re.fullmatch(rf"{re.escape(name)}\b[^;]*;.*extra == [\"'](.+)[\"']", line) for line in required]
    extras = [match[1] for match in found if match]
    if not extras:
        return "install it in the environment of bayesrecon"
    return f"pip install 'bayesrecon[{name if name in extras else extras[0]}]'"


class Note(str):
    """A message that needs no action, such as how a file was read. Other messages of a result are warnings.

    >>> [m for m in ("the chains are short", Note("every 2nd draw was used")) if not isinstance(m, Note)]
    ['the chains are short']
    """

    __slots__ = ()


def labelled(label: str, message: str) -> str:
    """`label: message`, which is a `Note` if `message` is one.

    >>> type(labelled("fit.nc", Note("every 2nd draw was used"))).__name__
    'Note'
    """
    return type(message)(f"{label}: {message}")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a verb that already has a partial result.

    Attributes:
        so_far: the partial result, marked incomplete.
    """

    def __init__(self, so_far: object):
        super().__init__("interrupted")
        self.so_far = so_far


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse a computation that does not fit into this machine's memory, before it starts.

    Args:
        needed: memory that the computation needs, in bytes.
        what: what needs the memory, in the plural.
        remedy: what to do instead.

    Raises:
        BayesreconError: more memory is needed than this machine has.

    >>> check_memory(298 * 2**40, "300000000 unknowns", "take fewer rows")
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: 300000000 unknowns need 305152 GiB of memory at once; take fewer rows
    """
    if needed > memory():
        raise BayesreconError(f"{what} need {needed / 2**30:.0f} GiB of memory at once; {remedy}")


def memory() -> int:
    """Memory of this machine in bytes; 64 GiB if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**36


@contextmanager
def reading(source: object, kind: str) -> Generator[None]:
    """Convert whatever a parser raises on a damaged file into a `BayesreconError` of one line."""
    try:
        yield
    except BayesreconError:
        raise
    except UnicodeDecodeError as error:
        raise BayesreconError(f"{source}: not {kind} (it is not UTF-8 text)") from error
    # The libraries behind the readers raise nearly every exception type on hostile bytes: OSError, KeyError,
    # RuntimeError, RecursionError, MemoryError, zlib.error and more.
    except Exception as error:
        text = " ".join(str(error).split())[:200] or type(error).__name__
        if isinstance(source, str | Path) and os.path.isfile(source) and not os.path.getsize(source):
            raise BayesreconError(f"{source}: the file is empty; export it again") from error
        raise BayesreconError(
            f"{source}: cannot be read as {kind} ({text}); is the file complete? copy or export it again"
        ) from error


def near(name: str, known: Iterable[str], most: int = 3) -> str:
    """`"; did you mean a, b?"` for a misspelt name, or an empty string."""
    similar = difflib.get_close_matches(name, list(known), n=most, cutoff=0.5)
    return f"; did you mean {', '.join(similar)}?" if similar else ""


def beside(path: str | os.PathLike[str]) -> str:
    """A hint about a file that does not exist: that it is a folder, or similar names in its own.

    >>> beside("no_such_folder/fit.nc")
    '; check the path: the folder no_such_folder does not exist'
    """
    if os.path.isdir(path):
        return "; it is a folder: name a file in it"
    folder, name = os.path.split(os.fspath(path))
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return f"; check the path: the folder {folder} does not exist"
    return near(name, names) or "; check the path"


def visible(text: str) -> str:
    """A text from a file that is safe to show on a terminal.

    Characters that control a terminal or change the direction of text are shown as escape sequences. Line ends and tabs
    are kept.

    >>> print(visible("mu\\x1b[31m and \\u202etxt.nc"))
    mu\\x1b[31m and \\u202etxt.nc
    """
    return "".join(_escaped(c) if unicodedata.category(c) in _CONTROL and c not in "\n\t" else c for c in text)


_CONTROL = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control and format characters, surrogates, line and paragraph separators


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def first_line(error: BaseException) -> str:
    """An error of another library in one line: its type, the first line of its message, and the cure of a module that
    is missing."""
    cure = f"; {how_to_install(error.name)}" if isinstance(error, ModuleNotFoundError) and error.name else ""
    return _brief(error) + cure


def _brief(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}{': ' + text.splitlines()[0] if text else ''}"
