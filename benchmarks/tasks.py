"""Named tasks of a study, one row each: those that have no row yet, or whose names hold a word that is given."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.study import Study


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
