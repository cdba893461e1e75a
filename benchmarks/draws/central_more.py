"""What Wynne (2025) says beside its figures: the example of two points, the start, coresets, averages of classes.

python -m benchmarks.draws.central_more [--part small] [WORD ...]

Rows are kept in benchmarks/central_more.json as soon as they are measured; with words only rows whose name holds one of
them are measured, anew. `--part small` takes few steps, shows the rows, and keeps nothing. Needs POSTERIOR_DB_PATH. The
coresets are those of coreax (`pip install coreax`), no dependency; without it these rows are left out.
"""

from functools import partial
from typing import Any

import jax
import numpy as np

import bayesrecon
from bayesrecon import ScoreMatching
from bayesrecon.model import PseudoData
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import dirac, from_draws, from_posteriordb
from benchmarks.draws.central import PUBLISHED, settled
from benchmarks.draws.central_more_page import page
from benchmarks.draws.class_averages import averages
from benchmarks.references import reference
from benchmarks.study import Study
from benchmarks.tasks import run_tasks

RECORDS, RATE, STEPS = 100, 0.01, 15_000
TOTALS = (50, 100, 217, 434, 868, 1600, 4000)
SIZES = (6, 20, 100)
POINTS = {"two points": ([0.0, 1.0], [0.0, 1.0]), "three points": ([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])}


def line() -> Any:
    """A straight line with noise of variance one, and wide priors."""
    import numpyro
    import numpyro.distributions as dist

    def program(x: Any, y: Any) -> None:
        a, b = (numpyro.sample(name, dist.Normal(0, 10)) for name in "ab")
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", dist.Normal(a + b * x, 1.0), obs=y)

    return from_numpyro(program, {"x": (), "y": ()}, name="a line")


def example(points: str, small: bool) -> Any:
    """The points from exact draws of the posterior, and from the least-squares line, which is that of all of them."""
    x, y = map(np.array, POINTS[points])
    design = np.column_stack([np.ones(len(x)), x])
    covariance = np.linalg.inv(design.T @ design + np.eye(2) / 100)
    drawn = np.random.default_rng(1).multivariate_normal(covariance @ design.T @ y, covariance, 400 if small else 4000)
    model = line()
    release = from_draws({"a": drawn[None, :, 0], "b": drawn[None, :, 1]}, model)
    trained = bayesrecon.recover(dirac(model, {"a": np.array(0.0), "b": np.array(1.0)}))
    found = bayesrecon.reconstruct(release, n=len(x), key=jax.random.key(0)).pseudo
    order = np.argsort(found.records["x"])
    kept = {k: np.asarray(v)[order].tolist() for k, v in {"weight": found.weights, **found.records}.items()}
    rows = {r.name: [r.estimate, r.se] for r in bayesrecon.recover(release) if r.verdict == "determined"}
    return {"n": len(x), "recovered": rows, "records": kept, "trained": sum(r.verdict == "determined" for r in trained)}


def moments(example: str, small: bool) -> Any:
    """Totals that exact draws reveal: of the mean of a normal distribution, and of regression on (1, x, x^2)."""
    import numpyro
    import numpyro.distributions as dist

    degree = {"3.2": 0, "3.3": 2}[example]
    rng = np.random.default_rng(2)
    x, noise = rng.normal(size=50), rng.normal(size=50)
    design = np.stack([x**k for k in range(degree + 1)], axis=1)
    y = design.sum(axis=1) + noise

    def program(x: Any, y: Any) -> None:
        beta = numpyro.sample("beta", dist.Normal(0, 10).expand([degree + 1]).to_event(1))
        with numpyro.plate("records", x.shape[0]):
            mean = sum(beta[k] * x**k for k in range(degree + 1))
            numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    covariance = np.linalg.inv(design.T @ design + np.eye(degree + 1) / 100)
    drawn = np.random.default_rng(3).multivariate_normal(covariance @ design.T @ y, covariance, 400 if small else 4000)
    release = from_draws({"beta": drawn[None]}, from_numpyro(program, {"x": (), "y": ()}, name="polynomial"))
    powers = {f"x^{k}": partial(_power, k) for k in range(1, 2 * degree + 1)}
    found = bayesrecon.recover(release, statistics={"y": lambda record: record["y"], **powers})
    truth = {"n": 50.0, "mean(y)": float(y.mean()), "y": float(y.mean())}
    truth |= {name: float(np.mean(x ** int(name[2:]))) for name in powers}
    rows = {
        r.name: [r.estimate, r.se, truth.get(r.name, truth.get(r.name[5:-1]))]
        for r in found
        if r.verdict == "determined"
    }
    return {"rows": {name: row for name, row in rows.items() if row[2] is not None}}


