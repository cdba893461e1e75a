"""What Wynne (2025) and work on the memory of networks print, beside our rows: cells of benchmarks/PAPERS.md."""

from collections.abc import Iterator
from typing import Any

from benchmarks.draws.central import ORDER
from benchmarks.draws.central import STUDY as FIGURES
from benchmarks.draws.central_more import STUDY as MORE
from benchmarks.draws.central_more_page import some
from benchmarks.draws.theorems import STUDY as THEOREMS
from benchmarks.paper_cells import CENTRAL, MEMORY, Cell

EQUAL = "at most 0.000001"
WORDS = "said in words, without a figure; ours is on the page "
BESIDE = {
    "Section 5: the start": "harder from far", "Related work: coresets": "the same problem",
    "Motivation: averages of classes": "a picture",
}  # fmt: skip
FUTURE = {
    "differential privacy": "VARIANTS.md", "other objectives": "OBJECTIVES.md",
    "private sufficient statistics": "SANITISE.md", "complexity of the model against N": "NETWORKS.md",
    "better optimisation": "CENTRAL.md",
}  # fmt: skip


def figures(kept: dict[str, Any]) -> Iterator[Cell]:
    """Figures 1 to 5: where each run ended. The published runs are said to go to the truth."""
    for position, name in sorted(zip(ORDER, range(5), strict=True)):
        statistic = kept["names"][name]
        half = 1.96 * kept["errors"]["published minimiser"][statistic]
        for run in kept["runs"]:
            ours, truth = run["found"][name], f"{kept['lines']['truth'][statistic]:.5g}"
            yield Cell(CENTRAL, f"Figure {position + 1}", f"{statistic}, M = {run['M']}", truth, *_near(ours, half))


def _near(ours: float, half: float) -> tuple[float, list[float]]:
    return float(f"{ours:.5g}"), [float(f"{ours + sign * half:.5g}") for sign in (-1, 1)]


def beside(kept: dict[str, Any]) -> Iterator[Cell]:
    for name, one in some(kept, "example").items():
        (n, se), which = one["recovered"]["n"], name.partition(" | ")[2]
        yield Cell(CENTRAL, "Introduction", f"n of {which} on a line, from draws", str(one["n"]), *_near(n, 1.96 * se))
        cell = f"{which}: statistics that the trained line determines"
        yield Cell(CENTRAL, "Introduction", cell, "0", one["trained"])
    for name, one in some(kept, "moments").items():
        for statistic, (ours, se, truth) in one["rows"].items():
            piece = f"Example {name.partition(' | ')[2]}"
            yield Cell(CENTRAL, piece, f"{statistic}, revealed", f"{truth:.4g}", *_near(ours, 1.96 * se))
    for one in some(kept, "lemma").values():
        n, truth = one["ours"]["n"], one["truth"]
        yield Cell(CENTRAL, "Lemma 5.1", "n", f"{truth['n']:.0f}", *_near(n, 1.96 * one["error"] * n))
        for name in list(truth)[1:]:
            ours, off = float(f"{one['ours'][name]:.5g}"), one["ours"][name] / n / (truth[name] / truth["n"]) - 1
            why = f"n is {n / truth['n'] - 1:+.1%} off, within its sampling error; a record the sum is {off:+.1%} off"
            yield Cell(CENTRAL, "Lemma 5.1", name, f"{truth[name]:.0f}", ours, why=why)
    for piece, claim in BESIDE.items():
        yield Cell(CENTRAL, piece, claim, unlike=WORDS + "CENTRAL_MORE.md")
    for piece, page in FUTURE.items():
        yield Cell(CENTRAL, f"Future work: {piece}", "proposed", unlike=f"without a figure; ours is on the page {page}")


def theorems(kept: dict[str, Any]) -> Iterator[Cell]:
    for name in ("3.4", "4.3"):
        cell = f"largest relative difference of {', '.join(kept[name]['values'])}"
        yield Cell(CENTRAL, f"Theorem {name}", cell, EQUAL, float(f"{kept[name]['worst']:.2g}"))
    last = kept["A.2"]["rows"][-1]
    ratio, *ends = (round(value, 4) for value in last["ratio"])
    yield Cell(CENTRAL, "Lemma A.2", f"sliced over plain divergence, {last['slices']} normal slices", "1", ratio, ends)
    ours = float(f"{kept['informed']['median']:.2g}")
    why = "we solve the equations of the optimum; the packaged attack descends a gradient"
    yield Cell(MEMORY, "Informed adversary", "breast cancer: RMSE of 30 columns, median", "0.36", ours, why=why)


def remembered() -> Iterator[Cell]:
    """Networks whose training data are a solution of their stationarity."""
    for piece in ("Penalty towards the start", "Weight decay"):
        cell, unlike = (
            "records that come back",
            "tanh networks on a square in place of CIFAR-10; on the page NETWORKS.md",
        )
        yield Cell(MEMORY, piece, cell, unlike=unlike)
    unlike = "MNIST in place of CIFAR-10, and small networks; on the page NETWORKS.md"
    yield Cell(MEMORY, "Images", "SSIM of images that come back", "pictures", unlike=unlike)
    yield Cell(MEMORY, "Haim et al.: 500 images", "D-1000-1000-1", "pictures", lacks="CIFAR-10")


def cells() -> list[Cell]:
    found = [*figures(FIGURES.kept()), *beside(MORE.kept()), *theorems(THEOREMS.kept())]
    return [*found, *remembered()]
