"""Individual answers of irt_2pl against the number of published draws, and the time of larger tables.

python benchmarks/records.py [--draws 1000 ...] [--blocks 10] [--persons 500]

Blocks are every k-th draw of the 10,000, so that they are disjoint. The larger table is a timing only: its draws are
normal around random parameters, which changes nothing about the work.
"""

import argparse
import resource
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import bayesrecon
from bayesrecon.evaluate import score_records
from bayesrecon.models import find, load
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.posteriors.database import open_database, read_data
from bayesrecon.types import Release


def subset(release, start, step):
    return release.take(np.arange(start, release.size, step))


def accuracy(counts, blocks):
    release = from_posteriordb("irt_2pl-irt_2pl")
    records = find("irt_2pl").records(read_data(open_database(), "irt_2pl"))
    known = {k: records[k] for k in ("person", "item")}
    table = Table("draws", "blocks", "answers right", "least", "posterior-mean guess", "calibration error", "z", "s")
    for count in counts:
        step = release.size // count
        scores, began = [], time.perf_counter()
        for block in range(min(blocks, step)):
            found = bayesrecon.reconstruct(subset(release, block, step), known=known, unit=("person", "item"))
            scores.append(score_records(found, records)["y"])
            print(count, block, scores[-1], flush=True)
        mean = {k: np.mean([s[k] for s in scores]) for k in scores[0]}
        seconds = (time.perf_counter() - began) / len(scores)
        cells = (f"{mean['exact']:.2%}", f"{min(s['exact'] for s in scores):.2%}", f"{mean['naive_exact']:.2%}")
        more = (f"{mean['calibration']:.4f}", f"{mean['z_sd']:.2f}", f"{seconds:.1f}")
        table.add_row(f"{count}", f"{len(scores)}", *cells, *more)
    Console().print(table)


def timing(persons, draws, items=20):
    model, rng = load("irt_2pl", persons=persons, items=items), np.random.default_rng(0)
    theta = 0.5 * rng.normal(size=model.dimension) + 0.2 * rng.normal(size=(draws, model.dimension))
    release = Release(theta, np.full(draws, 1 / draws), np.zeros(draws, int), None, model, name="timing")
    person, item = np.meshgrid(np.arange(1, persons + 1), np.arange(1, items + 1))
    began = time.perf_counter()
    known = {"person": person.ravel(), "item": item.ravel()}
    found = bayesrecon.reconstruct(release, known=known, unit=("person", "item"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{found.unknowns} unknowns, {draws} draws: {time.perf_counter() - began:.0f} s, peak {peak:.1f} GiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, nargs="*", default=[500, 1000, 2000, 5000, 10000])
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--persons", type=int, default=0)
    given = parser.parse_args()
    if given.draws:
        accuracy(given.draws, given.blocks)
    if given.persons:
        timing(given.persons, 10_000)
