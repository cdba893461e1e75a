"""Solutions less their bias of order rank / T, by the jackknife over stretches of the draws."""

import numpy as np
import scipy.linalg

from bayesrecon.estimation.error_laws import law_of
from bayesrecon.kernels.embedding import Basis, MeanEmbedding, Moments, summed

_STRETCHES = 20  # of the draws, for the jackknife: few enough to be longer than draws are correlated
_KEPT = 2 * 10**8  # doubles of their sums
_FELT = 0.25  # squared features per independent draw from which bias is a tenth of a standard error or more
_REST = 0.1  # share of the weight that has to be left without a stretch


def stretches_of(embedding: MeanEmbedding, basis: Basis) -> int:
    """Stretches of the draws whose sums are kept apart: one where the bias is not felt next to the noise."""
    if basis.size**2 < _FELT * embedding.independent_size:
        return 1
    return law_of(embedding).jackknife_blocks(_STRETCHES) if _STRETCHES * basis.size**2 <= _KEPT else 1


def jackknifed(moments: Moments, plain: np.ndarray) -> np.ndarray:
    """The `plain` solution less bias of order rank / T: gram and target come from the same draws.

    The delete-a-group jackknife (Busing, Meijer and van der Leeden 1999) sees it in correlated draws too. About half
    of it stays: what a stretch adds through the metrics of other folds, which are not made again.
    """
    whole = summed(moments.stretches)
    functions = whole.functions
    # Where the basis is another one of what it is written in, equations are solved in that, without a product each.
    as_written = functions is not None and len(functions) == functions.shape[1]
    less = np.zeros_like(plain)
    for one in moments.stretches:
        rest = 1 - one.share / whole.share
        if rest < _REST:
            return plain
        if as_written:
            gram, target = whole.own - one.own, whole.aim - one.aim
        else:
            gram, target = moments.gram - one.gram, moments.target - one.target
        try:
            less += rest * scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram, check_finite=False), target)
        except np.linalg.LinAlgError:  # this stretch alone shows some feature
            return plain
    if functions is not None and as_written:
        less = np.linalg.solve(functions, less)
    return len(moments.stretches) * plain - less
