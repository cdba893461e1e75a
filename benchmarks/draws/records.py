"""Individual answers of irt_2pl against the number of published draws, and tables of answers by size.

python -m benchmarks.draws.records [--draws 1000 ...] [--blocks 10] [--table 100 20]

Blocks are every k-th draw of the 10,000, so that they are disjoint. Tables are made up, and their draws are those of
the posterior given them (`answers.py`), kept in the folder for temporary files.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import bayesrecon
from bayesrecon.attacks.records import system as layers
from bayesrecon.evaluate import score_records
from bayesrecon.models import load
from bayesrecon.types import PosteriorDraws
from benchmarks.draws import answers
from benchmarks.references import reference
from benchmarks.study import Study

DRAWN, DRAWS = 10_000, 2_000
STUDY = Study(__file__)


def accuracy(counts, blocks):
    release, records, _ = reference("irt_2pl-irt_2pl")
    for count in counts:
        step = release.size // count
        scores, began = [], time.perf_counter()
        for block in range(min(blocks, step)):
            found = ask(release.take(np.arange(block, release.size, step)), records)
            scores.append(score_records(found, records)["y"] | {"stated": float(found["y"].probability.mean())})
            print(count, block, scores[-1], flush=True)
        mean = {k: float(np.mean([s[k] for s in scores])) for k in scores[0]}
        least, seconds = float(min(s["exact"] for s in scores)), (time.perf_counter() - began) / len(scores)
        STUDY.add(**{f"{count} draws": {"blocks": len(scores), "least": least, "seconds": seconds} | mean})


def table_of(persons, items, draws=DRAWS, seed=1):
    """A release and the answers behind it: every so many of 10,000 draws, which are drawn once."""
    model = load("irt_2pl", persons=persons, items=items)
    path = Path(tempfile.gettempdir()) / f"bayesrecon-answers-{persons}-{items}-{DRAWN}-{seed}.npz"
    if not path.exists():
        # In a process of its own, so that its memory is not in the peak.
        asked = map(str, (persons, items, DRAWN, seed, path))
        subprocess.run([sys.executable, "-m", answers.__spec__.name, *asked], check=True)
    with np.load(path) as held:
        theta, chain, y = (held[k] for k in ("theta", "chain", "y"))
    theta, chain = theta[:: DRAWN // draws], chain[:: DRAWN // draws]
    release = PosteriorDraws(theta, model, np.full(len(theta), 1 / len(theta)), chain, name=path.stem)
    return release, {**answers.design(persons, items), "y": y}


def whole(persons, items, draws=DRAWS):
    """Cost of a table, and how right the answers are. Probabilities say how many should be."""
    release, records = table_of(persons, items, draws)
    began, cpu = time.perf_counter(), time.process_time()
    found = ask(release, records)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    score = score_records(found, records)["y"]
    return {
        "CPU, s": cpu, "wall, s": seconds, "answers right": score["exact"],
        "stated": float(found["y"].probability.mean()), "z": score["z_sd"], "in 95 % intervals": score["coverage"],
        "failed checks": float(len(found.failures)),
    }  # fmt: skip


def ask(release, records):
    known = {k: records[k] for k in ("person", "item")}
    return bayesrecon.reconstruct(release, known=known, unit=("person", "item"))


def either_way(persons, items, draws=DRAWS):
    """A table through the layers of K and through K as one array: by what they differ."""
    release, records = table_of(persons, items, draws)
    columns = []
    for large in (0, 10**9):
        layers._LARGE = large
        columns.append(ask(release, records)["y"])
    ours, array = columns
    one, other = (np.where(c.value == 1, c.probability, 1 - c.probability) for c in columns)
    low, high = np.quantile(ours.se / array.se, (0.05, 0.95))
    z = [float(np.std((c.estimate - records["y"]) / c.se)) for c in columns]
    return {
        "estimates off": float(np.abs(ours.estimate - array.estimate).max()),
        "floors off": float(np.abs(ours.floor / array.floor - 1).max()), "errors, 5 %": float(low),
        "95 %": float(high), "probabilities off, mean": float(np.abs(one - other).mean()), "z, layers": z[0],
        "z, array": z[1],
    }  # fmt: skip


if __name__ == "__main__":
    parser = STUDY.parser(__doc__, blocks=10)
    parser.add_argument("--draws", type=int, nargs="*", default=[500, 1000, 2000, 5000, 10000])
    parser.add_argument("--table", type=int, nargs=2, default=(), metavar=("PERSONS", "ITEMS"))
    given = STUDY.given(parser)
    if given.draws:
        accuracy(given.draws, given.blocks)
    if given.table:
        print(whole(*given.table))
