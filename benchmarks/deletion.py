"""Deletions measured: HRec on tables and images; bayesian_deletion.py has posteriors before and after.

python benchmarks/deletion.py --part tables              # simulated income, diabetes; minutes
python benchmarks/deletion.py --part mnist --mnist DIR   # DIR holds t10k-images-idx3-ubyte.zip and labels
python benchmarks/deletion.py --part mnist-rff --mnist DIR --deletions 50

Fewer --deletions and --records make a small version. Half of the records is private, half public.
"""

import argparse
import zipfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes

import bayesrecon
from bayesrecon import HRec, Improvements
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import bootstrap, clopper_pearson, cosine_similarity
from bayesrecon.models import load
from bayesrecon.posteriors import retrain_without, train

VARIANTS = {
    "HRec as published": Improvements.none(),
    "+ regulariser": Improvements(True, False, False, False, False),
    "+ path": Improvements(True, True, False, False, False),
    "+ shrinkage": Improvements(True, True, True, False, False),
    "+ all rows": Improvements(True, True, True, True, False),
    "+ range of public records": Improvements(),
}


def hrec(title, x, y, loss, outputs, penalty, deletions, rng, below=0.0, quiet=False):
    """Median cosine similarity of every variant and baseline over deletions from one half."""
    order = rng.permutation(len(x))
    half = len(x) // 2
    own, public = order[:half], order[half:]
    model = load(
        "linear_predictor",
        loss=loss,
        features=x.shape[1],
        outputs=outputs,
        penalty=penalty,
        intercept_penalty=below,
    )
    data, known = {"x": x[own], "y": y[own]}, {"x": x[public], "y": y[public]}
    trained = train(model, data)
    rows = rng.choice(len(own), min(deletions, len(own)), replace=False)
    again = retrain_without(trained.release, data, rows)
    truth, label = x[own][rows], y[own][rows]
    pairs, seen = [], []
    for i, t in enumerate(again):
        try:
            pairs.append(bayesrecon.deletion(trained.release, t.release))
            seen.append(i)
        except BayesreconError:  # the record left no trace
            continue
    truth, label = truth[seen], label[seen]
    scores, right = {}, {}
    for name, use in VARIANTS.items():
        attack = HRec(model, known, total=len(own), improvements=use)
        found = [attack(p) for p in pairs]
        scores[name] = cosine_similarity(np.stack([f.x for f in found]), truth)
        if found[0].label is not None:
            right[name] = clopper_pearson(sum(f.label == k for f, k in zip(found, label, strict=True)), len(found))
    for name in ("avg", "maxdiff"):
        scores[name] = cosine_similarity(np.stack([attack.baselines(p)[name] for p in pairs]), truth)
    if quiet:
        return scores
    better = np.maximum(scores["avg"], scores["maxdiff"])
    table = Table("", "median cosine", "95 %", "10 % quantile", "above both baselines", "label", title=title)
    for name, values in scores.items():
        centre = bootstrap(values)
        above = "" if name in ("avg", "maxdiff") else f"{np.mean(values > better):.1%}"
        inferred = f"{right[name].estimate:.1%}" if name in right else ""
        interval = f"{centre.lower:.4f} to {centre.upper:.4f}"
        tail = f"{np.quantile(values, 0.1):.3f}"
        table.add_row(name, f"{centre.estimate:.4f}", interval, tail, above, inferred)
    Console().print(table)
    left = len(rows) - len(seen)
    worst = max(t.gradient for t in again)
    target = quality(model, trained, known)
    Console().print(
        f"{len(own)} private, {len(public)} public records, {len(seen)} deletions ({left} more left no trace); "
        f"training {trained.seconds:.1f} s, {again[0].seconds:.3f} s a deletion, "
        f"relative gradient at most {worst:.0e}{target}\n"
    )
    return scores


def quality(model, trained, known):
    """Accuracy of the target on the public half."""
    if not model.linear.labels and known["y"].ndim == 1:
        return ""
    theta = trained.release.model.split(trained.release.theta[0])
    eta = known["x"] @ np.asarray(theta["coef"]).T + np.asarray(theta["intercept"])
    guess = (eta[:, 0] > 0) if eta.shape[1] == 1 else eta.argmax(axis=1)
    y = known["y"] if known["y"].ndim == 1 else known["y"].argmax(axis=1)
    return f", accuracy on the public half {np.mean(guess == y):.1%}"


