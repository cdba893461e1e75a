"""The ledger of a steward: the key of all tilts, the tilts that were drawn, and what they are worth together.

A file that its owner alone can read (mode 0600). A release of the same data under the same model takes the tilt that
stands in it; any other takes a new one, and their worths add. Past a budget that was stated nothing is made.
"""

import json
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.disclosure.sanitising.secret import Secret, keyed
from bayesrecon.errors import BayesreconError
from bayesrecon.files import private_folder, write_whole
from bayesrecon.model import PseudoData

_VERSION = 1  # of the file: another one is not read
_KEY = 32  # bytes
_LARGEST = 2**28  # bytes of a file that is read: tilts of hundreds of releases

UNNAMED = "releases without their data"
"""The account of releases whose data were not given: nobody can tell whose they are, so they are taken for those of one
data set."""


def ledger_path() -> Path:
    """Where the ledger is unless somebody says otherwise: BAYESRECON_LEDGER, or in the user's data directory.

    >>> ledger_path().is_absolute()
    True
    """
    if chosen := os.environ.get("BAYESRECON_LEDGER"):
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("bayesrecon", appauthor=False).absolute() / "ledger.json"


@dataclass(frozen=True)
class Account:
    """What of one data set was released.

    Attributes:
        spent: worths of independent tilts, added up, in draws.
        budget: past which nothing more is released.
        again: whether the tilt was there already, and costs nothing more.
        times: what its cap is in scatters of ordinary records.
    """

    spent: float
    budget: float
    again: bool
    times: int


class Ledger:
    """An open ledger; `opened_ledger` gives one."""

    def __init__(self, path: Path, content: dict[str, Any]):
        self._path, self._content = path, content

    def tilt(
        self,
        account: str,
        model: str,
        worth: float,
        budget: float | None,
        make: Callable[[Secret], PseudoData],
        times: int = 1,
    ) -> tuple[Secret, PseudoData, Account]:
        """The tilt of a release, entered before anybody has it.

        Args:
            account: what identifies the data.
            model: what identifies the model.
            worth: of the tilt, in draws.
            budget: to state for this account; None leaves the one that stands, or states the worth of the first tilt.
            make: draws a tilt.
            times: what its cap is.

        Raises:
            BayesreconError: the worths of independent tilts would exceed the budget.
        """
        secret = keyed(bytes.fromhex(self._content["key"]), account, model, repr(float(worth)))
        one = self._content["accounts"].setdefault(account, {"budget": None, "tilts": []})
        found = next((t for t in one["tilts"] if t["model"] == model and t["worth"] == worth), None)
        spent = sum(t["worth"] for t in one["tilts"])
        stated = budget if budget is not None else one["budget"] if one["budget"] is not None else worth
        if found is None and spent + worth > stated:
            raise BayesreconError(
                f"{self._path}: {spent:g} draws' worth of {_named(account)} is released, and {worth:g} more exceed the "
                f"budget of {stated:g}; publish no other release of them, or state a larger budget="
                + (", or supply the data (data=) of each" if account == UNNAMED else "")
            )
        if found is None:
            made = make(secret)
            records = {name: np.asarray(v).tolist() for name, v in made.records.items()}
            weights = np.asarray(made.weights).tolist()
            found = {"model": model, "worth": worth, "times": times, "records": records, "weights": weights}
            one["tilts"].append(found)
            again = False
        else:
            again = True
        one["budget"] = stated
        self._write()
        tilt = PseudoData(np.asarray(found["weights"]), {k: np.asarray(v) for k, v in found["records"].items()})
        return secret, tilt, Account(spent + (0 if again else worth), stated, again, int(found["times"]))

    def _write(self) -> None:
        text = json.dumps(self._content, allow_nan=False)
        write_whole(self._path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


@contextmanager
def opened_ledger(path: Path) -> Iterator[Ledger]:
    """A ledger that nobody else opens meanwhile; made where there is none.

    Raises:
        BayesreconError: what is no ledger, or what others can read.
    """
    if not path.parent.is_dir():
        private_folder(path.parent)
    with _held(path.with_name(path.name + ".lock")):
        if not path.exists():
            content = {"bayesrecon_ledger": _VERSION, "key": secrets.token_hex(_KEY), "accounts": {}}
            with (
                suppress(FileExistsError),
                os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as f,
            ):
                json.dump(content, f)
        yield Ledger(path, _read(path))


def _read(path: Path) -> dict[str, Any]:
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise BayesreconError(f"{path} is no plain file; name a ledger of your own (ledger=)")
    if sys.platform != "win32" and state.st_mode & 0o077:
        raise BayesreconError(
            f"{path}: others can read this ledger, so its tilts are no secret; chmod 600 it, or name another"
        )
    if state.st_size > _LARGEST:
        raise BayesreconError(f"{path} is larger than any ledger; name another file (ledger=)")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["bayesrecon_ledger"] != _VERSION or len(bytes.fromhex(content["key"])) != _KEY:
            raise ValueError
        for account in content["accounts"].values():
            for tilt in account["tilts"]:
                lengths = {len(v) for v in tilt["records"].values()} | {len(tilt["weights"])}
                if (
                    len(lengths) != 1
                    or not float(tilt["worth"]) > 0
                    or not isinstance(tilt["model"], str)
                    or int(tilt["times"]) < 1
                ):
                    raise ValueError
            if account["budget"] is not None:
                float(account["budget"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BayesreconError(f"{path} is not a ledger of bayesrecon; name another file (ledger=)") from None
    return content  # type: ignore[no-any-return]


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """One process at a time: two that read the same sum would both spend it."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _named(account: str) -> str:
    return UNNAMED if account == UNNAMED else f"data {account[:12]}"