def lemma(small: bool) -> Any:
    """Lemma 5.1: X'X, X'y and y'y of pseudo-data beside the private ones, and what the draws' own error is."""
    release, data, _ = reference("kidiq-kidscore_momiq", 200 if small else 1000)
    found = bayesrecon.reconstruct(release, n=50, key=jax.random.key(0)).pseudo

    def totals(weights: Any, records: Any) -> dict[str, float]:
        x, y = (np.asarray(records[name], float) for name in ("mom_iq", "kid_score"))
        products = {"n": x**0, "sum x": x, "sum x^2": x * x, "sum y": y, "sum x y": x * y, "sum y^2": y * y}
        return {name: float(weights @ values) for name, values in products.items()}

    ours, truth = totals(np.asarray(found.weights), found.records), totals(np.ones(len(data["mom_iq"])), data)
    count = bayesrecon.recover(release)["n"]
    return {"ours": ours, "truth": truth, "error": count.se / count.estimate}


def _power(k: int, record: Any) -> Any:
    return record["x"] ** k


def start(total: int, small: bool) -> Any:
    """Steps of the published recipe from records whose weights add up to this, all else equal."""
    release = from_posteriordb("kidiq-kidscore_momiq", draws=1000)
    goal = {r.name: r.estimate for r in bayesrecon.recover(release, metric=PUBLISHED)}
    first = bayesrecon.reconstruct(release, attack=ScoreMatching(n=RECORDS, steps=1, rate=1e-12)).pseudo
    begun = PseudoData(np.full(RECORDS, total / RECORDS), first.records)
    attack = ScoreMatching(n=RECORDS, steps=200 if small else STEPS, rate=RATE, start=begun)
    found = bayesrecon.reconstruct(release, attack=attack)
    within, stays = settled(found, goal)
    return {"total": total, "steps": int(found.trace[-1][0]), "within": within, "stays": stays, "n": goal["n"]}


def features(release: Any, records: Any) -> np.ndarray:
    """Scores of records at the draws `(N, T d)`, in the metric of the draws' covariance: sums of their products are the
    kernel of the divergence."""
    theta, x, y = np.asarray(release.theta, float), np.asarray(records["mom_iq"]), np.asarray(records["kid_score"])
    beta, sigma = theta[:, :2], np.exp(theta[:, 2:])
    left = y - beta[:, :1] - beta[:, 1:] * x
    scores = np.stack([left / sigma**2, left * x / sigma**2, (left / sigma) ** 2 - 1], axis=2)  # (T, N, d)
    scores = scores @ np.linalg.cholesky(np.cov(theta.T))
    return np.moveaxis(scores, 1, 0).reshape(len(x), -1)


def coreset(size: int, small: bool) -> Any:
    """Records of the private data that stand for all of them, chosen by who has the data, beside what is reconstructed
    by who has draws alone: the squared divergence left, relative to that of the empty measure."""
    try:
        import jax.numpy as jnp
        from coreax import Data
        from coreax.kernels import LinearKernel
        from coreax.solvers import KernelHerding
    except ImportError:
        print("the coresets need `pip install coreax`", flush=True)
        return None
    release, data, _ = reference("kidiq-kidscore_momiq", 200 if small else 1000)
    private = features(release, data)
    # Scores have few dimensions, which are scaled alike for single precision.
    _, scale, right = np.linalg.svd(private, full_matrices=False)
    kept = right[scale > 1e-9 * scale[0]].T
    embedded, goal = private @ kept, private.sum(axis=0)

    def left(weights: Any, scores: np.ndarray) -> float:
        return float(np.sum((weights @ scores - goal) ** 2) / np.sum(goal**2))

    unit = jnp.asarray(embedded / np.abs(embedded).max(), jnp.float32)
    chosen, _ = KernelHerding(coreset_size=size, kernel=LinearKernel()).reduce(Data(unit))
    rows = np.asarray(chosen.indices.data).ravel()
    best, *_ = np.linalg.lstsq(embedded[rows].T, embedded.sum(axis=0))
    random = np.random.default_rng(0).choice(len(private), size, replace=False)
    equal = np.full(size, len(private) / size)
    attacked = bayesrecon.reconstruct(release, n=size, key=jax.random.key(0)).pseudo
    return {
        "size": size,
        "rank": int(kept.shape[1]),
        "herding": left(equal, private[rows]),
        "herding, best weights": left(best, private[rows]),
        "random records": left(equal, private[random]),
        "reconstructed": left(np.asarray(attacked.weights), features(release, attacked.records)),
    }


TASKS: dict[str, Any] = {f"example | {name}": partial(example, name) for name in POINTS}
TASKS |= {f"moments | {name}": partial(moments, name) for name in ("3.2", "3.3")}
TASKS |= {"lemma | 5.1": lemma}
TASKS |= {f"start | {total}": partial(start, total) for total in TOTALS}
TASKS |= {f"coreset | {size}": partial(coreset, size) for size in SIZES}
TASKS |= {f"averages | {hidden}": partial(averages, hidden) for hidden in (0, 3)}

STUDY = Study(__file__, page)


if __name__ == "__main__":
    run_tasks(STUDY, TASKS, __doc__)
