"""Rows that a study lacks, measured one after the other and kept as they come: of named tasks, or of a list."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax

from benchmarks.study import Study


def add_missing(
    study: Study, tasks: Mapping[str, Callable[[], Any]], words: Sequence[str] = (), seconds: float = float("inf")
) -> Any:
    """The rows, with those of named tasks that have none yet, or whose names hold a word that is given; no task is
    begun after so many seconds."""
    end = time.monotonic() + seconds
    for name, run in tasks.items():
        again = any(word in name for word in words)
        if (words or name in study.kept()) and not again:
            continue
        if time.monotonic() > end:
            break
        began = time.monotonic()
        study.add(**{name: run()})
        print(f"{time.monotonic() - began:6.1f} s  {name}  {shortly(study.kept()[name])}", flush=True)
        jax.clear_caches()
    return study.kept()


def add_rows(
    study: Study, items: Iterable[Any], place: Callable[[Any], Any], measure: Callable[..., Any], seconds: float
) -> None:
    """Rows `measure(*item)` behind those that there are, of the items that have none; `place` is the item of a row. No
    item is begun after so many seconds."""
    end = time.monotonic() + seconds
    for item in items:
        if time.monotonic() > end:
            break
        if all(place(row) != item for row in study.kept()):
            row = measure(*item)
            study.keep([*study.kept(), row])  # another process may have added some meanwhile
            print(item, shortly(row), flush=True)


def timed(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Its row, with the CPU time that it took."""
    began = time.process_time()
    return run() | {"seconds": time.process_time() - began}


def shortly(row: Any) -> Any:
    """What is short in a row."""
    return {k: v for k, v in row.items() if len(str(v)) < 40} if isinstance(row, dict) else row


def run_tasks(study: Study, tasks: Mapping[str, Callable[[bool], Any]], document: str | None) -> None:
    """The program of a study: `python -m ... [WORDS] [--part small]`.

    Args:
        tasks: each takes whether a small part will do, and returns its row, or None where there is none. Rows of small
            parts are shown and not kept.
        document: of the program.
    """
    parser = study.parser(document)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--part", choices=("small", "all"), default="all")
    given = study.given(parser)
    kept, small = study.kept(), given.part == "small"
    for name, run in tasks.items():
        again = any(word in name for word in given.words)
        if (given.words and not again) or (name in kept and not again and not small):
            continue
        began = time.process_time()
        found = run(small)
        print(f"{time.process_time() - began:6.1f} s  {name}  {found if small else ''}", flush=True)
        if found is not None and not small:
            study.add(**{name: found})
