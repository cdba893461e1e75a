"""What tilted draws hide and what they cost, computed from the tilted draws alone.

Anybody who has the draws can compute these numbers, so they reveal nothing more. The change that the actual tilt made
would reveal the tilt. So all numbers here are averages over other random tilts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from bayesrecon.disclosure.sanitising.random_streams import public_stream
from bayesrecon.disclosure.sanitising.tilts import TiltDistribution, count_of, divergences, tilt_distribution
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.estimation.totals import rows_of, slopes_of, totals_of
from bayesrecon.model import Model, entry
from bayesrecon.releases import PosteriorDraws
from bayesrecon.results.row import Row
from bayesrecon.results.sanitised import Change, Hidden

_TILTS = 200  # simulated tilts: enough for a mean square to ten per cent
_LOW, _HIGH = 0.05, 0.95  # the quantiles that readers usually quote


@dataclass(frozen=True)
class PublicNumbers:
    """Public numbers about sanitised draws.

    Attributes:
        tilts: distribution of the tilts.
        measured: average divergence of the tilts in nats, measured on the draws.
        statistics: what an attacker can know of each statistic.
        changes: typical changes of numbers about the parameters.
        typical: median, 95 % quantile and maximum of the shift by one predicted record.
    """

    tilts: TiltDistribution
    measured: float
    statistics: tuple[Hidden, ...]
    changes: tuple[Change, ...]
    typical: tuple[float, float, float]


def public_numbers(release: PosteriorDraws, k: float, times: float, count: float | None = None) -> PublicNumbers:
    """What draws from a tilted posterior hide and cost.

    Args:
        k: size of the tilts.
        times: R / N, the cap of the tilts.
        count: number of records, if the draws do not determine it.
    """
    problem = solve_release(release)
    rows, slopes = statistics_of(problem)
    determined = count_of(rows)
    tilts = tilt_distribution(problem, k, problem.rng, count or 1.0 if determined is None else determined).with_cap(
        times
    )
    weights = tilts.weights(public_stream("tilts of the page").normal(size=(len(tilts.scatters), _TILTS)))
    samples = tilts.values @ weights
    shift = tilts.shift(tilts.records, release.size)
    return PublicNumbers(
        tilts,
        float(divergences(samples).mean()),
        hidden(problem, tilts, rows, slopes),
        _changes(release.model, tilts.theta, samples),
        (float(np.median(shift)), float(np.quantile(shift, 0.95)), float(shift.max())),
    )


def statistics_of(problem: Problem) -> tuple[tuple[Row, ...], np.ndarray]:
    """The rows of `recover` for a solved release, and the statistics' slopes in the basis, `(r, S)`.

    Slopes of statistics that are not determined are zero.
    """
    solved = problem.solved
    library, totals = totals_of(solved, problem.knowledge, problem.reference)
    rows = rows_of(library, totals, solved.embedding)
    determined, slopes = slopes_of(library, totals)
    by_name = dict(zip((row.name for row in determined), (totals.directions @ slopes).T, strict=True))
    return rows, np.stack([by_name.get(row.name, np.zeros(solved.basis.size)) for row in rows], axis=1)


def hidden(problem: Problem, tilts: TiltDistribution, rows: Sequence[Row], slopes: np.ndarray) -> tuple[Hidden, ...]:
    """What the best unbiased attacker can know of each statistic when the release has random tilts."""
    solved = problem.solved
    cross = np.asarray(solved.embedding.cross(solved.basis, tilts.records))
    scatter = tilts.scatter(cross @ slopes)
    size = solved.embedding.effective_size
    results = []
    for row, sd in zip(rows, scatter, strict=True):
        if row.verdict == "undetermined" or not row.se or not row.floor:
            results.append(Hidden(row.name, None, None, None, row.verdict))
            continue
        draws = size * (row.floor / sd) ** 2
        results.append(Hidden(row.name, float(sd), float(np.hypot(sd, row.se)), float(draws), row.verdict))
    return tuple(results)


def _changes(model: Model, theta: np.ndarray, samples: np.ndarray) -> tuple[Change, ...]:
    """Root mean square change of means and quantiles of the parameters over S tilts `(T, S)`."""
    params = {k: np.asarray(entry_values) for k, entry_values in jax.vmap(model.constrain)(theta).items()}
    weights = np.exp(samples - samples.max(axis=0))
    weights /= weights.sum(axis=0)
    changes = []
    for parameter in model.parameters:
        values = params[parameter.name].reshape(len(theta), -1)
        names = [entry(parameter.name, index) for index in np.ndindex(parameter.shape)]
        changes += [
            _change(name, entry_values, weights)
            for name, entry_values in zip(names, values.T, strict=True)
            if entry_values.std() > 0
        ]
    return tuple(changes)


def _change(name: str, values: np.ndarray, weights: np.ndarray) -> Change:
    z = np.sort((values - values.mean()) / values.std())
    w = weights[np.argsort(values)]
    mean = z @ w
    sd = np.sqrt(np.maximum((z**2) @ w - mean**2, 0.0))
    levels = np.cumsum(w, axis=0) - w / 2
    differences: list[np.ndarray] = []
    for level in (_LOW, _HIGH):
        positions = np.minimum((levels < level).sum(axis=0), len(z) - 1)
        differences.append(z[positions] - np.quantile(z, level))
    mean, sd, low, high = (float(np.sqrt(np.mean(x**2))) for x in (mean, sd - 1, *differences))
    return Change(name, mean, sd, low, high)
