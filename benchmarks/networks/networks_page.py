"""The page benchmarks/NETWORKS.md and its pictures, of the rows that three programs measured.

python -m benchmarks.networks.networks_page
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

from benchmarks.networks import networks_images, networks_penalty
from benchmarks.networks.networks_cases import CASES, SHAPE
from benchmarks.networks.networks_grid import SIZES, STUDY, WIDTHS
from benchmarks.networks.networks_penalty_page import picture, section
from benchmarks.study import HERE, share, table

PAGE = HERE / "NETWORKS.md"
SOLVED = 1e-9
TRAINED = 1e-6  # gradient of training above which a network is no trained one
PULLS = {"start": "towards the start, which the attack knows", "zero": "towards zero (weight decay)"}

INTRODUCTION = """# What networks of two and three layers give away

Made by `python -m benchmarks.networks.networks_grid`, `networks_images.py` and `networks_penalty.py`, from the rows in
the JSON files beside them. Records are reconstructed from trained networks and matched one to one with the private
records. The *null* is the same score against records that were not in the training set. Starting points, restarts,
stopping and penalties use no private record. Times are not compared, because the machine was busy.
"""

GRID = """## Records, width and the rank of the kernel

A tanh network classifies points of a square. There are two classes of N / 2 records, a summed logistic loss and the
penalty `0.05 |theta - centre|^2`. The attack knows N and places every record once, so there are 2 N unknowns. It finds
the sizes of the classes itself. Starting points are alternately random on the square and at the generic records whose
gradients cancel best.
*Rank* is the number of singular values of 600 generic records' gradients at theta* above 1e-3, 1e-6 and 1e-9 of the
largest (median over seeds, which share the network's start). *Solved* counts seeds in which some start ended with a
residual below 1e-9, or below ten times the gradient that training left where that is more; the others did not finish:
no start got there within its budget (at most 200 steps and 30 starts, fewer in dear cells), although the private
records solve the equations to the gradient that training left. *All right* counts seeds in which every record is
within 1e-3 of a private one. *Ratio* is the median matched distance over that of records that were not in the training
set: 1 is no reconstruction. Residual and ratio are medians over seeds."""

MARGIN = """

The setting of Haim et al. (2022) scaled down, from D-1000-1000-1 with 500 images to 64-32-32-1 with four, is the row
without weight decay: normalised gradient descent on the exponential loss in float64, 10,000 steps from a small start,
until only the direction of the parameters moves. There *gradient of training* is what the private records themselves
leave of `theta = sum lambda_n s_n grad f(theta, x_n)` with their best multipliers: in {kinks} of {networks} networks
more than 1e-3, because the largest margin lies where records sit on kinks of units, and no gradient on one side of a
kink satisfies the conditions. Where the attack's residual is below that, images that are not private meet it."""


def page():
    grid, images = STUDY.kept(), networks_images.STUDY.kept()
    parts = [INTRODUCTION]
    if grid:
        parts += [GRID, *_grid(grid), _verdict(grid)]
        _picture(grid, HERE / "networks-grid.png")
        caption = "Distance over its null, beside the rank over the unknowns; ratios below 1e-4 are drawn there"
        parts.append(f"![{caption}](networks-grid.png)")
    shown = [r for r in images if r["case"] != "penalty"]
    if shown:
        parts += ["## Images", _images(shown)]
        _mosaic(shown, HERE / "networks-images.png")
        parts.append("![Best, median and worst image of the median network of every kind](networks-images.png)")
    missing = [case.title for name, case in CASES.items() if name not in {r["case"] for r in shown} | {"narrow"}]
    if missing:
        parts.append("Not run: " + "; ".join(missing) + ".")
    penalties = [r for r in images if r["case"] == "penalty"]
    if penalties:
        parts += ["## Total variation where pixels are seen directly", _penalty(penalties)]
    hidden = networks_penalty.STUDY.kept()
    if hidden:
        parts.append(section(hidden))
        picture(hidden, HERE / "networks-penalty.png")
    return "\n\n".join(p.strip() for p in parts) + "\n"


def _solved(row):
    return row["residual"] < max(SOLVED, min(10 * row["stationary"], TRAINED))


def _cells(grid, pull):
    found = {}
    for row in grid:
        if row["pull"] == pull:
            found.setdefault((row["width"], row["n"]), []).append(row)
    return dict(sorted(found.items()))


def _grid(grid):
    head = ("width", "N", "seeds", "parameters", "rank at 1e-3, 1e-6, 1e-9", "unknowns", "solved", "all right")
    head += ("determined", "residual", "ratio", "gradient of training")
    for pull, title in PULLS.items():
        rows = []
        for (width, n), cell in _cells(grid, pull).items():
            ranks = np.median([r["ranks"] for r in cell], axis=0)
            cells = [width, n, len(cell), cell[0]["parameters"], ", ".join(f"{r:.0f}" for r in ranks), 2 * n]
            cells += [sum(map(_solved, cell)), sum(r["close"] == 1 for r in cell)]
            cells += [f"{sum(r['determined'] for r in cell)} of {n * len(cell)}"]
            cells += [f"{np.median([r['residual'] for r in cell]):.0e}"]
            cells += [f"{np.median([r['error'] / r['null'] for r in cell]):.2f}"]
            rows.append([*cells, f"{max(r['stationary'] for r in cell):.0e}"])
        if rows:
            yield f"### Penalty {title}"
            yield table(head, rows)


def _verdict(grid):
    trained = [r for r in grid if r["stationary"] <= TRAINED]
    enough = [r for r in trained if r["ranks"][1] >= r["unknowns"]]
    fewer = [r for r in trained if r["ranks"][1] < r["unknowns"]]
    lines = []
    for name, rows in (("at least as large as", enough), ("smaller than", fewer)):
        if rows:
            right = sum(r["close"] == 1 for r in rows)
            solved = sum(map(_solved, rows))
            ratio = np.median([r["error"] / r["null"] for r in rows])
            lines.append(
                f"* Rank at 1e-6 {name} the unknowns: {len(rows)} networks, {solved} solved, in {right} of them every "
                f"record right, median ratio {ratio:.2f}."
            )
    solved = [r for r in enough if _solved(r)]
    if solved:
        right = sum(r["close"] == 1 for r in solved)
        told = f"that were solved where the rank suffices, {right} have every record right"
        lines.append(f"* Of the {len(solved)} {told}.")
    agreed = [r for r in grid if r["determined"]]
    count, rate, ends = share([r["wrongly"] > 0 for r in agreed])
    fixed, wrong = (sum(r[key] for r in agreed) for key in ("determined", "wrongly"))
    lines.append(
        f"* Two starts agree on records that the equations fix in {count} of {len(grid)} networks: "
        f"{fixed} records, called determined. {wrong} of them are farther than 1e-3 from a private one: starts that "
        f"agree were wrong in {rate} of these networks ({ends})."
    )
    apart = [r for r in grid if r["solved"] > 1 and not r["determined"]]
    further, nothing = len(apart), sum(r["close"] == 0 for r in apart)
    lines.append(
        f"* In {further} further networks two or more starts have a residual below 1e-9, and agree on no record that "
        f"the equations fix. In {nothing} of these the best one has no record right."
    )
    certified = [r for r in grid if r["least"] > 0]
    lines.append(f"* In {len(certified)} networks a positive residual was certified for all data.")
    short = [r for r in grid if r["stationary"] > TRAINED]
    if short:
        names = sorted({f"width {r['width']}, N {r['n']}" for r in short})
        also = sum(r["least"] > 0 for r in short)
        lines.append(
            f"* Training stopped short of a stationary point in {len(short)} networks ({'; '.join(names)}; last "
            f"column), which are left out above: the private records do not solve their equations either, as was "
            f"certified in {also} of them."
        )
    lines.append("* A rank below the unknowns rules single records out: what solves the equations is not unique.")
    lines.append(f"* Rank at 1e-6 over unknowns, and networks that came back entirely: {_shares(trained)}.")
    lines.append(
        "* A rank above them is enough for small N. Further up, descents end elsewhere before the rank is reached, and "
        "it is they that end the reconstruction: the rank bounds from above what comes back."
    )
    open_cells = [
        f"width {width}, N {n}, towards {pull}"
        for pull in PULLS
        for (width, n), cell in _cells(grid, pull).items()
        if not any(_solved(r) or r["least"] > 0 for r in cell)
    ]
    if open_cells:
        lines.append(
            "* Cells that no seed finished, neither by a solution nor by a certificate that there is none: "
            + "; ".join(open_cells)
            + ". Rank and spectrum there need no descent and stand in the table."
        )
    wanted = [(pull, w, n) for pull in SIZES for w in WIDTHS[pull] for n in SIZES[pull]]
    absent = [c for c in wanted if c not in {(r["pull"], r["width"], r["n"]) for r in grid}]
    if absent:
        names = "; ".join(f"width {w}, N {n}, towards {pull}" for pull, w, n in absent)
        lines.append(f"* Not run: {names}.")
    return "### Does the rank predict where reconstruction ends?\n\n" + "\n".join(lines)


def _shares(rows):
    """How many networks came back, by the rank over the unknowns."""
    edges = (0, 1, 2, 5, np.inf)
    ratios = np.array([r["ranks"][1] / r["unknowns"] for r in rows])
    right = np.array([r["close"] == 1 for r in rows])
    shares = []
    for low, high in pairwise(edges):
        here = (ratios > low) & (ratios <= high)
        if here.any():
            name = f"above {low}" if np.isinf(high) else f"at most {high}" if not low else f"{low} to {high}"
            shares.append(f"{name}: {right[here].sum()} of {here.sum()}")
    return "; ".join(shares)


def _picture(grid, path):
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for ax, (pull, title) in zip(axes, PULLS.items(), strict=True):
        for width in sorted({r["width"] for r in grid if r["pull"] == pull}):
            rows = [r for r in grid if r["pull"] == pull and r["width"] == width]
            ratio = [max(r["error"] / r["null"], 1e-4) for r in rows]
            ax.scatter([r["ranks"][1] / r["unknowns"] for r in rows], ratio, s=18, label=f"width {width}", alpha=0.7)
        ax.axvline(1, color="0.6", lw=0.8)
        ax.axhline(1, color="0.6", lw=0.8)
        ax.set(xscale="log", yscale="log", xlabel="rank at 1e-6 over unknowns", ylabel="distance over its null")
        ax.set_xlim(0.03, 30)
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_title(f"penalty {title}", loc="left", fontsize=9)
        if ax.has_data():
            ax.legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _images(shown):
    head = ("network", "seed", "parameters", "unknowns", "equations", "gradient of training", "residual")
    head += ("median SSIM", "null", "largest of 20 nulls", "best", "worst", "median RMSE")
    rows = []
    for r in sorted(shown, key=lambda r: (list(CASES).index(r["case"]), r["seed"])):
        cells = [CASES[r["case"]].title, *(r[k] for k in ("seed", "parameters", "unknowns", "equations"))]
        cells += [f"{r[k]:.0e}" for k in ("stationary", "residual")]
        numbers = (np.median(r["ssim"]), np.median(r["null"]), max(r["null"]), max(r["ssim"]), min(r["ssim"]))
        rows.append([*cells, *(f"{v:.3f}" for v in (*numbers, np.median(r["rmse"])))])
    beyond = sum(np.median(r["ssim"]) > max(r["null"]) for r in shown)
    note = (
        "8 by 8 digits of scikit-learn, structural similarity of matched images; the null is the median over 20 sets "
        "of as many digits that were not in the training set. *Equations* are the independent ones at the solution. "
        f"The median image is above all 20 nulls in {beyond} of {len(shown)} networks, and not in the others."
    )
    relu = [r for r in shown if r["case"] == "relu"]
    if relu:
        note += (
            " The ReLU networks were trained with weight decay 0.01 by L-BFGS, which can end at a kink: there the "
            "gradient of training does not vanish. The attack knows neither the loss nor the decay "
            "(`models.from_margin`, slope smoothed at sharpness 30)."
        )
    margin = [r for r in shown if r["case"] == "margin"]
    if margin:
        kinks = sum(r["stationary"] > 1e-3 for r in margin)
        note += MARGIN.format(kinks=kinks, networks=len(margin))
    return "\n\n".join((note, _kinds(shown), table(head, rows)))


def _kinds(shown):
    head = ("network", "networks", "median SSIM", "null", "above the median null", "above all 20 nulls", "median RMSE")
    rows = []
    for name, own in _by_case(shown).items():
        values, nulls = [np.median(r["ssim"]) for r in own], [np.median(r["null"]) for r in own]
        above = sum(v > n for v, n in zip(values, nulls, strict=True))
        beyond = sum(v > max(r["null"]) for v, r in zip(values, own, strict=True))
        error = np.median([np.median(r["rmse"]) for r in own])
        numbers = (f"{np.median(values):.3f}", f"{np.median(nulls):.3f}", above, beyond, f"{error:.3f}")
        rows.append((CASES[name].title, len(own), *numbers))
    return table(head, rows)


def _by_case(shown):
    return {name: own for name in CASES if (own := [r for r in shown if r["case"] == name])}


def _mosaic(shown, path):
    """Of every kind of network the one of median similarity."""
    ordered = {name: sorted(own, key=lambda r: np.median(r["ssim"])) for name, own in _by_case(shown).items()}
    last = {name: own[len(own) // 2] for name, own in ordered.items()}
    figure, axes = plt.subplots(len(last), 6, figsize=(7.5, 1.7 * len(last)), layout="constrained", squeeze=False)
    for line, (name, row) in zip(axes, last.items(), strict=True):
        order = np.argsort(row["ssim"])[::-1]
        for i, (which, at) in enumerate(zip(("best", "median", "worst"), (0, len(order) // 2, -1), strict=True)):
            for j, kind in enumerate(("private", "guess")):
                ax = line[2 * i + j]
                ax.imshow(np.reshape(row[kind][order[at]], SHAPE), cmap="gray", vmin=0, vmax=1)
                ax.set(xticks=[], yticks=[])
                ax.set_title(which if not j else f"SSIM {row['ssim'][order[at]]:.2f}", fontsize=8)
        line[0].set_ylabel(name, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _penalty(penalties):
    head = ("seed", "strength", "residual left out", "residual", "median SSIM", "null", "median RMSE", "chosen")
    rows, gains = [], []
    for one in sorted(penalties, key=lambda r: r["seed"]):
        best = min(one["rows"], key=lambda r: r["held"])
        gains.append(np.median(best["ssim"]) - np.median(one["rows"][0]["ssim"]))
        for r in one["rows"]:
            values = (f"{r['held']:.1e}", f"{r['residual']:.0e}", f"{np.median(r['ssim']):.3f}")
            values += (f"{np.median(r['null']):.3f}", f"{np.median(r['rmse']):.3f}", "yes" if r is best else "")
            rows.append((one["seed"], f"{r['strength']:g}", *values))
    changes = ", ".join(f"{g:+.3f}" for g in gains)
    equations, unknowns = penalties[0]["rows"][0]["equations"], penalties[0]["rows"][0]["unknowns"]
    return (
        f"{CASES['narrow'].title}: {equations} independent equations for {unknowns} unknowns of six digits. The "
        "strength is the one that leaves the least of a fifth of the equations that the descent did not see; one start "
        f"each of 60 steps. With it the median similarity changes by {changes} (one number per seed): this penalty "
        "does not improve these images. The strongest has a lower root mean squared error than none, and a lower "
        "similarity.\n\n" + table(head, rows)
    )


if __name__ == "__main__":
    PAGE.write_text(page())
