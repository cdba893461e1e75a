"""One deleted record of any differentiable model (Bertran et al. 2024, section 3.2): its gradient, and its pre-image.

With L_- minus the log posterior of the data without the record, stationary at theta-,

    grad l(theta+, z) = grad L_-(theta+) - grad L_-(theta-) = H (theta+ - theta-)

exactly, H the Hessian averaged along the way, or for a released Newton step the Hessian at theta+. Public records stand
in for L_- in `n / m` copies: the average needs two gradients, the step one Hessian-vector product, and neither a
solve. Each public record's share of the product, e_i, gives the error's covariance `S = n (1 + n / m) Cov(e_i)`, damped
by a share of its mean variance. The record is the one whose own gradient is nearest in S: public records under every
label are the starts, and Levenberg and Marquardt's method (`matching.equations`) moves them.
"""

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

import jax
import numpy as np
import scipy.linalg

from bayesrecon.attacks.deletion.doubts import doubts_about, notes_of
from bayesrecon.attacks.matching.equations import End, Equations
from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.score import gradients, prior_score
from bayesrecon.knowledge import check_knowledge
from bayesrecon.results.deletion import DeletedRecord
from bayesrecon.types import Deletion, Model, Records

_MOST = 4000  # parameters whose error is factorised
_DAMPING = 0.1  # of the mean variance
_LABELS = 200  # combinations of levels that are tried
_STARTS, _STEPS = 4, 50  # of the descents
_DECIDED = 9.2  # chi-squared by which another label must be farther: a hundredth of the likelihood
_UNEXPLAINED = 0.97  # of the change, from which the record found has little to do with it


