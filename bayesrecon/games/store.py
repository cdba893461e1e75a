"""A folder of played rounds: one small file per chunk, and a description of the game."""

import json
import zipfile
from pathlib import Path

import numpy as np

from bayesrecon._version import __version__
from bayesrecon.errors import BayesreconError
from bayesrecon.files import private_folder, write_whole
from bayesrecon.games.describe import described
from bayesrecon.json_types import Json

_ABOUT = "game.json"
_DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


class Store:
    """The rounds of one game and seed in a folder.

    Args:
        folder: path of the folder, which is created if needed.
        game: the game.
        seed: its seed.

    Raises:
        BayesreconError: the folder contains rounds of another game or seed, or of another version of this package or of
            scikit-learn, or a damaged file.
    """

    def __init__(self, folder: str | Path, game: object, seed: int):
        import sklearn

        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise BayesreconError(f"{self.folder} is a file; name a folder for the rounds")
        private_folder(self.folder)
        about = {"seed": seed, "bayesrecon": __version__, "scikit-learn": sklearn.__version__, "game": described(game)}
        path = self.folder / _ABOUT
        if path.exists():
            self._compare(path, about)
        elif any(self.folder.glob("rounds-*.npz")):
            raise BayesreconError(
                f"{self.folder} has rounds of an unknown game, since {_ABOUT} is missing; remove them"
            )
        else:
            text = json.dumps(about, indent=1) + "\n"
            write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def _compare(self, path: Path, about: Json) -> None:
        """Raise an error if the stored rounds are not of this game."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            differs = [name for name in about if stored[name] != json.loads(json.dumps(about[name]))]
        except (*_DAMAGE, TypeError, RecursionError):
            raise BayesreconError(f"{path} is damaged; remove the folder or name another one") from None
        if differs:
            reason = "of another game" if "game" in differs else f"with another {differs[0]} ({stored[differs[0]]})"
            raise BayesreconError(f"{self.folder} contains rounds {reason}; name another folder")

    def read(self) -> dict[int, tuple[np.ndarray, str]]:
        """The stored rounds: a dictionary from round numbers to outcomes and warnings."""
        rounds: dict[int, tuple[np.ndarray, str]] = {}
        for path in sorted(self.folder.glob("rounds-*.npz")):
            try:
                with path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
                    numbers, outcomes, notes = (archive[name] for name in ("numbers", "outcomes", "notes"))
                if numbers.dtype.kind != "i" or outcomes.dtype.kind not in "if" or notes.dtype.kind != "U":
                    raise ValueError
                rounds |= {
                    int(i): (outcome, str(note)) for i, outcome, note in zip(numbers, outcomes, notes, strict=True)
                }
            except (*_DAMAGE, TypeError):
                raise BayesreconError(f"{path} is damaged; remove it, and its rounds are played again") from None
        return rounds

    def write(self, numbers: np.ndarray, outcomes: np.ndarray, notes: list[str]) -> None:
        """Store rounds. `notes` are the warnings of each, one text a round."""
        path = self.folder / f"rounds-{numbers.min():08d}-{numbers.max():08d}.npz"

        def save(temporary: Path) -> None:
            with temporary.open("wb") as handle:
                np.savez(handle, allow_pickle=False, numbers=numbers, outcomes=outcomes, notes=np.array(notes, str))

        write_whole(path, save)