def income(records, rng):
    """Ten standardised covariates with correlation 0.5."""
    shared = np.sqrt(0.5) * rng.normal(size=(records, 1))
    x = shared + np.sqrt(0.5) * rng.normal(size=(records, 10))
    return x, x @ (0.3 * rng.normal(size=10)) + rng.normal(size=records)


def features(x, width, scale, rng):
    """Random Fourier features of a Gaussian kernel, `sqrt(2 / D) cos(x W + b)`."""
    frequencies, phase = rng.normal(size=(x.shape[1], width)) / scale, rng.uniform(0, 2 * np.pi, width)
    return np.sqrt(2 / width) * np.cos(x @ frequencies + phase)


def tables(options):
    rng = np.random.default_rng(0)
    x, y = income(options.records, rng)
    hrec("simulated income, ridge", x, y, "squared", 1, 1.0, options.deletions, rng)
    embedded = np.sqrt(50) * features(x, 100, 5.0, rng)
    hrec(
        "simulated income, ridge over 100 RFF (cosine of the features)",
        embedded,
        y,
        "squared",
        1,
        1.0,
        options.deletions,
        rng,
    )
    side = (y > 0).astype(int)
    hrec("simulated income, logistic", x, side, "logistic", 1, 1.0, options.deletions, rng)
    hrec("simulated income, squared hinge", x, side, "squared_hinge", 1, 1.0, options.deletions, rng, below=1.0)
    x, y = load_diabetes(return_X_y=True)
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    medians = []
    for split in range(10):
        scores = hrec("", x, y, "squared", 1, 1e-6, 221, np.random.default_rng(split), quiet=True)
        medians.append({k: np.median(v) for k, v in scores.items()})
    for name in medians[0]:
        values = [m[name] for m in medians]
        Console().print(f"diabetes, ten splits, {name}: mean of medians {np.mean(values):.4f}, sd {np.std(values):.4f}")
    Console().print(f"diabetes, theory: {1 - 5 * 2 / 221:.4f}")


def mnist(folder):
    """Images in [-1, 1] and labels of the 10,000 test images."""

    def read(name, skip):
        with zipfile.ZipFile(Path(folder) / name) as archive:
            return np.frombuffer(archive.read(archive.namelist()[0])[skip:], np.uint8)

    return read("t10k-images-idx3-ubyte.zip", 16).reshape(-1, 784) / 127.5 - 1, read("t10k-labels-idx1-ubyte.zip", 8)


def images(options):
    x, y = mnist(options.mnist)
    y, rng = y.astype(int), np.random.default_rng(0)
    if options.part == "mnist":
        hrec(
            f"MNIST, softmax, penalty {options.penalty:g}", x, y, "softmax", 10, options.penalty, options.deletions, rng
        )
        return
    embedded = np.sqrt(2048) * features(x, 4096, 20.0, rng)
    which = (
        ("squared",)
        if options.loss == "ridge"
        else ("softmax",)
        if options.loss == "softmax"
        else ("squared", "softmax")
    )
    for loss in which:
        target = np.eye(10)[y] if loss == "squared" else y
        hrec(
            f"MNIST, {loss} over 4,096 RFF (cosine of the features)",
            embedded,
            target,
            loss,
            10,
            options.penalty,
            options.deletions,
            rng,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=("tables", "mnist", "mnist-rff"), default="tables")
    parser.add_argument("--deletions", type=int, default=200)
    parser.add_argument("--records", type=int, default=80_000, help="of the simulated table")
    parser.add_argument("--mnist", default=".")
    parser.add_argument("--penalty", type=float, default=1.0)
    parser.add_argument("--loss", choices=("ridge", "softmax", "both"), default="both", help="of mnist-rff")
    options = parser.parse_args()
    {"tables": tables, "mnist": images, "mnist-rff": images}[options.part](options)


if __name__ == "__main__":
    main()
