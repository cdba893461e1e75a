"""HRec on tables: the record between two trained parameters, every improvement against the published method.

python benchmarks/hrec.py [income] [labels] [diabetes] [classes] [images]

Fewer --deletions, --records and --splits make a small version. Results go to the page benchmarks/DELETION.md.
"""

import argparse

import numpy as np
from experiment import ALL, PUBLISHED, attack, halves, prepare, rows_of, scores
from page import keep
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits


def report(title, experiments, *more, found=None):
    """Attack, and put the section on the page."""
    found = [attack(e) for e in experiments] if found is None else found
    table = rows_of(experiments, found)
    counts = sum(len(e.rows) for e in experiments)
    gone = sum(e.traceless for e in experiments)
    accuracies = [e.accuracy for e in experiments if e.accuracy is not None]
    one = experiments[0]
    note = (
        f"{len(one.private['x'])} private and {len(one.public['x'])} public records, "
        f"{len(experiments)} split{'s' * (len(experiments) > 1)}, {counts} deletions"
        + (f" ({gone} more left no trace: the loss is flat at the record)" if gone else "")
        + f"; retraining {np.median([e.seconds for e in experiments]):.2g} s a deletion, relative gradient at most "
        f"{max(e.gradient for e in experiments):.0e}"
        + (f"; target's accuracy on the public half {np.mean(accuracies):.1%}" if accuracies else "")
        + "."
    )
    keep(title, [note, *more], table)
    for row in table:
        if row["method"] in (PUBLISHED, ALL) or ":" in row["method"]:
            print(title, row["method"], f"{row['median']:.4f}", row["interval"], row.get("above"), flush=True)


def simulated(records, rng):
    """Ten standardised covariates with correlation 0.5, and a response."""
    x = np.sqrt(0.5) * (rng.normal(size=(records, 1)) + rng.normal(size=(records, 10)))
    return x, x @ (0.3 * rng.normal(size=10)) + rng.normal(size=records)


def income(options):
    rng = np.random.default_rng(0)
    x, y = simulated(options.records, rng)
    parts = halves(len(x), 5 * options.deletions, 1)
    report("Simulated income, ridge", [prepare("", x, y, *parts, loss="squared")])
    features = np.cos(x @ (rng.normal(size=(10, 100)) / 5) + rng.uniform(0, 2 * np.pi, 100))
    parts = halves(len(x), options.deletions, 1)
    report(
        "Simulated income, ridge over 100 random Fourier features",
        [prepare("", features, y, *parts, loss="squared")],
        "Cosines are those of the features.",
    )


def labels(options):
    """Whether the income is above the mean, from a quarter of the records."""
    x, y = simulated(options.records // 4, np.random.default_rng(0))
    for title, loss, below in (("logistic", "logistic", 0.0), ("squared-hinge SVM", "squared_hinge", 1.0)):
        # Beyond the margin a squared hinge is flat: more deletions are needed for as many that leave a trace.
        private, public, rows = halves(len(x), options.deletions * (1 if below == 0 else 2), 1)
        one = prepare("", x, (y > 0).astype(int), private, public, rows, loss=loss, below=below)
        report(f"Simulated income, {title}", [one])


def diabetes(options):
    x, y = load_diabetes(return_X_y=True)
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    experiments = [
        prepare("", x, y, *halves(len(x), 221, 100 + s), loss="squared", penalty=1e-6) for s in range(options.splits)
    ]
    found = [attack(e) for e in experiments]
    notes = [f"Theory for the published method, `1 - (d / 2) (1 / n_private + 1 / n_public)`: {1 - 5 * 2 / 221:.4f}."]
    for name in (PUBLISHED, ALL):
        each = [np.median(scores(f, e.truth)[name]) for f, e in zip(found, experiments, strict=True)]
        notes.append(
            f"{name}: medians of the splits from {min(each):.4f} to {max(each):.4f}, mean {np.mean(each):.4f}, "
            f"median {np.median(each):.4f}."
        )
    report("Diabetes, ridge", experiments, *notes, found=found)


def classes(options):
    """Breast cancer: splits until there are enough records that leave a trace."""
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    for title, loss, below in (("logistic", "logistic", 0.0), ("squared-hinge SVM", "squared_hinge", 1.0)):
        count = -(-options.deletions // options.splits) if loss == "logistic" else len(x) // 2
        experiments = [
            prepare("", x, y, *halves(len(x), count, s), loss=loss, below=below) for s in range(options.splits)
        ]
        report(f"Breast cancer, {title}", experiments)


def images(options):
    """Digits of 8 by 8 pixels in [-1, 1]."""
    x, y = load_digits(return_X_y=True)
    x = x / 8 - 1
    parts = halves(len(x), options.deletions, 3)
    many = halves(len(x), 3 * options.deletions, 3)
    report("Digits, softmax", [prepare("", x, y, *parts, loss="softmax", outputs=10)])
    ridge = prepare("", x, np.eye(10)[y], *parts, loss="squared", outputs=10)
    report("Digits, ridge on ten indicators", [ridge])
    svm = {"loss": "squared_hinge", "outputs": 10, "below": 1.0}
    report("Digits, squared-hinge SVM, one against the rest", [prepare("", x, y, *many, **svm)])
    odd = y % 2
    report("Digits, odd or even, logistic", [prepare("", x, odd, *parts, loss="logistic")])
    report("Digits, odd or even, squared-hinge SVM", [prepare("", x, odd, *many, loss="squared_hinge", below=1.0)])


PARTS = {"income": income, "labels": labels, "diabetes": diabetes, "classes": classes, "images": images}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--deletions", type=int, default=200)
    parser.add_argument("--records", type=int, default=80_000, help="of the simulated table")
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    for part in options.parts:
        PARTS[part](options)


if __name__ == "__main__":
    main()
