"""The page and the figure of measured success beside what epsilon allows."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study import table

FIGURE = "compliance.png"
ADVERSARIES = {"Del-Inf-Exm": "#0072B2", "Del-Inf-Ins": "#E69F00", "likelihood ratio": "#009E73"}
MECHANISMS = ("output perturbation", "objective perturbation", "posterior draw")
PLACES = ("worst case", "breast cancer")

INTRODUCTION = """# Compliance: learners that promise epsilon

Made by `python -m benchmarks.games.compliance`. The learner is a logistic regression that is epsilon-differentially
private under substitution of one record. One of two records is deleted, and the model is trained again with
independent noise. The two data sets on which the second model may have been trained differ in one record. So no
adversary names the deleted record with a probability above `e^epsilon / (1 + e^epsilon)`, an advantage of
`tanh(epsilon / 2)`. Success is in %, with 95 % Clopper-Pearson intervals for the stated number of rounds.

* **likelihood ratio**: an adversary that knows all other records and the released parameters, and uses the exact ratio
  of their densities. No adversary does better on average.
* **computed**: the success of the likelihood ratio on these data, computed instead of played, if S is the same in all
  rounds.
* **mechanism**: the largest success that the mechanism allows in this dimension, whatever the data. It is that of noise
  shifted by the full sensitivity, or `e^(epsilon/2) / (1 + e^(epsilon/2))` for a posterior draw. The gap between it and
  the bound is not the fault of an adversary.
* **epsilon >=**: the epsilon implied by the best of the three adversaries, at the lower end of an interval that is
  corrected for the choice (Bonferroni).
* **above**: the flag of `bayesrecon game`, raised if that lower end is above the bound.

All rows have the same seed. Rows of a table share their draws, so their errors are correlated.

*Worst case*: for the perturbations 1,998 equal records (penalty 0.01, two dimensions, no intercept), and two that they
outvote, which lean to either side; the minimiser moves by 0.73 of the sensitivity between both. For the posterior draw
two contradicting records beside three that say nothing, on a grid of two points. That reaches the most a posterior draw
admits; for the perturbations no data are known to be the worst, and these are the worst that were tried. *Breast
cancer*: pairs of the table at random, 31 dimensions with the intercept (penalty 0.01); the posterior draw has 2
dimensions, after a projection, and 21 points along each. Columns are standardised over the whole table, which both
worlds share: epsilon does not cover it.

![Success against epsilon](compliance.png)
"""
HEADINGS = ("epsilon", "bound", "advantage allowed", *ADVERSARIES, "computed", "mechanism", "best of 3", "epsilon >=")
HEADINGS += ("above",)


def page(kept: dict[str, Any]) -> str:
    lines = [INTRODUCTION]
    for place in PLACES:
        for mechanism in MECHANISMS:
            points = points_of(kept, place, mechanism)
            if points:
                lines += [f"## {place}: {mechanism} ({points[0][1]['rounds']:,} rounds a row)", ""]
                lines += [table(HEADINGS, [_row(*point) for point in points], words=0), ""]
    lines += ["## A tenth of the noise", ""]
    lines += ["Output perturbation at epsilon 1, worst case, with noise ten times too small (bound 73.1 %).", ""]
    rows = []
    for n, (best, success, lower, above) in kept.get("broken", {}).items():
        rows.append((n, best, _percent(success), _percent(lower), "yes" if above else "no"))
    return "\n".join([*lines, table(("rounds", "best of 3", "success", "lower end", "above"), rows, words=0), ""])


def points_of(kept: dict[str, Any], place: str, mechanism: str) -> list[tuple[float, dict[str, Any]]]:
    start = f"{place} | {mechanism} | "
    return sorted((float(key.removeprefix(start)), found) for key, found in kept.items() if key.startswith(start))


def _row(epsilon: float, found: dict[str, Any]) -> list[str]:
    cells = [f"{epsilon:g}", _percent(found["bound"]), f"{2 * found['bound'] - 1:.3f}"]
    for name in ADVERSARIES:
        p, low, high, ties = found["rows"][name]
        tied = f", ties {100 * ties / found['rounds']:.0f}" if ties else ""
        cells.append(f"{_percent(p)} ({_percent(low)} to {_percent(high)}{tied})")
    cells += ["" if found[k] is None else _percent(found[k]) for k in ("possible", "limit")]
    best, _, least = found["best"]
    return [*cells, best, f"{least:.2f}", "yes" if found["flagged"] else "no"]


def _percent(p: float) -> str:
    return f"{100 * p:.1f}"


def draw(kept: dict[str, Any], path: Path) -> None:
    """A panel a data set and mechanism: success of every adversary, the bound, and what the mechanism admits."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(11, 6.4), sharex=True, sharey=True, layout="constrained")
    curve = np.geomspace(0.2, 10, 100)
    for i, place in enumerate(PLACES):
        for j, mechanism in enumerate(MECHANISMS):
            ax, points = axes[i, j], points_of(kept, place, mechanism)
            ax.plot(curve, 1 / (1 + np.exp(-curve)), color="#D55E00", lw=1.5, label="bound")
            limits = [(epsilon, found["limit"]) for epsilon, found in points if found["limit"] is not None]
            if limits:
                ax.plot(*zip(*limits, strict=True), color="#8C8C8C", ls=":", label="the most the mechanism admits")
            for k, (name, colour) in enumerate(ADVERSARIES.items()):
                rates = np.array([found["rows"][name][:3] for _, found in points])
                x = np.array([epsilon for epsilon, _ in points]) * (1 + 0.06 * (k - 1))
                ends = np.abs(rates[:, 1:].T - rates[:, 0])
                ax.errorbar(x, rates[:, 0], ends, fmt="o", color=colour, ms=4, lw=1, capsize=2, label=name)
            ax.axhline(0.5, color="#8C8C8C", ls="--", lw=0.8)
            ax.set(xscale="log", ylim=(0.4, 1.01), xticks=[0.25, 0.5, 1, 2, 4, 8])
            ax.set_xticks([], minor=True)
            ax.set_xticklabels(["0.25", "0.5", "1", "2", "4", "8"])
            ax.set_title(f"{mechanism}, {place}", fontsize="medium")
            side = ax.secondary_yaxis("right", functions=(lambda p: 2 * p - 1, lambda a: (a + 1) / 2))
            if j == len(MECHANISMS) - 1:
                side.set_ylabel("advantage (bound: tanh(epsilon / 2))")
            else:
                side.set_yticklabels([])
        axes[i, 0].set_ylabel("names the deleted record")
    for ax in axes[1]:
        ax.set_xlabel("promised epsilon")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
