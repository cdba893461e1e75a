"""Posteriors of many kinds, and how near the costs of their tilts are to what is stated."""

import os
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesrecon.disclosure.sanitising.public_numbers import statistics_of
from bayesrecon.disclosure.sanitising.supported import MOST_NATS, with_widest_cap
from bayesrecon.disclosure.sanitising.tilts import TiltDistribution, count_of, divergences, tilt_distribution
from bayesrecon.divergence.score import log_liks
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.posteriors import from_draws, from_posteriordb
from bayesrecon.precision import x64
from bayesrecon.running.threads import one_thread
from tests.support import covariates
from tests.support.conjugate import effects_model, regression_model, sample_effects, sample_regression
from tests.support.families import FAMILIES, exact, model_of, release_of, simulated

GROWN = 6  # times that a worth is made half as large again where theory does not hold
WORTH = 100.0
POOL = 20_000  # draws: the distribution is taken from half of them, and held against the others
DATABASE = (
    "kidiq-kidscore_momiq", "kidiq-kidscore_momhs", "kidiq-kidscore_momhsiq", "kidiq-kidscore_interaction",
    "kidiq_with_mom_work-kidscore_mom_work", "earnings-logearn_height", "earnings-logearn_height_male",
    "mesquite-logmesquite_logvolume", "mesquite-logmesquite_logva", "nes1972-nes", "nes1980-nes", "nes1992-nes",
    "sblrc-blr", "kilpisjarvi_mod-kilpisjarvi", "low_dim_gauss_mix-low_dim_gauss_mix",
    "eight_schools-eight_schools_noncentered", "earnings-earn_height", "earnings-logearn_interaction",
    "kidiq_with_mom_work-kidscore_interaction_c", "kidiq_with_mom_work-kidscore_interaction_z", "nes1976-nes",
    "nes1984-nes", "nes1988-nes", "nes1996-nes", "sblri-blr",
)  # fmt: skip
"""Posteriors of posteriordb that have reference draws."""

FINITE, DECAYING, GROUPS, OF_DATABASE, OTHER = (
    "conjugate regression", "spectrum that decays", "effects of groups", "posteriordb", "other family",
)  # fmt: skip
"""Kinds of posteriors."""


