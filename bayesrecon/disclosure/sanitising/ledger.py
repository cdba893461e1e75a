"""The data steward's ledger: what worth was released of whom, the tilts of these releases, and what is left.

All releases of a ledger count in one account, because a table does not tell whether it is about other people: the same
people in other units share no record, and other people can share many. Only the steward can say that data are about
other people (another account), or that parts of an account share nobody. The worth that an account has spent is

    sum of the worths of releases without a part + largest sum of the worths of the releases of one part,

since a release without a part may be about anybody. The same data under the same model at the same worth get the same
tilt again, which adds nothing.

Releases with a guarantee of differential privacy have their own sum, of rho, over the same parts. Worth and rho are
never added to each other: a worth says nothing about one person.
"""

import math
import os
import unicodedata
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bayesrecon.disclosure.sanitising.discrete_noise import epsilon_of
from bayesrecon.disclosure.sanitising.ledger_file import (
    EVERYBODY,
    LedgerFile,
    identifier,
    opened_file,
    packed,
    tilt_identifier,
    unpacked,
)
from bayesrecon.disclosure.sanitising.secret import Secret, keyed
from bayesrecon.errors import BayesreconError, Note
from bayesrecon.json_types import Json
from bayesrecon.model import PseudoData

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

    def measure(self, release: Release) -> str:
        """The name of a tilt, for the file. Without the key nobody can tell from it what it is of."""
        return identifier(self._file.key, "measure", self._identifier(release))[:32]

    def enter(
        self,
        whose: Whose,
        release: Release,
        budget: float | None,
        tilt: PseudoData,
        times: int,
        file: Json | None = None,
    ) -> None:
        """Count a release, and write the ledger.

        Args:
            budget: as in `account`.
            tilt: its tilt.
            times: R / N, the cap of the tilt.
            file: the file that it will be in, as of `publish`. It is entered in the same write.

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
                    "date": _now(),
                    "part": whose.part,
                    "model": release.model_name,
                    "data": data,
                    "worth": release.worth,
                    "times": times,
                    "records": {name: packed(values) for name, values in tilt.records.items()},
                    "weights": packed(tilt.weights),
                }
            )
        self._add(whose, file, counted=True)
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
        if unguarded := self._unguarded(whose):
            notes.append(
                f"{unguarded} releases of account {whose.account} have no epsilon: epsilon holds for what came after "
                "only, and worth and epsilon do not add up"
            )
        return after, notes

    def enter_guarantee(
        self, whose: Whose, asked: Guarantee, model: str, budget: float | None, file: Json | None = None
    ) -> None:
        """Count a release with a guarantee, and write the ledger with its file, as `enter`. Raises as `admit` does."""
        self.admit(whose, asked, budget)
        account = self._file.accounts.setdefault(whose.account, {"budget": None, "tilts": []})
        if budget is not None or account.get("epsilon") is None:
            account["epsilon"] = asked.epsilon if budget is None else budget
        date = _now()
        account.setdefault("guarantees", []).append({"date": date, "part": whose.part, "model": model, **asdict(asked)})
        self._add(whose, file, counted=True)
        self._file.write()

    def published(self, account: str) -> list[Json]:
        """What was published of an account, withdrawn or not, in the order of entry."""
        return self._file.accounts.get(account, {}).get("published", [])

    def publish(self, whose: Whose, files: Sequence[Json]) -> list[tuple[Json, bool]]:
        """Enter what was published, and write the ledger. Returns each entry, and whether it is new.

        Args:
            files: as `auditing.published.entry_of` makes them. The same bytes, and the same arrays, are entered once
                for a part; without a part they are those of any. What is known of bytes is that of the last time,
                unless that is nothing.

        Raises:
            OSError: the ledger cannot be written.
        """
        found = [one for file in files if (one := self._add(whose, file)) is not None]
        self._file.write()
        return found

    def _add(self, whose: Whose, file: Json | None, *, counted: bool = False) -> tuple[Json, bool] | None:
        """Enter a file, without writing; counted if its worth or epsilon is entered as well."""
        if file is None:
            return None
        account = self._file.accounts.setdefault(whose.account, {"budget": None, "tilts": []})
        listed = account.setdefault("published", [])
        same = [one for one in listed if whose.part in (None, one["part"])]
        same = [
            *(one for one in same if one["sha256"] == file["sha256"]),
            *(one for one in same if one.get("arrays") == file.get("arrays") is not None),
        ]
        new: Json = {"id": str(len(listed) + 1), "date": _now(), "part": whose.part, "withdrawn": None}
        known = same[0] if same else new
        if not same:
            listed.append(known)
        if not same or (known["sha256"] == file["sha256"] and (_tells(file) or not _tells(known))):
            known.update({**file, "name": known.get("name", file["name"])})
        known["counted"] = counted or known.get("counted", False)
        return known, not same

    def withdraw(self, account: str, number: str) -> Json:
        """Mark what was published as withdrawn. It stays in the ledger, because it is known.

        Raises:
            BayesreconError: there is no such entry.
            OSError: the ledger cannot be written.
        """
        entry = next((one for one in self.published(account) if one["id"] == number), None)
        if entry is None:
            numbers = ", ".join(one["id"] for one in self.published(account)) or "none"
            raise BayesreconError(f"account {account} has no entry {number}; its entries: {numbers}")
        if entry["withdrawn"] is None:
            entry["withdrawn"] = _now()
            self._file.write()
        return entry

    def state(self, whose: Whose) -> list[str]:
        """What is left of an account, in sentences. Worth and epsilon are never added to each other."""
        account, guarantee = self.account(whose), self.guaranteed(whose)
        published, sanitised = len(self.published(whose.account)), len(self._entries(whose)[1])
        if not (published or sanitised or guarantee):
            known = ", ".join(self.accounts) or "none"
            return [f"the ledger knows no release of account {whose.account}; its accounts: {known}"]
        lines: list[str] = [Note(f"account {whose.account}: {published} published, {sanitised} sanitised with a worth")]
        if sanitised:
            limit = "no budget" if account.budget is None else f"of a budget of {account.budget:g}"
            lines.append(Note(f"worth spent: {account.spent:g} draws, {limit}"))
        if guarantee is not None:
            lines.append(Note(f"releases with epsilon, all together: {guarantee.words}"))
            if self._unguarded(whose):
                lines.append("epsilon holds for what came after only, and worth and epsilon do not add up")
        return lines

    def _guarantees(self, whose: Whose) -> list[Json]:
        return self._file.accounts.get(whose.account, {}).get("guarantees", [])

    def _unguarded(self, whose: Whose) -> int:
        """How many releases have no epsilon. Files that were counted when they were made are not counted again."""
        others = sum(not file.get("counted") for file in self.published(whose.account))
        return len(self._entries(whose)[1]) + others

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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _tells(file: Json) -> bool:
    """Whether it is known what a file determines."""
    return any(one["rows"] or one["grams"] for one in file["released"]) or file["table"] is not None


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
