"""What no data make of an approximate log density, against what data do. Writes DENSITY.md and density.json.

python -m benchmarks.approximated.density [data sets]      about a minute on one core
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.precision import x64
from benchmarks.approximated.drawn import model_of, simulated
from benchmarks.study import Study

RUNS = (("linear", 1), ("linear", 2), ("poisson", 1), ("poisson", 2))
SIZES = (30, 100, 300)
POINTS, DRAWS, RECORDS, FREEDOM = 200, 4_000, 60, 6.0

INTRODUCTION = """# How far a log density is off where data hide it

Made by `python -m benchmarks.approximated.density`. An approximate `log q` is off at the points in two ways. One part
of the error cannot come from any data, so it is detected. The other part could come from data, so it biases totals.
*Ratio* is the norm of the second part over that of the first. The approximations are normal, for posteriors of
simulated data: *Laplace* has the mode and the Hessian there, *moments* has the mean and covariance. *Above* counts
approximations whose ratio exceeds 3, the factor that `from_log_density` allows for. A different kind of error can have
a larger ratio. *Mean field* has the conditional variances and no correlations. It is not a posterior of the model and
is not covered.
"""


def log_post(model, t, x, y):
    logs = jax.vmap(lambda a, b: model.log_lik(t, {"x": a, "y": b}))(x, y)
    return logs.sum() + model.log_prior(t) + model.log_det(t)


@partial(jax.jit, static_argnames="model")
def derivatives(model, t, x, y):
    return jax.grad(log_post, 1)(model, t, x, y), jax.hessian(log_post, 1)(model, t, x, y)


@partial(jax.jit, static_argnames="model")
def densities(model, theta, x, y):
    return jax.vmap(lambda t: log_post(model, t, x, y))(theta)


@partial(jax.jit, static_argnames="model")
def features_of(model, theta, x, y):
    return jax.vmap(lambda t: jax.vmap(lambda a, b: model.log_lik(t, {"x": a, "y": b}))(x, y))(theta)


def laws(model, x, y, rng):
    """`{name: (mean, covariance)}` of normal distributions for a posterior."""
    at = np.zeros(model.dimension)
    for _ in range(100):
        slope, hessian = (np.asarray(v) for v in derivatives(model, at, x, y))
        values, vectors = np.linalg.eigh(-hessian)
        step = vectors @ ((vectors.T @ slope) / np.maximum(np.abs(values), 1e-3))  # uphill where it is not concave
        at = at + step / max(1.0, float(np.abs(step).max()) / 0.5)
        if np.abs(step).max() < 1e-11:
            break
    covariance = np.linalg.inv(-np.asarray(derivatives(model, at, x, y)[1]))
    root = np.linalg.cholesky(covariance)
    unit = rng.normal(size=(DRAWS, len(at))) / np.sqrt(rng.chisquare(FREEDOM, size=(DRAWS, 1)) / FREEDOM)
    theta = at + unit @ root.T
    log_t = -0.5 * (FREEDOM + len(at)) * np.log1p((unit**2).sum(axis=1) / FREEDOM)
    log_w = np.asarray(densities(model, theta, x, y)) - log_t
    weights = np.exp(log_w - log_w.max())
    weights /= weights.sum()
    mean = weights @ theta
    moments = (theta - mean).T @ ((theta - mean) * weights[:, None])
    apart = np.diag(1 / np.diag(np.linalg.inv(moments)))
    return {"Laplace": (at, covariance), "moments": (mean, moments), "mean field": (mean, apart)}


def ratio(model, private, mean, covariance, rng) -> float:
    """Length of the error that data can make over that of the rest, at draws of the distribution."""
    root = np.linalg.cholesky(covariance)
    unit = rng.normal(size=(POINTS, len(mean)))
    theta = mean + unit @ root.T
    off = -0.5 * (unit**2).sum(axis=1) - np.asarray(densities(model, theta, *private))
    p = model.fields["x"].shape[0]
    x, y = rng.normal(size=(RECORDS, p)) * 2, rng.normal(size=RECORDS) * 2
    if not model.dimension > p + 1:
        x, y = (x > 0).astype(float), rng.poisson(2.0, size=RECORDS).astype(float)
    features = np.asarray(features_of(model, theta, x, y))
    features, off = features - features.mean(axis=0), off - off.mean()
    basis, size, _ = np.linalg.svd(features, full_matrices=False)
    basis = basis[:, size > 1e-9 * size[0]]
    hidden = basis @ (basis.T @ off)
    return float(np.linalg.norm(hidden) / np.linalg.norm(off - hidden))


def run(kind: str, p: int, count: int) -> list[dict]:
    rng, rows = np.random.default_rng(0), []
    model = model_of(kind, p)
    for n in SIZES:
        found: dict[str, list[float]] = {}
        for _ in range(count):
            private = tuple(jnp.asarray(values, float) for values in simulated(kind, n, p, rng))
            for name, law in laws(model, *private, rng).items():
                found.setdefault(name, []).append(ratio(model, private, *law, rng))
        for name, ratios in found.items():
            rows.append({"model": f"{kind}, {p + 1} coefficients", "n": n, "law": name, "ratios": ratios})
            print({**rows[-1], "ratios": np.quantile(ratios, [0.5, 0.9, 1]).round(2)}, flush=True)
    return rows


def page(rows: list[dict]) -> str:
    lines = ["| model | n | law | ratio, median | 90 % | largest | above |", "| --- | ---: | --- |" + " ---: |" * 4]
    for r in rows:
        middle, high, most = np.quantile(r["ratios"], [0.5, 0.9, 1])
        above = f"{sum(x > 3 for x in r['ratios'])}/{len(r['ratios'])}"
        lines.append(f"| {r['model']} | {r['n']} | {r['law']} | {middle:.2g} | {high:.2g} | {most:.2g} | {above} |")
    return "\n".join([INTRODUCTION, *lines]) + "\n"


STUDY = Study(__file__, page, empty=list)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("count", type=int, nargs="?", default=20, help="data sets a row")
    count, rows = STUDY.given(parser).count, []
    with x64():
        for kind, p in RUNS:
            rows += run(kind, p, count)
            STUDY.keep(rows)


if __name__ == "__main__":
    main()
