"""Which candidate was deleted, from the angle between the parameter's change and the change each deletion would cause.

Let H be minus the Hessian of the log posterior of the remaining records, and g the deleted record's gradient. Then
`H (theta+ - theta-) = g` exactly (see `prepared`). So `Delta' g_i` with `Delta = theta+ - theta-` needs no Hessian.
By the Cauchy-Schwarz inequality

    cos_i = Delta' g_i / sqrt(g_i' H^-1 g_i * Delta' H Delta)

is largest, namely one, for the deleted record. Public records affect only the lengths, with errors that are nearly the
same for all candidates. A comparison of `H Delta` with `g_i` would have large errors if they are few. The likelihood of
a direction in nu dimensions, with the size of its error integrated out, is `(1 - cos^2)^(-(nu - 1) / 2)`. Here nu is
the number of directions that the data determine, and not the penalty. The change should be as long as the candidate's
own, `Delta' g_i = g_i' H^-1 g_i`. A t distribution allows for a factor of about e. This recognises records that hardly
change the parameter, for which the error of training hides the angle. A change as short as the rounding error carries
no information.
"""

from collections.abc import Mapping

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.attacks.deletion.alignment import log_likelihood, unlike
from bayesrecon.attacks.deletion.checked_inputs import parameters_of, thetas_of, whole_records
from bayesrecon.attacks.deletion.curvature import NODES, curvature_between
from bayesrecon.attacks.deletion.deleted import Improvements
from bayesrecon.attacks.deletion.prepared import PreparedHRec
from bayesrecon.divergence.outer_products import design, slopes
from bayesrecon.divergence.score import gradients
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Records
from bayesrecon.pairs import Deletion

_LARGEST = 4096  # parameters, beyond which the Hessian is taken output by output: 128 MiB, and 10 s to factor
_FLOOR = 1e-9  # of the mean curvature, added where public records and penalty leave a direction without any


def by_gradient(
    pair: Deletion, table: Records, public: Mapping[str, Array] | None, total: float | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Log likelihood of every candidate `(N,)`, up to a constant, and reasons to doubt all of them."""
    if public is None:
        raise BayesreconError("trained parameters need public=: records that stand in for the private Hessian")
    model = pair.before.model
    if model.linear is None:
        return _of_any_model(pair, table, public, total)
    attack = PreparedHRec(model, public, total, Improvements(), None)
    before, after = parameters_of(pair, model)
    x, y = design(model, table[attack.linear.x]), table[attack.linear.y]
    y = y.reshape(len(x), -1) if attack.linear.loss == "squared" else y
    each = np.asarray(slopes(attack.linear, x @ before.T, y))[:, :, None] * x[:, None, :]  # (N, K, q)
    move = before - after
    blocks, inverse, freedom = _curvature(attack, before, after)
    count, size = blocks.shape[:2]
    each, whole = each.reshape(len(x), count, size), move.reshape(count, size)
    along = np.einsum("njb,jb->n", each, whole)
    own = np.einsum("njb,jbc,njc->n", each, inverse, each, optimize=True)
    moved, length = (float(np.einsum("jb,jbc,jc->", v, blocks, v)) for v in (whole, before.reshape(count, size)))
    return _with_warnings(*log_likelihood(along, own, moved, freedom, length=length))


def _of_any_model(
    pair: Deletion, table: Records, public: Mapping[str, Array], total: float | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    model, (before, after) = pair.before.model, thetas_of(pair)
    records, scale = whole_records(model, public, total)
    curvature = curvature_between(model, before, after, records, scale)
    record_gradients = np.asarray(gradients(model, before, table))
    squares = (np.asarray(curvature.root() @ record_gradients.T) ** 2).sum(axis=0)
    change = before - after
    change_norm, length = (float(v @ curvature.times(v)) for v in (change, before))
    return _with_warnings(
        *log_likelihood(record_gradients @ change, squares, change_norm, curvature.freedom, length=length)
    )


def _with_warnings(logs: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    return logs, unlike(logs, shares)


def _curvature(attack: PreparedHRec, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """H in blocks `(J, b, b)`, their inverses, and the effective number of directions that the data determine.

    There is one block for all parameters, or one per output. The data's part is shrunk towards its diagonal by a share
    `q / (q + m)`, because m records may be too few for q directions.
    """
    outputs, q = before.shape
    m = len(attack.x)
    thetas = [after + node * (before - after) for node in NODES]
    curvature = np.mean([attack.curvatures(before, theta) for theta in thetas], axis=0) * (attack.count / m)
    rows = attack.design
    if outputs * q <= _LARGEST:
        found = np.einsum("mkl,mi,mj->kilj", curvature, rows, rows, optimize=True).reshape(1, outputs * q, outputs * q)
    else:
        found = np.stack([(rows * curvature[:, k, k, None]).T @ rows for k in range(outputs)])
    size = found.shape[-1]
    at = np.arange(size)
    diagonal = found[:, at, at].copy()
    share = q / (q + m)
    found *= 1 - share
    found[:, at, at] += share * diagonal
    own = attack.penalty.reshape(len(found), size) + _FLOOR * max(float(diagonal.mean()), np.finfo(float).tiny)
    found[:, at, at] += own
    inverse = np.linalg.inv(found)
    # The trace of H^-1 times its data's part, which is H less a diagonal.
    freedom = own.size - float((inverse[:, at, at] * own).sum())
    return found, inverse, freedom
