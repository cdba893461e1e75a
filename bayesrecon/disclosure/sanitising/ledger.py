"""The data steward's ledger: the key of all tilts, the tilts that were drawn, and their combined worth.

It is a file that only its owner can read (mode 0600). Another release of the same data under the same model reuses the
tilt in the ledger. Any other release of these data gets a new tilt, and the worths are added. A release that would
exceed the stated budget is refused.
"""

import json
import os
import secrets
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayesrecon.disclosure.sanitising.secret import Secret, keyed
from bayesrecon.errors import BayesreconError
from bayesrecon.files import private_folder, write_whole
from bayesrecon.json_types import Json
from bayesrecon.model import PseudoData

_VERSION = 1  # of the file's format; no other version is read
_KEY = 32  # bytes
_LARGEST = 2**28  # bytes: enough for the tilts of hundreds of releases

UNNAMED = "releases without their data"
"""The account of releases whose data were not supplied. They might share data, so they are treated as one data set."""


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
class Account:
    """The account of one data set after a release.

    Attributes:
        spent: total worth of its independent tilts, in draws.
        budget: largest total worth, in draws.
        reused: whether the tilt was already in the ledger, so that the release adds no worth.
        times: R / N, the tilt's cap in multiples of the number of records.
    """

    spent: float
    budget: float
    reused: bool
    times: int


class Ledger:
    """An open ledger. Open one with `opened_ledger`."""

    def __init__(self, path: Path, content: Json):
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
        """The tilt of a release. A new tilt is written to the ledger before it is returned.

        Args:
            account: identifier of the data.
            model: identifier of the model.
            worth: worth of the tilt, in draws.
            budget: new budget of this account. With None the budget stays, or becomes the worth of the first tilt.
            make: function that draws a tilt.
            times: R / N, the tilt's cap.

        Raises:
            BayesreconError: the total worth of independent tilts would exceed the budget.
        """
        secret = keyed(bytes.fromhex(self._content["key"]), account, model, repr(float(worth)))
        entries = self._content["accounts"].setdefault(account, {"budget": None, "tilts": []})
        stored: Json | None = next((t for t in entries["tilts"] if t["model"] == model and t["worth"] == worth), None)
        spent = sum(t["worth"] for t in entries["tilts"])
        limit = budget if budget is not None else entries["budget"] if entries["budget"] is not None else worth
        if stored is None and spent + worth > limit:
            raise BayesreconError(
                f"{self._path}: {spent:g} draws' worth of {_named(account)} is released, and {worth:g} more exceed the "
                f"budget of {limit:g}; publish no other release of them, or state a larger budget="
                + (", or supply the data (data=) of each" if account == UNNAMED else "")
            )
        reused = stored is not None
        if stored is None:
            new = make(secret)
            records = {name: np.asarray(v).tolist() for name, v in new.records.items()}
            weights = np.asarray(new.weights).tolist()
            stored = {"model": model, "worth": worth, "times": times, "records": records, "weights": weights}
            entries["tilts"].append(stored)
        entries["budget"] = limit
        self._write()
        tilt = PseudoData(np.asarray(stored["weights"]), {k: np.asarray(v) for k, v in stored["records"].items()})
        return secret, tilt, Account(spent + (0 if reused else worth), limit, reused, int(stored["times"]))

    def _write(self) -> None:
        text = json.dumps(self._content, allow_nan=False)
        write_whole(self._path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


@contextmanager
def opened_ledger(path: Path) -> Generator[Ledger, None, None]:
    """Open a ledger for this process alone; create it if it does not exist.

    Raises:
        BayesreconError: the file is not a ledger, or other users can read it.
    """
    if not path.parent.is_dir():
        private_folder(path.parent)
    with _locked(path.with_name(path.name + ".lock")):
        if not path.exists():
            empty = {"bayesrecon_ledger": _VERSION, "key": secrets.token_hex(_KEY), "accounts": {}}
            with (
                suppress(FileExistsError),
                os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file,
            ):
                json.dump(empty, file)
        yield Ledger(path, _read(path))


def _read(path: Path) -> Json:
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise BayesreconError(f"{path} is not a regular file; name another ledger (ledger=)")
    if sys.platform != "win32" and state.st_mode & 0o077:
        raise BayesreconError(
            f"{path}: other users can read this ledger, so its tilts are not secret; chmod 600 it, or name another one"
        )
    if state.st_size > _LARGEST:
        raise BayesreconError(f"{path} is larger than any ledger; name another file (ledger=)")
    try:
        content: Json = json.loads(path.read_text(encoding="utf-8"))
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
    return content


@contextmanager
def _locked(path: Path) -> Generator[None, None, None]:
    """Lock the ledger: two processes that read the same total could both spend the rest of the budget."""
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
