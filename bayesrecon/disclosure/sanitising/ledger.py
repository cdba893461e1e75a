"""The data steward's ledger: what worth was released of whom, the tilts of these releases, and what is left.

All releases of a ledger count in one account, because a table does not tell whether it is about other people: the same
people in other units share no record, and other people can share many. Only the steward can say that data are about
other people (another account), or that parts of an account share nobody. The worth that an account has spent is

    sum of the worths of releases without a part + largest sum of the worths of the releases of one part,

since a release without a part may be about anybody. The same data under the same model at the same worth get the same
tilt again, which adds nothing.

Releases with a guarantee of differential privacy have their own sum, of rho, over the same parts. Worth and rho are
never added to each other: a worth says nothing about one person.

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
import unicodedata
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.disclosure.sanitising.discrete_noise import epsilon_of
from bayesrecon.disclosure.sanitising.secret import UNNAMED, Secret, keyed
from bayesrecon.errors import BayesreconError, Note
from bayesrecon.files import locked, private_folder, write_whole
from bayesrecon.json_types import Json
from bayesrecon.model import PseudoData

EVERYBODY = "default"
"""The account of releases that name none."""

_VERSION = 2  # of the format; version 1 held the key and one account for each table
_KEY = 32  # bytes
_FEWEST = 16  # different bytes in a key: a random one has fewer once in 10^15
_LARGEST = 2**28  # bytes: enough for the tilts of thousands of releases
_MARK, _KEY_MARK = "bayesrecon_ledger", "bayesrecon_ledger_key"
_SEAL = ', "seal": "'  # before the seal, at the end of the file
_MEND = "restore the newest copies of both files, or name another ledger (ledger=)"
_LONGEST = 100  # characters of a name


def ledger_path() -> Path:
    """The default path of the ledger: BAYESRECON_LEDGER, or `ledger.json` in the user's data directory.

    >>> ledger_path().is_absolute()
    True
    """
    if chosen := os.environ.get("BAYESRECON_LEDGER"):
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("bayesrecon", appauthor=False).absolute() / "ledger.json"


@dataclass(frozen=True)
class Whose:
    """Whom a release is about, as the steward says.

    Attributes:
        account: people who are in no other account. Spaces around a name and capitals make no other name.
        part: people of the account who are in none of its other parts; None for anybody of the account.

    >>> print(Whose(" Ward A ", "2026-01"))
    account ward a, part 2026-01
    """

    account: str = EVERYBODY
    part: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "account", _name(self.account, "account"))
        object.__setattr__(self, "part", None if self.part is None else _name(self.part, "part"))

    def __str__(self) -> str:
        return f"account {self.account}" + ("" if self.part is None else f", part {self.part}")


@dataclass(frozen=True)
class Release:
    """What a sanitised release is, for the ledger.

    Attributes:
        data: hash of the table, or what stands for it.
        records: hash of the fields that the model uses; None if the data were not supplied.
        model: hash of the model.
        model_name: its name.
        worth: in draws.
    """

    data: str
    records: str | None
    model: str
    model_name: str
    worth: float


@dataclass(frozen=True)
class Account:
    """The state of an account, in draws.

    Attributes:
        spent: total worth of all releases that may be about the same person, the largest over parts.
        budget: largest total worth; None if none was stated.
        left: what a further release of the same part may be worth. Below zero if the budget does not allow the state.
    """

    spent: float
    budget: float | None
    left: float


@dataclass(frozen=True)
class Guarantee:
    """What a release guarantees, or all releases of an account together.

    Attributes:
        rho: zero-concentrated differential privacy.
        delta: delta of the statement in epsilon.
        replace: whether neighbours differ in the values of a record. Otherwise a record is added or removed.
    """

    rho: float
    delta: float
    replace: bool = False

    @property
    def epsilon(self) -> float:
        return epsilon_of(self.rho, self.delta) if self.rho else 0.0

    @property
    def words(self) -> str:
        neighbours = "replacing" if self.replace else "adding or removing"
        return f"({self.epsilon:.4g}, {self.delta:.4g})-differentially private ({self.rho:.4g}-zCDP) under {neighbours}"


class Ledger:
    """An open ledger. Open one with `opened_ledger`."""

    def __init__(self, file: "LedgerFile"):
        self._file = file

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever entered."""
        return not self._file.accounts

    @property
    def accounts(self) -> Sequence[str]:
        """Names of the accounts."""
        return list(self._file.accounts)

    def account(self, whose: Whose, after: Release | None = None, budget: float | None = None) -> Account:
        """The account as it is, or as it would be after a release.

        Args:
            after: a release of these people.
            budget: another budget. With None the budget stays, or becomes the worth of the first release.
        """
        stated, tilts = self._entries(whose)
        if after is not None and not self.covers(whose, after):
            added: Json = {"part": whose.part, "worth": after.worth}
            tilts = [*tilts, added]
        if stated is None and after is not None:
            stated = after.worth
        limit = stated if budget is None else budget
        parts = {tilt["part"] for tilt in tilts}
        left = 0.0 if limit is None else limit - _spent(tilts, parts if whose.part is None else {whose.part})
        return Account(_spent(tilts, parts), limit, left)

    def secret(self, release: Release) -> Secret:
        """The source of all random numbers of a release: a keyed function of data, model and worth."""
        return keyed(self._file.key, release.data, release.model, repr(release.worth))

    def tilt(self, release: Release) -> tuple[PseudoData, int] | None:
        """The tilt that these data got before under this model at this worth, in any account, and its cap R / N."""
        same = self._identifier(release)
        every = (tilt for account in self._file.accounts.values() for tilt in account["tilts"])
        tilt = next((tilt for tilt in every if tilt["id"] == same), None)
        if tilt is None:
            return None
        records = {name: unpacked(values) for name, values in tilt["records"].items()}
        return PseudoData(unpacked(tilt["weights"]), records), int(tilt["times"])

    def covers(self, whose: Whose, release: Release) -> bool:
        """Whether the same tilt was already counted for these people."""
        same = self._identifier(release)
        return any(tilt["id"] == same and tilt["part"] in (None, whose.part) for tilt in self._entries(whose)[1])

    def also_in(self, whose: Whose, release: Release) -> list[str]:
        """Other accounts, and other parts of this one, in which the same records were released."""
        same = None if release.records is None else identifier(self._file.key, "records", release.records)
        found = {
            str(Whose(name, tilt["part"]))
            for name, account in self._file.accounts.items()
            for tilt in account["tilts"]
            if tilt["data"] == same is not None
            and (name != whose.account or (tilt["part"] != whose.part and None not in (tilt["part"], whose.part)))
        }
        return sorted(found)

    def enter(self, whose: Whose, release: Release, budget: float | None, tilt: PseudoData, times: int) -> None:
        """Count a release, and write the ledger.

        Args:
            budget: as in `account`.
            tilt: its tilt.
            times: R / N, the cap of the tilt.

        Raises:
            BayesreconError: the budget does not allow it.
            OSError: the ledger cannot be written.
        """
        after, covered = self.account(whose, release, budget), self.covers(whose, release)
        if after.left < 0 and not covered:
            raise BayesreconError(f"{whose}: the budget of {after.budget} draws' worth does not allow this release")
        account = self._file.accounts.setdefault(whose.account, {"budget": None, "tilts": []})
        account["budget"] = after.budget
        if not covered:
            data = None if release.records is None else identifier(self._file.key, "records", release.records)
            account["tilts"].append(
                {
                    "id": self._identifier(release),
                    "date": datetime.now(UTC).isoformat(timespec="seconds"),
                    "part": whose.part,
                    "model": release.model_name,
                    "data": data,
                    "worth": release.worth,
                    "times": times,
                    "records": {name: packed(values) for name, values in tilt.records.items()},
                    "weights": packed(tilt.weights),
                }
            )
        self._file.write()

    def guaranteed(self, whose: Whose, after: Guarantee | None = None) -> Guarantee | None:
        """What all releases of an account that have a guarantee guarantee together, the weakest over parts.

        The sum of rho is taken over releases that may be about the same person. If some protect the addition of a
        record and others its replacement, the former count fourfold, as a replacement is a removal and an addition.

        Args:
            after: a further release of these people.
        """
        entries = [*self._guarantees(whose)]
        if after is not None:
            entries.append({"part": whose.part, **asdict(after)})
        if not entries:
            return None
        replace = any(entry["replace"] for entry in entries)
        costs = [entry["rho"] * (4 if replace and not entry["replace"] else 1) for entry in entries]
        parts = {entry["part"] for entry in entries}
        totals = [
            math.fsum(cost for cost, entry in zip(costs, entries, strict=True) if entry["part"] in (None, part))
            for part in parts
        ]
        return Guarantee(max(totals), max(entry["delta"] for entry in entries), replace)

    def admit(self, whose: Whose, asked: Guarantee, budget: float | None) -> tuple[Guarantee, list[str]]:
        """What an account guarantees after a release, and what the steward should know.

        Args:
            budget: the largest epsilon of the account. With None it stays, or becomes that of the first release.

        Raises:
            BayesreconError: the budget does not allow it.
        """
        after = self.guaranteed(whose, asked) or asked
        stated = self._file.accounts.get(whose.account, {}).get("epsilon")
        limit = budget if budget is not None else asked.epsilon if stated is None else float(stated)
        if after.epsilon > limit * (1 + 1e-9):  # rounding
            raise BayesreconError(
                f"{whose}: the budget of epsilon {limit:.4g} does not allow this release: with it, all releases are "
                f"{after.words}; state budget={math.ceil(1000 * after.epsilon) / 1000:g} or more, or name account= if "
                "the data are about people of no other account"
            )
        notes: list[str] = [Note("a new ledger: it does not know what was released before")] if self.is_new else []
        if unguarded := len(self._entries(whose)[1]):
            notes.append(
                f"{unguarded} releases of account {whose.account} have a worth and no epsilon: epsilon holds for what "
                "came after only, and worth and epsilon do not add up"
            )
        return after, notes

    def enter_guarantee(self, whose: Whose, asked: Guarantee, model: str, budget: float | None) -> None:
        """Count a release with a guarantee, and write the ledger. Raises as `admit` does."""
        self.admit(whose, asked, budget)
        account = self._file.accounts.setdefault(whose.account, {"budget": None, "tilts": []})
        if budget is not None or account.get("epsilon") is None:
            account["epsilon"] = asked.epsilon if budget is None else budget
        date = datetime.now(UTC).isoformat(timespec="seconds")
        account.setdefault("guarantees", []).append({"date": date, "part": whose.part, "model": model, **asdict(asked)})
        self._file.write()

    def _guarantees(self, whose: Whose) -> list[Json]:
        return self._file.accounts.get(whose.account, {}).get("guarantees", [])

    def _entries(self, whose: Whose) -> tuple[float | None, list[Json]]:
        """Budget and tilts of an account."""
        account = self._file.accounts.get(whose.account, {"budget": None, "tilts": []})
        return account["budget"], account["tilts"]

    def _identifier(self, release: Release) -> str:
        return tilt_identifier(self._file.key, release.data, release.model, release.worth)


