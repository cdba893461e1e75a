"""Removal of the bias of order rank / T from solutions, by a jackknife over blocks of draws."""

import numpy as np
import scipy.linalg

from bayesrecon.divergence.mean_embedding import Basis, MeanEmbedding, Moments, summed
from bayesrecon.estimation.error_laws import law_of

_BLOCKS = 20  # of the draws, for the jackknife: few enough to be longer than draws are correlated
_LARGEST_SUMS = 2 * 10**8  # doubles of their sums
_RELEVANT_BIAS = 0.25  # squared features per independent draw from which bias is a tenth of a standard error or more
_LEAST_WEIGHT = 0.1  # share of the weight that has to be left without a stretch


def stretches_of(embedding: MeanEmbedding, basis: Basis) -> int:
    """Number of blocks of draws whose sums are kept separately; one if the bias is small next to the noise."""
    if basis.size**2 < _RELEVANT_BIAS * embedding.independent_size:
        return 1
    return law_of(embedding).jackknife_blocks(_BLOCKS) if _BLOCKS * basis.size**2 <= _LARGEST_SUMS else 1


def jackknifed(moments: Moments, plain: np.ndarray) -> np.ndarray:
    """The `plain` solution with its bias of order rank / T removed, which arises because gram and target share draws.

    The delete-a-group jackknife (Busing, Meijer and van der Leeden 1999) works for correlated draws too. About half
    of the bias remains, because the metrics of the other folds are not recomputed without the block.
    """
    total = summed(moments.stretches)
    functions = total.functions
    # Where the basis is another one of what it is written in, equations are solved in that, without a product each.
    as_written = functions is not None and len(functions) == functions.shape[1]
    leave_out_sum = np.zeros_like(plain)
    for block in moments.stretches:
        remaining_weight = 1 - block.share / total.share
        if remaining_weight < _LEAST_WEIGHT:
            return plain
        if as_written:
            gram = total.feature_gram - block.feature_gram
            target = total.feature_target - block.feature_target
        else:
            gram, target = moments.gram - block.gram, moments.target - block.target
        try:
            leave_out_sum += remaining_weight * scipy.linalg.cho_solve(
                scipy.linalg.cho_factor(gram, check_finite=False), target
            )
        except np.linalg.LinAlgError:  # this stretch alone shows some feature
            return plain
    if functions is not None and as_written:
        leave_out_sum = np.linalg.solve(functions, leave_out_sum)
    return len(moments.stretches) * plain - leave_out_sum
