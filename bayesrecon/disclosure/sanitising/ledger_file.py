"""The two files of a ledger, as they are read, sealed and written.

A ledger has two files: what was released, and the key that seals it. Both can be read only by their owner. The ledger
is sealed (HMAC-SHA256 of its content under the key), so a ledger that was edited or cut short is refused. Both files
count the writes, so an older copy of one of them is refused, too. The ledger is written first: if a process is killed
in between, the ledger is one write ahead, which is accepted.
"""

import base64
import hmac
import io
import json
import math
import os
import secrets
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.disclosure.sanitising.secret import UNNAMED, keyed
from bayesrecon.errors import BayesreconError
from bayesrecon.files import locked, private_folder, write_whole
from bayesrecon.json_types import Json

EVERYBODY = "default"
"""The account of releases that name none."""

_VERSION = 4  # of the format; 1 held the key and an account for each table, 2 nothing published, 3 only its totals
_KEY = 32  # bytes
_FEWEST = 16  # different bytes in a key: a random one has fewer once in 10^15
_LARGEST = 2**28  # bytes: enough for the tilts of thousands of releases
_MARK, _KEY_MARK = "bayesrecon_ledger", "bayesrecon_ledger_key"
_SEAL = ', "seal": "'  # before the seal, at the end of the file
_MEND = "restore the newest copies of both files, or name another ledger (ledger=)"


@dataclass
class LedgerFile:
    """The content of a ledger, and where it is.

    Attributes:
        path: path of the ledger.
        key_path: path of the file with the key.
        key: 32 random bytes.
        accounts: `{name: {"budget": float, "tilts": [...], "guarantees": [...], "published": [...]}}`.
        writes: how often the ledger was written.
        known: the number that the key's file has; None if there is no such file.
        is_locked: whether this process still holds the lock.
    """

    path: Path
    key_path: Path
    key: bytes
    accounts: Json
    writes: int = 0
    known: int | None = None
    is_locked: Callable[[], bool] = lambda: False

    def write(self) -> None:
        """Write both files.

        Raises:
            BayesreconError: somebody removed the lock file.
            OSError: one of them cannot be written, for example on a full disk. What was entered before is still there.
        """
        if not self.is_locked():
            raise BayesreconError(f"{self.path}: its lock file was removed, so another process may write it; try again")
        if self.known != self.writes:  # the key is new, or a process was killed after it wrote the ledger
            self._write_key()
        place = {"path": str(self.path), "writes": self.writes + 1}
        content = {_MARK: _VERSION, **place, "accounts": self.accounts}
        text = json.dumps(content, allow_nan=False)
        _write(self.path, f'{text[:-1]}{_SEAL}{_seal(self.key, text)}"}}')
        self.writes += 1
        self._write_key()

    def _write_key(self) -> None:
        _write(self.key_path, json.dumps({_KEY_MARK: 1, "key": self.key.hex(), "writes": self.writes}))
        self.known = self.writes


@contextmanager
def opened_file(path: Path, *, only_read: bool = False) -> Generator[LedgerFile]:
    """Open a ledger for this process alone. One that does not exist is empty, and is created when it is written.

    Args:
        path: path of the ledger. The key is beside it, in a file whose name ends in `.key`. Either may be a link.
        only_read: whether nothing will be written. Then a ledger that does not exist leaves no trace.

    Raises:
        BayesreconError: a file is missing, is damaged, was edited, is older than the other one, can be read by other
            users, or is a copy.
    """
    path = path.resolve()
    key_path = _key_path(path)
    if only_read and not path.exists() and not key_path.exists():
        yield _read(path, key_path)
        return
    if not path.parent.is_dir():
        private_folder(path.parent)
    with locked(path.with_name(path.name + ".lock")) as is_locked:
        yield replace(_read(path, key_path), is_locked=is_locked)


def identifier(key: bytes, *parts: str) -> str:
    """A keyed hash: without the key, nobody can test a guess."""
    return keyed(key, "identifier", *parts).seed.hex()


def tilt_identifier(key: bytes, data: str, model: str, worth: float) -> str:
    """The keyed hash of what makes a tilt."""
    return identifier(key, "tilt", data, model, repr(worth))


def _read(path: Path, key_path: Path) -> LedgerFile:
    content, kept = _json(path), _json(key_path)
    if content is None and kept is None:
        return LedgerFile(path, key_path, secrets.token_bytes(_KEY), {})
    version = None if content is None else content.get(_MARK)
    if content is not None and version not in range(1, _VERSION + 1):
        newer = isinstance(version, int) and version > _VERSION
        raise BayesreconError(f"{path} is a ledger of a newer bayesrecon; update it" if newer else _no_ledger(path))
    if kept is None:
        if version != 1 or content is None:
            raise BayesreconError(f"{path}: its key, {key_path}, is missing; {_MEND}")
        kept = {"key": content.get("key"), "writes": 0}
    key, count = _key(kept, key_path), kept.get("writes")
    if content is None:
        accounts, writes = {}, 0
    elif version == 1:
        if _key(content, path) != key:
            raise BayesreconError(f"{path}: its key is another one than that of {key_path}; {_MEND}")
        accounts, writes = _from_version_1(path, content, key), 0
    else:
        if not _is_sealed(path, key):
            raise BayesreconError(
                f"{path} was changed since bayesrecon wrote it, or {key_path.name} is not its key, so it does not say "
                f"what was released; {_MEND}"
            )
        accounts, writes = content["accounts"], content["writes"]
        if version == 3:
            _from_version_3(accounts)
        _check_place(path, Path(content["path"]), key)
    if count not in (writes, writes - 1):
        lost = "is missing" if version is None else "and its key are not of the same time: one is an older copy"
        raise BayesreconError(f"{path} {lost}; {_MEND}")
    return LedgerFile(path, key_path, key, accounts, writes, count if key_path.exists() else None)


