"""Do draws with an epsilon cover what they should, and what does each epsilon cost?

python -m benchmarks.draws.guarantee [--sets 200]

Rows go to benchmarks/guarantee.json, the page is benchmarks/GUARANTEE.md. A cell goes on where the last run ended.
"""

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, init_to_median

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
BESIDE = 20  # sets that other methods see, one of which takes NUTS of five latent totals
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


def records_of(
    seed: int, n: int, epsilon: float, law: str, skew: bool = False
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """Coefficients and residual scale of a set, its covariate and its response."""
    rng = np.random.default_rng([seed, n, int(10 * epsilon), len(law)])
    coef, sigma = (np.array([0.0, 0.5]), 0.5) if skew else (rng.normal(0, 0.5, 2), rng.lognormal(-0.7, 0.3))
    x = LAWS[law](rng, n)
    errors = rng.gamma(1.0, 1.0, n) - 1 if skew else rng.normal(size=n)
    return coef, sigma, x, coef[0] + coef[1] * x + sigma * errors


def one_set(seed: int, n: int, epsilon: float, law: str, skew: bool = False) -> tuple[list[bool], float, float]:
    """Whether the 95 % intervals hold the parameters, the slope's width, and that of the plain posterior.

    Args:
        skew: whether the response has the errors of a gamma distribution, and a range that holds 99 % of it.
    """
    coef, sigma, x, y = records_of(seed, n, epsilon, law, skew)
    with x64():
        asked = Promise(epsilon, DELTA, {**DOMAIN, "y": (-2.0, 1.8)} if skew else DOMAIN)
        found = guaranteed(line(), {"x": x, "y": y}, asked, draws=DRAWS, noise=discrete_gaussian)
    assert found.release is not None
    theta = np.asarray(found.release.theta)
    low, high = np.quantile(theta, (0.025, 0.975), axis=0)
    truth = np.array([*coef, np.log(sigma)])
    return ((low <= truth) & (truth <= high)).tolist(), float(high[1] - low[1]), float(3.92 * sigma / x.std() / n**0.5)


def beside(seed: int, n: int, epsilon: float) -> dict[str, tuple[float, float, float]]:
    """By method: error of the slope, and the ends of its 95 % interval less the true slope. n is public."""
    coef, _, x, y = records_of(seed, n, epsilon, "normal")
    rng = np.random.default_rng([seed, n, int(10 * epsilon), 1])
    with x64():
        asked = Promise(epsilon, DELTA, DOMAIN, replace=True)
        found = guaranteed(line(), {"x": x, "y": y}, asked, draws=DRAWS, noise=discrete_gaussian)
        assert found.release is not None
        known = totals_with_noise(x, y, epsilon, rng)
    slopes = {"ours": np.asarray(found.release.theta)[:, 1], "totals with Laplace noise": known}
    rows = {k: (float(v.mean()), *np.quantile(v, (0.025, 0.975)).tolist()) for k, v in slopes.items()}
    rows |= {"noisy ratio": (noisy_ratio(x, y, epsilon, rng), np.nan, np.nan)}
    return {name: tuple(float(value - coef[1]) for value in row) for name, row in rows.items()}


def noisy_ratio(x: np.ndarray, y: np.ndarray, epsilon: float, rng: np.random.Generator) -> float:
    """The slope of Alabi et al. (2022), NoisyStats: a noisy covariance by a noisy variance, each with epsilon / 3.

    Fields are scaled to [0, 1]. There both sums of products move by at most 1 - 1/n if a record is replaced. With a
    noisy variance that is not positive the method gives no slope, and zero stands for it.
    """
    (low_x, high_x), (low_y, high_y) = DOMAIN["x"], DOMAIN["y"]
    u, v = (x - low_x) / (high_x - low_x), (np.clip(y, low_y, high_y) - low_y) / (high_y - low_y)
    scale = 3 * (1 - 1 / len(x)) / epsilon
    covariance = (u - u.mean()) @ (v - v.mean()) + rng.laplace(0, scale)
    variance = (u - u.mean()) @ (u - u.mean()) + rng.laplace(0, scale)
    return covariance / variance * (high_y - low_y) / (high_x - low_x) if variance > 0 else 0.0


def totals_with_noise(x: np.ndarray, y: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Slopes from the posterior of Bernstein and Sheldon (2019), which knows the noise of totals.

    Totals of x, y, x^2, x y and y^2 have Laplace noise. They are normal given the parameters, with the fourth moments
    of a normal covariate. Fields are scaled to [-1, 1], where the totals move by at most 8 together if a record is
    replaced. Theirs is a Gibbs sampler; here it is NUTS.
    """
    half = DOMAIN["y"][1]
    u = np.stack([x, np.clip(y, -half, half) / half])
    pairs = np.triu_indices(2)
    totals = np.concatenate([u.sum(axis=1), (u[:, None] * u[None]).sum(axis=2)[pairs]])
    noisy = totals + rng.laplace(0, 8 / epsilon, len(totals))
    run = sampler()
    run.run(jax.random.key(int(rng.integers(2**31))), jnp.asarray(noisy), jnp.asarray(float(len(x))), 8 / epsilon)
    return np.asarray(run.get_samples()["coef"])[:, 1]


@cache
def sampler() -> MCMC:
    """NUTS of the posterior of `totals_with_noise`, compiled once."""
    index = [(0,), (1,), (0, 0), (0, 1), (1, 1)]

    def program(noisy: Any, n: Any, scale: Any) -> None:
        coef = numpyro.sample("coef", dist.Normal(0, 0.5).expand((2,)).to_event(1))
        sigma = numpyro.sample("sigma", dist.LogNormal(-0.7, 0.3))
        centre, spread = numpyro.sample("mu", dist.Normal(0, 0.5)), numpyro.sample("tau", dist.HalfNormal(1))
        half = DOMAIN["y"][1]
        mean = jnp.stack([centre, (coef[0] + coef[1] * centre) / half])
        slope = jnp.stack([jnp.ones(()), coef[1] / half])
        s = spread**2 * jnp.outer(slope, slope) + jnp.diag(jnp.stack([jnp.zeros(()), (sigma / half) ** 2]))

        def product(a: tuple[int, ...], b: tuple[int, ...]) -> Any:
            if len(a) == len(b) == 1:
                return s[a[0], b[0]]
            if len(a) > len(b):
                a, b = b, a
            if len(a) == 1:
                return mean[b[0]] * s[a[0], b[1]] + mean[b[1]] * s[a[0], b[0]]
            means = sum(mean[i] * mean[j] * s[k, m] for i, k in (a, a[::-1]) for j, m in (b, b[::-1]))
            return s[a[0], b[0]] * s[a[1], b[1]] + s[a[0], b[1]] * s[a[1], b[0]] + means

        expected = jnp.stack([mean[i[0]] if len(i) == 1 else mean[i[0]] * mean[i[1]] + s[i[0], i[1]] for i in index])
        root = jnp.linalg.cholesky(jnp.stack([jnp.stack([product(a, b) for b in index]) for a in index]))
        steps = numpyro.sample("steps", dist.Normal(0, 1).expand((5,)).to_event(1))
        exact = n * expected + jnp.sqrt(n) * root @ steps
        numpyro.sample("noisy", dist.Laplace(exact, scale).to_event(1), obs=noisy)

    kernel = NUTS(program, target_accept_prob=0.9, init_strategy=init_to_median)
    return MCMC(kernel, num_warmup=500, num_samples=DRAWS, jit_model_args=True, progress_bar=False)


def beside_lines(rows: dict[str, Any]) -> str:
    """A row of each cell and method."""
    lines = []
    for name, sets in rows.items():
        for method in ("ours", "totals with Laplace noise", "noisy ratio"):
            error, low, high = np.array([one[method] for one in sets]).T
            hits = clopper_pearson(int(((low <= 0) & (high >= 0)).sum()), len(sets), level=0.99)
            cover = "–" if np.isnan(low).all() else f"{100 * hits.lower:.0f} to {100 * hits.upper:.0f} %"
            width = "–" if np.isnan(low).all() else f"{np.median(high - low):.3f}"
            lines.append(f"| {name} | {method} | {len(sets)} | {np.median(np.abs(error)):.4f} | {width} | {cover} |")
    return "\n".join(lines)


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
    hits, sets = sum(sum(row["hits"]) for row in main.values()), sum(3 * row["sets"] for row in main.values())
    table = "\n".join(line_of(*item) for item in main.items())
    longer = len({row["sets"] for row in main.values()}) > 1
    continued = (
        " A cell with more sets was continued\nbecause its interval after the first ones did not hold 95 %."
        if longer
        else ""
    )
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

Together, {100 * hits / max(sets, 1):.1f} % of {sets} intervals hold their parameter.{continued}

![One posterior without a guarantee and three with one](guarantee.png)

## Other covariates, and a range that does not hold the response

The posterior presumes no law of the covariate. It does presume that the range holds the response. {clipped}

{head}
{others}

## Beside published methods

The same records, n public, a record replaced. *Totals with Laplace noise* is the posterior of Bernstein and Sheldon
(2019), whose likelihood knows the noise and takes the covariate as normal, as it is here; it spends epsilon alone,
without a delta. So it is narrower. Ours presumes no law of the covariate.
*Noisy ratio* is NoisyStats of Alabi et al. (2022), a point estimate, without a delta as well. The error is the median
of the absolute errors of the slope, the width that of its 95 % interval, and the last column the 99 % interval of the
share that holds the slope.

| cell | method | sets | error | width | holds |
|---|---|---|---|---|---|
{beside_lines(rows.get("beside", {}))}
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
    for n, epsilon in ((500, 2.0), (2000, 2.0)):
        done = rows.setdefault("beside", {}).setdefault(f"n {n}, epsilon {epsilon:g}", [])
        for seed in range(len(done), min(sets, BESIDE)):
            done.append(beside(seed, n, epsilon))
            if seed % 5 == 4:
                STUDY.keep(rows)
    STUDY.keep(rows)


if __name__ == "__main__":
    main()
