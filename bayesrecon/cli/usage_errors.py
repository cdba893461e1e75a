"""Messages for usage errors, in one line that says what to type instead."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

RENAMED: Mapping[tuple[str, str], str] = {
    ("game", "--data"): "name the table itself: bayesrecon game customers.csv --response churned",
    ("game", "--target"): "use --response",
    ("game", "-n"): "use --rounds",
    ("fit", "--draws"): "use --draws-per-chain",
    ("reconstruct", "--fixed-slices"): "use --no-fresh",
    ("reconstruct", "--method"): "use --attack weighted-records (newton) or --attack score-matching (adam)",
    ("", "--bounds"): "use --domain FIELD=LOW:HIGH",
}
"""`{(command, old option): hint}`. The command "" stands for all commands."""


@runtime_checkable
class UsageError(Protocol):
    """An error of the command line's library. Its class depends on the version of Typer."""

    def format_message(self) -> str: ...


def explained(error: UsageError, examples: Mapping[str, str]) -> str:
    """The message of a usage error of the command line's library, with what to type instead.

    Args:
        error: one of its exceptions, with `format_message`.
        examples: `{command: a call that works}`.
    """
    context = getattr(error, "ctx", None)
    command = (getattr(context, "info_name", None) or "") if context is not None else ""
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    kind = type(error).__name__
    if kind == "NoSuchOption":
        option = str(getattr(error, "option_name", ""))
        new = RENAMED.get((command, option)) or RENAMED.get(("", option))
        if new is not None:
            return f"{command}: there is no option {option} any more; {new}"
        if not getattr(error, "possibilities", None):
            message += f"; see bayesrecon {command} --help"
    if kind == "MissingParameter" and command in examples:
        parameter = getattr(error, "param", None)
        name = str(getattr(parameter, "name", "")).upper()
        description = str(getattr(parameter, "help", "") or "").rstrip(".")
        if getattr(parameter, "param_type_name", "") == "argument":
            message = f"{command}: {name} is missing" + (f" ({description})" if description else "")
        message += f"; for example: bayesrecon {examples[command]}"
    return message
