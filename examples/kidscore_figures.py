"""Figures 1 to 5 of Wynne (2025) again: the published recipe, and beside it what `reconstruct` does by default.

Traces of the sum of the weights and of the weighted means and variances of mom_iq and kid_score, for several numbers
of records M, from the last 1000 reference draws of kidiq-kidscore_momiq. The data are read for the dashed lines only.

With all sizes, the published recipe's steps take half an hour or more on a processor. Needs POSTERIOR_DB_PATH.

    python examples/kidscore_figures.py --steps 300 --sizes 50 100
"""

import argparse
import sys
from pathlib import Path

import matplotlib

import bayesrecon
from bayesrecon.evaluate import true_statistics
from bayesrecon.models import find
from bayesrecon.plots import plot_traces
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.posteriors.database import open_database, read_data

SIZES = [50, 100, 200, 400, 800, 1600]
ORDER = [0, 1, 3, 2, 4]  # of n, means and variances among the figures: field by field


def run(release, attack, title):
    """One reconstruction, with the share done on a terminal and the outcome in a line."""

    def progress(label, share):
        if sys.stderr.isatty():
            print(f"\r{title}, M = {attack.n}: {label} {share:.0%}   ", end="", file=sys.stderr, flush=True)

    result = bayesrecon.reconstruct(release, attack=attack, progress=progress)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    found = ", ".join(f"{name} {value:.5g}" for name, value in result.statistics().items())
    print(
        f"{title}, M = {attack.n}: {result.seconds:.1f} s, relative gap {result.relative_gap:.1g}, {found}", flush=True
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=4000, help="steps of the published recipe")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of records")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for the picture")
    arguments = parser.parse_args()

    release = from_posteriordb("kidiq-kidscore_momiq", draws=1000)
    fast = {f"M = {m}": run(release, bayesrecon.WeightedRecords(n=m), "fast") for m in arguments.sizes}
    published = {
        f"M = {m}": run(release, bayesrecon.ScoreMatching(n=m, steps=arguments.steps), "published")
        for m in arguments.sizes
    }

    truth = true_statistics(release.model, find("kidscore_momiq").records(read_data(open_database(), "kidiq")))
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 15), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
    left, right = figure.subfigures(1, 2)
    columns = [part.subplots(5, 1) for part in (left, right)]
    for one, other in zip(*columns, strict=True):
        other.sharey(one)
    for part, axes, results, title in (
        (left, columns[0], published, f"the published recipe, {arguments.steps} steps"),
        (right, columns[1], fast, "reconstruct as it is by default"),
    ):
        plot_traces(results, truth, axes=axes[ORDER])
        for number, ax in enumerate(axes, start=1):
            ax.set_title(f"Figure {number}: {ax.get_title(loc='left')}", loc="left")
        seconds = sum(result.seconds for result in results.values())
        part.suptitle(f"{title} ({seconds:.0f} s)", weight="bold")
    path = arguments.out / "kidscore_figures.png"
    figure.savefig(path, dpi=100)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
