"""`bayesrecon`: the commands in `bayesrecon.cli.commands`, each loaded when it is called."""

import ast
import atexit
import contextlib
import importlib
import inspect
import io
import os
import pkgutil
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn, Protocol, runtime_checkable

import typer
from typer.core import TyperCommand, TyperGroup

from bayesrecon._version import __version__
from bayesrecon.discovery import plugins
from bayesrecon.errors import BayesreconError, near, visible
from bayesrecon.running.compiled import cache_by_default
from bayesrecon.temporary import remove_abandoned

_PIPE = 141  # as a shell reports a program that a closed pipe ended
_COMMANDS = "bayesrecon.cli.commands"
_BEFORE, _ATTACK, _PLAY, _MAKE = (
    "Before you publish",
    "Recover what a release gives away",
    "Measure how often attacks succeed",
    "Get started",
)
SHOWN = {  # by command: its panel and an example
    "audit": (_BEFORE, "audit fit.nc --model own.py --html report.html"),
    "diagnose": (_BEFORE, "diagnose fit.nc --model own.py --plan"),
    "sanitise": (_BEFORE, "sanitise draws.nc --model own.py --worth 100 -o safe.nc"),
    "publish": (_BEFORE, "publish fit.nc --model own.py --data private.csv -o published/"),
    "outputs": (_BEFORE, "outputs model.py:predict --public images.npz --outputs answer.npy --image 28x28"),
    "recover": (_ATTACK, "recover fit.nc --model own.py"),
    "reconstruct": (_ATTACK, "reconstruct fit.nc --model own.py -n 100"),
    "deletion": (_ATTACK, "deletion before.npz after.npz --public public.csv"),
    "game": (_PLAY, "game customers.csv --response churned --learner logistic"),
    "demo": (_MAKE, "demo"),
    "fit": (_MAKE, "fit linear_regression patients.csv --response outcome -o fit.nc"),
    "verify": (_BEFORE, "verify fit.nc statement.json --key signer.pub"),
    "ledger": (
        "Keep a record of what was published, by which audits judge what comes next.",
        "ledger add table.csv --model ols --account survey --ledger private/ledger.json",
    ),
    "models": (_MAKE, "models"),
    "posteriors": (_MAKE, "posteriors"),
}


