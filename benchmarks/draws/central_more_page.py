"""The page of what is said beside the figures of the central paper."""

from typing import Any

from benchmarks.study import table

INTRODUCTION = """# Beside the published figures

Made by `python -m benchmarks.draws.central_more`. This page reproduces results of G. Wynne (2025) outside its figures.
The figures are on [another page](CENTRAL.md).
"""
EXAMPLE = """## Two points on a line

A straight line with noise of variance one. Its least-squares fit is the same for (0, 0) and (1, 1) as for any points on
that line; 4,000 exact draws of the posterior are not. *Of the trained line*: how many statistics it determines.
"""
MOMENTS = """## What posteriors reveal

*Example 3.2*: the mean of a normal law; *example 3.3*: regression on 1, x and x^2; 50 records and 4,000 exact draws,
statistics as `recover` has them. *Lemma 5.1*: totals of 50 pseudo-records from 1,000 draws of `kidiq-kidscore_momiq`;
the draws' own error in n is {error:.1%}.
"""
START = """## How far the start is

The published recipe with 100 records, rate 0.01 in place of 0.001, and the same records at the start; their weights
are equal and add up to the number in the first column. *Within 1 %*: the first step at which all five statistics are
within 1 % of the minimiser's, whose weights add up to {n:.0f}; *stay*: the step from which they did not leave again.
*A record*: how far each weight has to go. Starts above the truth take longer the farther they are, which the paper
remarks; one below did not. [The figures](CENTRAL.md) change the number of records with the start: with more of them
each weight has less far to go.
"""
CORESET = """## Coresets are the same problem

`kidiq-kidscore_momiq`, 434 records: what is left of the squared divergence, 1 for no data at all. *Herding* chooses
private records with equal weights (coreax's `KernelHerding`, with the kernel of the scores); with *best weights* the
same records are weighted by least squares. *Random* records have equal weights. *Reconstructed* records come from the
draws alone, whose own error is all that is left: the private data are not seen.
"""
AVERAGES = """## Averages of classes as images

Digits 0 and 1 of 4 by 4 pixels, 120 records, 2,000 draws of a posterior (NUTS, one chain); `recover` with the total of
each pixel over each class. *Correlation*: of what the class's average has beyond that of all images, ours with the true
one. *Null*: the average of all images in its place.
"""


def some(kept: dict[str, Any], start: str) -> dict[str, Any]:
    return {name: rows for name, rows in kept.items() if name.startswith(f"{start} | ")}


def steps(value: int | None) -> str:
    return "not yet" if value is None else f"{value:,}"


def page(kept: dict[str, Any]) -> str:
    lines = [INTRODUCTION, EXAMPLE]
    rows = []
    for name, one in some(kept, "example").items():
        points = "; ".join(f"({x:.3f}, {y:.3f})" for x, y in zip(one["records"]["x"], one["records"]["y"], strict=True))
        rows.append([name.partition(" | ")[2], one["n"], shown(one["recovered"]["n"]), points, one["trained"]])
    head = ("data", "records", "n from draws", "records from draws", "of the trained line")
    lines += [table(head, rows) if rows else "Not run yet.", ""]
    held = [one["error"] for one in some(kept, "lemma").values()]
    lines += [MOMENTS.format(error=held[0]) if held else MOMENTS.replace("is {error:.1%}", "has not been measured yet")]
    rows = [
        [f"Example {name.partition(' | ')[2]}", statistic, shown([ours, se]), f"{truth:.4g}"]
        for name, one in some(kept, "moments").items()
        for statistic, (ours, se, truth) in one["rows"].items()
    ]
    rows += [
        ["Lemma 5.1", name, f"{ours:.5g}", f"{one['truth'][name]:.5g}"]
        for one in some(kept, "lemma").values()
        for name, ours in one["ours"].items()
    ]
    lines += [table(("", "statistic", "ours", "private data"), rows, 2) if rows else "Not run yet.", ""]
    started = sorted(some(kept, "start").values(), key=lambda one: one["total"])
    lines += [START.format(n=next((one["n"] for one in started), 434))]
    rows = [
        [
            f"{one['total']:,}",
            f"{abs(one['n'] - one['total']) / 100:.2f}",
            f"{one['steps']:,}",
            steps(one["within"]),
            steps(one["stays"]),
        ]
        for one in started
    ]
    lines += [
        table(("weights at the start", "a record", "steps", "within 1 %", "stay"), rows) if rows else "Not run yet.",
        "",
    ]
    lines += [CORESET]
    names = ("herding", "herding, best weights", "random records", "reconstructed")
    rows = [[one["size"], one["rank"], *(f"{one[k]:.1e}" for k in names)] for one in some(kept, "coreset").values()]
    lines += [table(("records", "rank", *names), rows) if rows else "Not run yet.", "", AVERAGES]
    rows = [
        [
            f"{one['hidden']} hidden units" if one["hidden"] else "softmax regression",
            row["digit"],
            row["n"],
            f"{sum(said != 'undetermined' for said in row['verdicts'])} of {len(row['verdicts'])}",
            *(f"{row[k]:.3f}" if k in row else "" for k in ("correlation", "rmse", "null")),
        ]
        for one in some(kept, "averages").values()
        for row in one["rows"]
    ]
    head = ("model", "digit", "records", "totals that are told", "correlation", "RMSE", "null")
    return "\n".join([*lines, table(head, rows) if rows else "Not run yet.", ""])


def shown(pair: list[float]) -> str:
    return f"{pair[0]:.2f} ± {pair[1]:.2f}"
