"""A trained parameter: the equations of its optimum, without errors. It is checked that some data could have it."""

import numpy as np

from bayesrecon.divergence.score import prior_score
from bayesrecon.estimation.kinds.kind import Kind
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.stationary import check_trained
from bayesrecon.releases import TrainedParameter


class OfTrained(Kind):
    of = TrainedParameter

    def failures(self, problem: Problem, fitted: np.ndarray) -> tuple[str, ...]:
        return beyond_data(problem)


def beyond_data(problem: Problem) -> tuple[str, ...]:
    """The part of the regulariser's gradient that no data cancel, if it is larger than the error of training."""
    release, embedding = problem.release, problem.embedding
    some = release.model.dimension * 5 // 4 + 16
    # So few may have none of a rare cell: those of the basis show every feature that was found.
    anchors = problem.solved.basis.records
    probes = {k: np.concatenate([np.asarray(anchors[k]), v[:some]]) for k, v in problem.solved.probes.items()}
    base = prior_score(release.model, embedding.metric, np.asarray(release.theta), release.temperature)
    return check_trained(embedding.scores(probes, np.array([0])), np.asarray(base)[0])


KIND = OfTrained()
