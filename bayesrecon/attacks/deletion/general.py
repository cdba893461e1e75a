"""One deleted record of any differentiable model (Bertran et al. 2024, section 3.2): its gradient, and its pre-image.

With L_- minus the log posterior of the data without the record, stationary at theta-,

    g = grad l(theta+, z) = grad L_-(theta+) - grad L_-(theta-) = H (theta+ - theta-)

exactly, H the Hessian averaged along the way, or for a released Newton step the Hessian at theta+. Public records stand
in for L_- in `n / m` copies (`curvature`). The record is the one whose own gradient g(z) is nearest to g in units of
`H^-1`,

    |g(z) - g|^2 = g(z)' H^-1 g(z) - 2 g(z)' (theta+ - theta-) + constant:

what z and the move have in common needs no Hessian, and what public records get wrong enters by lengths alone; in units
of the estimate's own covariance one label in ten was another. Public records under every label are the starts, and
Levenberg and Marquardt's method (`matching.descent`) moves them.
"""

from collections.abc import Mapping
from itertools import product

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.attacks.deletion.alignment import log_likelihood
from bayesrecon.attacks.deletion.cautions import cautions_about, notes_of
from bayesrecon.attacks.deletion.checked_inputs import thetas_of, whole_records
from bayesrecon.attacks.deletion.curvature import Curvature, curvature_between
from bayesrecon.attacks.deletion.sketched import Sketched
from bayesrecon.attacks.matching.descent import descend
from bayesrecon.attacks.matching.equations import Equations, Solution
from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.score import gradients
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Records
from bayesrecon.pairs import Deletion
from bayesrecon.results.deletion import DeletedRecord

_LABELS = 200  # combinations of levels that are tried
_DESCENTS = 20  # labels from which a record is sought, those that public records come nearest with
_STARTS, _STEPS = 4, 50  # of the descents, over all labels at least


def gradient_of_deleted(
    pair: Deletion, public: Mapping[str, Array], total: float | None = None, *, path: bool = True
) -> tuple[np.ndarray, Curvature | Sketched]:
    """The gradient `(d,)` of the deleted record's log likelihood at the parameter before, and the curvature.

    Args:
        public: `{field: (m, *shape)}`, all fields.
        total: n, the number of private records; as many as public ones by default.
        path: Hessian averaged between the parameters, for retraining; else that at the first, for a Newton step.

    Raises:
        BayesreconError: public records without a field, fewer than two, a model of too many parameters, two equal
            parameters, or a change that the public records do not see.

    >>> import bayesrecon
    >>> model = bayesrecon.models.load("linear_predictor", penalty=1.0, intercept=False)
    >>> one, two = (bayesrecon.posteriors.dirac(model, {"coef": [[v]]}) for v in (0.5, 0.4))
    >>> x = np.array([[1.0], [2.0]])
    >>> found, _ = gradient_of_deleted(bayesrecon.deletion(one, two), {"x": x, "y": np.zeros(2)}, 2)
    >>> round(float(found[0]), 6)
    0.6
    """
    before, after = thetas_of(pair)
    records, scale = whole_records(pair.before.model, public, total)
    curvature = curvature_between(pair.before.model, before, after, records, scale, path=path)
    return curvature.times(before - after), curvature


def reconstruct_general(
    pair: Deletion, public: Mapping[str, Array], total: float | None = None, *, path: bool = True
) -> DeletedRecord:
    """The deleted record between two trained parameters of any differentiable model.

    Args:
        public, total, path: as of `gradient_of_deleted`; the same errors, and one for too many labels.

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
    model, (before, after) = pair.before.model, thetas_of(pair)
    gradient, curvature = gradient_of_deleted(pair, public, total, path=path)
    table, _ = whole_records(model, public, total)
    equations = _equations(pair, table, gradient, curvature)
    ends = _ends(equations, table)
    best = min(ends, key=lambda end: end.residual)
    each = np.asarray(gradients(model, after, table)) - np.asarray(gradients(model, before, table))
    squares = (each**2).sum(axis=1)
    effective = float(squares.sum() ** 2 / (squares**2).sum())
    probability = _probability(equations, ends, best, before - after, curvature)
    doubts = (
        *cautions_about(probability, what="label", effective=effective),
        *_unexplained(best, len(each) * len(ends), curvature.freedom),
    )
    return DeletedRecord(
        record={k: v[0] for k, v in equations.records(best.x, best.fixed).items()},
        se=None,
        method="HRec",
        evidence=None,
        effective_size=effective,
        before=pair.before.name,
        after=pair.after.name,
        model=model.name,
        probability=probability,
        warnings=(*notes_of(pair), *doubts),
        doubts=doubts,
    )


def _equations(pair: Deletion, table: Records, gradient: np.ndarray, curvature: Curvature | Sketched) -> Equations:
    """One record's gradient against the estimate, inside the range of the public records."""
    model = pair.before.model
    moved = tuple(k for k, f in model.fields.items() if not f.domain.discrete)
    ends = {k: (float(table[k].min()), float(table[k].max())) for k in moved if np.ptp(table[k]) > 0}
    if not ends:
        raise BayesreconError(f"{model.name}: no field of a record varies continuously; use infer_deletion")
    knowledge = check_knowledge(model, domain=ends)
    return Equations(model, np.asarray(pair.before.theta)[0], -gradient, knowledge, moved, True, True, curvature.root())


