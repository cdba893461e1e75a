"""Whether a release is allowed: by the theory of its tilts, and by what the ledger says is left."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bayesrecon.disclosure.sanitising.ledger import Account, Ledger, Release, Whose
from bayesrecon.disclosure.sanitising.supported import is_supported, with_widest_cap
from bayesrecon.disclosure.sanitising.tilts import TiltDistribution
from bayesrecon.errors import BayesreconError, Note


@dataclass(frozen=True)
class Asked:
    """A release that is asked for.

    Attributes:
        whose: whom it is about.
        release: what it is.
        budget: another budget of the account, or None.
        by_records: whether its worth follows from `records`.
        name: name of the release, for messages.
    """

    whose: Whose
    release: Release
    budget: float | None
    by_records: bool
    name: str

    def account(self, book: Ledger, worth: float | None = None) -> Account:
        """The account after this release, or after one of another worth."""
        release = self.release if worth is None else replace(self.release, worth=worth)
        return book.account(self.whose, release, self.budget)

    def allowed(self, book: Ledger) -> bool:
        """Whether the budget allows it."""
        return book.covers(self.whose, self.release) or self.account(book).left >= 0


def admitted(book: Ledger, asked: Asked, tilts: TiltDistribution) -> tuple[TiltDistribution, int]:
    """The distribution of the tilts and their cap, as `with_widest_cap`, of a release that the budget allows.

    Raises:
        BayesreconError: it is not allowed. The message says what is left, and every worth that it names was tried.
    """

    def conditions(worth: float) -> str:
        after = asked.account(book, worth)
        instead = " in place of records=" if asked.by_records else ""
        return instead + ("" if after.left >= 0 else f" with budget={_needed(after)}")

    found = with_widest_cap(tilts, asked.name, conditions)
    if asked.allowed(book):
        return found
    now, after = book.account(asked.whose, budget=asked.budget), asked.account(book)
    left, limit = max(0, math.floor(now.left)), after.budget or 0.0
    cures = [f"state budget={_needed(after)} or more", "name account= if the data are about people of no other account"]
    if left and is_supported(tilts.with_size(left**-0.5)):
        cures.insert(0, f"use worth={left}" + (" in place of records=" if asked.by_records else ""))
    raise BayesreconError(
        f"{asked.name}: {left if left else 'nothing'} is left of the budget of {limit:.12g} draws' worth of "
        f"{asked.whose}, {_spent(now, limit)}, and this release needs {asked.release.worth:.12g}; {', or '.join(cures)}"
    )


def notes(book: Ledger, asked: Asked, path: object) -> Sequence[str]:
    """What the steward should know before a release is entered."""
    found: list[str] = []
    if book.is_new:
        found.append(Note(f"a new ledger, {path}: it does not know what was released before"))
    elif asked.whose.account not in book.accounts:
        found.append(
            f"a new account, {asked.whose.account}: its people must be in no other account ({', '.join(book.accounts)})"
        )
    if others := book.also_in(asked.whose, asked.release):
        found.append(f"the same records were also released in {'; '.join(others)}: are these really other people?")
    before = book.account(asked.whose).budget
    if before is not None and asked.budget is not None and asked.budget != before:
        found.append(f"the budget of account {asked.whose.account} was {before:.12g} and is now {asked.budget:.12g}")
    if asked.release.records is None:
        found.append("the data were not supplied: another run of the sampler gets another tilt, and the worths add up")
    if book.covers(asked.whose, asked.release):
        found.append("these data were sanitised under this model before: the same tilt is reused, and adds no worth")
    return found


def _needed(after: Account) -> int:
    """The smallest budget that allows this state of an account."""
    return math.ceil((after.budget or 0.0) - after.left)


def _spent(now: Account, limit: float) -> str:
    return f"of which {limit - now.left:.12g} is released"
