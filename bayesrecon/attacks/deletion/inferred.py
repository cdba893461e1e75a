"""`infer_deletion`: which of the candidates was deleted between two releases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.attacks.deletion.change import log_likelihood, parameters_of, thetas_of, unlike
from bayesrecon.attacks.deletion.curvature import NODES
from bayesrecon.attacks.deletion.deleted import Improvements
from bayesrecon.attacks.deletion.difference import between
from bayesrecon.attacks.deletion.hrec import gradient_of_deleted
from bayesrecon.attacks.deletion.hypotheses import weighed
from bayesrecon.attacks.deletion.prepared import PreparedHRec
from bayesrecon.divergence.outer_products import design, slopes
from bayesrecon.divergence.score import gradients
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Records
from bayesrecon.pairs import ApproximatedPair, Deletion, DrawsPair, TrainedPair, Unchanged
from bayesrecon.results.deletion import DeletionInference
from bayesrecon.results.recovery import Row
from bayesrecon.verbs.verb import opened_pair, verb


@verb((ApproximatedPair, DrawsPair, TrainedPair), uses=("total",), opens=opened_pair)
def infer_deletion(
    pair: Deletion,
    candidates: Mapping[str, object],
    *,
    public: Mapping[str, Array] | None = None,
    total: float | None = None,
    premise: float | None = None,
) -> DeletionInference:
    """The posterior probability of each candidate that it is the deleted record.

    Args:
        pair: releases before and after the deletion: posterior draws, trained parameters, or approximations (modes with
            covariances, tables, summaries of draws, densities).
        candidates: `{field: (N, *shape)}`, N records, one of which was deleted. Approximations also determine how many
            records were deleted (`deleted` in the result). If there are several, the probability of a candidate is that
            of being among them.
        public: for trained parameters only: public records with all fields, which replace the private ones in the
            Hessian.
        total: for trained parameters only: number of private records. Defaults to the number of public records.
        premise: for draws only: prior probability that exactly one record was deleted and that it is a candidate, 0.5
            by default. The other hypotheses share the rest equally. If it is 1, they are not weighed.

    Raises:
        BayesreconError: candidates lack a field; `public` is given for draws, or missing for trained parameters; or the
            two releases differ in size. For approximations also: no data set has these
            values, the number of deleted records is not determined, or there are too many sets of candidates of that
            size.

    >>> import bayesrecon, numpy as np
    >>> from bayesrecon.posteriors import retrain_without, train
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor", features=2, penalty=1.0)
    >>> data = {"x": rng.normal(size=(400, 2)), "y": rng.normal(size=400)}
    >>> before = train(model, data).release
    >>> pair = bayesrecon.deletion(before, retrain_without(before, data, [7])[0].release)
    >>> some, public = ({k: v[rows] for k, v in data.items()} for rows in (slice(20), slice(200, None)))
    >>> int(infer_deletion(pair, some, public=public, total=400).probability.argmax())
    7
    """
    model = pair.before.model
    if not hasattr(candidates, "keys"):
        raise BayesreconError(f"candidates are a mapping of fields to values (fields: {', '.join(model.fields)})")
    missing = [f for f in model.fields if f not in candidates]
    if missing:
        raise BayesreconError(f"the candidates lack field {missing[0]} (fields: {', '.join(model.fields)})")
    table = check_knowledge(model, known=candidates).known
    inference = _BY[type(pair)](pair, table, public, total, premise)
    log_likelihood, probability = inference.log_likelihood, inference.probability
    weight = np.exp(log_likelihood - log_likelihood.max())
    return DeletionInference(
        weight / weight.sum() if probability is None else probability,
        log_likelihood,
        inference.method,
        inference.effective_draws,
        pair.before.name,
        pair.after.name,
        model.name,
        tuple(dict.fromkeys((*pair.before.notes, *pair.after.notes, *inference.warnings))),
        inference.deleted,
        inference.hypotheses,
        inference.bayes_factors,
    )


@dataclass(frozen=True)
class _Inference:
    """Evidence of a pair for the candidates.

    Attributes:
        log_likelihood: `(N,)`.
        probability: `(N,)`; None if it follows from `log_likelihood`.
        method, effective_draws, deleted, hypotheses, bayes_factors: as in the result.
    """

    log_likelihood: np.ndarray
    method: str
    effective_draws: float = float("inf")
    warnings: Sequence[str] = ()
    deleted: tuple[Row, ...] = ()
    probability: np.ndarray | None = None
    hypotheses: dict[str, float] = field(default_factory=dict)
    bayes_factors: dict[str, float] = field(default_factory=dict)


def _of_approximations(
    pair: Deletion,
    table: Records,
    public: Mapping[str, Array] | None,
    total: float | None,
    premise: float | None,
) -> _Inference:
    if public is not None or total is not None or premise is not None:
        raise BayesreconError("public=, total= and premise= are not used for approximations; leave them out")
    approximated = between(pair, table)
    return _Inference(
        approximated.log_likelihood,
        "totals",
        warnings=approximated.warnings,
        deleted=approximated.deleted,
        probability=approximated.probability,
    )


def _of_trained(
    pair: Deletion,
    table: Records,
    public: Mapping[str, Array] | None,
    total: float | None,
    premise: float | None,
) -> _Inference:
    if pair.before.theta.shape[1] != pair.after.theta.shape[1]:
        raise BayesreconError("before and after have parameters of different size; they cannot be of one model")
    if premise is not None:
        raise BayesreconError("premise= weighs hypotheses about posterior draws; leave it out for trained parameters")
    try:
        log_likelihood, warnings = by_gradient(pair, table, public, total)
    except Unchanged as said:
        log_likelihood, warnings = np.zeros(len(next(iter(table.values())))), (str(said),)
    return _Inference(log_likelihood, "gradient", warnings=warnings)


def _of_draws(
    pair: Deletion,
    table: Records,
    public: Mapping[str, Array] | None,
    total: float | None,
    premise: float | None,
) -> _Inference:
    if public is not None:
        raise BayesreconError("posterior draws contain the curvature: leave out public")
    if premise is not None and not 0 < premise <= 1:
        raise BayesreconError(f"premise={premise}: expected a probability above 0, at most 1")
    found = weighed(pair, table, 0.5 if premise is None else premise)
    return _Inference(
        found.log_likelihood,
        "ratio",
        found.effective,
        found.warnings,
        found.deleted,
        found.probability,
        found.hypotheses,
        found.bayes_factors,
    )


_Infer = Callable[[Deletion, Records, Mapping[str, Array] | None, float | None, float | None], _Inference]
_BY: dict[type[Deletion], _Infer] = {
    ApproximatedPair: _of_approximations,
    TrainedPair: _of_trained,
    DrawsPair: _of_draws,
}


# Which candidate was deleted, from the angle between the parameter's change and the change each deletion would cause.
#
# Let H be minus the Hessian of the log posterior of the remaining records, and g the deleted record's gradient. Then `H
# (theta+ - theta-) = g` exactly (see `prepared`). So `Delta' g_i` with `Delta = theta+ - theta-` needs no Hessian. By
# the Cauchy-Schwarz inequality
#
#     cos_i = Delta' g_i / sqrt(g_i' H^-1 g_i * Delta' H Delta)
#
# is largest, namely one, for the deleted record. Public records affect only the lengths, with errors that are nearly
# the same for all candidates. A comparison of `H Delta` with `g_i` would have large errors if they are few. The
# likelihood of a direction in nu dimensions, with the size of its error integrated out, is `(1 - cos^2)^(-(nu - 1) /
# 2)`. Here nu is the number of directions that the data determine, and not the penalty. The change should be as long as
# the candidate's own, `Delta' g_i = g_i' H^-1 g_i`. A t distribution allows for a factor of about e. This recognises
# records that hardly change the parameter, for which the error of training hides the angle. A change as short as the
# rounding error carries no information.

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
    attack.refuse_rounding(pair, *attack.gradient(before, after))
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
    _, curvature = gradient_of_deleted(pair, public, total)
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
