"""A release with its embedding solved, from which all verbs start."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayesrecon.divergence.metric_view import OneRelease
from bayesrecon.divergence.metrics import Metric
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.estimation.span import Fit
from bayesrecon.knowledge import Knowledge
from bayesrecon.releases import Release


@dataclass(frozen=True)
class Problem:
    """A release with its embedding solved.

    Attributes:
        release: the release, in the chosen coordinates.
        knowledge: what the attacker knows.
        reference: the distribution of generic records around the data.
        embedding: the mean embedding of the release.
        solved: the measure that the release determines.
        metric: the metric and the coordinates.
        rng: random generator for later steps.
        rank: rank of the kernel; None if it is not finite.
        contradicted: messages if no data could have the released numbers within their errors.
    """

    release: Release
    knowledge: Knowledge
    reference: Reference
    embedding: OneRelease
    solved: Fit
    metric: Metric
    rng: np.random.Generator
    rank: int | None
    contradicted: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings from reading the release, and questions about it."""
        return kind_of(self.release).warnings(self)

    def failures(self, fitted: Any) -> tuple[str, ...]:
        """One line for each failed check of whether release and model belong together.

        Args:
            fitted: `(T, d)` fitted posterior scores.
        """
        return kind_of(self.release).failures(self, fitted)

    @cached_property
    def unfit(self) -> tuple[str, ...]:
        """The failures, for verbs that do not compute fitted scores themselves."""
        solved = self.solved
        return self.failures(solved.influence(np.zeros((solved.basis.size, 0)))[1])
