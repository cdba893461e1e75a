"""Figures 1 to 5 of Wynne (2025) again: the published recipe, its own minimiser, the default's answer and the truth.

python -m benchmarks.draws.central [--sizes 50 100 ...] [--steps 150000] [--runs FOLDER]

Runs are checkpoints in a folder: stopped, they go on from there, and with `--steps 1` what they hold is drawn. The data
are read for the dashed lines only. Needs POSTERIOR_DB_PATH.
"""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import bayesrecon
from bayesrecon import Metric, ScoreMatching
from bayesrecon.plots import plot_traces
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.results import Reconstruction
from bayesrecon.types import Release
from benchmarks.references import reference
from benchmarks.study import HERE, Study, table

PICTURE = HERE / "central.png"
SIZES = (50, 100, 200, 400, 800, 1600)
PUBLISHED = Metric("identity", "constrained")
METRICS = {
    "covariance of the draws (the default)": Metric(),
    "identity in (beta, sigma) (published)": PUBLISHED,
    "identity in (beta, log sigma)": Metric("identity", "unconstrained"),
}
ORDER = (0, 1, 3, 2, 4)  # of n, means and variances among the figures: field by field
SHOWN = ((-0.2, 1.9), (-0.3, 1.6), (-0.5, 3.0), (-0.3, 1.6), (-0.5, 3.0))  # of the truth: what a panel shows
CLOSE = 0.01

WORDS = """# The published figures

Made by `python -m benchmarks.draws.central`. This page reproduces Figures 1 to 5 of G. Wynne, *On Reconstructing
Training Data From Bayesian Posteriors and Trained Models* (2025), with the published recipe. The recipe is
`ScoreMatching` with the last 1,000 reference draws of `kidiq-kidscore_momiq`, ten new normal slices per step, Adam with
rate 0.001, and free weights that start at one.

The published objective's own minimiser is off by {off:+.1%} in n, {off_sd:.1f} of its standard errors, and
{off_var:+.1%} in var(mom_iq). Of the error in n these 1,000 draws are the greater part: the default's answer from
the same draws is off by {off_default:+.1%} ({off_default_sd:.1f} standard errors). What the metric costs shows in
the variances ({off_var_default:+.1%} by default): for var(mom_iq) the efficiency is {published:.2f} in (beta,
sigma) and {logarithmic:.3f} in (beta, log sigma), against {default:.2f} in the metric of the draws' covariance.

![Traces of the five statistics](central.png)

*Dotted: the minimiser of the published objective, in closed form. Dash-dotted: `recover` as it is by default, from
the same draws. Dashed: the truth. On their way the free weights add up to nothing or less: means and variances
leave the panels there.*

{lines}

## Where the runs were stopped

*Gap*: of the objective over its least value over all signed measures, relative to what can be gained over the
empty measure. *Within 1 %*: the first step at which all five statistics are within 1 % of the minimiser's; with a
constant rate and fresh slices they go on wandering around it, so that they can leave again (*stay*: the step from
which they did not). What was found is the best iterate's. A step costs about as much with 1,600 records as with
50, since the rank is finite.

{runs}

## What the metric costs

All 10,000 reference draws. Efficiency is the variance at the Cramér-Rao floor over the estimator's.

{metrics}
"""


def settled(result: Reconstruction, goal: dict[str, float]) -> tuple[int | None, int | None]:
    """The first step at which every statistic is close to the goal, and that from which they stay; None for never."""
    trace = np.array(result.trace)
    names = result.columns[4:]
    near = (np.abs(trace[:, 4:] / np.array([goal[name] for name in names]) - 1) <= CLOSE).all(axis=1)
    first = int(trace[np.argmax(near), 0]) if near.any() else None
    apart = np.flatnonzero(~near)
    after = apart[-1] + 1 if len(apart) else 0
    return first, int(trace[after, 0]) if after < len(trace) else None


def draw(results: dict[str, Reconstruction], lines: dict[str, dict[str, float]]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(5, 1, figsize=(9, 14), layout="constrained", sharex=True)
    plot_traces(results, lines["truth"], axes=axes[list(ORDER)])
    names = next(iter(results.values())).columns[4:]
    for position, name in zip(ORDER, names, strict=True):
        ax = axes[position]
        for which, style in (("published minimiser", ":"), ("default", "-.")):
            ax.axhline(lines[which][name], color="black", lw=1.3, ls=style, label=which, zorder=3)
        ax.set_title(f"Figure {position + 1}: {name}", loc="left")
        low, high = SHOWN[position]
        ax.set_yscale("linear")
        ax.set_ylim(low * lines["truth"][name], high * lines["truth"][name])
        if (legend := ax.get_legend()) is not None:
            legend.remove()
    for ax in axes[:-1]:
        ax.set_xlabel("")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False)
    figure.savefig(PICTURE, dpi=90)


