"""The one error type that carries a message meant for the user."""

import difflib
from collections.abc import Iterable


class BayesreconError(ValueError):
    """Bad input: the message is one line that says what is wrong and what to do."""


class MissingExtraError(BayesreconError):
    """An optional dependency is not installed; the message names the extra."""

    def __init__(self, feature: str, extra: str):
        super().__init__(f"{feature} needs an optional dependency: pip install 'bayesrecon[{extra}]'")


def near(name: str, known: Iterable[str]) -> str:
    """`"; did you mean a, b?"` for a misspelt name, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"; did you mean {', '.join(close)}?" if close else ""


def first_line(error: BaseException) -> str:
    """An error of someone else's code in one line: its type and the first line of its text."""
    text = str(error).strip()
    return f"{type(error).__name__}{': ' + text.splitlines()[0] if text else ''}"
