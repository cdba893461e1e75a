"""`HRec`: the deleted record, from two trained parameters and public records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar

import jax
import numpy as np

from bayesrecon.arrays import Array, Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.deletion.change import (
    cautions_about,
    log_likelihood,
    notes_of,
    refuse_rounding,
    thetas_of,
    whole_records,
)
from bayesrecon.attacks.deletion.curvature import Curvature, Sketched, curvature_between
from bayesrecon.attacks.deletion.deleted import Improvements
from bayesrecon.attacks.deletion.inversion import Embedding
from bayesrecon.attacks.deletion.prepared import PreparedHRec
from bayesrecon.attacks.matching.descent import descend
from bayesrecon.attacks.matching.equations import Equations, Solution
from bayesrecon.divergence.score import gradients
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import Knows, check_knowledge
from bayesrecon.model import Model, Progress, Records
from bayesrecon.pairs import Deletion, TrainedPair
from bayesrecon.results.deletion import DeletedRecord


@dataclass(frozen=True, eq=False)
class HRec(Attack[DeletedRecord]):
    """The deleted record, from two trained parameters. Public records replace the private ones in the Hessian.

    The model is taken from the pair. Whatever is computed from the public records is cached, so that one object can be
    reused for any number of deletions. `total` is the number of private records. By default it is taken to be the
    number of public records. A model without a linear predictor (for example from `models.from_loss`) needs public
    records with all fields. Of the `Improvements`, only `path` applies to such a model. Turn `path` off if the release
    is a Newton step.

    >>> from sklearn.linear_model import Ridge
    >>> import bayesrecon, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(400, 3))
    >>> y = x @ [1.0, 2.0, 0.0] + 0.1 * x[:, 0] ** 2
    >>> trained = [bayesrecon.posteriors.from_sklearn(Ridge(1.0).fit(x[i:200], y[i:200])) for i in (0, 1)]
    >>> attack = HRec(public={"x": x[200:], "y": y[200:]})
    >>> found = bayesrecon.reconstruct(bayesrecon.deletion(*trained), attack=attack).record["x"]
    >>> bool(found @ x[0] > 0.9 * np.linalg.norm(found) * np.linalg.norm(x[0]))
    True
    """

    name: ClassVar[str] = "hrec"
    summary: ClassVar[str] = "the record deleted between two trained parameters, from public records"
    takes: ClassVar[tuple[type, ...]] = (TrainedPair,)
    uses: ClassVar[tuple[str, ...]] = ("total",)

    public: Mapping[str, jax.Array] | None = option(
        None, "Public records {x: (m, p), y: (m,)} from the same distribution; labels (y) fit the temperature."
    )
    improvements: Improvements = option(
        Improvements(), "Improvements over the published method; Improvements.none() is the published one."
    )
    embedding: Embedding | None = option(
        None, "Function from records to the model's features, in jax.numpy; it is inverted to find the record."
    )
    _prepared: dict[tuple[Model, float | None], "PreparedHRec"] = field(default_factory=dict, init=False, repr=False)

    def prepare(self, model: Model, total: float | None = None) -> "PreparedHRec":
        """Compute once what all deletions from one model share.

        Raises:
            BayesreconError: there are no public records, their columns are not those of the model, or the model has no
                linear predictor.
        """
        if self.public is None:
            raise BayesreconError(
                "trained parameters need public records to estimate the private Hessian: attack=HRec(public={...})"
            )
        if (model, total) not in self._prepared:
            self._prepared[model, total] = PreparedHRec(model, self.public, total, self.improvements, self.embedding)
        return self._prepared[model, total]

    def run(self, release: Deletion, knows: Knows, *, key: Key, progress: Progress) -> DeletedRecord:
        model, total = release.before.model, knows.get("total")
        if model.linear is not None:
            return self.prepare(model, total).deleted(release)
        if self.public is None or self.embedding is not None:
            raise BayesreconError(
                f"{model.name} has no linear predictor: HRec needs public records with all fields, and no embedding"
            )
        return reconstruct_general(release, self.public, total, path=self.improvements.path)


ATTACK = HRec


# One deleted record of any differentiable model (Bertran et al. 2024, section 3.2): its gradient, and its pre-image.
#
# With L_- minus the log posterior of the data without the record, stationary at theta-,
#
#     g = grad l(theta+, z) = grad L_-(theta+) - grad L_-(theta-) = H (theta+ - theta-)
#
# exactly. H is the Hessian averaged along the way, or for a released Newton step the Hessian at theta+. It is estimated
# from public records, `n / m` copies of each (`curvature`). The reconstruction is the record whose gradient g(z) is
# nearest to g in the metric `H^-1`,
#
#     |g(z) - g|^2 = g(z)' H^-1 g(z) - 2 g(z)' (theta+ - theta-) + constant:
#
# The inner product of g(z) and the change needs no Hessian, so errors of the estimated Hessian only affect lengths. In
# the metric of the estimate's covariance one label in ten was wrong. The descents (Levenberg and Marquardt's method,
# `matching.descent`) start from public records with every label.

_NUMBERS = 2**24  # of gradients at a time, 128 MiB
_LABELS = 200  # largest number of combinations of levels
_DESCENTS = 20  # largest number of labels with descents: those with the nearest public records
_STARTS, _STEPS = 4, 50  # smallest number of starts over all labels, and number of steps of a descent


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
            parameters, or public records without curvature.

    >>> import bayesrecon
    >>> model = bayesrecon.models.load("linear_predictor", penalty=1.0, intercept=False)
    >>> before, after = (bayesrecon.posteriors.dirac(model, {"coef": [[v]]}) for v in (0.5, 0.4))
    >>> x = np.array([[1.0], [2.0]])
    >>> gradient, _ = gradient_of_deleted(bayesrecon.deletion(before, after), {"x": x, "y": np.zeros(2)}, 2)
    >>> round(float(gradient[0]), 6)
    0.6
    """
    before, after = thetas_of(pair)
    records, scale = whole_records(pair.before.model, public, total)
    curvature = curvature_between(pair.before.model, before, after, records, scale, path=path)
    gradient, count = curvature.times(before - after), scale * len(next(iter(records.values())))
    error = np.sqrt(count * (1 + scale)) * _spread(pair.before.model, before, after, records)
    refuse_rounding(pair, gradient, curvature.rounding(before, count), count, error=error)
    return gradient, curvature


