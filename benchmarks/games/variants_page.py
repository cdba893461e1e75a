"""The page of the variants."""

from typing import Any

from bayesrecon.disclosure.robustness import reconstruction_bound
from benchmarks.study import table

INTRODUCTION = """# Variants of the deletion game

Made by `python -m benchmarks.games.variants`. These are variants that Gao et al. (2022) mention outside their tables.
Success is in %, with 95 % intervals. They are exact (Clopper-Pearson) if a round is one decision, and otherwise
intervals for means of bounded variables over rounds. Guessing has 50 % unless a section says otherwise.
"""
SECTIONS = {
    "label-only": (
        "Answers that are labels alone",
        "Logistic regression, half of the table private. *Exm* sees all confidences; by the *zero-one* loss most "
        "scores tie; *labels around the instance* asks for the labels of 300 points around each challenge.",
    ),
    "labels": (
        "Challenges of which labels alone are shown",
        "Two different labels, half of the table private, the other half public: *Del-Inf-Lbl* (`games.Lbl`) looks at "
        "what the models say of public records, all of it or the most likely class.",
    ),
    "added": (
        "Additions",
        "One of two records that the first model was not trained on is added, and the model is retrained.",
    ),
    "rounds": (
        "Several deletions between two looks",
        "Weak compliance; records of others are deleted one by one between the first look and the second. Least "
        "squares on diabetes, logistic regression on breast cancer.",
    ),
    "adaptive": (
        "An environment that has its own records deleted",
        "Weak compliance on iris. *Clears*: before the user's deletion it has its own records near the challenges "
        "deleted, by what the model answers; then it watches as the first row does.",
    ),
    "strong": (
        "The strong notion: was a record ever stored?",
        "Breast cancer. Who *watches* from before the deletion sees any move at all of the answer, that of a "
        "retraining with fresh noise included: no learner hides from it that something was deleted. Who *compares* "
        "looks after the deletion alone, and knows all other records. Exact retraining leaves nothing to compare.",
    ),
    "approximate": (
        "Approximate deletion: one step of Newton's method",
        "Logistic regression on breast cancer; the environment looks after the deletion alone, and knows all other "
        "records and the mechanism. The last number is the standard deviation of the noise that is added to the "
        "coefficients; later Newton steps, for other records, wipe out what the first one left.",
    ),
    "batch": (
        "Batches: 20 records deleted at once, against the number of records",
        "Digits of 8 by 8 pixels, a network with 32 hidden units (scikit-learn's, as it comes), 20 deleted and 20 kept "
        "records, all pairs compared; as many other records are the reductions' own. Published as a figure for "
        "CIFAR-10 and CIFAR-100 without numbers.",
    ),
    "membership": (
        "Membership attacks by themselves",
        "The same networks; 20 members and 20 others a round, each called in or out. Published on CIFAR-10 with 15,000 "
        "records: 74 (small network) and 88 (VGG-19).",
    ),
}

LIRA = """The published attack (online, 64 shadow models) and split: 40 % of a table are trained on, 40 % are the
attacker's, 20 % are held out. Half of the members and all that are held out are scored. An area of 0.5 is guessing;
true positives are in %, at false positive rates of 10 % and 1 %."""


def said(stated: Any) -> str:
    return "{:.1f} ({:.1f} to {:.1f})".format(*(100 * value for value in stated))


def found(kept: dict[str, Any], start: str) -> dict[str, Any]:
    return {name.partition(" | ")[2]: rows for name, rows in kept.items() if name.startswith(f"{start} | ")}


def page(kept: dict[str, Any]) -> str:
    lines = [INTRODUCTION]
    for start, (title, words) in SECTIONS.items():
        rows = [
            [which, one["name"], one["rounds"], said(one["stated"]), one["ties"]]
            for which, several in found(kept, start).items()
            for one in several
        ]
        lines += [f"## {title}", "", words, ""]
        lines += [table(("", "who", "rounds", "success", "ties"), rows, 2) if rows else "Not run yet.", ""]
    lines += ["## LiRA on linear models", "", LIRA, ""]
    rows = [
        [which, one["splits"], 2 * one["records"], "{:.3f} ({:.3f} to {:.3f})".format(*one["area"])]
        + [said(one[f"at {rate}"]) for rate in (0.1, 0.01)]
        for which, one in found(kept, "lira").items()
    ]
    head = ("", "splits", "records", "ROC area", "true positives at 10 %", "at 1 %")
    lines += [table(head, rows) if rows else "Not run yet.", ""]
    lines += ["## Memorisation", ""]
    lines += [
        "How much more often a record's label is right where it was trained on, standardised columns, the whole table"
    ]
    lines += ["but for what is left out. A fully grown tree or a near neighbour repeats what it was told.", ""]
    rows = [
        [which, one["records"], f"{one['mean']:.3f}", f"{one['largest']:.2f}", said(one["above"])]
        for which, one in found(kept, "memorisation").items()
    ]
    lines += [table(("", "records", "mean score", "largest", "above 0.5, %"), rows) if rows else "Not run yet.", ""]
    lines += ["## Reconstruction of one record from a private release, beside what epsilon allows", ""]
    lines += [
        "Breast cancer: 200 records known, and one of ten that are equally likely; the informed adversary takes the one"
    ]
    lines += [
        "with the largest exact density of what was released. 10 % is guessing. *Bound*: `reconstruction_bound`.",
        "",
    ]
    rows = [
        [which.partition(" | ")[0], f"{one['epsilon']:g}", one["rounds"], said(one["stated"]), f"{bound(one):.1f}"]
        for which, one in found(kept, "informed").items()
    ]
    lines += [table(("mechanism", "epsilon", "rounds", "right", "bound"), rows) if rows else "Not run yet.", ""]
    return "\n".join(lines)


def bound(one: dict[str, Any]) -> float:
    return 100 * reconstruction_bound(0.1, epsilon=one["epsilon"])
