"""The data steward's ledger: what worth was released of whom, the tilts of these releases, and what is left.

All releases of a ledger count in one account, because a table does not tell whether it is about other people: the same
people in other units share no record, and other people can share many. Only the steward can say that data are about
other people (another account), or that parts of an account share nobody. The worth that an account has spent is

    sum of the worths of releases without a part + largest sum of the worths of the releases of one part,

since a release without a part may be about anybody. The same data under the same model at the same worth get the same
tilt again, which adds nothing.
"""

import math
import os
import unicodedata
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
from bayesrecon.errors import BayesreconError
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


class Ledger:
    """An open ledger. Open one with `opened_ledger`."""

    def __init__(self, file: LedgerFile):
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
