"""Do draws with an epsilon cover what they should, and what does each epsilon cost?

python -m benchmarks.draws.guarantee [--sets 200]

Rows go to benchmarks/guarantee.json, the page is benchmarks/GUARANTEE.md. A cell goes on where the last run ended.
"""

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesrecon
from bayesrecon.disclosure.sanitising.discrete_noise import discrete_gaussian
from bayesrecon.disclosure.sanitising.guaranteed import Promise, guaranteed
from bayesrecon.evaluate import clopper_pearson
from bayesrecon.model import Model
from bayesrecon.precision import x64
from benchmarks.study import Study

SIZES, EPSILONS, DELTA = (500, 2000, 10_000, 50_000), (0.5, 2.0, 10.0), 1e-6
DOMAIN = {"x": (-1.0, 1.0), "y": (-4.0, 4.0)}
DRAWS = 1000
LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: np.clip(rng.normal(0, 0.35, n), -1, 1),
    "three values": lambda rng, n: rng.choice([-0.75, -0.6, 0.9], n, p=[0.5, 0.4, 0.1]),
    "skewed": lambda rng, n: np.clip(rng.gamma(1, 0.25, n) - 0.9, -1, 1),
}


@cache
def line() -> Model:
    """A regression whose parameters are drawn from its own prior, so that coverage is that of a posterior."""

    def program(x: Any, y: Any = None) -> None:
        coef = numpyro.sample("coef", dist.Normal(0, 0.5).expand((2,)).to_event(1))
        sigma = numpyro.sample("sigma", dist.LogNormal(-0.7, 0.3))
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", dist.Normal(coef[0] + coef[1] * x, sigma), obs=y)

    return bayesrecon.models.from_numpyro(program, record={"x": (), "y": ()})


def one_set(seed: int, n: int, epsilon: float, law: str, skew: bool = False) -> tuple[list[bool], float, float]:
    """Whether the 95 % intervals hold the parameters, the slope's width, and that of the plain posterior.

    Args:
        skew: whether the response has the errors of a gamma distribution, and a range that holds 99 % of it.
    """
    rng = np.random.default_rng([seed, n, int(10 * epsilon), len(law)])
    coef, sigma = (np.array([0.0, 0.5]), 0.5) if skew else (rng.normal(0, 0.5, 2), rng.lognormal(-0.7, 0.3))
    x = LAWS[law](rng, n)
    errors = rng.gamma(1.0, 1.0, n) - 1 if skew else rng.normal(size=n)
    y = coef[0] + coef[1] * x + sigma * errors
    with x64():
        asked = Promise(epsilon, DELTA, {**DOMAIN, "y": (-2.0, 1.8)} if skew else DOMAIN)
        found = guaranteed(line(), {"x": x, "y": y}, asked, draws=DRAWS, noise=discrete_gaussian)
    assert found.release is not None
    theta = np.asarray(found.release.theta)
    low, high = np.quantile(theta, (0.025, 0.975), axis=0)
    truth = np.array([*coef, np.log(sigma)])
    return ((low <= truth) & (truth <= high)).tolist(), float(high[1] - low[1]), float(3.92 * sigma / x.std() / n**0.5)


def cell(rows: dict[str, Any], name: str, sets: int, run: Callable[[int], tuple[list[bool], float, float]]) -> None:
    """Add sets to a cell up to a number of them."""
    row = rows.setdefault(name, {"hits": [0, 0, 0], "sets": 0, "ratios": [], "seconds": 0.0})
    while row["sets"] < sets:
        start = time.process_time()
        hits, width, plain = run(row["sets"])
        row["hits"] = [a + b for a, b in zip(row["hits"], hits, strict=True)]
        row["ratios"].append(round(width / plain, 3))
        row["sets"] += 1
        row["seconds"] = round(row["seconds"] + time.process_time() - start, 2)
        if row["sets"] % 10 == 0:
            STUDY.keep(rows)


def line_of(name: str, row: dict[str, Any]) -> str:
    cover = [100 * hit / row["sets"] for hit in row["hits"]]
    range_ = clopper_pearson(row["hits"][1], row["sets"], level=0.99)
    shown = " | ".join(f"{c:.0f}" for c in cover)
    ends = f"{100 * range_.lower:.0f} to {100 * range_.upper:.0f}"
    return f"| {name} | {row['sets']} | {shown} | {ends} | {np.median(row['ratios']):.2f} |"


