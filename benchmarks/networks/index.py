"""The characteristic index against the number of records: what a bigger data set hides and what it does not.

python -m benchmarks.networks.index                 # what index.json lacks, then the page and its picture
python -m benchmarks.networks.index --page          # the page from whatever is there

A kernel of finite rank sees the same number of features at every N; only their errors grow, with the count itself
(relative error of n: about the same at every N). A kernel whose spectrum decays sees the data through parameters that
vary less and less, and its index falls towards that of its quadratic approximation. A trained parameter has no draws
whose noise could hide a feature: its index is the rank, shown at two levels for the networks of networks_grid.py.
"""

import time
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import numpyro
from numpyro import distributions as dist

import bayesrecon
from bayesrecon.models import from_numpyro, load
from bayesrecon.models.catalogue.glm import logistic_regression, poisson_regression
from bayesrecon.posteriors import nuts, train_network
from benchmarks.networks.networks_grid import model_of, spectrum_of
from benchmarks.study import HERE, Study, table
from benchmarks.tasks import add_rows

PICTURE = HERE / "index.png"
RECORDS = (30, 100, 300, 1000, 3000)
COUNTIES = 8
PRIORS = {"sigma_y": dist.HalfNormal(1), "mu_alpha": dist.Normal(0, 10), "sigma_alpha": dist.HalfNormal(1)}
NETWORK_RECORDS, WIDTHS, PULLS, SEEDS = (6, 16, 50, 150, 500), (10, 32, 100), ("start", "zero"), 5
LEVELS = (1e-3, 1e-6)
PULL_TITLES = {"start": "penalty towards the start", "zero": "weight decay"}

TEXT = """# Do more records hide more?

Made by `python -m benchmarks.networks.index`, from the rows in `index.json`. The *index* is the number of features
of the data that a release resolves above its noise, `sum_k lambda_k / (lambda_k + noise_k)` over the eigenvalues of the
kernel (`bayesrecon.diagnose(release).index`).

![The index of posteriors, and the rank of trained networks, against the number of records](index.png)

## Posteriors, 4,000 draws

Simulated data, NUTS (4 chains of 1,000), one data set for every N. *Hierarchical* is the radon model with an intercept
for each of 8 counties, drawn from a common distribution, written non-centred. The county is one of the private fields.
*Relative error* is the standard error of n over its estimate."""

NETWORKS = """## Trained networks

The tanh networks of [records and width](NETWORKS.md) were trained on N records, half of each class. The *rank* is the
number of singular values of the gradients of 600 generic records, at the trained parameters, that are above 1e-3 or
1e-6 of the largest. Ranks are medians over {seeds} seeds with the same initial parameters, computed without any
reconstruction. A rank below the number of unknowns, 2 N, rules out that the records are determined. *Gradient* is the
relative norm of the gradient at which training ended."""


def simulate(kind, count, rng):
    x = rng.normal(0.3, 1.0, count)
    if kind == "linear":
        return load("linear_regression", covariates=["x"], response="y"), {"x": x, "y": 1 + x + rng.normal(size=count)}
    if kind == "logistic":
        y = (rng.random(count) < 1 / (1 + np.exp(-0.3 - x))).astype(int)
        return logistic_regression(), {"x": x, "y": y}
    if kind == "Poisson":
        return poisson_regression(), {"x": x, "y": rng.poisson(np.exp(0.5 + 0.4 * x))}
    county, floor = np.arange(count) % COUNTIES + 1, (rng.random(count) < 0.3).astype(int)
    level = 1.3 + 0.4 * np.random.default_rng(0).normal(size=COUNTIES)
    y = level[county - 1] - 0.6 * floor + 0.7 * rng.normal(size=count)
    domain = {"county": list(range(1, COUNTIES + 1)), "floor": "binary"}
    model = from_numpyro(radon, dict.fromkeys(("county", "floor", "log_radon"), ()), domain=domain)
    return model, {"county": county, "floor": floor, "log_radon": y}


def radon(county, floor, log_radon):
    sigma, mu, spread = (numpyro.sample(k, d) for k, d in PRIORS.items())
    raw = numpyro.sample("alpha_raw", dist.Normal(0, 1).expand((COUNTIES,)).to_event(1))
    slope = numpyro.sample("beta", dist.Normal(0, 10))
    mean = mu + spread * raw[county - 1] + slope * floor
    with numpyro.plate("records", county.shape[0]):
        numpyro.sample("log_radon", dist.Normal(mean, sigma), obs=log_radon)


KINDS = ("linear", "logistic", "Poisson", "hierarchical")


def posterior(kind, count):
    model, data = simulate(kind, count, np.random.default_rng(count))
    release = nuts(model, data, key=count, draws=1000)
    found, n = bayesrecon.diagnose(release), bayesrecon.recover(release)["n"]
    row = {"kind": kind, "n": count, "rank": found.rank, "gap": bool(found.gap), "index": found.index}
    row |= {"notes": list(release.notes), "warnings": list(found.warnings)}
    return row | {"estimate": n.estimate, "se": n.se, "verdict": n.verdict}


