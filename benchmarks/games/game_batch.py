"""The batch game: twenty records deleted at once from a network, direct attacks beside reductions to membership."""

from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.neural_network import MLPClassifier

from bayesrecon.datasets import mnist
from bayesrecon.games import (
    Game,
    LossChange,
    LossThreshold,
    OutputChange,
    Reduction,
    ScikitLearner,
    ShadowModels,
    play,
    table,
)
from benchmarks.study import table as table_of

BATCH = "batch | MNIST | network"
PRIVATE, DELETED, HIDDEN, SHADOWS, ROUNDS = 4000, 20, 64, 4, 10
WORDS = f"""## Batches: {DELETED} records deleted at once from a network

Published as a figure without numbers (CIFAR-10 and -100, 100 deleted): both direct attacks lie above both reductions.
Here {PRIVATE:,} of 10,000 images of MNIST, a network with {HIDDEN} hidden units (scikit-learn's `MLPClassifier` as it
comes, fresh weights each time), {DELETED} deleted and {DELETED} kept records, all pairs compared, {ROUNDS} rounds;
{PRIVATE:,} other images are the reductions' own. The interval is one over rounds, pairs of a round being dependent.
"""


def batch(folder: Path, workers: int | None, rounds: Path | None) -> list[dict[str, Any]]:
    images = mnist(folder, "test")
    data = table(images.x, images.y, classification=True, standardised=False, name="MNIST", share=PRIVATE / 10_000)
    learner = ScikitLearner(f"network with {HIDDEN} hidden units", MLPClassifier((HIDDEN,)), "probabilities")
    players = (
        LossChange(),
        OutputChange(),
        Reduction(LossThreshold(), "labels"),
        Reduction(ShadowModels(SHADOWS), "confidences"),
    )
    game = Game(data, learner, players, name="batch", deletions=DELETED, auxiliary=PRIVATE)
    result = play(game, ROUNDS, seed=27, workers=workers, folder=None if rounds is None else rounds / "batch")
    return [{"name": r.adversary, "stated": astuple(r.success), "rounds": ROUNDS} for r in result.rows]


def batches(folder: Path | None, workers: int | None, rounds: Path | None) -> dict[str, Any]:
    """What is to be played, where the images are."""
    return {} if folder is None else {BATCH: partial(batch, folder, workers, rounds)}


def batch_page(kept: dict[str, Any]) -> str:
    rows = []
    for row in kept.get(BATCH, [{"name": "not run: no data", "stated": None}]):
        rates = "" if row["stated"] is None else "{:.1f} ({:.1f} to {:.1f})".format(*(100 * v for v in row["stated"]))
        rows.append((row["name"], rates))
    return f"{WORDS}\n{table_of(('adversary', 'success'), rows, words=2)}\n"