def gradient_of_deleted(
    pair: Deletion, public: Records, total: float, *, path: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The gradient `(d,)` of the deleted record's log likelihood at the parameter before.

    Args:
        public: `{field: (m, *shape)}`, all fields.
        total: n, the number of private records.
        path: Hessian averaged between the parameters, for retraining; else that at the first, for a Newton step.

    Returns:
        The estimate, and what every public record contributes to the product, `(m, d)`.

    >>> import bayesrecon
    >>> model = bayesrecon.models.load("linear_predictor", penalty=1.0, intercept=False)
    >>> one, two = (bayesrecon.posteriors.dirac(model, {"coef": [[v]]}) for v in (0.5, 0.4))
    >>> x = np.array([[1.0], [2.0]])
    >>> found, _ = gradient_of_deleted(bayesrecon.deletion(one, two), {"x": x, "y": np.zeros(2)}, 2)
    >>> round(float(found[0]), 6)
    0.6
    """
    model = pair.before.model
    before, after = (np.asarray(r.theta)[0] for r in (pair.before, pair.after))
    scale = total / len(next(iter(public.values())))
    if path:
        each = np.asarray(gradients(model, after, public)) - np.asarray(gradients(model, before, public))
        identity = np.eye(len(before))
        ends = (np.asarray(prior_score(model, identity, t[None], 0.0))[0] for t in (after, before))
        prior = next(ends) - next(ends)
    else:
        each, prior = (np.asarray(v) for v in _products(model, before, after - before, public))
    return scale * each.sum(axis=0) + prior, each


@partial(jax.jit, static_argnames="model")
def _products(model: Model, theta: Any, v: Any, records: Records) -> tuple[Any, Any]:
    """Hessians of every record's log likelihood `(m, d)` and of the log prior `(d,)`, times v."""

    def one(record: Records) -> Any:
        return jax.jvp(jax.grad(lambda t: model.log_lik(t, record)), (theta,), (v,))[1]

    return jax.vmap(one)(records), jax.jvp(jax.grad(model.log_prior), (theta,), (v,))[1]


def reconstruct_general(
    pair: Deletion, public: Mapping[str, Any], total: float | None = None, *, path: bool = True
) -> DeletedRecord:
    """The deleted record between two trained parameters of any differentiable model.

    Args:
        public: `{field: (m, *shape)}` records with all their fields, from the same distribution.
        total: n; as many as public records by default.
        path: as of `gradient_of_deleted`.

    Raises:
        BayesreconError: public records without a field, fewer than two, a model of too many parameters or labels, or a
            change that the public records do not see.

    >>> import bayesrecon
    >>> from bayesrecon.posteriors import retrain_without, train
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor", features=2, penalty=1.0)
    >>> data = {"x": rng.normal(size=(400, 2)), "y": rng.normal(size=400)}
    >>> before = train(model, data).release
    >>> pair = bayesrecon.deletion(before, retrain_without(before, data, [7])[0].release)
    >>> found = reconstruct_general(pair, {k: v[200:] for k, v in data.items()}, 400)
    >>> bool(abs(found.record["x"] - data["x"][7]).max() < 0.2)
    True
    """
    model = pair.before.model
    missing = [k for k in model.fields if k not in public]
    if missing:
        raise BayesreconError(f"public data lack field {missing[0]!r}: {model.name} needs all fields of public records")
    if model.dimension > _MOST:
        raise BayesreconError(
            f"{model.name} has {model.dimension:,} parameters; records of models without a linear predictor are "
            f"reconstructed up to {_MOST:,}"
        )
    table = check_knowledge(model, known={k: public[k] for k in model.fields}).known
    count = len(next(iter(table.values())))
    if count < 2:
        raise BayesreconError("HRec needs at least two public records")
    size = float(count if total is None else total)
    gradient, each = gradient_of_deleted(pair, table, size, path=path)
    squares = (each**2).sum(axis=1)
    if not np.isfinite(gradient).all() or not squares.sum() > 0:
        raise BayesreconError("the public Hessian does not see the change of the parameters: supply more of them")
    metric = _metric(each, size)
    equations = _equations(pair, table, gradient, metric)
    starts, rivals = _starts(equations, table)
    ends = sorted((equations.descend(start, _STEPS, lambda _: None) for start in starts), key=lambda end: end.residual)
    best = ends[0]
    length = float(np.linalg.norm(metric @ gradient))
    effective = float(squares.sum() ** 2 / (squares**2).sum())
    record = {k: v[0] for k, v in equations.records(best.x, best.still).items()}
    return DeletedRecord(
        record=record,
        se=None,
        method="HRec",
        evidence=None,
        effective=effective,
        before=pair.before.name,
        after=pair.after.name,
        model=model.name,
        warnings=(
            *notes_of(pair),
            *doubts_about(None, what="label", effective=effective),
            *_doubts(best, rivals, length),
        ),
    )


def _metric(each: np.ndarray, total: float) -> np.ndarray:
    """The inverse of a factor of the estimate's covariance, damped, `(d, d)`."""
    noise = total * (1 + total / len(each)) * np.cov(each.T, bias=True).reshape(each.shape[1], -1)
    noise[np.diag_indices(len(noise))] += _DAMPING * np.trace(noise) / len(noise)
    root = scipy.linalg.cholesky(noise, lower=True)
    return scipy.linalg.solve_triangular(root, np.eye(len(root)), lower=True)


def _equations(pair: Deletion, table: Records, gradient: np.ndarray, metric: np.ndarray) -> Equations:
    """One record's gradient against the estimate, inside the range of the public records."""
    model = pair.before.model
    moved = tuple(k for k, f in model.fields.items() if not f.domain.discrete)
    bounds = {k: (float(table[k].min()), float(table[k].max())) for k in moved if np.ptp(table[k]) > 0}
    if not bounds:
        raise BayesreconError(f"{model.name}: no field of a record varies continuously; use infer_deletion")
    knowledge = check_knowledge(model, bounds=bounds)
    return Equations(model, np.asarray(pair.before.theta)[0], -gradient, knowledge, moved, True, True, metric)


def _starts(equations: Equations, table: Records) -> tuple[list[tuple[Records, Records]], list[tuple[Records, float]]]:
    """Public records under any label whose gradients are nearest, and every label's smallest relative distance."""
    model, moved = equations.model, equations.moved
    discrete = [k for k in model.fields if k not in moved]
    levels = [np.unique(table[k], axis=0) for k in discrete]
    labels = [dict(zip(discrete, values, strict=True)) for values in product(*levels)]
    if len(labels) > _LABELS:
        raise BayesreconError(f"{len(labels)} combinations of {', '.join(discrete)}: at most {_LABELS} are tried")
    count, found, rivals = len(next(iter(table.values()))), [], []
    assert equations.metric is not None
    target = -equations.metric @ equations.base
    for label in labels:
        still = {k: np.repeat(np.asarray(v)[None], count, axis=0) for k, v in label.items()}
        each = np.asarray(gradients(model, equations.theta, {**{k: table[k] for k in moved}, **still}))
        far = np.linalg.norm(each @ equations.metric.T - target, axis=1) / np.linalg.norm(target)
        rivals.append(({k: np.asarray(v)[None] for k, v in label.items()}, float(far.min())))
        found += [(far[i], i, rivals[-1][0]) for i in np.argsort(far)[:_STARTS]]
    found.sort(key=lambda one: one[0])
    starts = [({k: np.asarray(table[k][i], float)[None] for k in moved}, still) for _, i, still in found[:_STARTS]]
    return starts, rivals


def _doubts(best: End, rivals: list[tuple[Records, float]], length: float) -> tuple[str, ...]:
    """That another label is as good, or that none is."""
    lines = []
    others = [far for label, far in rivals if any(not np.array_equal(label[k], best.still[k]) for k in label)]
    if others and (min(others) ** 2 - best.residual**2) * length**2 < _DECIDED:
        lines.append("a record with another label explains the change nearly as well; the label is not certain")
    if best.residual > _UNEXPLAINED:
        lines.append(
            f"the record explains {1 - best.residual**2:.0%} of the change in units of its error: training stopped "
            "short of the optimum or at another one, more than one record was deleted, or public records are too few"
        )
    return tuple(lines)
