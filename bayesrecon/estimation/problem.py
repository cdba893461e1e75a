"""What every verb does first: check what is known, choose the metric, find the data, solve the embedding."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Unpack

import numpy as np

from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation import ascent
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.consistency import failures_of, questions
from bayesrecon.estimation.copies import counted_once
from bayesrecon.estimation.imputation import imputed
from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.kinks import refuse_kinks
from bayesrecon.estimation.locate import locate
from bayesrecon.estimation.noise import equation_errors, settled, told, too_coarse, weighing
from bayesrecon.estimation.rounding import Rounding, rounding_of
from bayesrecon.estimation.scored import Draws
from bayesrecon.estimation.solve import Fit, fit, shrunk
from bayesrecon.estimation.spectrum import spanning
from bayesrecon.estimation.stein import check_trained, summed
from bayesrecon.kernels.adaptive import AdaptiveEmbedding
from bayesrecon.kernels.metric import fold_factors, in_coordinates, metric_factor
from bayesrecon.kernels.score import prior_score
from bayesrecon.knowledge import Knowledge, Knows, check_knowledge
from bayesrecon.stored import as_rows
from bayesrecon.threads import on_one_thread
from bayesrecon.types import Progress, Release

_BLOCK = 2**22  # doubles in a block of scores: larger ones are slower, since memory is new each time
_ROUNDING = 1e-6  # in the sum of weights
_WEIGHED = 2  # passes over the errors of a parameter, which the fitted data enter
_MATCHED, _CLOSE = 40, 1e-6  # the same of a mean and covariance to be matched, and the last change in whitened units
_UNSEEN, _SURE = 0.03, 6.0  # of a count that is seen; standard errors beyond which it is another one


@dataclass(frozen=True)
class Estimator:
    """How the divergence is taken.

    Attributes:
        metric: "covariance" of the draws, the default for them, or "identity", the default for a trained parameter. The
            first is nearly efficient; the second is the unwhitened divergence. An approximation comes with its "own".
        coordinates: "unconstrained", the default, or "constrained", where the density vanishes at every boundary.

    >>> Estimator(metric="identity").coordinates is None
    True
    """

    metric: str | None = None
    coordinates: str | None = None

    def __post_init__(self) -> None:
        if self.metric not in (None, "covariance", "identity", "own"):
            raise BayesreconError(f"metric={self.metric!r}: expected 'covariance' or 'identity'")
        if self.coordinates not in (None, "unconstrained", "constrained"):
            raise BayesreconError(f"coordinates={self.coordinates!r}: expected 'unconstrained' or 'constrained'")

    def settled(self, release: Release) -> "Estimator":
        """The same with the defaults for a release filled in."""
        own = "identity" if release.metric is None else "own"
        metric = self.metric or ("covariance" if release.temperature else own)
        return Estimator(metric, self.coordinates or "unconstrained")


@dataclass(frozen=True)
class Problem:
    """A release with its embedding solved.

    Attributes:
        release: in the coordinates in use.
        attacker: what is known beforehand.
        reference: the law of generic records around the data.
        embedding: of the release.
        solved: the measure that the release determines.
        estimator: the metric and coordinates in use.
        rng: for whatever is random later.
        rank: of the kernel, None where it is not finite.
        errors: of the equations of a trained parameter that was released with errors.
        contradicted: what is wrong where no data have the released numbers within them.
    """

    release: Release
    knowledge: Knowledge
    reference: Reference
    embedding: AdaptiveEmbedding
    solved: Fit
    estimator: Estimator
    rng: np.random.Generator
    rank: int | None
    errors: EquationErrors | None = None
    contradicted: tuple[str, ...] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        """What was noticed while reading, and questions about the draws."""
        release = self.release
        if not release.temperature:
            return release.notes
        return (*release.notes, *self._miscounted(), *questions(release))

    def failures(self, fitted: np.ndarray) -> tuple[str, ...]:
        """Whether draws and model belong together: one line for each check that failed.

        Args:
            fitted: `(T, d)` fitted posterior scores.
        """
        release = self.release
        if not release.temperature:
            if release.size > 1:
                return ()
            if self.errors is not None:
                return self.contradicted
            embedding, some = self.embedding, release.model.dimension * 5 // 4 + 16
            probes = {k: v[:some] for k, v in self.solved.probes.items()}
            base = prior_score(release.model, embedding.metric, np.asarray(release.theta), 0.0)
            gradients = embedding.scores(probes, np.array([0]))
            return check_trained(gradients, np.asarray(base)[0])
        names, draws, independent = release.model.coordinates, _draws(release, fitted), self.embedding.independent_size
        finite = bool(self.solved.spectrum.gap)
        found = failures_of(release, names, draws, independent, self._moved_by_data, self._halves, finite)
        return (*self._lost(), *found)

    @cached_property
    def unfit(self) -> tuple[str, ...]:
        """The failures, for verbs that have no fitted scores of their own."""
        solved = self.solved
        return self.failures(solved.influence(np.zeros((solved.basis.size, 0)))[1])

    def _halves(self) -> list[Draws]:
        """Every other draw with the score of what it alone determines; none where that is too little."""
        found = []
        for one in (0, 1):
            view = self.release.take(np.arange(one, self.release.size, 2))
            embedding = embedding_of(view, str(self.estimator.metric))
            try:
                solved = fit(embedding, self.reference, self.rng, finite=self.rank is not None, expected=self.rank or 0)
            except BayesreconError:  # too few draws
                return []
            found.append(_draws(view, embedding.influence(solved.basis, solved.y, np.zeros((solved.basis.size, 0)))[1]))
        return found

    def _lost(self) -> tuple[str, ...]:
        """Generic records that show less of the kernel than there is to see are not where the data lie."""
        shown = self.solved.spectrum.rank
        if self.rank is None or shown >= self.rank:
            return ()
        return (
            f"where the data lie was not found: the generic records show {shown} of {self.rank} features; say in which "
            "range the fields lie with domain= or bounds=",
        )

    def _miscounted(self) -> tuple[str, ...]:
        """A warning where the number of records that was stated is not what the draws show without it."""
        stated, solved = self.knowledge.total, self.solved
        if stated is None:
            return ()
        ones = np.ones((len(next(iter(solved.probes.values()))), 1))
        projection = solved.project(ones)
        unseen = float(np.sqrt(np.mean((ones - projection.fitted) ** 2)))
        if unseen > _UNSEEN:
            return ()
        series, weights = np.asarray(solved.influence(projection.beta)[0]), self.embedding.weights
        (size,) = effective_sample_size(series, np.asarray(self.release.chain))
        error = float(np.sqrt(weights @ (series[:, 0] - weights @ series[:, 0]) ** 2 / size))
        shown = float((solved.target @ projection.beta)[0])
        if abs(shown - stated) <= _SURE * error + unseen * stated:
            return ()
        return (
            f"{stated:g} records were stated, but the draws show {shown:.4g} with a standard error of {error:.2g}: "
            "what is said of them may be wrong",
        )

    def _moved_by_data(self, h: Any, j: np.ndarray, into: np.ndarray) -> np.ndarray:
        """As `stein.Moved`: the data enter by totals of `f_p(z) = E[h_p d_j l(theta, z)]`, like others."""
        release, solved = self.release, self.solved
        if (
            solved.spectrum.gap
        ):  # of finite rank, a quarter more records than features tell as much, the most unlike ones
            some = spanning(solved.cross)[: solved.basis.size * 5 // 4 + 16]
            solved = replace(solved, probes={k: v[some] for k, v in solved.probes.items()}, cross=solved.cross[some])
        d, count, size = release.model.dimension, len(solved.cross), release.size
        plain = replace(self.embedding, metric=np.eye(d), folds=None, progress=None)
        weights, values = np.asarray(release.weights), np.zeros((count, len(j)))
        for part in np.array_split(np.arange(size), -(-size * d * count // _BLOCK)):
            rows = slice(part[0], part[-1] + 1)
            scaled = np.sqrt(weights[part] * weights[part].sum())[:, None] * h[rows]
            slopes = plain.scores(solved.probes, part).reshape(len(part), d, count)
            for one in np.unique(j):
                values[:, j == one] += slopes[:, one].T @ scaled[:, j == one]
        beta = solved.project(summed(values, into)).beta
        return -np.asarray(solved.influence(beta)[0])


def embedding_of(view: Release, metric: str, progress: Progress | None = None) -> AdaptiveEmbedding:
    """The embedding of a release in the coordinates in use."""
    return AdaptiveEmbedding(view, metric_factor(view, metric), progress, fold_factors(view, metric))


def _draws(view: Release, scores: Any) -> Draws:
    return Draws(as_rows(view.theta), np.asarray(view.weights), np.asarray(view.chain), scores)


@on_one_thread
def solve_release(
    release: Release,
    estimator: Estimator | None = None,
    *,
    key: Any = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Problem:
    """Check the input of a verb once and solve the embedding."""
    if release.limits is not None:
        raise BayesreconError(
            f"{release.name} leaves the equations of its data open: `recover` says within which limits statistics lie; "
            "supply the correlations of its estimates"
        )
    chosen = (estimator or Estimator()).settled(release)
    release = normalised(release)
    knowledge = check_knowledge(release.model, **knows)
    if isinstance(knowledge.unit, tuple):
        raise BayesreconError(
            f"unit={knowledge.unit!r}: several fields together name a record in `reconstruct`; here a unit is one field"
        )
    view = in_coordinates(counted_once(release), str(chosen.coordinates))
    refuse_kinks(view)
    embedding = embedding_of(view, str(chosen.metric), progress)
    rng = generator(key)
    reference, rank = locate(embedding, knowledge, rng)
    solved = fit(embedding, reference, rng, finite=rank is not None, expected=rank or 0)
    problem = Problem(view, knowledge, reference, embedding, solved, chosen, rng, rank)
    rounding = rounding_of(view, embedding.independent_size)
    # Fitted data that are shrunk tell too little of the density in the cells.
    if rounding is not None and rounding.mended and solved.spectrum.gap:
        return _unrounded(problem, rounding)
    if release.noise is not None and release.noise.ascent is not None and not release.temperature:
        return _with_ascent(problem)
    inexact = release.noise is not None or release.model.matched is not None or release.model.finer is not None
    return _with_errors(problem) if inexact and not release.temperature else problem


def _unrounded(problem: Problem, rounding: Rounding) -> Problem:
    """The same with draws put back into the cells that they were rounded from, where that can be done."""
    metric = str(problem.estimator.metric)

    def fitted(view: Release) -> Fit:
        embedding, rank = embedding_of(view, metric, problem.embedding.progress), problem.rank
        return fit(embedding, problem.reference, problem.rng, finite=rank is not None, expected=rank or 0)

    found = imputed(problem.release, rounding, fitted, problem.rng)
    if found is None:
        return problem
    release, solved = found
    note = (
        f"{rounding.summary}: digits that were cut, to the nearest step, are taken for noise, which errors contain; as "
        f"they are, these draws would move totals by about {rounding.share:.1%}"
    )
    release = replace(release, notes=(*release.notes, note))
    return replace(problem, release=release, embedding=embedding_of(release, metric), solved=solved)


def _with_errors(problem: Problem) -> Problem:
    """The same with the errors of a trained parameter as weights of its equations, and an approximation matched."""
    if problem.release.noise is not None and problem.release.noise.told:
        return _with_told_errors(problem)
    release, metric, solved, contradicted = problem.release, problem.embedding.metric, problem.solved, ()
    embedding, own, given = problem.embedding, metric, np.asarray(release.theta)[0]
    for _ in range(_MATCHED if release.model.matched is not None else _WEIGHED):
        before = np.asarray(release.theta)[0]
        if release.model.matched is not None:
            try:
                theta = release.model.matched(given, before, solved.pseudo)
            except BayesreconError as error:
                contradicted = (str(error),)
                break
            release = replace(release, theta=theta[None])
        normal, bounded, rule = equation_errors(release, own, solved.pseudo)
        weights = weighing(normal, bounded)
        metric = own @ weights
        embedding = AdaptiveEmbedding(release, metric, problem.embedding.progress)
        solved = fit(embedding, problem.reference, problem.rng, expected=solved.spectrum.rank)
        moved = np.abs(np.linalg.lstsq(own, np.asarray(release.theta)[0] - before, rcond=None)[0]).max()
        if release.model.matched is not None and moved < _CLOSE:
            break
    else:
        if release.model.matched is not None:
            contradicted = ("no data could be matched to the mean and covariance; supply the draws themselves",)
    coarse = too_coarse(release, own)
    contradicted = contradicted or (() if coarse is None else (coarse,))
    if contradicted:
        normal, bounded, rule = equation_errors(release, own, solved.pseudo)
        weights = np.eye(own.shape[1])
        embedding = replace(problem.embedding, release=release)
        solved = problem.solved
    parts = [weights.T @ x for x in (normal, bounded, rule)]
    features = embedding.scores(solved.basis.records, np.array([0])) @ solved.basis.coefficients
    errors, wrong = settled(release, embedding.metric, features, *parts)
    contradicted = contradicted or (() if wrong is None else (wrong,))
    exact = release.noise is None
    if exact:
        return replace(problem, release=release, embedding=embedding, solved=replace(solved, errors=errors))
    solved = replace(solved, errors=errors)
    return replace(
        problem, release=release, embedding=embedding, solved=solved, errors=errors, contradicted=contradicted
    )


def _with_told_errors(problem: Problem) -> Problem:
    solved, release = problem.solved, problem.release
    features = problem.embedding.scores(solved.basis.records, np.array([0])) @ solved.basis.coefficients
    errors, note, wrong = told(release, problem.embedding.metric, features)
    release = release if note is None else replace(release, notes=(*release.notes, note))
    solved, contradicted = replace(solved, errors=errors), () if wrong is None else (wrong,)
    if solved.spectrum.decays:
        solved = shrunk(solved, float(errors.normal[0, 0]) ** 2 * solved.gram)
    return replace(problem, release=release, solved=solved, errors=errors, contradicted=contradicted)


def _with_ascent(problem: Problem) -> Problem:
    """The same with what an optimiser left as errors of the equations, weighed by them."""
    release, own, solved, size = problem.release, problem.embedding.metric, problem.solved, 1.0
    given = release
    for _ in range(_WEIGHED):
        rest = ascent.left(given, own, solved.pseudo)
        release = replace(given, theta=rest.theta[None])
        normal, bounded, rule = equation_errors(release, own, solved.pseudo)
        weights = weighing(np.column_stack([normal, size * rest.errors]), bounded)
        embedding = AdaptiveEmbedding(release, own @ weights, problem.embedding.progress)
        solved = fit(embedding, problem.reference, problem.rng, expected=solved.spectrum.rank)
        features = embedding.scores(solved.basis.records, np.array([0])) @ solved.basis.coefficients
        weighed = weights.T @ normal, weights.T @ bounded, weights.T @ rule
        known = EquationErrors(*weighed, left=np.zeros((0, bounded.shape[1])), right=np.zeros(0))
        left = weights.T @ rest.errors
        errors, size, wrong = ascent.sized(release, own, weights, features, known, left, rest.freedom)
        wrong = rest.wrong or wrong
    solved = replace(solved, errors=errors)
    found = () if wrong is None else (wrong,)
    return replace(problem, release=release, embedding=embedding, solved=solved, errors=errors, contradicted=found)


def normalised(release: Release) -> Release:
    """The release with weights that sum to one, and a note where they did not.

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


def generator(key: Any) -> np.random.Generator:
    """A NumPy generator from an integer or a JAX key."""
    if isinstance(key, (int, np.integer)):
        if key < 0:
            raise BayesreconError(f"key {key}: a seed is a whole number from 0 on")
        return np.random.default_rng(int(key))
    import jax

    try:
        data = jax.random.key_data(key)
    except TypeError:
        raise BayesreconError(f"key must be an integer or a JAX random key, got {type(key).__name__}") from None
    return np.random.default_rng(np.asarray(data, np.uint32).ravel().tolist())
