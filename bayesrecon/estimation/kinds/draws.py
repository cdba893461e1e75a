"""Draws of a posterior: one equation for every draw and direction, whose errors are those of sampling.

Repeated draws count once, and rounded draws are imputed in their cells. It is checked that draws and model belong
together.
"""

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Stored
from bayesrecon.divergence.adaptive import embedding_of
from bayesrecon.divergence.mean_embedding import Basis
from bayesrecon.divergence.metric_view import OneRelease
from bayesrecon.divergence.metrics import in_coordinates
from bayesrecon.errors import BayesreconError, Note
from bayesrecon.estimation.checks.chains import unconverged
from bayesrecon.estimation.checks.check import CheckInput, failures, nothing
from bayesrecon.estimation.checks.copies import counted_once
from bayesrecon.estimation.checks.correlation import uncorrelated
from bayesrecon.estimation.checks.count import miscounted
from bayesrecon.estimation.checks.kinks import refuse_kinks
from bayesrecon.estimation.deviation import deviation
from bayesrecon.estimation.fitted_density import Density
from bayesrecon.estimation.forecast import forecast
from bayesrecon.estimation.imputation import imputed
from bayesrecon.estimation.kinds.kind import Kind
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.rounding import Rounding, rounding_of
from bayesrecon.estimation.scored import ScoredDraws, summed
from bayesrecon.estimation.solve import fit, refitted
from bayesrecon.estimation.span import FeatureFit, Fit
from bayesrecon.estimation.spectrum import spanning
from bayesrecon.estimation.standard import Rows
from bayesrecon.model import Records
from bayesrecon.releases import PosteriorDraws
from bayesrecon.running.draws_on_disk import as_rows

_BLOCK = 2**21  # doubles in a block of scores: larger ones are slower, since memory is new each time
_ROUNDING = 1e-6  # in the sum of weights
_FEWEST_ORDERED, _FALL = 100, 0.02  # draws whose order is judged; largest fall of log weights, in their range


class OfDraws(Kind):
    of = PosteriorDraws

    def opened(self, release: Any, coordinates: str) -> Any:
        view = in_coordinates(counted_once(shuffled(normalised(release))), coordinates)
        refuse_kinks(view)
        return view

    def unusable(self, release: Any) -> str | None:
        return unconverged(
            release.model.coordinates, as_rows(release.theta), np.asarray(release.weights), np.asarray(release.chain)
        )

    def weighted(self, problem: Problem) -> Problem:
        release: Any = problem.release
        rounding = rounding_of(release, problem.embedding.independent_size)
        # Fitted data that are shrunk tell too little of the density in the cells.
        if rounding is not None and rounding.correctable and problem.solved.spectrum.gap:
            return _unrounded(problem, rounding)
        return problem

    def warnings(self, problem: Problem) -> tuple[str, ...]:
        release: Any = problem.release
        return (*release.notes, *miscounted(problem), *uncorrelated(release))

    def forecast(self, problem: Problem) -> tuple[str, ...]:
        return forecast(problem.solved)

    def failures(self, problem: Problem, fitted: np.ndarray) -> tuple[str, ...]:
        release, spectrum = problem.release, problem.solved.spectrum
        # Beyond the end of a box there is nothing, whatever the density says there.
        everywhere = str(problem.metric.coordinates) != "constrained"
        inputs = CheckInput(
            release.model.coordinates,
            _draws(release, fitted),
            partial(_moved_by_data, problem),
            cache(partial(drawn_alone, problem)),
            bool(spectrum.gap),
            release,
            problem.embedding.independent_size,
            (spectrum.rank, problem.rank),
            partial(_unseen, problem),
            Density(release.model, problem.solved) if spectrum.gap and everywhere else None,
        )
        found = failures(inputs)
        if found and np.ptp(inputs.draws.weights) > 0:
            found = (*found[:-1], f"{found[-1]}. Or are the weights not those of these draws?")
        return found


def normalised(release: PosteriorDraws) -> PosteriorDraws:
    """The release with weights that sum to one, and a note if they did not.

    Raises:
        BayesreconError: weights that are negative, not finite, or all zero.
    """
    weights = np.asarray(release.weights, float)
    mass = float(weights.sum())
    if not (np.isfinite(weights).all() and (weights >= 0).all() and mass > 0):
        raise BayesreconError(f"{release.name}: the weights of the atoms must be positive numbers")
    if abs(mass - 1) <= _ROUNDING:
        return release
    note = f"the weights of the atoms sum to {mass:.6g}, not to one: they were scaled"
    return replace(release, weights=weights / mass, notes=(*release.notes, note))


def shuffled(release: PosteriorDraws) -> PosteriorDraws:
    """The release in random order if its weighted draws stand in the order of their likelihood.

    Nested sampling writes its draws so. They are independent, and neighbours are alike only because of that order. Each
    weight is a likelihood times a volume that shrinks by a steady small factor, so that from one draw to the next the
    log weights never fall by much compared with their range. Along a chain they fall as fast as they rise.

    >>> import numpy as np
    >>> from bayesrecon.models import load
    >>> rng, model = np.random.default_rng(0), load("linear_predictor")
    >>> levels = np.sort(rng.normal(size=400))
    >>> weights = np.exp(3 * levels - np.arange(400) / 50)
    >>> release = PosteriorDraws(levels[:, None], model, weights / weights.sum(), np.zeros(400, int))
    >>> bool((np.diff(shuffled(release).theta[:, 0]) < 0).any())
    True
    """
    weights, chain = np.asarray(release.weights), np.asarray(release.chain)
    logs = np.log(weights[weights > 0])
    if len(logs) < _FEWEST_ORDERED or np.ptp(logs) < _ROUNDING or np.ptp(chain) > 0:
        return release
    if -np.diff(logs).min() > np.ptp(logs) * _FALL:
        return release
    note = Note("the weighted draws stand in the order of their likelihood, as nested sampling writes them: no chain")
    order = np.random.default_rng(0).permutation(release.size)
    return replace(release.take(order), notes=(*release.notes, note))


