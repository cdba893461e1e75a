"""One experiment of deletions: half of the records private, half public, one model, many records deleted one by one."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bayesrecon
from bayesrecon.attacks.deletion.inversion import embed
from bayesrecon.errors import BayesreconError
from bayesrecon.models import load
from bayesrecon.posteriors import dirac, retrain_without, train
from bayesrecon.posteriors.fitting.training import TrainingResult


@dataclass(frozen=True)
class Embedded:
    """Records that the model sees through features: `private` and `public` as they are, and what makes features."""

    private: np.ndarray
    public: np.ndarray
    phi: Callable[[Any], Any]


@dataclass(frozen=True)
class Experiment:
    """What the adversary holds, and what only the score sees (`private`, `rows`)."""

    title: str
    model: Any
    private: dict[str, np.ndarray]
    public: dict[str, np.ndarray]
    rows: np.ndarray
    pairs: list[Any]
    traceless: int = 0
    seconds: float = 0.0
    gradient: float = 0.0
    accuracy: float | None = None
    embedded: Embedded | None = None

    @property
    def features(self) -> np.ndarray:
        """What the model saw of the deleted records."""
        return self.private["x"][self.rows]

    @property
    def truth(self) -> np.ndarray:
        """The deleted records."""
        return self.features if self.embedded is None else self.embedded.private[self.rows]

    @property
    def facts(self) -> dict[str, float | None]:
        return {"accuracy": self.accuracy, "seconds": self.seconds, "gradient": self.gradient}


def note_of(experiments: Sequence[Experiment]) -> str:
    """Of the splits of one data set: what was trained and deleted."""
    one, gone = experiments[0], sum(e.traceless for e in experiments)
    accuracies = [e.accuracy for e in experiments if e.accuracy is not None]
    return (
        f"{len(one.private['x'])} private and {len(one.public['x'])} public records, "
        f"{len(experiments)} split{'s' * (len(experiments) > 1)}, {sum(len(e.rows) for e in experiments)} deletions"
        + (f" ({gone} more left no trace: the loss is flat at the record)" if gone else "")
        + f"; retraining {np.median([e.seconds for e in experiments]):.2g} s a deletion, relative gradient at most "
        f"{max(e.gradient for e in experiments):.0e}"
        + (f"; target's accuracy on the public half {np.mean(accuracies):.1%}" if accuracies else "")
    )


def prepare(
    title, x, y, private, public, rows, *, loss, outputs=1, penalty=1.0, below=0.0, phi=None, keep=None
) -> Experiment:
    """Train on the private records, and again without each of `rows`.

    Args:
        private, public: indices into x and y; rows: positions among the private ones.
        phi: the embedding of one record that the model is trained on.
        keep: an .npz file that holds the trained parameters between runs.
    """
    embedded = None if phi is None else Embedded(x[private], x[public], phi)
    x = x if phi is None else embed(phi, x)
    model = _model(x, loss=loss, outputs=outputs, penalty=penalty, intercept_penalty=below)
    data, known = {"x": x[private], "y": y[private]}, {"x": x[public], "y": y[public]}
    if loss == "squared" and not penalty and x.shape[1] >= len(private):
        before, again = _least_norm(model, data, rows)
    else:
        before, again = _trained(model, data, rows, keep)
    pairs, seen, traceless = [], [], 0
    for row, one in zip(rows, again, strict=True):
        try:
            pairs.append(bayesrecon.deletion(before.release, one.release))
            seen.append(row)
        except BayesreconError:  # the loss is flat at this record
            traceless += 1
    gradient, right = max(t.gradient for t in again), _accuracy(before.release, known)
    about = (traceless, again[0].seconds, gradient, right, embedded)
    return Experiment(title, model, data, known, np.array(seen), pairs, *about)


def _model(x, **settings):
    return load("linear_predictor", features=x.shape[1], **settings)


def tuned(x, y, private, penalties, *, loss, outputs=1, below=0.0, phi=None) -> float:
    """The penalty that predicts a fifth of the private records best, trained on the others; the smallest of equals.

    Penalties so small that training does not end at an optimum are passed over.
    """
    x = x if phi is None else embed(phi, x)
    fifth = len(private) // 5
    train_on, held = private[fifth:], private[:fifth]
    best = {}
    for penalty in map(float, penalties):
        model = _model(x, loss=loss, outputs=outputs, penalty=penalty, intercept_penalty=below)
        try:
            train(model, {"x": x[private], "y": y[private]})
            trained = train(model, {"x": x[train_on], "y": y[train_on]}).release
        except BayesreconError:  # there is no optimum, or none within reach
            continue
        known = {"x": x[held], "y": y[held]}
        right = _accuracy(trained, known)
        best[penalty] = right if right is not None else -float(np.mean((_eta(trained, known)[:, 0] - y[held]) ** 2))
    return max(best, key=lambda penalty: best[penalty])


def _least_norm(model, data, rows) -> tuple[TrainingResult, list[TrainingResult]]:
    """Least squares with more features than records: of all parameters without an error the shortest."""
    begun = time.perf_counter()
    fits = [_shortest(model, data["x"], data["y"], "trained")]
    fits += [_shortest(model, *(np.delete(data[k], row, axis=0) for k in "xy"), f"without {row}") for row in rows]
    each = (time.perf_counter() - begun) / len(fits)
    return fits[0]._replace(seconds=each), [one._replace(seconds=each) for one in fits[1:]]


def _shortest(model, x, y, name) -> TrainingResult:
    import scipy.linalg

    middle, level, y = x.mean(axis=0), y.mean(axis=0), y.reshape(len(x), -1)
    centred = x - middle
    # Of centred records one is the others' sum: its singular value is rounding.
    coef = scipy.linalg.lstsq(centred, y - level, cond=1e-12)[0].T
    left = y - x @ coef.T - (level - coef @ middle)
    gradient = float(np.linalg.norm(left.T @ x) / (np.abs(y).max() * np.linalg.norm(x, axis=1).max()))
    release = dirac(model, {"coef": coef, "intercept": np.atleast_1d(level - coef @ middle)}, name=name)
    return TrainingResult(release, gradient, 0.0)


def _trained(model, data, rows, keep: Path | None) -> tuple[TrainingResult, list[TrainingResult]]:
    def release(theta, name):
        return dirac(model, model.split(theta), name=name)

    if keep is not None and keep.exists():
        held = np.load(keep)
        if not np.array_equal(held["rows"], rows):
            raise SystemExit(f"{keep} holds other deletions: remove it")
        before = TrainingResult(release(held["before"], "trained"), float(held["gradient"]), float(held["training"]))
        parts, each = zip(held["after"], held["gradients"], rows, strict=True), float(held["seconds"])
        return before, [TrainingResult(release(t, f"without {r}"), float(g), each) for t, g, r in parts]
    before = train(model, data)
    again = retrain_without(before.release, data, rows)
    if keep is not None:
        first = {"before": before.release.theta[0], "gradient": before.gradient, "training": before.seconds}
        after, gradients = np.stack([t.release.theta[0] for t in again]), [t.gradient for t in again]
        np.savez(keep, rows=rows, **first, after=after, gradients=gradients, seconds=again[0].seconds)
    return before, again


def _accuracy(release, known) -> float | None:
    model, y = release.model, known["y"]
    if not model.linear.labels and y.ndim == 1:
        return None
    eta = _eta(release, known)
    guess = (eta[:, 0] > 0) if eta.shape[1] == 1 else eta.argmax(axis=1)
    return float(np.mean(guess == (y if y.ndim == 1 else y.argmax(axis=1))))


def _eta(release, known) -> np.ndarray:
    theta = release.model.split(release.theta[0])
    return known["x"] @ np.asarray(theta["coef"]).T + np.asarray(theta["intercept"])


def halves(count: int, deletions: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Private and public records, and which private ones are deleted."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(count)
    half = count // 2
    return order[:half], order[half:], rng.choice(half, min(deletions, half), replace=False)