def _spread(model: Model, before: np.ndarray, after: np.ndarray, records: Records) -> np.ndarray:
    """Standard deviation `(d,)` of what single public records contribute to `H (theta+ - theta-)`."""
    size = len(next(iter(records.values())))
    total, square = np.zeros((2, len(before)))
    for chosen in np.array_split(np.arange(size), -(-size * len(before) // _NUMBERS)):
        some = {k: v[chosen] for k, v in records.items()}
        shares = np.asarray(gradients(model, after, some)) - np.asarray(gradients(model, before, some))
        total, square = total + shares.sum(axis=0), square + (shares**2).sum(axis=0)
    return np.sqrt(np.maximum(square / size - (total / size) ** 2, 0.0))


def reconstruct_general(
    pair: Deletion, public: Mapping[str, Array], total: float | None = None, *, path: bool = True
) -> DeletedRecord:
    """The deleted record between two trained parameters of any differentiable model.

    Args:
        public, total, path: as in `gradient_of_deleted`.

    Raises:
        BayesreconError: as in `gradient_of_deleted`, or if there are too many labels.

    >>> import bayesrecon
    >>> from bayesrecon.posteriors import retrain_without, train
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor", features=2, penalty=1.0)
    >>> data = {"x": rng.normal(size=(400, 2)), "y": rng.normal(size=400)}
    >>> before = train(model, data).release
    >>> pair = bayesrecon.deletion(before, retrain_without(before, data, [7])[0].release)
    >>> deleted = reconstruct_general(pair, {k: v[200:] for k, v in data.items()}, 400)
    >>> bool(abs(deleted.record["x"] - data["x"][7]).max() < 0.2)
    True
    """
    model, (before, after) = pair.before.model, thetas_of(pair)
    gradient, curvature = gradient_of_deleted(pair, public, total, path=path)
    table, _ = whole_records(model, public, total)
    equations = _equations(pair, table, gradient, curvature)
    solutions = _solutions(equations, table)
    best = min(solutions, key=lambda solution: solution.residual)
    changes = np.asarray(gradients(model, after, table)) - np.asarray(gradients(model, before, table))
    squares = (changes**2).sum(axis=1)
    effective = float(squares.sum() ** 2 / (squares**2).sum())
    probability = _probability(equations, solutions, best, before - after, curvature)
    doubts = (
        *cautions_about(probability, what="label", effective=effective),
        *_unexplained(best, len(changes) * len(solutions), curvature.freedom),
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
    """The equations `g(z) = g` for one record, within the range of the public records."""
    model = pair.before.model
    variable = tuple(k for k, f in model.fields.items() if not f.domain.discrete)
    bounds = {k: (float(table[k].min()), float(table[k].max())) for k in variable if np.ptp(table[k]) > 0}
    if not bounds:
        raise BayesreconError(f"{model.name}: no field of a record varies continuously; use infer_deletion")
    knowledge = check_knowledge(model, domain=bounds)
    return Equations(
        model, np.asarray(pair.before.theta)[0], -gradient, knowledge, variable, True, True, curvature.root()
    )


def _solutions(equations: Equations, table: Records) -> list[Solution]:
    """Results of descents from the nearest public records, with every label."""
    model, variable, metric = equations.model, equations.variable_fields, equations.metric
    assert metric is not None
    discrete = [k for k in model.fields if k not in variable]
    levels = [model.fields[k].domain.levels or np.unique(table[k], axis=0) for k in discrete]
    labels = [dict(zip(discrete, values, strict=True)) for values in product(*levels)]
    if len(labels) > _LABELS:
        raise BayesreconError(f"{len(labels)} combinations of {', '.join(discrete)}: at most {_LABELS} are tried")
    count, target, starts = len(next(iter(table.values()))), -metric @ equations.base, []
    for label in labels:
        fixed = {k: np.repeat(np.asarray(v, table[k].dtype)[None], count, axis=0) for k, v in label.items()}
        of_public = np.asarray(gradients(model, equations.theta, {**{k: table[k] for k in variable}, **fixed}))
        distances = np.linalg.norm((metric @ of_public.T).T - target, axis=1)
        first = {k: v[:1] for k, v in fixed.items()}
        starts.append([(distances[i], i, first) for i in np.argsort(distances)[: -(-_STARTS // len(labels))]])
    starts.sort(key=lambda group: group[0][0])
    return [
        descend(equations, ({k: np.asarray(table[k][i], float)[None] for k in variable}, fixed), _STEPS, lambda _: None)
        for group in starts[:_DESCENTS]
        for _, i, fixed in group
    ]


def _probability(
    equations: Equations, solutions: list[Solution], best: Solution, change: np.ndarray, curvature: Curvature | Sketched
) -> float | None:
    """Probability of the best record's label among the labels that were tried; None if there was only one.

    It is that of `change.log_likelihood` at the best record of each label. Fitted values reduce the degrees of freedom.
    """
    if len({_label(solution) for solution in solutions}) < 2:
        return None
    assert equations.metric is not None
    gradient = np.concatenate(
        [gradients(equations.model, equations.theta, equations.records(s.x, s.fixed)) for s in solutions]
    )
    squares = (np.asarray(equations.metric @ gradient.T) ** 2).sum(axis=0)
    change_square, length = (float(v @ curvature.times(v)) for v in (change, equations.theta))
    logs, _ = log_likelihood(
        gradient @ change, squares, change_square, curvature.freedom - equations.flatten(best.x).size, length=length
    )
    by_label: dict[tuple[float, ...], float] = {}
    for solution, value in zip(solutions, logs, strict=True):
        by_label[_label(solution)] = max(value, by_label.get(_label(solution), -np.inf))
    largest = max(by_label.values())
    return float(np.exp(by_label[_label(best)] - largest) / sum(np.exp(v - largest) for v in by_label.values()))


def _label(solution: Solution) -> tuple[float, ...]:
    return tuple(float(v) for values in solution.fixed.values() for v in np.ravel(values))


def _unexplained(best: Solution, tried: int, freedom: float) -> tuple[str, ...]:
    """A warning if the best start would explain as much of an unrelated change as the record explains of this one."""
    chance = 1 - tried ** (-2 / max(freedom - 1, 1.0))  # P(cos^2 > c) is about (1 - c)^((nu - 1) / 2)
    if 1 - best.residual**2 > chance:
        return ()
    return (
        f"the record explains {1 - best.residual**2:.0%} of the change, no more than by chance: there are "
        "too few public records, training stopped short of the optimum or at another one, or more than one record "
        "was deleted",
    )