def measure(release: Release, sizes: list[int], steps: int, folder: Path) -> tuple[dict[str, Any], Any, Any]:
    whole, _, truth = reference("kidiq-kidscore_momiq")
    asked = {"published minimiser": PUBLISHED, "default": Metric()}
    answers = {k: {r.name: r for r in bayesrecon.recover(release, metric=e)} for k, e in asked.items()}
    lines = {k: {name: row.estimate for name, row in v.items()} for k, v in answers.items()}
    results, runs = {}, []
    names = None
    for m in sizes:
        path = folder / f"{m}.npz"
        if steps == 1 and not path.exists():
            continue
        found = bayesrecon.reconstruct(release, attack=ScoreMatching(n=m, steps=steps, checkpoint=path))
        names = list(found.columns[4:])
        results[f"M = {m}"] = found
        kept = found.statistics()
        first, stays = settled(found, lines["published minimiser"])
        run = {"M": m, "steps": int(found.trace[-1][0]), "gap": found.relative_gap, "within": first, "stays": stays}
        runs.append(run | {"found": [kept[name] for name in names]})
        print(runs[-1], flush=True)
    assert names is not None, "no run: name sizes, or a folder that holds checkpoints"
    lines = {k: {n: v[n] for n in names} for k, v in {**lines, "truth": truth}.items()}
    metrics = {
        label: {r.name: (r.floor / r.se) ** 2 for r in bayesrecon.recover(whole, metric=e) if r.name in names}
        for label, e in METRICS.items()
    }
    errors = {k: {n: v[n].se for n in names} for k, v in answers.items()}
    return {"names": names, "lines": lines, "errors": errors, "runs": runs, "metrics": metrics}, results, lines


def page(held: dict[str, Any]) -> str:
    names, lines, errors, metrics = (held[key] for key in ("names", "lines", "errors", "metrics"))
    truth = lines["truth"]
    default, published, logarithmic = (m["var(mom_iq)"] for m in metrics.values())
    head = ["M", "steps", "relative gap", "within 1 %", "stay", *names]
    rows = []
    for r in held["runs"]:
        reached = ("not yet" if r[k] is None else f"{r[k]:,}" for k in ("within", "stays"))
        rows.append([r["M"], f"{r['steps']:,}", f"{r['gap']:.1g}", *reached, *(f"{v:.5g}" for v in r["found"])])

    def off(which: str, name: str) -> float:
        return lines[which][name] - truth[name]

    def cell(which: str, name: str) -> str:
        return f"{lines[which][name]:.5g}" + (f" ± {errors[which][name]:.2g}" if which in errors else "")

    own, other = "published minimiser", "default"
    return WORDS.format(
        off=off(own, "n") / truth["n"], off_sd=off(own, "n") / errors[own]["n"],
        off_default=off(other, "n") / truth["n"], off_default_sd=off(other, "n") / errors[other]["n"],
        off_var=off(own, "var(mom_iq)") / truth["var(mom_iq)"],
        off_var_default=off(other, "var(mom_iq)") / truth["var(mom_iq)"], default=default, published=published,
        logarithmic=logarithmic, lines=table(["", *names], [[k, *(cell(k, n) for n in names)] for k in lines]),
        runs=table(head, rows),
        metrics=table(["metric", *names], [[k, *(f"{v[n]:.3f}" for n in names)] for k, v in metrics.items()]),
    )  # fmt: skip


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of records")
    parser.add_argument("--steps", type=int, default=150_000, help="steps of the recipe; 1 draws what the runs hold")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of checkpoints")
    given = STUDY.given(parser)
    matplotlib.use("Agg")
    given.runs.mkdir(parents=True, exist_ok=True)
    release = from_posteriordb("kidiq-kidscore_momiq", draws=1000)
    held, results, lines = measure(release, given.sizes, given.steps, given.runs)
    STUDY.keep(held)
    draw(results, lines)


if __name__ == "__main__":
    main()