def network(width, pull, count):
    """Ranks at theta* of every seed; no reconstruction."""
    model, start = model_of(width, pull)
    ranks, gradients = [], []
    for seed in range(SEEDS):
        private, generic = (np.random.default_rng([seed, count, width, i]) for i in range(2))
        data = {"x": private.uniform(-1, 1, (count, 2)), "y": np.arange(count) % 2}
        trained = train_network(model, start, data, steps=3000)
        spectrum = spectrum_of(model, np.asarray(trained.release.theta)[0], generic)
        ranks.append([int((spectrum > level).sum()) for level in LEVELS])
        gradients.append(trained.gradient)
    row = {"kind": "network", "width": width, "pull": pull, "n": count, "parameters": model.dimension}
    return row | {"ranks": ranks, "stationary": max(gradients)}


def page(held):
    posteriors = sorted((r for r in held if r["kind"] in KINDS), key=lambda r: (KINDS.index(r["kind"]), r["n"]))
    networks = sorted((r for r in held if r["kind"] == "network"), key=lambda r: (r["pull"], r["width"], r["n"]))
    head = ("model", "N", "kernel", "index", "recovered n", "relative error")
    lines = []
    for r in posteriors:
        cells = (r["kind"], f"{r['n']:,}", f"rank {r['rank']}" if r["gap"] else "decays", f"{r['index']:.1f}")
        lines.append((*cells, _count(r), "" if r["se"] is None else f"{r['se'] / r['estimate']:.1%}"))
    text = [TEXT, table(head, lines), "\n".join(_verdict(posteriors))]
    if networks:
        head = ("network", "N", "parameters", "rank at 1e-3", "rank at 1e-6", "unknowns", "gradient")
        lines = []
        for r in networks:
            low, high = np.median(r["ranks"], axis=0)
            name = f"{PULL_TITLES[r['pull']]}, width {r['width']}"
            cells = (name, r["n"], r["parameters"], f"{low:.0f}", f"{high:.0f}", f"{2 * r['n']:,}")
            lines.append((*cells, f"{r['stationary']:.0e}"))
        text += [NETWORKS.format(seeds=SEEDS), table(head, lines), "\n".join(_growth(networks))]
    _picture(posteriors, networks)
    return "\n\n".join(text) + "\n"


def _growth(networks):
    """How much the rank at 1e-6 grows while the records do."""
    few, many = NETWORK_RECORDS[0], NETWORK_RECORDS[-1]
    median = {(r["pull"], r["width"], r["n"]): np.median(r["ranks"], axis=0)[1] for r in networks}
    for pull in PULLS:
        grown = [
            f"{median[pull, w, few]:.0f} to {median[pull, w, many]:.0f} at width {w}"
            for w in WIDTHS
            if {(pull, w, few), (pull, w, many)} <= set(median)
        ]
        yield f"* {PULL_TITLES[pull]}: from N {few} to N {many} the rank at 1e-6 goes from {', '.join(grown)}."


def _count(row):
    if row["estimate"] is None:
        return row["verdict"]
    return f"{row['estimate']:,.0f}" + ("" if row["verdict"] == "determined" else f" ({row['verdict']})")


def _verdict(posteriors):
    """What the rows show, of every kind from its smallest N to its largest, and what the sampler warned of."""
    for kind in KINDS:
        own = [r for r in posteriors if r["kind"] == kind]
        if own:
            first, last = own[0], own[-1]
            ends = f"from {first['index']:.1f} at N {first['n']} to {last['index']:.1f} at N {last['n']:,}"
            rank = f"the rank is {last['rank']}" if all(r["gap"] for r in own) else "the spectrum decays"
            yield f"* {kind}: the index goes {ends}; {rank}."
    for r in posteriors:
        if r["notes"]:
            yield f"* The sampler on {r['kind']}, N {r['n']:,}: {'; '.join(r['notes'])}."


def _picture(posteriors, networks):
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for kind in KINDS:
        own = [r for r in posteriors if r["kind"] == kind]
        axes[0].plot([r["n"] for r in own], [r["index"] for r in own], "o-", ms=4, label=kind)
    axes[0].set(xscale="log", ylim=(0, None), xlabel="records", ylabel="index with 4,000 draws")
    axes[0].set_title("posteriors", loc="left", fontsize=9)
    for ax, pull in zip(axes[1:], PULLS, strict=True):
        for i, width in enumerate(WIDTHS):
            own = [r for r in networks if (r["width"], r["pull"]) == (width, pull)]
            for j, style in enumerate(("o:", "o-")):
                values = [np.median(r["ranks"], axis=0)[j] for r in own]
                label = f"width {width}" if j else None
                ax.plot([r["n"] for r in own], values, style, ms=4, color=f"C{i}", label=label)
        ax.plot(NETWORK_RECORDS, [2 * n for n in NETWORK_RECORDS], color="0.6", lw=0.8, label="unknowns")
        ax.set(xscale="log", yscale="log", xlabel="records", ylabel="rank at 1e-6 (dotted: 1e-3)")
        ax.set_title(f"trained networks, {PULL_TITLES[pull]}", loc="left", fontsize=9)
    for ax in axes:
        if ax.has_data():
            ax.legend(fontsize=7, frameon=False)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


STUDY = Study(__file__, page, empty=list)


def main():
    parser = STUDY.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="begin nothing after this long")
    options = STUDY.given(parser)
    end = time.monotonic() + options.seconds
    wanted = product(WIDTHS, PULLS, NETWORK_RECORDS)
    add_rows(STUDY, wanted, lambda r: (r.get("width"), r.get("pull"), r["n"]), network, options.seconds)
    add_rows(STUDY, product(KINDS, RECORDS), lambda r: (r["kind"], r["n"]), posterior, end - time.monotonic())


if __name__ == "__main__":
    main()
