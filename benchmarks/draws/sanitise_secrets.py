"""Many secrets of one data set: how what attackers recover scatters, against what is stated."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.stats import chi2

import bayesrecon
from bayesrecon.disclosure.sanitising.public_numbers import hidden, statistics_of
from bayesrecon.disclosure.sanitising.tilted_draws import chosen
from bayesrecon.disclosure.sanitising.tilts import TiltDistribution, tilt_at
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.evaluate import clopper_pearson
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64
from bayesrecon.running.threads import one_thread
from benchmarks.draws.sanitise_costs import WORTH, law_of, line, pool
from tests.support.conjugate import sample_regression

RECORDS = 400
FEW = 100  # plain draws that were published earlier
PREDICTED = 50_000  # draws at which the stated scatter is computed: its own error is then far below that of 400 secrets


@dataclass(frozen=True, eq=False)
class Stated:
    """The data, the distribution of their tilts, and what is stated of each statistic.

    Attributes:
        tilts: `(S, S)` covariance over tilts of what is recovered.
        draw: `(S, S)` covariance of what is recovered of one independent draw, in the same directions.
    """

    x: np.ndarray
    y: np.ndarray
    law: TiltDistribution
    names: tuple[str, ...]
    tilts: np.ndarray
    draw: np.ndarray
    truth: np.ndarray

    def error(self, draws: int) -> np.ndarray:
        """Covariance of the error of `recover` on so many sanitised draws."""
        return self.tilts + self.draw / draws


@cache
def stated() -> Stated:
    """One regression of 400 records."""
    x, y = line(RECORDS, 1, 0)
    first = pool(x, y, PREDICTED, 10**6)
    problem = solve_release(first)
    law = law_of(first, WORTH)
    rows, slopes = statistics_of(problem)
    told = {one.name: one for one in hidden(problem, law, rows, slopes)}
    at = [i for i, row in enumerate(rows) if told[row.name].scatter]
    names = tuple(rows[i].name for i in at)
    cross = np.asarray(problem.solved.embedding.cross(problem.solved.basis, law.records)) @ slopes[:, at]
    alive = law.scatters > 1e-9 * law.scatters[-1]
    along = law.multiple * law.vectors.T[alive] @ cross
    tilts = along.T @ (along / (1 + law.scatters[alive] / law.k**2)[:, None])
    floors = np.array([rows[i].floor for i in at], float) * problem.solved.embedding.effective_size**0.5
    draw = along.T @ (along / law.scatters[alive][:, None])
    scale = floors / np.sqrt(np.diag(draw))  # what `recover` states of its own errors
    truth = bayesrecon.evaluate.true_statistics(first.model, {"x": x, "y": y})
    return Stated(x, y, law, names, tilts, draw * np.outer(scale, scale), np.array([truth[n] for n in names]))


def one_secret(size: tuple[int, bool], secret: int) -> dict[str, Any]:
    """Errors of what is recovered of draws under one secret, and of as many plain ones.

    Args:
        size: how many draws are published, and whether they are chosen of a run with four times as many; otherwise they
            are exact draws of the tilted posterior, as NUTS would make them.
    """
    published, of_run = size
    with x64(), one_thread():
        told = stated()
        law, rng = told.law, np.random.default_rng([secret, 1])
        tilt = law.drawn(rng)
        if of_run:
            release = pool(told.x, told.y, 4 * published, secret)
            at = chosen(tilt_at(release.model, release.theta, tilt), published, rng)
            safe = replace(release, theta=np.asarray(release.theta)[at], weights=np.full(published, 1 / published),
                           chain=np.ones(published, int))  # fmt: skip
        else:
            x, y = np.concatenate([told.x, tilt.records["x"]]), np.concatenate([told.y, tilt.records["y"]])
            weights = np.concatenate([np.ones(len(told.y)), tilt.weights])
            drawn = sample_regression(x, y, published, np.random.default_rng([secret, 4]), weights)
            safe = release = from_draws(drawn, law.model, name="line 1")
        found = bayesrecon.recover(safe, force=True)
        row: dict[str, Any] = {"errors": _errors(found, told), "failed": bool(found.failures)}
        if not of_run:
            return row
        plain = bayesrecon.recover(release.take(np.arange(published)), force=True)
        few = pool(told.x, told.y, FEW, [secret, 2])
        read = _reader()
        return row | {
            "failed plain": bool(plain.failures),
            "few": _errors(bayesrecon.recover(few, force=True), told),
            "moved": read(np.asarray(safe.theta)).tolist(),
            "moved few": read(np.asarray(few.theta)).tolist(),
        }


def _errors(found: Any, told: Stated) -> list[float]:
    estimates = [np.nan if found[n].estimate is None else found[n].estimate for n in told.names]
    return (np.array(estimates, float) - told.truth).tolist()


@cache
def _reader() -> Callable[[np.ndarray], np.ndarray]:
    told = stated()
    return reader(np.asarray(pool(told.x, told.y, 400_000, 10**7).theta))


def pooled(rows: list[dict[str, Any]], published: int) -> dict[str, Any]:
    """What all secrets say together."""
    with x64():
        told = stated()
    errors = np.array([row["errors"] for row in rows])
    total = told.error(published)
    part: dict[str, Any] = {
        "secrets": len(rows),
        "published": published,
        "statistics": [
            {"name": n} | _held(errors[:, i], total[i, i]) for i, n in enumerate(told.names)
        ],
        "together": two_sided(np.einsum("si,ij,sj->", errors, np.linalg.inv(total), errors), errors.size),
        "knows": [_known(errors, total, told.names, [k], n) for k, n in enumerate(told.names)],
        "knows all others": _others(errors, total, told.names),
        "failed": list(clopper_pearson(sum(row["failed"] for row in rows), len(rows))),
    }  # fmt: skip
    if "few" not in rows[0]:
        return part
    few, before = np.array([row["few"] for row in rows], float), np.diag(told.draw) / FEW
    own = np.diag(total)
    both = (errors / own + few / before) / (1 / own + 1 / before)
    for one, error in zip(part["statistics"], few.T, strict=True):
        one["hundred"] = float(np.sqrt(np.nanmean(error**2)))
    return part | {
        "earlier": [
            {"name": n, "stated": float((1 / own[i] + 1 / before[i]) ** -0.5),
             "measured": float(np.sqrt(np.nanmean(both[:, i] ** 2)))} for i, n in enumerate(told.names)
        ],
        "failed plain": list(clopper_pearson(sum(row["failed plain"] for row in rows), len(rows))),
        "readers": {"sanitised": spread([row["moved"] for row in rows]),
                    "hundred draws": spread([row["moved few"] for row in rows])},
    }  # fmt: skip


def two_sided(square: float, count: int) -> float:
    """The chi-square test of a sum of so many squares of standard normal numbers."""
    p = chi2.cdf(square, count)
    return float(2 * min(p, 1 - p))


def _held(errors: np.ndarray, variance: float) -> dict[str, float]:
    return {
        "stated": float(variance**0.5),
        "measured": float(np.sqrt((errors**2).mean())),
        "p": two_sided((errors**2).sum() / variance, len(errors)),
    }


def _known(errors: np.ndarray, total: np.ndarray, names: tuple[str, ...], known: list[int], name: str) -> Any:
    """What is left to somebody who knows some statistics exactly: their share of the error is taken off the others."""
    others = [i for i in range(len(names)) if i not in known]
    slope = np.linalg.solve(total[np.ix_(known, known)], total[np.ix_(known, others)])
    left = errors[:, others] - errors[:, known] @ slope
    variances = np.diag(total[np.ix_(others, others)] - total[np.ix_(others, known)] @ slope)
    each = [_held(left[:, j], variances[j]) | {"name": names[i]} for j, i in enumerate(others)]
    ratio = [one["measured"] / one["stated"] for one in each]
    return {
        "known": name,
        "least": min(ratio),
        "most": max(ratio),
        "p": min(one["p"] for one in each),
        "each": each,
    }


def _others(errors: np.ndarray, total: np.ndarray, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Of each statistic, by somebody who knows all others exactly."""
    found = []
    for i in range(len(names)):
        known = _known(errors, total, names, [k for k in range(len(names)) if k != i], "")
        found += known["each"]
    return found


def reader(exact: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """What draws `(T, d)` are off by for a reader, in posterior standard deviations: means, standard deviations, 5 %
    and 95 % quantiles, `(4, d)`."""
    mean, sd = exact.mean(axis=0), exact.std(axis=0)
    true = np.quantile((exact - mean) / sd, (0.05, 0.95), axis=0)

    def read(theta: np.ndarray) -> np.ndarray:
        z = (theta - mean) / sd
        return np.stack([z.mean(axis=0), z.std(axis=0) - 1, *(np.quantile(z, (0.05, 0.95), axis=0) - true)])

    return read


def spread(moved: list[Any]) -> dict[str, float]:
    """Root mean squares of the worst coordinate."""
    size = np.sqrt((np.array(moved) ** 2).mean(axis=0)).max(axis=1)
    return dict(zip(("mean", "sd", "low", "high"), size.tolist(), strict=True))
