"""Columns of numbers in plain text, separated by blanks, with comments and possibly a line of names."""

import itertools
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.names import MAX_NAMES

_LONGEST = 2**24  # letters of a line of names
_MOST_COMMENTS = 10_000
_COMMENTS = ("#", "[ID:")  # the latter begins the files of MrBayes


class TextRows(TypedDict):
    """`comments`, `names` of columns, names of `rows`, both empty if there are none, and `values` `(rows, columns)`."""

    comments: list[str]
    names: list[str]
    rows: list[str]
    values: np.ndarray


def read_text_rows(path: Path) -> TextRows:
    """The `comments`, the `names` of a first line that is none of numbers, the names of `rows` before the numbers,
    and the `values`.

    Raises:
        BayesreconError: no rows, or cells that are no numbers.

    >>> _ = Path("chain.txt").write_text("# weight minuslogpost mu\\n1 2.5 0.3\\n2 2.4 0.1\\n")
    >>> found = read_text_rows(Path("chain.txt"))
    >>> found["comments"], found["names"], found["values"].shape
    (['weight minuslogpost mu'], [], (2, 3))
    """
    comments, names, labels = [], [], []
    with path.open(encoding="utf-8-sig") as file:
        lines = (_short(path, line) for line in file)
        first = ""
        for line in lines:
            if line.startswith(_COMMENTS):
                comments = [*comments, line.lstrip("# ").rstrip()] if len(comments) < _MOST_COMMENTS else comments
            elif line.strip():
                first = line
                break
        if not _is_numbers(first):
            names, first = _names(path, first), next(lines, "")
        if not first.strip():
            raise BayesreconError(
                f"{path}: there are no rows of numbers; draws are a line of names and rows of numbers"
            )
        shift = len(shlex.split(first)) - len(names) if names else 0

        def cells() -> Iterator[str]:
            for line in itertools.chain([first], lines):
                if line.startswith(_COMMENTS) or not line.strip():
                    if line.strip() and len(comments) < _MOST_COMMENTS:
                        comments.append(line.lstrip("# ").rstrip())
                    continue
                if shift == 1:  # R writes the names of rows under no name
                    label, _, line = line.strip().partition(" ")
                    labels.append(label.strip('"'))
                yield line

        try:
            values = np.loadtxt(cells(), ndmin=2)
        except ValueError as error:
            detail = " ".join(str(error).split(";")[0].split())[:200]
            raise BayesreconError(f"{path}: {detail} (not columns of numbers apart by blanks)") from error
    return {"comments": comments, "names": names, "rows": labels, "values": values}


def read_lines(path: Path) -> list[str]:
    """The lines of a file with a list of names."""
    with path.open(encoding="utf-8-sig") as file:
        text = file.read(_LONGEST + 1)
    if len(text) > _LONGEST or text.count("\n") > MAX_NAMES:
        raise BayesreconError(f"{path}: more than {MAX_NAMES} lines of names, refused")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _short(path: Path, line: str) -> str:
    if len(line) > _LONGEST:
        raise BayesreconError(f"{path}: a line of more than {_LONGEST} letters, refused")
    return line


def _names(path: Path, line: str) -> list[str]:
    names = shlex.split(line)
    if len(names) > MAX_NAMES:
        raise BayesreconError(f"{path}: {len(names)} columns, more than {MAX_NAMES}")
    return names


def _is_numbers(line: str) -> bool:
    try:
        return all(np.isreal(float(cell)) for cell in line.split())
    except ValueError:
        return False