def _ends(equations: Equations, table: Records) -> list[Solution]:
    """Where descents end that begin at the nearest public records, under every label."""
    model, moved, metric = equations.model, equations.variable_fields, equations.metric
    assert metric is not None
    discrete = [k for k in model.fields if k not in moved]
    levels = [model.fields[k].domain.levels or np.unique(table[k], axis=0) for k in discrete]
    labels = [dict(zip(discrete, values, strict=True)) for values in product(*levels)]
    if len(labels) > _LABELS:
        raise BayesreconError(f"{len(labels)} combinations of {', '.join(discrete)}: at most {_LABELS} are tried")
    count, target, starts = len(next(iter(table.values()))), -metric @ equations.base, []
    for label in labels:
        fixed = {k: np.repeat(np.asarray(v, table[k].dtype)[None], count, axis=0) for k, v in label.items()}
        each = np.asarray(gradients(model, equations.theta, {**{k: table[k] for k in moved}, **fixed}))
        far = np.linalg.norm((metric @ each.T).T - target, axis=1)
        one = {k: v[:1] for k, v in fixed.items()}
        starts.append([(far[i], i, one) for i in np.argsort(far)[: -(-_STARTS // len(labels))]])
    starts.sort(key=lambda group: group[0][0])
    return [
        descend(equations, ({k: np.asarray(table[k][i], float)[None] for k in moved}, fixed), _STEPS, lambda _: None)
        for group in starts[:_DESCENTS]
        for _, i, fixed in group
    ]


def _probability(
    equations: Equations, ends: list[Solution], best: Solution, move: np.ndarray, curvature: Curvature | Sketched
) -> float | None:
    """Of the best record's label among those that were tried: the likelihood of `angle`, each at its best record, whose
    values take as many directions away."""
    if len({_label(end) for end in ends}) < 2:
        return None
    assert equations.metric is not None
    each = np.concatenate([gradients(equations.model, equations.theta, equations.records(e.x, e.fixed)) for e in ends])
    own = (np.asarray(equations.metric @ each.T) ** 2).sum(axis=0)
    moved, length = (float(v @ curvature.times(v)) for v in (move, equations.theta))
    logs, _ = log_likelihood(each @ move, own, moved, curvature.freedom - equations.flatten(best.x).size, length=length)
    found: dict[tuple[float, ...], float] = {}
    for end, value in zip(ends, logs, strict=True):
        found[_label(end)] = max(value, found.get(_label(end), -np.inf))
    top = max(found.values())
    return float(np.exp(found[_label(best)] - top) / sum(np.exp(v - top) for v in found.values()))


def _label(end: Solution) -> tuple[float, ...]:
    return tuple(float(v) for k in end.fixed for v in np.ravel(end.fixed[k]))


def _unexplained(best: Solution, tried: int, freedom: float) -> tuple[str, ...]:
    """That the record explains no more of the change than the best of the starts would explain of any change."""
    chance = 1 - tried ** (-2 / max(freedom - 1, 1.0))  # P(cos^2 > c) is about (1 - c)^((nu - 1) / 2)
    if 1 - best.residual**2 > chance:
        return ()
    return (
        f"the record explains {1 - best.residual**2:.0%} of the change, no more than of an unrelated one: there are "
        "too few "
        "public records, training stopped short of the optimum or at another one, or more than one record was deleted",
    )