@contextmanager
def opened_ledger(path: Path, *, only_read: bool = False) -> Generator[Ledger]:
    """Open a ledger for this process alone, as `opened_file` does."""
    with opened_file(path, only_read=only_read) as file:
        yield Ledger(file)


def _spent(tilts: Sequence[Json], parts: Collection[str | None]) -> float:
    """Total worth of the releases that may be about the same person, the largest over these parts."""
    totals = [math.fsum(t["worth"] for t in tilts if t["part"] in (None, part)) for part in parts]
    return max(totals, default=0.0)


def _name(name: Any, what: str) -> str:
    """A name in its standard form.

    Raises:
        BayesreconError: it is no name.
    """
    plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split()) if isinstance(name, str) else ""
    if not (0 < len(plain) <= _LONGEST and plain.isprintable()):
        raise BayesreconError(f"{what}={name!r}: expected a name of at most {_LONGEST} printable characters")
    return plain


@dataclass(frozen=True)
class Asked:
    """A release that the ledger is asked to allow.

    Attributes:
        book: the open ledger.
        whose: whom the release is about.
        release: what it is.
        budget: another budget of the account, or None.
        by_records: whether its worth follows from `records`.
        name: name of the release, for messages.
    """

    book: Ledger
    whose: Whose
    release: Release
    budget: float | None
    by_records: bool
    name: str

    @property
    def account(self) -> Account:
        """The account after this release."""
        return self.book.account(self.whose, self.release, self.budget)

    def conditions(self, worth: float) -> str:
        """What a release of another worth would need besides, as text behind this worth."""
        after = self.book.account(self.whose, replace(self.release, worth=worth), self.budget)
        return self._instead + ("" if after.left >= 0 else f" with budget={_needed(after)}")

    def check(self, supported: Callable[[float], bool]) -> None:
        """Refuse a release that the budget does not allow.

        Args:
            supported: whether a release may have this worth; tried before a worth is named.

        Raises:
            BayesreconError: the budget does not allow it. The message says what is left.
        """
        after = self.account
        if after.left >= 0 or self.book.covers(self.whose, self.release):
            return
        limit, now = after.budget or 0.0, self.book.account(self.whose, budget=self.budget)
        left = max(0, math.floor(now.left))
        cures = [
            *([f"use worth={left}{self._instead}"] if left and supported(left) else []),
            f"state budget={_needed(after)} or more",
            "name account= if the data are about people of no other account",
        ]
        raise BayesreconError(
            f"{self.name}: {left or 'nothing'} is left of the budget of {limit:.12g} draws' worth of {self.whose}, of "
            f"which {limit - now.left:.12g} is released, and this release needs {self.release.worth:.12g}; "
            f"{', or '.join(cures)}"
        )

    def notes(self, path: Path) -> Sequence[str]:
        """What the steward should know before the release is entered in the ledger of this path."""
        found: list[str] = []
        if self.book.is_new:
            found.append(Note(f"a new ledger, {path}: it does not know what was released before"))
        elif self.whose.account not in self.book.accounts:
            names = ", ".join(self.book.accounts)
            found.append(f"a new account, {self.whose.account}: its people must be in no other account ({names})")
        if others := self.book.also_in(self.whose, self.release):
            found.append(f"the same records were also released in {'; '.join(others)}: are these really other people?")
        before = self.book.account(self.whose).budget
        if before is not None and self.budget not in (None, before):
            found.append(f"the budget of account {self.whose.account} was {before:.12g} and is now {self.budget:.12g}")
        if (guaranteed := self.book.guaranteed(self.whose)) is not None:
            found.append(
                f"account {self.whose.account} has releases that are {guaranteed.words}: this one has no epsilon, so "
                "their epsilon no longer bounds what is known from all of them"
            )
        if self.release.records is None:
            found.append(
                "the data were not supplied: another run of the sampler gets another tilt, and the worths add up"
            )
        if self.book.covers(self.whose, self.release):
            found.append(
                "these data were sanitised under this model before: the same tilt is reused, and adds no worth"
            )
        return found

    @property
    def _instead(self) -> str:
        return " in place of records=" if self.by_records else ""


def _needed(after: Account) -> int:
    """The smallest budget that allows this state of an account."""
    return math.ceil((after.budget or 0.0) - after.left)


@dataclass
class LedgerFile:
    """The content of a ledger, and where it is.

    Attributes:
        path: path of the ledger.
        key_path: path of the file with the key.
        key: 32 random bytes.
        accounts: `{name: {"budget": float, "tilts": [...]}}`.
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
    if content is not None and version not in (1, _VERSION):
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
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    if sys.platform != "win32":  # the new name of the file is on the disk before the other file is written
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


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
