"""Workers of a benchmark that attacks many releases: processes of this machine, or a Dask cluster."""

import argparse
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from bayesrecon.running import using
from bayesrecon.running.engine import processes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=1, help="processes of this machine")
    parser.add_argument("--scheduler", help="address of a Dask cluster, in place of them")


def check_names(parser: argparse.ArgumentParser, given: Sequence[str], known: Collection[str]) -> None:
    """End the program in a line that names one that is not known and lists those that are."""
    for name in given:
        if name not in known:
            parser.error(f"{name}: choose from {', '.join(known)}")


@contextmanager
def engine(given: argparse.Namespace) -> Iterator[None]:
    """Sweeps inside the block, by what the arguments say."""
    if given.scheduler:
        from distributed import Client

        with Client(given.scheduler) as client, using(client):
            yield
    else:
        with processes(given.workers):
            yield
