"""Which pieces of Wynne (2025), and of work on what trained networks remember, rows reproduce, for the coverage page.

python -m benchmarks.draws.central_papers

Reads the kept rows of other programs, and measures nothing. Results go to benchmarks/central_papers.json.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from bayesrecon.evaluate import bootstrap, clopper_pearson
from benchmarks.draws.central import ORDER
from benchmarks.draws.central import STUDY as FIGURES
from benchmarks.draws.central_more import STUDY as MORE
from benchmarks.draws.central_more_page import some
from benchmarks.draws.objectives import STATISTICS
from benchmarks.games.variants import STUDY as VARIANTS
from benchmarks.games.variants_page import bound
from benchmarks.games.variants_page import found as variants_of
from benchmarks.paper_tags import CENTRAL, MEMORY, keep_tags, rate, tag
from benchmarks.study import HERE, Study

Tags = Iterator[dict[str, Any]]

MANY = "most of it is the sampling error of the 1,000 draws, which the default method has too"


def figures(kept: dict[str, Any]) -> Tags:
    """Figures 1 to 5: where each run ended, beside the truth, to which the published runs are said to go."""
    for position, name in sorted(zip(ORDER, range(5), strict=True)):
        statistic = kept["names"][name]
        truth = float(f"{kept['lines']['truth'][statistic]:.5g}")
        for run in kept["runs"]:
            cell, ours = f"{statistic}, M = {run['M']}", float(f"{run['found'][name]:.5g}")
            yield tag(CENTRAL, f"Figure {position + 1}", cell, ours, published=f"to the truth, {truth:g}", why=MANY)


def beside(kept: dict[str, Any]) -> Tags:
    for name, one in some(kept, "example").items():
        (n, se), which = one["recovered"]["n"], name.partition(" | ")[2]
        ends = (round(n - 1.96 * se, 3), round(n + 1.96 * se, 3))
        about = {"published": one["n"], "interval": ends}
        yield tag(CENTRAL, "Introduction", f"n of {which} on a line, from draws", round(n, 3), **about)
        cell = f"{which}: statistics that the trained line determines"
        yield tag(CENTRAL, "Introduction", cell, one["trained"], published=0)
    for name, one in some(kept, "moments").items():
        for statistic, (ours, se, truth) in one["rows"].items():
            about = {
                "published": f"revealed; {truth:.4g}",
                "interval": (round(ours - 1.96 * se, 4), round(ours + 1.96 * se, 4)),
            }
            yield tag(CENTRAL, f"Example {name.partition(' | ')[2]}", statistic, round(ours, 4), **about)
    for one in some(kept, "lemma").values():
        why = f"the sampling error of n from these draws is {100 * one['error']:.1f} %"
        for name, ours in one["ours"].items():
            about = {"published": f"agree; {one['truth'][name]:.5g}", "why": why}
            yield tag(CENTRAL, "Lemma 5.1", name, float(f"{ours:.5g}"), **about)
    for one in some(kept, "start").values():
        cell = f"100 records, weights at the start add up to {one['total']:,}: steps to within 1 %"
        about = {"published": "harder from far", "why": "starts above the truth are slower, one below is not"}
        ours = f"more than {one['steps']:,}" if one["within"] is None else one["within"]
        yield tag(CENTRAL, "Section 5: the start", cell, ours, **about)
    for one in some(kept, "coreset").values():
        for who in ("herding", "herding, best weights", "reconstructed"):
            cell = f"{one['size']} records, {who}: squared divergence left"
            yield tag(CENTRAL, "Related work: coresets", cell, f"{one[who]:.1e}", published="the same problem")
    for one in some(kept, "averages").values():
        model = f"network, {one['hidden']} hidden units" if one["hidden"] else "softmax regression"
        for row in one["rows"]:
            cell = f"digit {row['digit']}, {model}: correlation with the true average"
            ours = round(row["correlation"], 3) if "correlation" in row else "undetermined"
            yield tag(CENTRAL, "Motivation: averages of classes", cell, ours)


def future(variants: dict[str, Any]) -> Tags:
    for which, one in variants_of(variants, "informed").items():
        mechanism = which.partition(" | ")[0]
        cell = f"reconstruction beside its bound: {mechanism}, epsilon {one['epsilon']:g}"
        yield rate(
            CENTRAL, "Future work: differential privacy", cell, one["stated"], published=f"at most {bound(one):.1f}"
        )
    for row in json.loads((HERE / "objectives.json").read_text())["rows"]:
        for name, value in zip(STATISTICS, row["efficiency"], strict=True):
            cell = f"{row['objective']}: efficiency for {name}"
            yield tag(CENTRAL, "Future work: other objectives", cell, round(value, 3))

    for row in json.loads((HERE / "sanitise.json").read_text())["records"]["rows"]:
        cell = f"shift by one record, {row['share']:.0%} quantile: measured beside stated"
        about = {"published": round(row["stated"], 2)}
        yield tag(CENTRAL, "Future work: private sufficient statistics", cell, round(row["measured"], 2), **about)


def capacity(grid: list[dict[str, Any]]) -> Tags:
    """How many records a network of so many parameters gives away."""
    rows = [row for row in grid if row["pull"] == "start"]
    for parameters, n in sorted({(row["parameters"], row["n"]) for row in rows}):
        some = [row for row in rows if (row["parameters"], row["n"]) == (parameters, n)]
        cell = f"{parameters:,} parameters, {n:,} records: median share that came back, %"
        ours = round(100 * float(np.median([row["close"] for row in some])), 1)
        yield tag(CENTRAL, "Future work: complexity of the model against N", cell, ours)


def optimisers(kept: dict[str, Any]) -> Tags:
    """Steps of the published recipe until all statistics stay within 1 % of the minimiser, which is solved for here."""
    for run in kept["runs"]:
        cell = f"steps of descent instead of one solve, M = {run['M']}"
        ours, why = (run["stays"], "") if run["stays"] is not None else (f"more than {run['steps']:,}", "not reached")
        yield tag(CENTRAL, "Future work: better optimisation", cell, ours, why=why)


def remembered() -> Tags:
    """Networks whose training data are a solution of their stationarity: those in which every record came back."""
    grid: list[dict[str, Any]] = json.loads((HERE / "networks_grid.json").read_text())
    for pull, piece in (("start", "Penalty towards the start"), ("zero", "Weight decay")):
        for width, n in sorted({(row["width"], row["n"]) for row in grid if row["pull"] == pull}):
            rows = [row for row in grid if (row["pull"], row["width"], row["n"]) == (pull, width, n)]
            right = sum(row["close"] == 1.0 for row in rows)
            cell, stated = f"width {width}, {n} records: every record", clopper_pearson(right, len(rows))
            yield rate(MEMORY, piece, cell, stated, why="tanh networks on a square; images have rows of their own")

    images: list[dict[str, Any]] = json.loads((HERE / "networks_images.json").read_text())
    images = [row for row in images if "ssim" in row]
    for case in dict.fromkeys(row["case"] for row in images):
        found, null = (np.concatenate([row[k] for row in images if row["case"] == case]) for k in ("ssim", "null"))
        middle, *ends = (round(value, 3) for value in bootstrap(found))
        why = f"images that were not trained on: {np.median(null):.3f}"
        yield tag(MEMORY, "Images", f"{case}: median SSIM", middle, interval=ends, why=why)


def tags() -> list[dict[str, Any]]:
    figures_kept, grid = FIGURES.kept(), json.loads((HERE / "networks_grid.json").read_text())
    central = [*figures(figures_kept), *beside(MORE.kept()), *future(VARIANTS.kept())]
    return [*central, *capacity(grid), *optimisers(figures_kept), *remembered()]


STUDY = Study(__file__)


if __name__ == "__main__":
    keep_tags(STUDY, tags, __doc__)
