"""HRec on tables: the record between two trained parameters, every improvement against the published method.

python -m benchmarks.deletion.hrec [income] [labels] [diabetes] [classes] [images] [features] [unpenalised] [tuned]
[svm]
python -m benchmarks.deletion.hrec survey --acs DIR
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from bayesrecon.datasets import acs_income
from benchmarks.deletion.experiment import halves, note_of, prepare, tuned
from benchmarks.deletion.fourier import Fourier
from benchmarks.deletion.guesses import attack, rows_of, scores
from benchmarks.deletion.page import ALL, PUBLISHED, STUDY, keep

RIDGE = ("ridge", "squared", 0.0)
LABELLED = (("logistic", "logistic", 0.0), ("squared-hinge SVM", "squared_hinge", 1.0))
"""Models of a number and of two classes: title, loss, and the penalty of the intercept."""

CHOSEN = "The penalty predicts a fifth of the private half best, of 1e-3, 1e-2, ... 1e4: {}."
PENALTIES = 10.0 ** np.arange(-3, 5)


def scaled(load):
    """A table of scikit-learn: standardised columns, and the response where it is a number."""
    x, y = load(return_X_y=True)
    return (x - x.mean(0)) / x.std(0), (y if y.dtype.kind == "i" else (y - y.mean()) / y.std())


def splits_of(x, loss, options):
    """Splits until there are enough records that leave a trace."""
    count = -(-options.deletions // options.splits) if loss == "logistic" else len(x) // 2
    return [halves(len(x), count, s) for s in range(options.splits)]


def report(title, experiments, *more, found=None):
    """Attack, and put the section on the page."""
    found = [attack(e) for e in experiments] if found is None else found
    table = rows_of(experiments, found)
    keep(title, [note_of(experiments) + ".", *more], table)
    for row in table:
        if row["method"] in (PUBLISHED, ALL) or ":" in row["method"]:
            print(title, row["method"], f"{row['median']:.4f}", row.get("above"), flush=True)


def simulated(records, rng):
    """Ten standardised covariates with correlation 0.5, and a response."""
    x = np.sqrt(0.5) * (rng.normal(size=(records, 1)) + rng.normal(size=(records, 10)))
    return x, x @ (0.3 * rng.normal(size=10)) + rng.normal(size=records)


def income(options):
    x, y = simulated(options.records, np.random.default_rng(0))
    parts = halves(len(x), 5 * options.deletions, 1)
    report("Simulated income, ridge", [prepare("", x, y, *parts, loss="squared")])


def labels(options):
    """Whether the income is above the mean, from a quarter of the records."""
    x, y = simulated(options.records // 4, np.random.default_rng(0))
    for title, loss, below in LABELLED:
        # Beyond the margin a squared hinge is flat: more deletions are needed for as many that leave a trace.
        private, public, rows = halves(len(x), options.deletions * (1 if below == 0 else 2), 1)
        one = prepare("", x, (y > 0).astype(int), private, public, rows, loss=loss, below=below)
        report(f"Simulated income, {title}", [one])


def of_diabetes(penalty, options):
    x, y = scaled(load_diabetes)
    splits = [halves(len(x), 221, 100 + s) for s in range(options.splits)]
    return [prepare("", x, y, *one, loss="squared", penalty=penalty) for one in splits]


def diabetes(options):
    experiments = of_diabetes(1e-6, options)
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
    x, y = scaled(load_breast_cancer)
    for title, loss, below in LABELLED:
        experiments = [prepare("", x, y, *one, loss=loss, below=below) for one in splits_of(x, loss, options)]
        report(f"Breast cancer, {title}", experiments)


def images(options):
    x, y = load_digits(return_X_y=True)
    x = x / 8 - 1
    parts = halves(len(x), options.deletions, 3)
    many = halves(len(x), 3 * options.deletions, 3)
    report("Digits, softmax", [prepare("", x, y, *parts, loss="softmax", outputs=10)])
    ridge = prepare("", x, np.eye(10)[y], *parts, loss="squared", outputs=10)
    report("Digits, ridge on ten indicators", [ridge])
    odd = y % 2
    report("Digits, odd or even, logistic", [prepare("", x, odd, *parts, loss="logistic")])
    report("Digits, odd or even, squared-hinge SVM", [prepare("", x, odd, *many, loss="squared_hinge", below=1.0)])


def svm(options):
    x, y = load_digits(return_X_y=True)
    many = halves(len(x), 3 * options.deletions, 3)
    one = prepare("", x / 8 - 1, y, *many, loss="squared_hinge", outputs=10, below=1.0)
    report("Digits, squared-hinge SVM, one against the rest", [one])


def features(options):
    """Over random Fourier features: simulated income, and breast cancer instead of a real survey."""
    rng = np.random.default_rng(4)
    x, y = simulated(options.records // 4, np.random.default_rng(0))
    phi = Fourier(x.shape[1], 100, 5, rng)
    for title, loss, below in (RIDGE, *LABELLED):
        parts = halves(len(x), options.deletions * (1 if below == 0 else 2), 1)
        target = y if loss == "squared" else (y > 0).astype(int)
        one = prepare("", x, target, *parts, loss=loss, below=below, phi=phi)
        report(f"Simulated income, {title} over 100 random Fourier features", [one])
    x, y = scaled(load_breast_cancer)
    phi = Fourier(x.shape[1], 100, 5, rng)
    for title, loss, below in LABELLED:
        some = [prepare("", x, y, *one, loss=loss, below=below, phi=phi) for one in splits_of(x, loss, options)]
        report(f"Breast cancer, {title} over 100 random Fourier features", some)


def unpenalised(options):
    """Least squares without a penalty, with more records than features and with fewer."""
    x, y = simulated(options.records, np.random.default_rng(0))
    parts = halves(len(x), 5 * options.deletions, 1)
    one = prepare("", x, y, *parts, loss="squared", penalty=0.0)
    report("Simulated income, least squares without a penalty", [one])
    x, y = scaled(load_diabetes)
    report("Diabetes, least squares without a penalty", of_diabetes(0.0, options))
    least = "Fewer records than features: of all parameters without an error on the private records the shortest."
    for width in (442, 2000):
        phi = Fourier(x.shape[1], width, 5, np.random.default_rng(4))
        one = prepare("", x, y, *halves(len(x), options.deletions, 1), loss="squared", penalty=0.0, phi=phi)
        report(f"Diabetes, least squares without a penalty over {width} random Fourier features", [one], least)


def chosen(title, x, y, parts, *, loss, below=0.0, outputs=1, phi=None):
    """A model whose penalty the private half chooses."""
    settings = {"loss": loss, "below": below, "outputs": outputs, "phi": phi}
    penalties = [tuned(x, y, private, PENALTIES, **settings) for private, _, _ in parts]
    some = [prepare("", x, y, *part, penalty=p, **settings) for part, p in zip(parts, penalties, strict=True)]
    report(title, some, CHOSEN.format(", ".join(f"{p:g}" for p in penalties)))


def by_the_private_half(options):
    """Penalties as they were published: chosen on the private half, and held fixed."""
    x, y = simulated(options.records // 4, np.random.default_rng(0))
    once = [halves(len(x), options.deletions, 1)]
    chosen("Simulated income, ridge, tuned", x, y, once, loss="squared")
    chosen("Simulated income, logistic, tuned", x, (y > 0).astype(int), once, loss="logistic")
    x, y = scaled(load_diabetes)
    parts = [halves(len(x), 221, 100 + s) for s in range(options.splits)]
    chosen("Diabetes, ridge, tuned", x, y, parts, loss="squared")
    x, y = scaled(load_breast_cancer)
    for title, loss, below in LABELLED:
        chosen(f"Breast cancer, {title}, tuned", x, y, splits_of(x, loss, options), loss=loss, below=below)
    x, y = load_digits(return_X_y=True)
    chosen("Digits, softmax, tuned", x / 8 - 1, y, [halves(len(x), options.deletions, 3)], loss="softmax", outputs=10)


def survey(options):
    """ACS income of three states: the income itself by ridge, and whether it is above 50,000 dollars."""
    if options.acs is None:
        return
    for state in ("NY", "CA", "TX"):
        people = acs_income(options.acs, state, threshold=None)
        some = np.random.default_rng(5).permutation(len(people.y))[: options.records]
        x, income_of = people.x[some].astype(float), people.y[some]
        x = (x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1.0)
        y, above = (income_of - income_of.mean()) / income_of.std(), (income_of > 50_000).astype(int)
        fourier = Fourier(x.shape[1], 100, 5, np.random.default_rng(4))
        for words, phi in (("", None), (" over 100 random Fourier features", fourier)):
            for title, loss, below in (RIDGE, *LABELLED):
                parts = [halves(len(x), options.deletions, 1)]
                target = y if loss == "squared" else above
                chosen(f"ACS income, {state}, {title}{words}", x, target, parts, loss=loss, below=below, phi=phi)


PARTS = {"income": income, "labels": labels, "diabetes": diabetes, "classes": classes, "images": images}
PARTS |= {"features": features, "unpenalised": unpenalised, "tuned": by_the_private_half, "svm": svm, "survey": survey}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--deletions", type=int, default=200)
    parser.add_argument("--records", type=int, default=80_000, help="of the simulated table")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--acs", type=Path, metavar="DIR", help="files of the American Community Survey")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}: {', '.join(PARTS)}")
    for part in options.parts or PARTS:
        PARTS[part](options)
    STUDY.write()


if __name__ == "__main__":
    main()
