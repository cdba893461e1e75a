"""The residual of equations that a reconstruction did not see: what chooses a regulariser without the truth."""

from dataclasses import replace
from typing import Unpack

import numpy as np
import scipy.sparse

from bayesrecon.arrays import Key
from bayesrecon.attacks.matching.equations import Equations
from bayesrecon.attacks.matching.gradient import Exact, GradientMatching
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.estimator import generator
from bayesrecon.knowledge import Knows
from bayesrecon.verbs.verb import verb


@verb(uses=None, alone=False)
def held_out_residual(
    release: Exact, attack: GradientMatching, *, share: float = 0.2, key: Key = 0, **knows: Unpack[Knows]
) -> float:
    """Residual of a random share of the equations, one per parameter, at the solution of the others.

    A regulariser that is too weak lets records imitate the equations they were fitted to, one that is too strong
    violates all of them; the smallest value needs no private record.

    Args:
        attack: with the regulariser that is to be judged.
        share: share of the equations that are left out.
        key: an integer or a JAX key; the same key leaves out the same ones.
        knows: what the attacker knows, as in `reconstruct`.

    Returns:
        The norm of what is left of the gradient there, relative to that of the training objective's regulariser.

    Raises:
        BayesreconError: a share that leaves no equations on either side, or what `reconstruct` refuses.

    >>> import bayesrecon
    >>> model = bayesrecon.models.load("linear_predictor", penalty=1.0, features=2)
    >>> release = bayesrecon.posteriors.dirac(model, {"coef": [[0.5, 0.2]], "intercept": [0.3]})
    >>> held_out_residual(release, GradientMatching(n=3, restarts=2), share=0.3) >= 0
    True
    """
    attack.check(release, knows)
    equations, rng = attack.equations(release, knows), generator(key)
    order = rng.permutation(equations.size)
    few = round(share * len(order))
    if not 0 < few < len(order):
        raise BayesreconError(f"share={share}: of {len(order)} equations some must be left out, and some kept")
    best = attack.descents(_some(equations, order[few:]), rng, lambda *_: None)[0][0]
    return float(np.linalg.norm(equations.residual(best.x, best.fixed)[order[:few]]))


def _some(equations: Equations, rows: np.ndarray) -> Equations:
    """Only these equations."""
    some = np.sort(rows)
    one = np.ones(len(some)), (np.arange(len(some)), some)
    kept = scipy.sparse.csr_matrix(one, shape=(len(some), equations.size))
    if equations.metric is not None:
        kept = kept @ equations.metric
    found = replace(equations, metric=kept)
    if not found.length > 0:
        raise BayesreconError("the training objective's regulariser has no gradient in the equations that are kept")
    return found
