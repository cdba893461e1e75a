"""The common first steps of all verbs: check what is known, choose the metric, locate the data, solve the embedding."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.categories import library_of
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.estimation.locate import locate
from bayesrecon.estimation.solve import fit
from bayesrecon.estimation.span import Fit
from bayesrecon.estimation.statistics import Library
from bayesrecon.estimation.totals import SampledTotals, part_totals
from bayesrecon.estimation.weighted_fits import restated
from bayesrecon.kernels.adaptive import AdaptiveEmbedding
from bayesrecon.kernels.metric import fold_factors, metric_factor
from bayesrecon.knowledge import Knowledge, Knows, check_knowledge, with_factors_of
from bayesrecon.model import Progress
from bayesrecon.releases import Release
from bayesrecon.running.threads import on_one_thread


@dataclass(frozen=True)
class Estimator:
    """The metric and coordinates of the divergence.

    Attributes:
        metric: "covariance" whitens by the covariance of the draws. It is nearly efficient, and the default for draws.
            "identity" gives the unwhitened divergence, and is the default for a trained parameter. An approximation
            brings its "own" metric.
        coordinates: "unconstrained" is the default. "constrained" requires that the density vanishes at every boundary.

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
        """This estimator with the defaults for a release filled in."""
        return Estimator(self.metric or release.default_metric, self.coordinates or "unconstrained")


@dataclass(frozen=True)
class Problem:
    """A release with its embedding solved.

    Attributes:
        release: in the coordinates in use.
        knowledge: what is known beforehand.
        reference: the law of generic records around the data.
        embedding: of the release.
        solved: the measure that the release determines.
        estimator: the metric and coordinates in use.
        rng: for whatever is random later.
        rank: of the kernel, None where it is not finite.
        contradicted: what is wrong where no data have the released numbers within their errors.
    """

    release: Release
    knowledge: Knowledge
    reference: Reference
    embedding: AdaptiveEmbedding
    solved: Fit
    estimator: Estimator
    rng: np.random.Generator
    rank: int | None
    contradicted: tuple[str, ...] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        """What was noticed while reading, and questions about what was read."""
        return kind_of(self.release).asked(self)

    def failures(self, fitted: Any) -> tuple[str, ...]:
        """Whether release and model belong together: one line for each check that failed.

        Args:
            fitted: `(T, d)` fitted posterior scores.
        """
        return kind_of(self.release).failures(self, fitted)

    def totals(self, statistics: Mapping[str, Any] | None = None) -> tuple[Library, SampledTotals]:
        """The statistics, with `{name: f}` per-record functions in addition, and the totals that they are made of."""
        knowledge, reference = self.knowledge, self.reference
        library = library_of(knowledge, reference.centre, reference.scale, statistics, self.solved.probes)
        return library, part_totals(self.solved, library, knowledge)

    @cached_property
    def unfit(self) -> tuple[str, ...]:
        """The failures, for verbs that have no fitted scores of their own."""
        solved = self.solved
        return self.failures(solved.influence(np.zeros((solved.basis.size, 0)))[1])


def embedding_of(view: Release, metric: str, progress: Progress | None = None) -> AdaptiveEmbedding:
    """The embedding of a release in the coordinates in use."""
    return AdaptiveEmbedding(view, metric_factor(view, metric), progress, fold_factors(view, metric))


@on_one_thread
def solve_release(
    release: Release,
    estimator: Estimator | None = None,
    *,
    key: Any = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Problem:
    """Check the input of a verb once and solve the embedding, with the errors that releases of its kind have."""
    kind, chosen = kind_of(release), (estimator or Estimator()).settled(release)
    release, stated = restated(release, with_factors_of(release.about, knows))
    knowledge = check_knowledge(release.model, **stated)  # type: ignore[arg-type]
    if isinstance(knowledge.unit, tuple):
        raise BayesreconError(
            f"unit={knowledge.unit!r}: several fields together name a record in `reconstruct`; here a unit is one field"
        )
    view = kind.opened(release, str(chosen.coordinates))
    embedding = embedding_of(view, str(chosen.metric), progress)
    rng = generator(key)
    reference, rank = locate(embedding, knowledge, rng)
    solved = fit(embedding, reference, rng, finite=rank is not None, expected=rank or 0)
    return kind.weighed(Problem(view, knowledge, reference, embedding, solved, chosen, rng, rank))


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