def _unrounded(problem: Problem, rounding: Rounding) -> Problem:
    """The same with rounded draws imputed in their cells, if that is possible."""
    metric = str(problem.metric.sigma)

    def fitted(view: Any) -> Fit:
        embedding, rank = embedding_of(view, metric, problem.embedding.progress), problem.rank
        return fit(embedding, problem.reference, problem.rng, finite=rank is not None, expected=rank or 0)

    found = imputed(problem.release, rounding, fitted, problem.rng)
    if found is None:
        return problem
    release, solved = found
    note = (
        f"{rounding.summary}: the lost digits are treated as noise, which the errors include; without that correction "
        f"totals would be off by about {rounding.share:.1%}"
    )
    release = replace(release, notes=(*release.notes, note))
    return replace(problem, release=release, embedding=embedding_of(release, metric), solved=solved)


def drawn_alone(problem: Problem) -> list[ScoredDraws]:
    """Every other draw, with the score of the posterior fitted to these draws alone; none if that is too little."""
    release: Any = problem.release
    found = []
    for one in (0, 1):
        view = release.take(np.arange(one, release.size, 2))
        embedding = embedding_of(view, str(problem.metric.sigma))
        try:
            basis, y = _solved_alone(problem, embedding)
        except BayesreconError:  # too few draws
            return []
        found.append(_draws(view, embedding.influence(basis, y, np.zeros((basis.size, 0)))[1]))
    return found


def _solved_alone(problem: Problem, embedding: OneRelease) -> tuple[Basis, np.ndarray]:
    """Basis and amplitudes by some of the draws, whose embedding this is."""
    if isinstance(problem.solved, FeatureFit):
        found = refitted(problem.solved, embedding)
        if found is not None:
            return found
    solved = fit(embedding, problem.reference, problem.rng, finite=problem.rank is not None, expected=problem.rank or 0)
    return solved.basis, solved.y


def _moved_by_data(problem: Problem, h: Any, j: np.ndarray, into: np.ndarray) -> np.ndarray:
    """As `scored.Moved`. The data enter through totals of `f_p(z) = E[h_p d_j l(theta, z)]`."""
    embedding, solved = problem.embedding, problem.solved
    values = embedding.slopes(solved.probes, h, j)
    if values is None:
        # Of finite rank, a quarter more records than features tell as much, the most unlike ones.
        if solved.spectrum.gap:
            chosen = spanning(solved.cross)[: solved.basis.size * 5 // 4 + 16]
            solved = replace(
                solved, probes={k: v[chosen] for k, v in solved.probes.items()}, cross=solved.cross[chosen]
            )
        values = slopes_at_every_atom(embedding, solved.probes, h, j)
    beta = solved.project(summed(values, into)).beta
    return -np.asarray(solved.influence(beta)[0])


def _unseen(problem: Problem, h: Rows, j: np.ndarray, into: np.ndarray) -> np.ndarray:
    """As `scored.Unseen`: how much these totals may differ from those of generic records, as for intervals of
    statistics. It is judged on distant generic records, where least is determined."""
    solved = problem.solved
    if solved.ridge is None:
        return nothing(h, j, into)
    records, cross = solved.distant or (solved.probes, solved.cross)
    values_at_probes, values_far_out = (
        summed(slopes_at_every_atom(problem.embedding, z, h, j), into) for z in (solved.probes, records)
    )
    residual = values_far_out - cross @ solved.project(values_at_probes).beta
    law_deviation = deviation(solved.cross, solved.target, solved.ridge, solved.size)
    return solved.size * law_deviation * np.sqrt(np.mean(residual**2, axis=0))


def slopes_at_every_atom(embedding: OneRelease, records: Records, h: Rows, j: np.ndarray) -> Float[np.ndarray, "M P"]:
    """`E[h_p d_j l(theta, z)]` of records, `(M, P)`, from the scores at every atom."""
    release, count = embedding.release, len(next(iter(records.values())))
    d, size = release.model.dimension, release.size
    plain = replace(embedding, metric=np.eye(d), folds=None, progress=None)
    weights, values = np.asarray(release.weights), np.zeros((count, len(j)))
    for part in np.array_split(np.arange(size), -(-size * d * count // _BLOCK)):
        rows = slice(part[0], part[-1] + 1)
        scaled = np.sqrt(weights[part] * weights[part].sum())[:, None] * h[rows]
        slopes = plain.scores(records, part).reshape(len(part), d, count)
        for one in np.unique(j):
            values[:, j == one] += slopes[:, one].T @ scaled[:, j == one]
    return values


def _draws(view: Any, scores: np.ndarray | Stored) -> ScoredDraws:
    return ScoredDraws(as_rows(view.theta), np.asarray(view.weights), np.asarray(view.chain), scores)


KIND = OfDraws()
