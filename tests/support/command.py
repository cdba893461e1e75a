"""What commands are given, what a run of them left behind, and how to read it."""

import json
import re
from typing import NamedTuple

import numpy as np

KIDIQ = "kidiq-kidscore_momiq"
NUMBERS = ("estimate", "se", "lower", "upper", "floor")
NAMED = np.array('{"bayesrecon_model": "kidscore_momiq"}')
QUICK = ("--chains", "2", "--draws-per-chain", "100", "--warmup", "150", "--seed", "1")
SIZE = 300
RNG = np.random.default_rng(0)
X = RNG.normal(2, 1, SIZE)
Y = 1 + 0.5 * X + RNG.normal(0, 0.1, SIZE)


def exact_draws(chains=2, length=400):
    """Draws of kidscore_momiq's posterior given X and Y, whose noise is small next to the prior's scale of 2.5."""
    rng = np.random.default_rng(1)
    design = np.column_stack([np.ones(SIZE), X])
    mean, (residual,), _, _ = np.linalg.lstsq(design, Y)
    sigma = np.sqrt(residual / 2 / rng.gamma((SIZE - 3) / 2, size=(chains, length)))
    root = np.linalg.inv(np.linalg.cholesky(design.T @ design))
    return {"beta": mean + sigma[..., None] * (rng.normal(size=(chains, length, 2)) @ root), "sigma": sigma}


def statistics(found):
    return {row["name"]: row for row in found["statistics"]}


def without_time(found):
    return {key: value for key, value in found.items() if key != "seconds"}


def one_line(outcome, match):
    """Exit code 2, one line on stderr, nothing on stdout."""
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("bayesrecon: ")
    assert outcome.err.count("\n") == 1
    assert outcome.err.endswith("\n")
    assert re.search(match, outcome.err), outcome.err


PROGRAM = """
import numpyro
import numpyro.distributions as dist

from bayesrecon.models import from_numpyro


def make(scale=1.0):
    def program(y):
        mu = numpyro.sample("mu", dist.Normal(0, 10))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mu, scale), obs=y)

    return from_numpyro(program, {"y": ()}, name="own", settings={"scale": scale})
"""


def draws(**changes):
    """Arguments for an archive of draws of kidscore_momiq, with some arrays changed."""

    def write(folder):
        arrays = exact_draws()
        for name, edit in changes.items():
            arrays[name] = edit(arrays.get(name, arrays["sigma"]))
        np.savez(folder / "draws.npz", **{name: value for name, value in arrays.items() if value is not None})
        return ["recover", "draws.npz", "--model", "kidscore_momiq"]

    return write


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def document(outcome):
    """The one JSON document on stdout, without NaN or Infinity."""
    assert outcome.code == 0, outcome.err

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    assert outcome.out.count("\n") == 1
    return json.loads(outcome.out, parse_constant=refuse)
