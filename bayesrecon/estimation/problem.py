"""A release with its embedding solved: what all verbs start from."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.estimator import Estimator
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.estimation.span import Fit
from bayesrecon.kernels.one_release import OneRelease
from bayesrecon.knowledge import Knowledge
from bayesrecon.releases import Release


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
    embedding: OneRelease
    solved: Fit
    estimator: Estimator
    rng: np.random.Generator
    rank: int | None
    contradicted: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was noticed while reading, and questions about what was read."""
        return kind_of(self.release).warnings(self)

    def failures(self, fitted: Any) -> tuple[str, ...]:
        """Whether release and model belong together: one line for each check that failed.

        Args:
            fitted: `(T, d)` fitted posterior scores.
        """
        return kind_of(self.release).failures(self, fitted)

    @cached_property
    def unfit(self) -> tuple[str, ...]:
        """The failures, for verbs that have no fitted scores of their own."""
        solved = self.solved
        return self.failures(solved.influence(np.zeros((solved.basis.size, 0)))[1])
