"""`play`: play the rounds of a game, in parallel, with progress. It can resume after an interruption."""

import dataclasses
import functools
import hashlib
import json
import time
import types
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, Unpack

import numpy as np

from bayesrecon._version import __version__
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.files import private_folder, write_whole
from bayesrecon.json_types import Json
from bayesrecon.model import Progress
from bayesrecon.running.engine import pooled, swept

if TYPE_CHECKING:
    from bayesrecon.games.outcome import Played

_CHUNKS = 64  # smallest number of chunks of rounds; a chunk is the unit of progress, and what is lost by a kill
_LARGEST = 50  # largest number of rounds per chunk
_PATIENCE = 10  # play stops after this number of failed rounds
_UNCONVERGED = "training stopped before it converged: part of the change is noise of the optimiser"


R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Playable(Protocol[R_co]):
    """The interface that `play` requires: rounds by number, and a result from them.

    For `quick` rounds no worker processes are started.
    """

    @property
    def name(self) -> str: ...

    @property
    def quick(self) -> bool: ...

    def play_round(self, seed: int, number: int) -> np.ndarray:
        """The outcome of one round, an array of fixed shape. All randomness comes from seed and number."""
        ...

    def result(self, outcomes: np.ndarray, **played: Unpack["Played"]) -> R_co:
        """The result of the outcomes `(N, ...)`."""
        ...


class GameError(BayesreconError):
    """Some rounds failed. `result` is the result of the other rounds; None if there are none."""

    def __init__(self, message: str, result: Any):
        super().__init__(message)
        self.result = result


class _Chunk(NamedTuple):
    numbers: np.ndarray
    outcomes: list[np.ndarray]
    notes: list[str]  # warnings of each round, one line each
    failures: list[tuple[int, str]]


