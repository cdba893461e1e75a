"""Workers of a benchmark that attacks many releases: processes of this machine, or a Dask cluster."""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from bayesrecon import using


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=1, help="processes of this machine")
    parser.add_argument("--scheduler", help="address of a Dask cluster, in place of them")


@contextmanager
def engine(given: argparse.Namespace) -> Iterator[None]:
    """Sweeps inside the block, by what the arguments say."""
    if given.scheduler:
        from distributed import Client

        with Client(given.scheduler) as client, using(client):
            yield
    elif given.workers > 1:
        with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool, using(pool):
            yield
    else:
        yield
