"""Whether the ledger allows a release: what is left, what to do instead, and what the steward should know."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bayesrecon.disclosure.sanitising.ledger import Account, Ledger, Release, Whose
from bayesrecon.errors import BayesreconError, Note


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
