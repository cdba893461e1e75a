"""CmdStan's CSV files: comments with the settings of the run, a header, and rows of numbers."""

import codecs
import csv
import io
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.names import MAX_NAMES
from bayesrecon.untrusted.packed import PACKED, unpacked

MAX_LINE = 2**26
"""A header line longer than this many characters (millions of columns) is no CmdStan file."""

Settings = dict[str, str]

_INSTEAD = {
    "variational": "; posteriors.from_guide reads it",
    "laplace": "; posteriors.from_guide reads it",
    "optimize": "; posteriors.dirac takes the values of a mode",
    "pathfinder": "; its draws are those of a mixture, which is no posterior and no optimum",
    "log_prob": "; it holds log densities and gradients at given parameters, and no draws",
    "generate_quantities": "; pass the file of the sampler, which holds the parameters",
}

METHODS = ("sample", "generate_quantities", *list(_INSTEAD)[:-1])
"""Methods of CmdStan whose files have a header and rows; draws of the posterior are only in those of the first two."""

_DOUBT = "a truncated or edited file, or a table of data? data go to --data or --known"
_BLOCK = 2**23  # bytes read at once
_LONGEST_ROW = 2**28  # bytes
COMMENT_LETTERS = 2**24
"""Letters that are kept of all comments of a file."""

_WORD = re.compile(
    rb"(?i)(^|,)\s*(NA|true|false)\s*(?=,|\r?\n?$)"
)  # missing values, and truth values of Julia, R, Python
_MEANING = {b"na": b"nan", b"true": b"1", b"false": b"0"}
_LETTERS = (b"A", b"r", b"R", b"l", b"L")  # one of which each such word has, and no number


