"""The residual of held-out equations, which helps to choose a regulariser without the truth."""

from dataclasses import replace
from typing import Unpack

import numpy as np
import scipy.sparse

from bayesrecon.arrays import Key
from bayesrecon.attacks.matching.equations import Equations
from bayesrecon.attacks.matching.gradient import Exact, GradientMatching
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.random_key import generator
from bayesrecon.knowledge import Knows
from bayesrecon.verbs.verb import verb


@verb(uses=None)
def held_out_residual(
    release: Exact, attack: GradientMatching, *, share: float = 0.2, key: Key = 0, **knows: Unpack[Knows]
) -> float:
    """Residual of held-out equations at the solution of the others. There is one equation per parameter.

    With a regulariser that is too weak, records overfit the equations. With one that is too strong, they violate all
    equations. The regulariser with the smallest held-out residual can be chosen without any private record.

    Args:
        release: a trained parameter, or an approximation.
        attack: the attack with the regulariser to evaluate.
        share: share of the equations that are held out.
        key: an integer or a JAX key. The same key holds out the same equations.
        knows: what the attacker knows, as in `reconstruct`.

    Returns:
        The norm of the remaining gradient there, relative to that of the training objective's regulariser.
    """
    attack.check(release, knows)
    equations, rng = attack.equations(release, knows), generator(key)
    order = rng.permutation(equations.size)
    held_out = round(share * len(order))
    if not 0 < held_out < len(order):
        raise BayesreconError(
            f"share={share}: expected a share that holds out some of the {len(order)} equations, not all"
        )
    best = attack.descents(_subset(equations, order[held_out:]), rng, lambda *_: None)[0][0]
    return float(np.linalg.norm(equations.residual(best.x, best.fixed)[order[:held_out]]))


def _subset(equations: Equations, rows: np.ndarray) -> Equations:
    """The equations with these numbers."""
    numbers = np.sort(rows)
    entries = np.ones(len(numbers)), (np.arange(len(numbers)), numbers)
    selection = scipy.sparse.csr_matrix(entries, shape=(len(numbers), equations.size))
    if equations.metric is not None:
        selection = selection @ equations.metric
    subset = replace(equations, metric=selection)
    if not subset.length > 0:
        raise BayesreconError(
            "the training objective's regulariser has no gradient in the equations that are not held out"
        )
    return subset
