"""`#include` of files that lie in the folder of a program, or in folders of that."""

import re
from pathlib import Path

from bayesrecon.errors import BayesreconError

DEEPEST, MOST = 10, 200
"""Files that include each other, and files of one program: hand-written ones have a handful."""

_LINE = re.compile(r"[ \t]*#include[ \t]+(?:\"([^\"\n]*)\"|<([^>\n]*)>|(\S+))[ \t]*(?://[^\n]*)?")


def with_includes(text: str, name: str, folder: Path | None, largest: int) -> str:
    """The text with every line of `#include` replaced by the file that it names.

    Args:
        folder: folder of the program; None of one that is no file.
        largest: characters of everything together.

    Raises:
        BayesreconError: a file that is not there, that lies elsewhere, or too much of them, with the line.

    >>> with_includes("model { }", "a.stan", None, 100)
    'model { }'
    """
    if "#include" not in text:
        return text
    return _Reader(folder, largest).expanded(text, name, 0)


class _Reader:
    def __init__(self, folder: Path | None, largest: int):
        self.folder, self.left, self.files = folder, largest, 0

    def expanded(self, text: str, name: str, depth: int) -> str:
        lines = []
        for number, line in enumerate(text.split("\n"), 1):
            match = _LINE.fullmatch(line)
            if match is None:
                lines.append(line)
                continue
            file = match[1] or match[2] or match[3] or ""
            try:
                inside, label = self.read(file), f"{name}, line {number}: {file}"
                if depth + 1 > DEEPEST:
                    raise BayesreconError(f"includes are nested more than {DEEPEST} deep")
            except BayesreconError as error:
                raise BayesreconError(f"{name}, line {number}, #include {file[:80]}: {error}") from None
            lines.append(self.expanded(inside, label, depth + 1))
        return "\n".join(lines)

    def read(self, file: str) -> str:
        """The text of an included file."""
        if self.folder is None:
            raise BayesreconError("#include needs a program from a file; insert the included lines instead")
        path = Path(file)
        if path.is_absolute() or not (self.folder / path).resolve().is_relative_to(self.folder.resolve()):
            raise BayesreconError("it is not in the folder of the program")
        path = self.folder / path
        if not path.is_file():
            raise BayesreconError("there is no such file in the folder of the program")
        self.files, self.left = self.files + 1, self.left - path.stat().st_size
        if self.files > MOST or self.left < 0:
            raise BayesreconError("the included files are too large")
        try:
            return path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise BayesreconError("it is not text") from None