class CmdStanFile:
    """A file with one chain.

    >>> _ = Path("fit.csv").write_text("lp__,beta.1,beta.2\\n-7.1,0.5,1.5\\n-7.3,0.4,1.6\\n")
    >>> CmdStanFile(Path("fit.csv")).heading()
    ({}, ['lp__', 'beta.1', 'beta.2'])
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unpacked = unpacked(path).content if path.suffix.lower() in PACKED else None

    def close(self) -> None:
        """Do nothing: the file is opened for each call."""
        self._unpacked = None

    def _bytes(self) -> BinaryIO:
        return self._path.open("rb") if self._unpacked is None else io.BytesIO(self._unpacked)

    def _text(self) -> TextIO:
        return io.TextIOWrapper(self._bytes(), encoding="utf-8-sig")

    def size(self) -> int:
        """Uncompressed size in bytes."""
        return self._path.stat().st_size if self._unpacked is None else len(self._unpacked)

    def heading(self, methods: Sequence[str] = ("sample",)) -> tuple[Settings, list[str]]:
        """The settings in the comments before the header, and the header.

        Raises:
            BayesreconError: an empty file, or one of another method than these.
        """
        with self._text() as file:
            return read_header(self._path, file, methods)

    def rows(self, methods: Sequence[str]) -> tuple[Settings, list[str], np.ndarray]:
        """Comments, header and all rows.

        Raises:
            BayesreconError: as `heading`, and cells that are no numbers.
        """
        settings, header = self.heading(methods)
        every = list(range(len(header)))
        plan = {"columns": len(every), "narrow": [], "wide": every, "keep": 1, "step": 1, "skip": 0}
        blocks: list[np.ndarray] = []
        at: Json = {}
        while not at.get("end"):
            block = self.block(plan, at)
            at = block["at"]
            blocks.append(block["wide"])
        if not at["row"]:
            raise BayesreconError(f"{self._path}: there are no draws after the header")
        return settings, header, np.concatenate(blocks)

    def chain(self) -> tuple[Settings, list[str], np.ndarray, bool]:
        """Comments, column names, rows `(draws, columns)` after warm-up, and whether the sampler was fixed_param,
        which has no density.

        Raises:
            BayesreconError: as `rows`; a last row that is cut off, warm-up alone, or more draws than were asked for.
        """
        settings, header, rows = self.rows(("sample",))
        exact = settings.get("algorithm") == "fixed_param"
        warmup = 0 if exact else saved_warmup(self._path, settings)
        if self.is_cut(settings):
            raise BayesreconError(
                f"{self._path}: the last row is cut off (was the chain killed?); remove it, or leave the chain out"
            )
        if len(rows) <= warmup:
            raise BayesreconError(f"{self._path}: holds warm-up draws only ({len(rows)} of {warmup})")
        check_count(self._path, settings, len(rows) - warmup)
        return settings, header, rows[warmup:], exact

    def is_cut(self, settings: Settings) -> bool:
        """Whether the last row may be incomplete, because it lacks the line end that CmdStan writes.

        A chain that stopped early is read without such a row.
        """
        if "num_samples" not in settings:
            return False
        with self._bytes() as file:
            file.seek(-min(self.size(), 2**16), io.SEEK_END)
            last = file.read().split(b"\n")[-1]
        return bool(last.strip()) and not last.startswith(b"#")

    def first_row(self) -> int:
        """Bytes of the first row."""
        with self._bytes() as file:
            lines = (line for line in file if line.strip() and not line.startswith(b"#"))
            next(lines, b"")
            return len(next(lines, b""))

    def block(self, plan: Json, at: Json) -> Json:
        """The next block of draws, for files of any size.

        Args:
            plan: `columns`, how many a row has; which of them to parse, `narrow` of every `keep`-th draw and `wide` of
                every `step`-th; `skip`, how many draws of warm-up come first; `cut`, whether the last row is none.
            at: where the block before ended; empty for the first one.

        Returns:
            `narrow` and `wide`, `(draws, columns)`, the `comments`, and `at`: the `byte` reached, whether that is the
            `end`, and how many rows after warm-up were read by then, `row`.

        Raises:
            BayesreconError: a row of another length, or cells that are no numbers.
        """
        at = {"byte": 0, "line": 0, "row": -plan["skip"], "header": False, "letters": 0, **at}
        narrow, wide, comments = [], [], []
        lines, at["byte"], at["end"] = self._lines(at["byte"])
        lines = lines[:-1] if at["end"] and plan.get("cut") else lines
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy's, of what is no number
            for line in lines:
                at["line"] += 1
                line = line.removeprefix(codecs.BOM_UTF8) if at["line"] == 1 else line
                if not line or line.startswith(b"#"):
                    if at["letters"] < COMMENT_LETTERS and line:
                        comments.append(line.decode("utf-8", "backslashreplace").lstrip("# ").rstrip())
                    at["letters"] += len(line)
                    continue
                if not at["header"]:
                    at["header"] = bool(line.strip())
                    continue
                where, line = f"{self._path}: line {at['line']}", _plain(line)
                if line.count(b",") != plan["columns"] - 1:
                    raise BayesreconError(
                        f"{where} has {line.count(b',') + 1} fields under a header of {plan['columns']} "
                        "(a truncated or edited file?)"
                    )
                if at["row"] >= 0 and at["row"] % plan["keep"] == 0:
                    if plan["wide"] and at["row"] % plan["step"] == 0:
                        wide.append(_whole(line, plan["columns"], where)[plan["wide"]])
                    narrow.append(_some(line, plan["narrow"], where))
                at["row"] += 1
        parsed = {"narrow": (narrow, plan["narrow"]), "wide": (wide, plan["wide"])}
        arrays = {name: np.array(x, float).reshape(len(x), len(columns)) for name, (x, columns) in parsed.items()}
        return {**arrays, "comments": comments, "at": at}

    def _lines(self, begin: int) -> tuple[list[bytes], int, bool]:
        """Complete lines from a position, without line ends; the position after them; whether the file ends there."""
        block, size = b"", _BLOCK
        with self._bytes() as file:
            file.seek(begin)
            while True:
                more = file.read(size)
                block += more
                end = len(more) < size
                cut = len(block) if end else block.rfind(b"\n") + 1
                if cut or end:
                    break
                if len(block) > _LONGEST_ROW:
                    most = _LONGEST_ROW // 2**20
                    raise BayesreconError(f"{self._path}: a line of more than {most} MiB is not from CmdStan")
                size = len(block)
        lines = block[:cut].split(b"\n")
        lines = lines if lines[-1] else lines[:-1]
        return [line[:-1] if line.endswith(b"\r") else line for line in lines], begin + cut, end


def _plain(line: bytes) -> bytes:
    """A row without quotes, with nan for missing values and 1 and 0 for truth values."""
    if b'"' in line:
        line = line.replace(b'"', b"")
    if any(letter in line for letter in _LETTERS):
        return _WORD.sub(lambda word: word[1] + _MEANING[word[2].lower()], line)
    return line


def _whole(line: bytes, columns: int, where: str) -> np.ndarray:
    try:
        values = np.fromstring(line.decode("ascii"), sep=",")
        if len(values) == columns:
            return values
    except (ValueError, DeprecationWarning):
        pass
    raise _no_number(line.split(b","), where)


def _some(line: bytes, columns: list[int], where: str) -> list[float]:
    parts = line.split(b",", max(columns, default=0) + 1)
    try:
        return [float(parts[k]) for k in columns]
    except ValueError:
        raise _no_number([parts[k] for k in columns], where) from None


def _no_number(cells: list[bytes], where: str) -> BayesreconError:
    for cell in cells:
        try:
            float(cell)
        except ValueError:
            text = cell.decode("utf-8", "backslashreplace").strip()
            return BayesreconError(f"{where} holds {text[:40]!r}, which is not a number ({_DOUBT})")
    return BayesreconError(f"{where} holds something that is not a number ({_DOUBT})")


def read_header(path: Path, file: TextIO, methods: Sequence[str] = ("sample",)) -> tuple[Settings, list[str]]:
    settings: Settings = {}
    while line := file.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise BayesreconError(f"{path}: a line of {MAX_LINE} characters is not from CmdStan")
        if line.startswith("#"):
            key, equals, value = line[1:].partition("=")
            if equals:
                settings.setdefault(key.strip(), value.strip().removesuffix("(Default)").rstrip())
        elif line.strip():
            break
    method = settings.get("method", "sample")
    if method not in methods:
        remedy = _INSTEAD.get(method, "")
        raise BayesreconError(f"{path}: written by CmdStan's method {method[:40]!r}, not {methods[0]!r}{remedy}")
    if not line:
        raise BayesreconError(f"{path}: the file is empty" + (" but for comments" if settings else ""))
    header = [column.strip() for column in next(csv.reader([line.strip()]), [])]
    if (count := len({re.split(r"[.\[]", column, maxsplit=1)[0] for column in header})) > MAX_NAMES:
        raise BayesreconError(
            f"{path}: {count} parameters, more than {MAX_NAMES}; elements of one array are named a.1, a.2, ..."
        )
    return settings, header


def saved_warmup(path: Path, settings: Settings) -> int:
    if settings.get("save_warmup", "0").lower() not in ("1", "true"):
        return 0
    return _saved(path, settings, "num_warmup" if "num_warmup" in settings else "warmup")  # as RStan has it


def check_count(path: Path, settings: Settings, count: int) -> None:
    """Raise an error if there are more draws than requested, since somebody added them."""
    if "num_samples" in settings and count > (most := _saved(path, settings, "num_samples")):
        declared = f"num_samples = {settings['num_samples']}"
        raise BayesreconError(
            f"{path}: {count} draws, but its comments say {declared}, which leaves {most}; several runs in one file?"
        )


def _saved(path: Path, settings: Settings, key: str) -> int:
    """The number of rows that `key` iterations leave after thinning, which keeps the first of every `thin`."""
    counts = []
    for word, default, pattern in (key, "", "[0-9]{1,18}"), ("thin", "1", "0*[1-9][0-9]{0,17}"):
        text = settings.get(word, default)
        if not re.fullmatch(pattern, text):
            raise BayesreconError(f"{path}: {word} = {text[:40]!r} in its comments is not a count")
        counts.append(int(text))
    return -(-counts[0] // counts[1])
