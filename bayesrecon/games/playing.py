"""`play`: play the rounds of a game, in parallel, with progress. It can resume after an interruption."""

import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, Unpack

import numpy as np

from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.games.store import Store
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

    >>> from bayesrecon.games import Game, Ins, Law, LeastSquares, LinearLaw
    >>> game = Game(Law("linear", LinearLaw(), size=40), LeastSquares(), Ins())
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
