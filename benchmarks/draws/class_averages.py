"""Averages of classes as images, from posterior draws of a Bayesian softmax regression and a Bayesian network."""

from functools import partial
from typing import Any

import jax
import numpy as np

import bayesrecon
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import nuts

DIGITS, RECORDS, SIDE = (0, 1), 120, 4
PIXELS = SIDE * SIDE


def images(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Digits of 4 by 4 pixels from 0 to 1, and their classes."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(np.isin(found.target, DIGITS)))[:RECORDS]
    blocks = found.images[rows].reshape(-1, SIDE, 2, SIDE, 2).mean(axis=(2, 4))
    return blocks.reshape(-1, PIXELS) / 16, np.searchsorted(DIGITS, found.target[rows])


def network(hidden: int) -> Any:
    """Classes by a tanh network with so many hidden units, 0 for none, and standard normal priors."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    def matrix(name: str, *shape: int) -> Any:
        return numpyro.sample(name, dist.Normal(0, 1).expand(shape).to_event(len(shape)))

    def program(x: Any, y: Any) -> None:
        inner = [matrix("first", PIXELS, hidden), matrix("shift", hidden)] if hidden else []
        last, offset = matrix("last", hidden or PIXELS, len(DIGITS)), matrix("offset", len(DIGITS))
        with numpyro.plate("records", x.shape[0]):
            seen = jnp.tanh(x @ inner[0] + inner[1]) if inner else x
            numpyro.sample("y", dist.Categorical(logits=seen @ last + offset), obs=y)

    return from_numpyro(program, {"x": (PIXELS,), "y": ()}, name="digits")


def averages(hidden: int, small: bool) -> dict[str, Any]:
    """Averages by class as `recover` has them from draws, beside the true ones and the average of all images."""
    x, y = images()
    key, draws = jax.random.key(1), 200 if small else 2000
    release = nuts(network(hidden), {"x": x, "y": y}, key=key, warmup=100 if small else 500, draws=draws, chains=1)
    asked = {f"{k}": partial(_share, k) for k in range(len(DIGITS))}
    asked |= {f"{k}, {j}": partial(_pixel, k, j) for k in range(len(DIGITS)) for j in range(PIXELS)}
    found = {r.name: r for r in bayesrecon.recover(release, statistics=asked, domain={"x": (0, 1)})}
    rows = []
    for k, digit in enumerate(DIGITS):
        truth = x[y == k].mean(axis=0)
        parts = [found[f"mean({k}, {j})"] for j in range(PIXELS)]
        share = found[f"mean({k})"]
        row = {"digit": digit, "n": int((y == k).sum()), "verdicts": [one.verdict for one in (share, *parts)]}
        if all(one.verdict != "undetermined" for one in (share, *parts)):
            mean = np.array([one.estimate for one in parts]) / share.estimate
            apart = np.corrcoef(mean - x.mean(axis=0), truth - x.mean(axis=0))[0, 1]
            errors = [float(np.sqrt(np.mean((one - truth) ** 2))) for one in (mean, x.mean(axis=0))]
            row |= {"correlation": float(apart), "rmse": errors[0], "null": errors[1]}
            row |= {"image": mean.tolist(), "truth": truth.tolist()}
        rows.append(row)
    return {"hidden": hidden, "records": RECORDS, "draws": draws, "rows": rows}


def _share(k: int, record: Any) -> Any:
    return 1.0 * (record["y"] == k)


def _pixel(k: int, j: int, record: Any) -> Any:
    return record["x"][j] * (record["y"] == k)
