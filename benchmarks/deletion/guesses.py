"""What HRec and its baselines make of the deletions of an experiment, and the rows of the page."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesrecon import HRec
from bayesrecon.attacks import Improvements
from bayesrecon.attacks.deletion.inversion import invert_embedding
from bayesrecon.evaluate import bootstrap, clopper_pearson, cosine_similarity
from bayesrecon.results.deletion import Inversion
from benchmarks.deletion.experiment import Embedded, Experiment
from benchmarks.deletion.page import ALL, MAXDIFF, PROBABILITIES, PUBLISHED

BASELINES = {"avg": "Avg: mean public record", "maxdiff": MAXDIFF, "maxdiff_probabilities": PROBABILITIES}
ABOVE = {"above": "maxdiff", "above_probabilities": "maxdiff_probabilities"}
"""Columns that compare with Avg and one more baseline, which is the published one first."""


def _added(*names: str) -> Improvements:
    return replace(Improvements.none(), **dict.fromkeys(names, True))


_ORDER = ("regulariser", "path", "shrinkage", "rows", "scale", "prior")
VARIANTS = (
    {PUBLISHED: Improvements.none()}
    | {f"published + {name}": _added(name) for name in _ORDER}
    | {f"improved without {name}": _added(*(n for n in _ORDER if n != name)) for name in _ORDER}
    | {ALL: Improvements()}
)


@dataclass(frozen=True)
class Guesses:
    """What one method makes of each deletion: records `(N, p)`, their labels, and the features they were found by."""

    x: np.ndarray
    labels: np.ndarray | None = None
    features: np.ndarray | None = None
    inversion: Inversion | None = None
    seconds: float | None = None


def attack(experiment: Experiment, variants: dict[str, Improvements] = VARIANTS) -> dict[str, Guesses]:
    """The guesses of every variant and baseline, by name."""
    found: dict[str, Guesses] = {}
    hrec = None
    for name, use in variants.items():
        hrec = HRec(public=experiment.public, improvements=use).prepare(experiment.model, len(experiment.private["x"]))
        each = [hrec(pair) for pair in experiment.pairs]
        labels = None if each[0].label is None else np.array([f.label for f in each])
        found[name] = _records(np.stack([f.x for f in each]), labels, experiment.embedded)
    assert hrec is not None
    return found | _baselines(experiment, [hrec.changed_most(pair) for pair in experiment.pairs])


def _records(found: np.ndarray, labels: np.ndarray | None, embedded: Embedded | None) -> Guesses:
    """The records behind what was found, which are features where the model sees those."""
    if embedded is None:
        return Guesses(found, labels)
    begun = time.perf_counter()
    inverted = invert_embedding(embedded.phi, found, embedded.public)
    return Guesses(inverted.x, labels, found, inverted, (time.perf_counter() - begun) / len(found))


def _baselines(experiment: Experiment, furthest: Sequence[dict[str, int]]) -> dict[str, Guesses]:
    features = experiment.public["x"]
    records = features if experiment.embedded is None else experiment.embedded.public
    guesses = {}
    for key, title in BASELINES.items():
        if key == "avg":
            one, other = (np.tile(v.mean(axis=0), (len(furthest), 1)) for v in (records, features))
        elif key in furthest[0]:
            one, other = (v[[f[key] for f in furthest]] for v in (records, features))
        else:
            continue
        guesses[title] = Guesses(one, features=None if experiment.embedded is None else other)
    return guesses


def scores(found: dict[str, Guesses], truth: np.ndarray) -> dict[str, np.ndarray]:
    """Cosine similarities of the records, `{name: (N,)}`."""
    return {k: cosine_similarity(v.x, truth) for k, v in found.items()}


def rows_of(experiments: Sequence[Experiment], found: Sequence[dict[str, Guesses]]) -> list[dict[str, Any]]:
    """One row of the page for every method, over the deletions of all experiments."""
    both = list(zip(experiments, found, strict=True))
    cosines = {k: np.concatenate([cosine_similarity(f[k].x, e.truth) for e, f in both]) for k in found[0]}
    table = []
    for name, values in cosines.items():
        centre = bootstrap(values)
        scale = float(np.median(np.concatenate([_scale(f[name].x, e.truth) for e, f in both])))
        row: dict[str, Any] = {
            "method": name, "deletions": len(values), "median": centre.estimate,
            "interval": [centre.lower, centre.upper], "tenth": float(np.quantile(values, 0.1)), "scale": scale,
        }  # fmt: skip
        if found[0][name].features is not None:
            seen = [cosine_similarity(f[name].features, e.features) for e, f in both]
            row["features"] = float(np.median(np.concatenate(seen)))
        if name not in BASELINES.values():
            row |= _above(values, cosines)
        if found[0][name].labels is not None:
            right = np.concatenate([f[name].labels == e.private["y"][e.rows] for e, f in both])
            row["label"] = list(clopper_pearson(int(right.sum()), len(right)))
        table.append(row)
    return table


def _scale(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return np.abs(np.log(np.linalg.norm(found, axis=1) / np.linalg.norm(truth, axis=1)))


def _above(values: np.ndarray, cosines: dict[str, np.ndarray]) -> dict[str, list[float]]:
    """The share of deletions in which a method beats the better of Avg and one more baseline."""
    shares = {}
    for column, key in ABOVE.items():
        if BASELINES[key] in cosines:
            better = np.maximum(cosines[BASELINES["avg"]], cosines[BASELINES[key]])
            shares[column] = list(clopper_pearson(int((values > better).sum()), len(values)))
    return shares
