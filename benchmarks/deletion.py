"""Deletions measured on posteriors before and after: does the deleted record rank first among all members?

python benchmarks/deletion.py                            # 200 games a row of the table

Fewer --games make a small version. Trained parameters are in benchmarks/hrec.py and benchmarks/mnist.py.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

import bayesrecon
from bayesrecon.evaluate import clopper_pearson, cosine_similarity
from bayesrecon.posteriors import from_draws


def posterior(options):
    table = Table("N", "draws", "coefficients", "ranks first", "95 %", "mean shift", "median cosine", "chance")
    for count, draws, width in options.settings:
        wins, shift, cosines = 0, 0, []
        for game in range(options.games):
            hit, moved, cosine = play(count, draws, width, np.random.default_rng(game))
            wins, shift = wins + hit, shift + moved
            cosines.append(cosine)
        rate = clopper_pearson(wins, options.games)
        table.add_row(
            f"{count}",
            f"{draws}",
            f"{width}",
            f"{rate.estimate:.1%}",
            f"{rate.lower:.1%} to {rate.upper:.1%}",
            f"{shift / options.games:.1%}",
            f"{np.median(cosines):.4f}",
            f"{1 / count:.1%}",
        )
    Console().print(table)


def program_of(width):
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    def regression(x, y):
        variance = numpyro.sample("variance", dist.InverseGamma(2.0, 1.5))
        beta = numpyro.sample("beta", dist.Normal(0, 10 * jnp.sqrt(variance)).expand((width,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(x @ beta, jnp.sqrt(variance)), obs=y)

    return bayesrecon.models.from_numpyro(regression, {"x": (width,), "y": ()})


MODELS = {}


def exact(x, y, draws, rng):
    """Independent draws of the conjugate posterior."""
    precision = x.T @ x + np.eye(x.shape[1]) / 100
    mean = np.linalg.solve(precision, x.T @ y)
    variance = (1.5 + 0.5 * (y @ y - mean @ precision @ mean)) / rng.gamma(2 + len(y) / 2, size=draws)
    root = np.linalg.inv(np.linalg.cholesky(precision))
    return {
        "variance": variance[None],
        "beta": (mean + np.sqrt(variance)[:, None] * (rng.normal(size=(draws, len(mean))) @ root))[None],
    }


def play(count, draws, width, rng):
    """One game: does the deleted record rank first, by ratio and by mean shift, and the direction's cosine."""
    from bayesrecon.tilt import mean_shift

    model = MODELS.setdefault(width, program_of(width))
    x = np.column_stack([np.ones(count), rng.normal(size=(count, width - 1))])
    y = x @ rng.normal(size=width) + rng.normal(size=count)
    k = int(rng.integers(count))
    before = from_draws(exact(x, y, draws, rng), model)
    after = from_draws(exact(np.delete(x, k, 0), np.delete(y, k), draws, rng), model)
    pair = bayesrecon.deletion(before, after)
    ratio = bayesrecon.infer_deletion(pair, {"x": x, "y": y}).ranking[0] == k
    shift = bayesrecon.infer_deletion(pair, {"x": x, "y": y}, method="shift").ranking[0] == k
    direction = model.split(mean_shift(pair)[0])["beta"]
    return int(ratio), int(shift), abs(float(cosine_similarity(direction, x[k])))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument(
        "--settings", default="50,4000,4;50,4000,8;50,1000,4;50,10000,4;200,4000,4", help="N,draws,coefficients; ..."
    )
    options = parser.parse_args()
    options.settings = [tuple(int(v) for v in s.split(",")) for s in options.settings.split(";")]
    posterior(options)


if __name__ == "__main__":
    main()