class _Commands(TyperGroup):
    """The modules of the package: their names and first lines make the list, and only the one that is called loads.
    Commands of plug-ins load where all are listed, or a name is none of the package's own."""

    listing = False

    def list_commands(self, ctx: object) -> list[str]:
        return sorted([*_package_commands(), *_plugin_commands()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in (known := self.list_commands(ctx)):
            close = near(args[0], known, 1) or f"; the commands are {', '.join(known)}"
            raise BayesreconError(f"there is no command {args[0]!r}{close}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        is_packaged = cmd_name in _package_commands()
        if not is_packaged and cmd_name not in _plugin_commands():
            return None
        if self.listing:
            group, example = SHOWN.get(cmd_name, (None, ""))
            summary = _summary(cmd_name) if is_packaged else _first_line(_plugin_commands()[cmd_name].__doc__)
            description = f"{summary} Example: bayesrecon {example}" if example else summary
            return TyperCommand(cmd_name, help=description, short_help=description, rich_help_panel=group)
        cache_by_default()  # the command's name is resolved, and its module imported, before anything is called
        app = typer.Typer(pretty_exceptions_enable=False, context_settings=_CONTEXT, add_completion=False)
        _, example = SHOWN.get(cmd_name, (None, ""))
        function = (
            importlib.import_module(f"{_COMMANDS}.{cmd_name}").COMMAND if is_packaged else _plugin_commands()[cmd_name]
        )
        help_text = _unwrapped(inspect.getdoc(function) or "") if is_packaged else None
        app.command(cmd_name, help=help_text, epilog=f"Example: bayesrecon {example}" if example else None)(function)
        return typer.main.get_command(app)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self.listing = False


def _package_commands() -> list[str]:
    """The commands of this package."""
    return [info.name for info in pkgutil.iter_modules(importlib.import_module(_COMMANDS).__path__)]


@cache
def _plugin_commands() -> Mapping[str, Callable[..., object]]:
    """The commands of plug-ins."""
    package_commands = _package_commands()

    def problem(name: str, value: object, before: Mapping[str, object]) -> str:
        if not callable(value):
            return "it is not a function"
        return f"there is already a command {name!r}" if name in package_commands else ""

    return plugins("commands", problem).by_name


def _summary(name: str) -> str:
    """The first line of a command's docstring, without importing it."""
    (folder,) = importlib.import_module(_COMMANDS).__path__
    tree = ast.parse((Path(folder) / f"{name}.py").read_text(encoding="utf-8"))
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    return _first_line(ast.get_docstring(function))


def _unwrapped(text: str) -> str:
    """Paragraphs of one line each, which the terminal wraps: Typer keeps the line ends of a docstring."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


_CONTEXT = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=_Commands,
    help="What a published posterior or trained parameter gives away about its private training data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_CONTEXT,
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"bayesrecon {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Entry point: bad input is one line on stderr and exit code 2."""
    ending_cleanly()
    scratch = Path(tempfile.gettempdir())
    remove_abandoned(scratch)  # what a run that was killed left
    atexit.register(remove_abandoned, scratch)  # what a reader leaves that ends with this run
    if sys.stdout is None:  # closed by whoever started this process
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names and dashes that the terminal's encoding lacks
    try:
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()
        sys.exit(code)
    except BrokenPipeError:
        _nobody_reads()
    except BayesreconError as error:
        message = str(error)
    except OSError as error:
        message = f"{error.strerror or error}: {error.filename or ''}"
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        # The command line library's own errors: a wrong option, a missing argument.
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            sys.exit(2)
        if type(error).__name__ == "Abort":
            sys.exit(130)
        if not isinstance(error, UsageError):
            raise
        message = explained(error, {command: example for command, (_, example) in SHOWN.items()})
    print(f"bayesrecon: {visible(' '.join(message.split()))}", file=sys.stderr)  # noqa: T201
    sys.exit(2)


def ending_cleanly() -> None:
    """Let a request to end (SIGTERM) work as an exit does, which removes scratch files; a second one kills."""

    def end(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.exit(128 + number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)


def _nobody_reads() -> NoReturn:
    """End quietly: nobody reads what is printed, as in `bayesrecon models | head -1`."""
    null = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(null, sys.stdout.fileno())  # what is still held back goes nowhere, without an error at the very end
    sys.exit(_PIPE)


if __name__ == "__main__":
    main()


# Messages for usage errors, in one line that says what to type instead.


@runtime_checkable
class UsageError(Protocol):
    """An error of the command line's library. Its class depends on the version of Typer."""

    def format_message(self) -> str: ...


_NUMBER = re.compile(r"'?(?P<option>--[\w-]+)\b.* valid (?P<kind>number|float|integer)")


def explained(error: UsageError, examples: Mapping[str, str]) -> str:
    """The message of a usage error of the command line's library, with what to type instead.

    Args:
        error: one of its exceptions, with `format_message`.
        examples: `{command: a call that works}`.
    """
    context = getattr(error, "ctx", None)
    inside = getattr(context, "parent", None) is not None
    command = getattr(context, "info_name", None) or "" if inside else ""
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    kind = type(error).__name__
    if kind == "NoSuchOption" and not getattr(error, "possibilities", None):
        message += f"; see {' '.join(filter(None, ('bayesrecon', command, '--help')))}"
    if kind == "BadParameter" and (number := _NUMBER.search(message)):
        message = f"{command} {number['option']} takes a {'whole ' * (number['kind'][0] == 'i')}number"
    if kind == "MissingParameter" and command in examples:
        parameter = getattr(error, "param", None)
        name = str(getattr(parameter, "name", "")).upper()
        description = str(getattr(parameter, "help", "") or "").rstrip(".")
        if getattr(parameter, "param_type_name", "") == "argument":
            message = f"{command}: {name} is missing" + (f" ({description})" if description else "")
        message += f"; for example: bayesrecon {examples[command]}"
    return message
