"""`OneStep`: the record behind one gradient step between two parameters.

A step up or down the loss of one record, `theta' - theta = rate s (x, 1)'` for a linear predictor with slope
s = dh/deta, is an outer product: every row is a multiple of the record, and the intercepts' column has the factors. No
Hessian, no public records and no rate are needed (Phong et al. 2018, section 3, for one neuron). A step on several
records, a Newton step or retraining is not such a product. With several outputs, the second singular value shows this.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack
from bayesrecon.attacks.deletion.change import beside_one, notes_of, parameters_of, refuse_rounding
from bayesrecon.divergence.outer_products import label_of, predictor_of
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.pairs import Deletion, TrainedPair
from bayesrecon.results.deletion import DeletedRecord

_ONE = 1e-3  # share of the step beside one outer product, above which it is not called one record's
_CONDITION = 1e6  # of a Hessian that is not known
_ROUNDING = 1e-9  # of a record: an intercept that moves less than this does not tell its scale


@dataclass(frozen=True, eq=False)
class OneStep(Attack[DeletedRecord]):
    """The record behind one gradient step between two parameters of a linear predictor with an intercept.

    If the record was removed by a step up its loss, its label is recovered, too. If it was learnt by a step down, pass
    the pair in reverse order.

    >>> import bayesrecon
    >>> from bayesrecon.posteriors import gradient_step_without, train
    >>> rng = np.random.default_rng(0)
    >>> data = {"x": rng.normal(size=(60, 3)), "y": rng.integers(0, 2, 60)}
    >>> before = train(bayesrecon.models.load("linear_predictor", loss="logistic", features=3), data).release
    >>> pair = bayesrecon.deletion(before, gradient_step_without(before, data, [7], rate=0.01)[0])
    >>> np.allclose(bayesrecon.reconstruct(pair, attack=OneStep()).record["x"], data["x"][7])
    True
    """

    name: ClassVar[str] = "one-step"
    summary: ClassVar[str] = "the record behind one gradient step between two parameters of a linear predictor"
    takes: ClassVar[tuple[type, ...]] = (TrainedPair,)
    uses: ClassVar[tuple[str, ...]] = ()

    def run(self, release: Deletion, knows: Knows, *, key: Key, progress: Progress) -> DeletedRecord:
        model = release.before.model
        linear = predictor_of(model)
        if linear.intercept is None:
            raise BayesreconError("without an intercept one step shows only the record's direction; use HRec")
        before, after = parameters_of(release, model)
        step = before - after
        left, _, right = np.linalg.svd(step, full_matrices=False)
        refuse_rounding(release, step, np.abs(before), 0.0, condition=_CONDITION)
        if abs(right[0, -1]) <= _ROUNDING:
            raise BayesreconError("the step does not move the intercepts: the scale of its record is not determined")
        slope = left[:, 0] * right[0, -1]
        record = {linear.x: right[0, :-1] / right[0, -1]}
        if linear.labels:
            record[linear.y] = np.asarray(label_of(linear, slope))
        return DeletedRecord(
            record=record,
            se=None,
            method="one step",
            evidence=None,
            effective_size=float("inf"),
            before=release.before.name,
            after=release.after.name,
            model=model.name,
            warnings=(*notes_of(release), *(doubts := _doubts(step))),
            doubts=doubts,
        )


def _doubts(step: np.ndarray) -> tuple[str, ...]:
    if len(step) < 2:
        return (
            "with one output every change of the parameters looks like one gradient step: the record is right only if "
            "the change was one",
        )
    beside = beside_one(step)
    if beside <= _ONE:
        return ()
    return (
        f"{beside:.0%} of the change is not the gradient of one record: the parameters are not one gradient step of "
        "one record apart; for retraining or a Newton step use HRec",
    )


ATTACK = OneStep
