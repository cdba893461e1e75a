"""What Malekzadeh and Gunduz (2024) print, beside our classifiers: cells of benchmarks/PAPERS.md."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from bayesrecon.disclosure.output_numbers import softmax_bits
from bayesrecon.games.vicious import roc_area
from benchmarks.games.vicious import STUDY as TABLE
from benchmarks.games.vicious_more import STUDY as MORE
from benchmarks.games.vicious_more_page import of
from benchmarks.games.vicious_page import CLOTHES, HONEST, SCORES, interval
from benchmarks.games.vicious_page import VICIOUS as SIDE
from benchmarks.games.vicious_page import of as of_table
from benchmarks.paper_cells import VICIOUS, Cell

LOGITS = {
    "0/1": "- / - / - / 99.54",
    "1/1": "22.090 / .920 / 1.378 / 99.53",
    "3/1": "22.367 / .926 / 1.394 / 99.52",
    "5/1": "22.336 / .927 / 1.392 / 99.55",
    "1/0": "22.169 / .926 / 1.398 / 10",
}
SOFTMAX = {"1/1": "16.061 / .684 / 1.037 / 99.54", "5/1": "21.036 / .897 / 1.272 / 99.62"}
OTHERS = ("CIFAR-10", "CIFAR-100", "TinyImageNet", "CelebA")
RATIOS = {"0/1": ("honest", "0"), "1/1": ("vicious", "1"), "3/1": ("vicious", "3"), "5/1": ("vicious", "5")}
RATIOS |= {"1/0": ("vicious", "inf")}
LOSSES = {
    ("MSE", "3"): "19.39 / .67 / 1.15 / 34.37",
    ("MSE", "inf"): "24.34 / .80 / 1.87",
    ("Huber", "3"): "18.71 / .65 / 1.12 / 35.93",
    ("Huber", "inf"): "24.05 / .79 / 1.78",
    ("Huber and SSIM", "3"): "19.02 / .69 / 1.16 / 42.43",
    ("Huber and SSIM", "inf"): "23.17 / .90 / 1.80",
}
DELTAS = {
    "0.01": "17.553 / .652 / 1.110 / 44.19",
    "0.05": "17.844 / .647 / 1.112 / 44.06",
    "0.1": "18.227 / .660 / 1.128 / 43.53",
    "0.25": "18.672 / .678 / 1.146 / 41.28",
    "0.5": "18.974 / .693 / 1.164 / 42.17",
    "1": "19.030 / .689 / 1.163 / 42.74",
}
ATTRIBUTES = {
    1: ("13.40 / .5112 / 1.0027 / 89.05", "13.60 / .5231 / 1.0021 / 54.73"),
    2: ("13.68 / .5392 / 1.0089 / 88.55", "13.68 / .5292 / 1.0032 / 62.56"),
    3: ("14.17 / .5856 / 1.0248 / 91.98", "14.49 / .6002 / 1.0343 / 86.65"),
    4: ("14.58 / .6015 / 1.0321 / 88.77", "14.88 / .6232 / 1.0422 / 83.42"),
    5: ("14.72 / .6141 / 1.0370 / 87.85", "15.39 / .6543 / 1.0605 / 85.53"),
    6: ("15.14 / .6401 / 1.0530 / 87.60", "15.71 / .6739 / 1.0745 / 86.27"),
    8: ("15.61 / .6710 / 1.0695 / 86.71", "16.01 / .6938 / 1.0861 / 85.27"),
    10: ("15.83 / .6822 / 1.0768 / 86.25", "16.33 / .7083 / 1.0992 / 85.55"),
    15: ("16.72 / .7239 / 1.1118 / 81.98", "17.27 / .7507 / 1.1415 / 80.22"),
    20: ("17.35 / .7487 / 1.1415 / 82.03", "17.89 / .7736 / 1.1713 / 80.62"),
    30: ("18.37 / .7874 / 1.1932 / 85.18", "18.82 / .7994 / 1.2099 / 85.25"),
    40: ("19.13 / .8125 / 1.2358 / 88.09", "19.70 / .8388 / 1.2954 / 86.78"),
}
TASKS = "80.05 80.11 79.93; 87.64 87.54 85.34; 83.46 85.51 84.20; 89.63 89.53 89.54; 86.17 86.45 86.02; "
TASKS += "97.17 97.47 97.45; 91.82 92.22 92.00; 77.14 80.41 79.45; 92.25 92.92 93.38; 84.55 85.43 85.40"
BITS = {(10, 1): 16.50, (10, 2): 41.96, (10, 3): 71.29, (100, 2): 194.85, (200, 1): 54.97}
FEWER, DIGITS = "6,500 images to train on in place of 50,000, and no augmentation", "MNIST in place of"
WORDS = {
    "Figures 3 and 4": ("reconstructed images", "VICIOUS.md"), "Appendix C": ("entropy of outputs", "VICIOUS_MORE.md"),
    "Section 3": ("R of a segment", "VICIOUS_MORE.md"), "Section 4": ("sigmoids of attributes", "VICIOUS_MORE.md"),
    "Future work": ("curious classifiers, regression targets", "VICIOUS_MORE.md"),
}  # fmt: skip
FOUR = "PSNR / SSIM / R at 1.2e-4 / accuracy"
_cell = partial(Cell, VICIOUS)


def four(rows):
    """As the tables have them, with the interval of the PSNR over seeds where there are several."""
    cells = [interval([r["psnr"] for r in rows], ".2f"), interval([r["ssim"] for r in rows], ".3f")]
    cells.append(interval([r["risk"]["0.00012"] for r in rows], ".3f"))
    return " / ".join([*cells, interval([100 * r["accuracy"] for r in rows], ".1f")])


def table1(held: dict[str, Any], more: dict[str, Any]) -> Iterator[Cell]:
    for view, cells in (("logits", LOGITS), ("softmax", SOFTMAX)):
        for ratio, printed in cells.items():
            kind, weight = RATIOS[ratio]
            name = f"{kind} {weight} {view}"
            for title, rows, unlike in (
                ("perceptrons", of(held, name), f"perceptrons; {FEWER}"),
                ("WideResNet-28-5", of(more, f"wide {name}"), FEWER),
            ):
                if rows:
                    cell = f"MNIST, {view}, {ratio}, {title}, {len(rows)} seeds ({FOUR})"
                    yield _cell("Table 1", cell, printed, four(rows), unlike=unlike)
        for data in OTHERS:
            yield _cell("Table 1", f"{data}, {view}, {', '.join(cells)}", FOUR, lacks=data)
        for ratio in cells:
            kind, weight = RATIOS[ratio]
            rows = of(held, f"fashion {kind} {weight} {view}")
            cell = f"Fashion-MNIST, {view}, {ratio}, perceptrons, {len(rows)} seeds ({FOUR})"
            printed = CLOTHES[f"{kind} {weight} {view}"][1] or FOUR
            yield _cell("Table 1", cell, printed, four(rows), unlike=f"perceptrons; {FEWER}")


def other_tables(more: dict[str, Any]) -> Iterator[Cell]:
    """Tables of TinyImageNet and CelebA, with digits in their place."""
    for (loss, weight), printed in LOSSES.items():
        rows, cell = of(more, f"loss {loss} {weight}"), f"{loss}, ratio {weight} ({FOUR})"
        yield _cell("Table 3", cell, printed, four(rows), unlike=f"{DIGITS} TinyImageNet")
    for delta, printed in DELTAS.items():
        rows, cell = of(more, f"delta {delta} 3"), f"delta {delta} ({FOUR})"
        yield _cell("Table 4", cell, printed, four(rows), unlike=f"{DIGITS} TinyImageNet")
    for count, both in ATTRIBUTES.items():
        for weight, printed in zip("13", both, strict=True):
            rows, cell = of(more, f"attributes {count} {weight} logits"), f"{count} attributes, {weight}/1 ({FOUR})"
            yield _cell("Table 6", cell, printed, four(rows), unlike=f"{DIGITS} CelebA")
    tasks = [row for name, row in more.items() if name.startswith("tasks ")]
    for i, printed in enumerate(TASKS.split("; ")):
        ours = " ".join(interval([100 * r[k][i] for r in tasks], ".1f") for k in ("alone", "several"))
        cell = f"attribute {i + 1}: one network each, one for all"
        yield _cell("Table 7", cell, printed, ours, unlike=f"{DIGITS} CelebA; no ResNet-50")


def figures(held: dict[str, Any]) -> Iterator[Cell]:
    """What is published as a figure, a formula or in words."""
    for (classes, decimals), printed in BITS.items():
        ours = round(float(softmax_bits(classes, decimals)), 2)
        yield _cell("Equation 18", f"{classes} classes, {decimals} decimals: bits", f"{printed:.2f}", ours)
    honest, vicious = ([r["scores"] for r in of_table(held, *s) if "scores" in r] for s in (HONEST, SIDE))
    for key, title in SCORES.items():
        area = roc_area(*([s[key] for s in side] for side in (honest, vicious)))
        ours, ends = round(area.estimate, 3), [round(area.lower, 3), round(area.upper, 3)]
        unlike = "curves without figures; calibrated against honest models that stopped at other times"
        yield _cell("Figure 6", f"{title}: ROC area", "curves", ours, ends, unlike=unlike)
    for piece, (cell, page) in WORDS.items():
        yield _cell(piece, cell, unlike=f"images, words or a proposal, without a figure; ours is on the page {page}")


def cells() -> list[Cell]:
    held, more = TABLE.kept(), MORE.kept()
    return [*table1(held, more), *other_tables(more), *figures(held)]