def _check_place(path: Path, before: Path, key: bytes) -> None:
    """Refuse a copy whose original is still there: both would spend the same budget. A ledger can be moved."""
    if path == before or not before.exists() or path.samefile(before):
        return
    if (kept := _json(_key_path(before))) is not None and kept.get("key") == key.hex():
        raise BayesreconError(f"{path} is a copy of {before}, which has the same budget; name that one (ledger=)")


def _key_path(path: Path) -> Path:
    return path.with_name(path.name + ".key").resolve()


def _json(path: Path) -> Json | None:
    """The content of a file; None if there is none."""
    if not path.exists():
        return None
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise BayesreconError(f"{path} is not a regular file; name another ledger (ledger=)")
    if sys.platform != "win32" and state.st_mode & 0o077:
        raise BayesreconError(
            f"{path}: other users can read this file of a ledger, so its tilts are not secret; chmod 600 it, or name "
            "another ledger (ledger=)"
        )
    if state.st_size > _LARGEST:
        raise BayesreconError(_no_ledger(path))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise BayesreconError(_no_ledger(path)) from None
    if not isinstance(content, dict):
        raise BayesreconError(_no_ledger(path))
    return content


def _no_ledger(path: Path) -> str:
    return f"{path} is not a ledger of bayesrecon, or it was cut short; {_MEND}"


def _key(content: Json, path: Path) -> bytes:
    try:
        key = bytes.fromhex(content["key"])
    except (KeyError, TypeError, ValueError):
        key = b""
    if len(key) != _KEY:
        raise BayesreconError(_no_ledger(path))
    if len(set(key)) < _FEWEST:
        raise BayesreconError(f"{path}: its key was not drawn at random, so its tilts are not secret; {_MEND}")
    return key


def _seal(key: bytes, text: str) -> str:
    return hmac.digest(keyed(key, "seal").seed, text.encode(), "sha256").hex()


def _is_sealed(path: Path, key: bytes) -> bool:
    """Whether the last item of the file is the seal of what is before it, byte by byte."""
    content, _, seal = path.read_text(encoding="utf-8").rpartition(_SEAL)
    return hmac.compare_digest(f'{_seal(key, content + "}")}"}}'.encode(), seal.encode())


def packed(array: ArrayLike) -> str:
    """An array as text.

    >>> unpacked(packed([0.1, 0.2]))
    array([0.1, 0.2])
    """
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=False)
    return base64.b64encode(buffer.getvalue()).decode()


def unpacked(text: str) -> np.ndarray:
    """The array of a text."""
    return np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    except OSError as error:  # say of which file
        raise OSError(error.errno, error.strerror, str(path)) from error
    if sys.platform != "win32":  # the new name of the file is on the disk before the other file is written
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _from_version_3(accounts: Json) -> None:
    """Entries of what was published without its statistics, which are known if it is entered again."""
    for account in accounts.values():
        for entry in account.get("published", []):
            unknown: Json = {"rows": [], "draws": None, "worth": None, "guaranteed": False}
            entry["released"] = [{**unknown, "grams": grams} for grams in entry.pop("totals")]
            entry.update(kind="", table=None)


def _from_version_1(path: Path, content: Json, key: bytes) -> Json:
    """All accounts of an earlier ledger as one: it does not say that its tables are about other people."""
    budgets: list[float] = []
    tilts: list[Json] = []
    try:
        for owner, account in content["accounts"].items():
            budgets += [] if account["budget"] is None else [float(account["budget"])]
            for tilt in account["tilts"]:
                worth, records, weights = float(tilt["worth"]), tilt["records"], tilt["weights"]
                if not (0 < worth < math.inf and {len(v) for v in records.values()} == {len(weights)}):
                    raise ValueError
                tilts.append(
                    {
                        "id": tilt_identifier(key, owner, tilt["model"], worth),
                        "data": None if owner == UNNAMED else identifier(key, "records", owner),
                        "worth": worth,
                        "times": int(tilt["times"]),
                        **{"date": None, "model": None, "part": None, "weights": packed(weights)},
                        "records": {name: packed(values) for name, values in records.items()},
                    }
                )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BayesreconError(_no_ledger(path)) from None
    return {account: {"budget": max(budgets), "tilts": tilts} for account in ([EVERYBODY] if budgets else [])}