def play(
    game: Playable[R],
    n: int = 1000,
    *,
    seed: int = 0,
    workers: int | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> R:
    """Play n rounds of a game.

    Rounds are independent. Round i draws all its random numbers from `(seed, i)`. The outcome of a round therefore does
    not depend on the number of workers or on the other rounds, and rounds can be added to those in a folder.

    Args:
        game: `Game`, `ReconstructionGame`, or any other `Playable`.
        n: number of rounds; they are numbered from 0.
        seed: seed of everything random.
        workers: number of processes. Defaults to that of `running.using` or of the caller's `joblib.parallel_config`,
            with any backend (Dask included), or else one per core. Rounds of a few milliseconds run in one process.
        folder: where finished rounds are stored. An interrupted run resumes from there, with a bit-identical result.
        progress: called with a label and the completed fraction.

    Returns:
        The game's result, for example a `GameResult`.

    Raises:
        GameError: rounds failed. The message names the first one with its seed, `result` has the other rounds, and a
            folder keeps them. `play` stops after ten failures.
        BayesreconError: there are no rounds, the seed is negative, or the folder holds another game.

    >>> from bayesrecon.games import Game, OutputChange, Law, LeastSquares, LinearLaw
    >>> game = Game(Law("linear", LinearLaw(), size=40), LeastSquares(), OutputChange())
    >>> play(game, n=20, seed=3).rows[0].wins == play(game, n=20, seed=3, workers=1).rows[0].wins
    True
    """
    if n < 1 or seed < 0:
        raise BayesreconError(f"n={n}, seed={seed}: expected one round or more, and a seed of zero or more")
    began = time.perf_counter()
    store = None if folder is None else Store(folder, game, seed)
    outcomes = {} if store is None else {i: outcome for i, outcome in store.read().items() if i < n}
    missing = np.array([i for i in range(n) if i not in outcomes], int)
    failures: list[tuple[int, str]] = []
    for chunk in _chunks_played(game, seed, missing, workers):
        if store is not None and chunk.outcomes:
            store.write(chunk.numbers, np.stack(chunk.outcomes), chunk.notes)
        outcomes |= dict(zip(chunk.numbers.tolist(), zip(chunk.outcomes, chunk.notes, strict=True), strict=True))
        failures += chunk.failures
        if progress is not None:
            progress(f"playing {game.name}", len(outcomes) / n)
        if len(failures) >= _PATIENCE:
            break
    result = None
    if outcomes:
        numbers = np.array(sorted(outcomes), int)
        arrays, messages = zip(*(outcomes[i] for i in numbers.tolist()), strict=True)
        seconds, warned = time.perf_counter() - began, _counted_warnings(messages)
        result = game.result(np.stack(arrays), numbers=numbers, seed=seed, seconds=seconds, warnings=warned)
    if failures:
        number, why = min(failures)
        where = f"kept in {folder}" if folder is not None else "kept as the error's result"
        counts = f"{len(failures)} failed, {len(outcomes)} of {n} were played and are {where}"
        raise GameError(f"round {number} (seed {seed}) failed: {why}; {counts}", result)
    assert result is not None
    return result


def play_chunk(game: Playable[object], seed: int, numbers: np.ndarray) -> _Chunk:
    """Play these rounds. Failed rounds are returned separately from the others."""
    done, outcomes, notes, failures = [], [], [], []
    for number in numbers.tolist():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                outcome = game.play_round(seed, number)
            except Exception as error:  # the user's learner may raise anything
                failures.append((number, first_line(error)))
                continue
        done.append(number)
        outcomes.append(outcome)
        notes.append("\n".join(sorted({_line(warning) for warning in caught})))
    return _Chunk(np.array(done, int), outcomes, notes, failures)


def _chunk(shared: tuple[Playable[object], int], numbers: np.ndarray) -> _Chunk:
    return play_chunk(*shared, numbers)


def _line(warning: warnings.WarningMessage) -> str:
    kind = warning.category.__name__
    return _UNCONVERGED if kind == "ConvergenceWarning" else f"{kind}: {str(warning.message).partition(chr(10))[0]}"


def _counted_warnings(notes: Iterable[str]) -> tuple[str, ...]:
    """The warnings of all rounds, each once, with the number of rounds."""
    counts = Counter(line for note in notes for line in note.split("\n") if line)
    return tuple(f"{line} ({count} rounds)" for line, count in sorted(counts.items()))


def _chunks_played(game: Playable[object], seed: int, missing: np.ndarray, workers: int | None) -> Iterator[_Chunk]:
    from joblib import Parallel, delayed, effective_n_jobs

    of_caller: Any = None  # None asks joblib for the number that the caller configured
    if not len(missing):
        return
    size = int(np.clip(len(missing) // _CHUNKS, 1, _LARGEST))
    chunks = [missing[i : i + size] for i in range(0, len(missing), size)]
    if workers is None and pooled():
        yield from swept(_chunk, (game, seed), chunks)
        return
    if workers is None and effective_n_jobs(of_caller) == 1:  # the caller did not say where to run
        workers = 1 if game.quick else -1
    run = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs")
    played: Any = run(delayed(play_chunk)(game, seed, chunk) for chunk in chunks)
    yield from played


# A folder of played rounds: one small file per chunk, and a description of the game.

_ABOUT = "game.json"
_DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


class Store:
    """The rounds of one game and seed in a folder.

    Args:
        folder: path of the folder, which is created if needed.
        game: the game.
        seed: its seed.
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


# A description of a game as plain data, which is equal for games that are played in the same way.


def described(value: Any) -> Any:
    """A value as plain JSON: dataclasses and estimators by their fields, arrays by their hash, functions by their code.

    Globals that a function uses are not part of its description.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        text = str(value.tolist()).encode() if value.dtype.hasobject else np.ascontiguousarray(value).tobytes()
        return {"array": [list(value.shape), value.dtype.str, hashlib.sha256(text).hexdigest()]}
    if isinstance(value, Mapping):
        return {"items": [[described(k), described(v)] for k, v in value.items()]}
    if isinstance(value, tuple | list):
        return [described(v) for v in value]
    if isinstance(value, set | frozenset):
        return sorted(str(described(v)) for v in value)
    if isinstance(value, functools.partial):
        return {"partial": described([value.func, value.args, value.keywords])}
    if isinstance(value, types.MethodType):
        return {"method": described([value.__self__, value.__func__])}
    if isinstance(value, types.FunctionType):
        enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
        return {"function": [value.__qualname__, _code(value.__code__), described([enclosed, value.__defaults__])]}
    if isinstance(value, type | types.BuiltinFunctionType | np.ufunc):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if dataclasses.is_dataclass(value):
        return {"kind": name, "fields": {f.name: described(getattr(value, f.name)) for f in dataclasses.fields(value)}}
    if hasattr(value, "get_params"):
        return {"kind": name, "fields": described(value.get_params(deep=False))}
    return {"kind": name, "fields": described(vars(value)) if hasattr(value, "__dict__") else None}


def _code(code: types.CodeType) -> list[object]:
    """The hash of the bytecode, the names and the constants."""
    constants = [_code(c) if isinstance(c, types.CodeType) else str(c) for c in code.co_consts]
    return [hashlib.sha256(code.co_code).hexdigest(), list(code.co_names), constants]