def line(records: int, slopes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Data of a regression."""
    rng = np.random.default_rng(seed)
    x = rng.normal(2, 1, (records, slopes))
    return x, 1 + x @ rng.normal(0.5, 0.5, slopes) + rng.normal(size=records)


def pool(x: np.ndarray, y: np.ndarray, draws: int, seed: Any) -> Any:
    """Exact draws of its posterior, independent for every seed."""
    model = regression_model(x.shape[1])
    return from_draws(sample_regression(x, y, draws, np.random.default_rng(seed)), model, name=f"line {x.shape[1]}")


def law_of(release: Any, worth: float, count: float | None = None) -> TiltDistribution:
    """The law of tilts of a release, capped as `sanitise` caps it; at the least worth that is supported where the one
    asked for is not. The number of records may be given, as private data tell it."""
    problem = solve_release(release)
    if problem.unfit:
        raise BayesreconError(problem.unfit[0])
    count = count_of(statistics_of(problem)[0]) if count is None else count
    if count is None:
        raise BayesreconError("the number of records is not determined")
    law = tilt_distribution(problem, worth**-0.5, problem.rng, max(1.0, count))
    while law.cost > MOST_NATS:
        law = law.with_size(law.k / 1.01)
    for _ in range(GROWN):
        try:
            return with_widest_cap(law, release.name)[0]
        except BayesreconError:  # which asks for a larger worth
            law = law.with_size(law.k / 1.5**0.5)
    return with_widest_cap(law, release.name)[0]


# Posteriors


Key = tuple[str, str, int, int]
"""Kind, name, size (of covariates or groups), and number of the data set, which tells how many records it has."""


def keys(sets: int) -> list[Key]:
    """All posteriors of a study."""
    few = max(1, sets // 3)
    return [
        *((FINITE, "line", d, s) for d in (1, 2, 3, 5) for s in range(3 * sets)),
        *((OF_DATABASE, name, 0, 0) for name in DATABASE),
        *((OTHER, name, 0, s) for name in FAMILIES for s in range(max(1, sets // 6))),
        *((DECAYING, name, d, s) for name in covariates.REGRESSIONS for d in (1, 2, 3, 5) for s in range(few)),
        *((GROUPS, "effects", j, s) for j in (5, 8, 12) for s in range(2 * few)),
    ]


def posterior(key: Key) -> tuple[Any, float | None]:
    """A release, and the number of its records where the data say it."""
    kind, name, size, seed = key
    if kind == FINITE:
        return pool(*line((50, 200, 1000)[seed % 3], size, seed), POOL, seed), None
    if kind == OF_DATABASE:
        return from_posteriordb(name), None
    if kind == OTHER:
        data, release = simulated(name, model_of(name), seed, POOL)
        return release, _length(data)
    if kind == DECAYING:
        rng, model = np.random.default_rng([size, seed]), covariates.model_of(name, size)
        data = covariates.data_of(name, size, (400, 1000)[seed % 2], rng)
        theta = exact(model, {k: jnp.asarray(v) for k, v in data.items()}, POOL, rng)
        return release_of(model, theta), _length(data)
    rng, records = np.random.default_rng([size, seed]), (100, 400)[seed % 2]
    group = rng.integers(1, size + 1, records)
    y = rng.normal(0, 0.7, size)[group - 1] + rng.normal(size=records)
    draws = sample_effects(group, y, size, POOL, rng)
    return from_draws(draws, effects_model(size), name=f"effects of {size}"), float(records)


def _length(data: dict[str, Any]) -> float:
    return float(len(next(iter(data.values()))))


def cost(secrets: int, key: Key) -> dict[str, Any]:
    """Of one posterior: how near the cost of each tilt is to the second order, on draws that the law has not seen."""
    row: dict[str, Any] = {"kind": key[0], "key": list(key)}
    with x64(), one_thread():
        try:
            release, count = posterior(key)
            law = law_of(release.take(np.arange(0, release.size, 2)), WORTH, count)
            weights = law.weights(np.random.default_rng(7).normal(size=(len(law.scatters), secrets)))
            measured = divergences(_values(law, np.asarray(release.theta)[1::2]) @ weights)
            foreseen = (law.values @ weights).var(axis=0) / 2
        except (BayesreconError, FloatingPointError) as error:
            return row | {"refused": str(error)}
    return row | {
        "name": release.name,
        "worth": law.k**-2,
        "directions": law.effective_rank,
        "predicted": law.cost,
        "measured": float(measured.mean()),
        "near": float(np.mean(np.abs(measured / foreseen - 1) <= 0.2)),
    }


def _values(law: TiltDistribution, theta: np.ndarray) -> np.ndarray:
    return np.concatenate(
        [np.asarray(log_liks(law.model, part, law.records)) for part in np.array_split(theta, len(theta) // 2000 + 1)]
    )


def summed(found: list[dict[str, Any]]) -> dict[str, Any]:
    """By kind: posteriors, refused ones, shares near, costs."""
    every = {}
    for kind in (*dict.fromkeys(row["kind"] for row in found), "all"):
        rows = [row for row in found if kind in (row["kind"], "all")]
        done = [row for row in rows if "refused" not in row]
        ratio = [row["measured"] / row["predicted"] for row in done]
        every[kind] = {
            "posteriors": len(rows),
            "refused": len(rows) - len(done),
            "near": float(np.mean([row["near"] for row in done])) if done else None,
            "all near": sum(row["near"] >= 0.95 for row in done),
            "largest cost": max((row["measured"] for row in done), default=None),
            "ratio": float(np.median(ratio)) if done else None,
            "worth": max((row["worth"] for row in done), default=None),
        }
    return every


def costs(sets: int, secrets: int, kept: list[dict[str, Any]], swept: Callable[..., Any]) -> Any:
    """Rows of all posteriors, those that are kept first, the others as they are measured."""
    wanted = [list(key) for key in keys(sets)]
    found = [row for row in kept if row.get("key") in wanted]
    missing = [tuple(key) for key in wanted if key not in [row["key"] for row in found]]
    if not os.environ.get("POSTERIOR_DB_PATH"):
        print("POSTERIOR_DB_PATH is not set: its posteriors are left out", flush=True)
        missing = [key for key in missing if key[0] != OF_DATABASE]
    for row in swept(cost, secrets, missing):
        found.append(row)
        yield row, sorted(found, key=lambda one: wanted.index(one["key"]))
