"""What a source is, by its name and its first lines. Nothing that reads the source is loaded."""

import os
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from bayesrecon.posteriors.formats.data_frame import is_frame
from bayesrecon.posteriors.printed.headers import columns_of
from bayesrecon.posteriors.printed.reading import BRACKETS, NUMBER, SUFFIXES, grid_of, models_of
from bayesrecon.untrusted.cmdstan_file import MAX_LINE
from bayesrecon.untrusted.csv_table import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

CMDSTAN_METHODS = ("variational", "laplace")
"""Methods of CmdStan whose files hold a distribution."""

_SNIFFED, _FIRST = 2**16, 60  # letters, and lines, in which a table of estimates has its header


def as_table(path: str | Path) -> bool:
    """Whether a file is a table of estimates: a line of it names a column of estimates and one of their errors.

    A file that has nothing but numbers below its first line names no estimate.

    >>> _ = Path("fit.csv").write_text("name,estimate,std. error\\nsigma,1.2,0.1\\n")
    >>> as_table("fit.csv")
    True
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES or not path.is_file():
        return False
    if path.suffix.lower() in (".md", ".html", ".htm", ".tex"):
        return True
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = file.read(_SNIFFED).splitlines()[:_FIRST]
    below = [cell for line in lines[1:] for cell in re.split(r"[\s,;]+", line.strip()) if cell]
    if below and all(re.fullmatch(NUMBER, cell) for cell in below):  # such as draws of a parameter "sd"
        return False
    if path.suffix.lower() == ".txt":
        return bool(grid_of(lines)[0] or models_of(lines)[0])
    rows = [row for row in rows_of("\n".join(lines)) if row]
    # Draws may have parameters of these names, but their lines have none.
    headed = (columns_of(row).enough and _named(below) for row, below in pairwise(rows))
    return any(headed) or any(BRACKETS.match(c.strip()) for row in rows if _named(row) for c in row[1:])


def _named(row: "Sequence[str]") -> bool:
    """Whether a line of a table begins with a name."""
    return not re.fullmatch(rf"(?:{NUMBER})?", row[0].strip())


def is_table(source: object) -> "TypeGuard[str | Path | pd.DataFrame]":
    """Whether this is a DataFrame that is not of draws, or the path of a table of estimates."""
    if isinstance(source, str | Path):
        return as_table(source)
    pandas = type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns")
    return pandas and not is_frame(source)


def is_path(guide: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether this is the path of a file."""
    return isinstance(guide, str | os.PathLike)


def is_cmdstan_approximation(source: object) -> bool:
    """Whether this is the path of a file whose comments say that CmdStan's `variational` or `laplace` wrote it.

    >>> Path("fit.csv").write_text("# method = laplace\\nlog_p__,log_q__,theta\\n")
    41
    >>> is_cmdstan_approximation("fit.csv")
    True
    """
    if not is_path(source) or Path(source).suffix.lower() != ".csv" or not Path(source).is_file():
        return False
    with Path(source).open(encoding="utf-8-sig", errors="replace") as file:
        while (line := file.readline(MAX_LINE)).startswith("#"):
            key, equals, value = line[1:].partition("=")
            if equals and key.strip() == "method":
                return value.strip().removesuffix("(Default)").rstrip() in CMDSTAN_METHODS
    return False