def page(rows: dict[str, Any]) -> str:
    cells = {name: row for name, row in rows.items() if row.get("sets")}
    head = "| cell | sets | intercept | slope | log sigma | 99 % interval, slope | width |\n" + "|---" * 7 + "|"
    main = {name: row for name, row in cells.items() if name.startswith("n ")}
    hits, sets = (sum(x) for x in zip(*((sum(r["hits"]), 3 * r["sets"]) for r in main.values()), strict=True))
    table = "\n".join(line_of(*item) for item in main.items())
    others = "\n".join(line_of(*item) for name, item in ((k, (k, v)) for k, v in cells.items()) if name not in main)
    is_measured = any(name.startswith("clipped") for name in cells)
    clipped = (
        "Where the\nresponse is clipped, errors are exponential, and the range cuts off the largest of them."
        if is_measured
        else "What\nhappens if it does not has not been measured yet (`python -m benchmarks.draws.guarantee`)."
    )
    return f"""# Draws with a guarantee

A regression with one covariate, its parameters drawn from its prior, delta {DELTA:g}, a record added or removed.
Coverage of 95 % intervals in per cent, and the median width of the slope's interval in widths of the plain posterior.

{head}
{table}

Together, {100 * hits / max(sets, 1):.1f} % of {sets} intervals hold their parameter.

![One posterior without a guarantee and three with one](guarantee.png)

## Other covariates, and a range that does not hold the response

The posterior presumes no law of the covariate. It does presume that the range holds the response. {clipped}

{head}
{others}
"""


def one_table() -> dict[str, list[float]]:
    """Quantiles of the slope in the plain posterior of one table, and in posteriors with a guarantee."""
    rng, n = np.random.default_rng(1), 5000
    x = LAWS["normal"](rng, n)
    y = 0.2 + 0.5 * x + 0.5 * rng.normal(size=n)
    design = np.column_stack([np.ones(n), x])
    fit, *_ = np.linalg.lstsq(design, y, rcond=None)
    plain = rng.normal(fit[1], 0.5 * np.linalg.inv(design.T @ design)[1, 1] ** 0.5, DRAWS)
    found = {"plain": plain}
    for epsilon in (10.0, 3.0, 1.0):
        with x64():
            safe = guaranteed(line(), {"x": x, "y": y}, Promise(epsilon, DELTA, DOMAIN), draws=DRAWS)
        assert safe.release is not None
        found[f"epsilon {epsilon:g}"] = np.asarray(safe.release.theta)[:, 1]
    levels = np.linspace(0.01, 0.99, 99)
    return {name: np.quantile(values, levels).round(5).tolist() for name, values in found.items()}


def draw(rows: dict[str, list[float]]) -> None:
    """The picture of `one_table`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from scipy.stats import gaussian_kde

    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    grid = np.linspace(min(rows["epsilon 1"]), max(rows["epsilon 1"]), 400)
    for name, values in rows.items():
        axes.plot(grid, gaussian_kde(values)(grid), label=name)
    axes.set(xlabel="slope", yticks=[], title="5,000 records: plain posterior, and posteriors with a guarantee")
    axes.legend(frameon=False)
    figure.savefig(STUDY.folder / "guarantee.png", dpi=150)
    plt.close(figure)


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("--sets", type=int, default=200)
    sets = STUDY.given(parser).sets
    rows = STUDY.kept()
    if "picture" not in rows:
        rows["picture"] = one_table()
    draw(rows["picture"])
    for law in ("three values", "skewed"):
        cell(rows, f"covariate: {law}, n 2000, epsilon 2", sets, lambda s, law=law: one_set(s, 2000, 2.0, law))
    for n in SIZES:
        for epsilon in EPSILONS:
            cell(rows, f"n {n}, epsilon {epsilon:g}", sets, lambda s, n=n, e=epsilon: one_set(s, n, e, "normal"))
    for n in (2000, 50_000):
        cell(rows, f"clipped response, n {n}, epsilon 10", sets, lambda s, n=n: one_set(s, n, 10.0, "normal", True))
    STUDY.keep(rows)


if __name__ == "__main__":
    main()
