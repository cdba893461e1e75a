"""What HRec is given for a model with a linear predictor: two trained parameters and public records, checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.linear import predictor_of, split_gradient
from bayesrecon.knowledge import check_knowledge
from bayesrecon.types import Deletion, Model


def parameters_of(pair: Deletion, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The two trained parameters as `(K, q)`, checked."""
    for side, release in (("before", pair.before), ("after", pair.after)):
        if release.temperature or release.theta.shape[0] != 1:
            raise BayesreconError(f"{side} holds posterior draws; HRec takes trained parameters")
    if pair.before.theta.shape != pair.after.theta.shape:
        raise BayesreconError("before and after have parameters of different size; they cannot be of one model")
    if np.array_equal(pair.before.theta, pair.after.theta):
        raise BayesreconError("before and after are identical: the record left no trace (a loss that is flat there?)")
    return tuple(split_gradient(model, np.asarray(r.theta)[0]) for r in (pair.before, pair.after))  # type: ignore[return-value]


def public_records(model: Model, public: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray | None]:
    """Features `(m, p)` and labels of public records, checked; None for labels that are not given."""
    linear = predictor_of(model)
    width = model.fields[linear.x].shape[0]
    if linear.x not in public:
        raise BayesreconError(f"public data lack field {linear.x!r} (they hold {', '.join(public)})")
    x = np.asarray(public[linear.x], float)
    if x.ndim != 2 or x.shape[1] != width:
        raise BayesreconError(f"public data have {x.shape[-1] if x.ndim == 2 else x.shape} columns, the model {width}")
    given = {k: public[k] for k in (linear.x, linear.y) if k in public}
    table = check_knowledge(model, known=given).known
    if len(x) < 2:
        raise BayesreconError("HRec needs at least two public records")
    y = table.get(linear.y)
    if y is not None and linear.loss == "squared":
        y = y.reshape(len(x), -1)
    return table[linear.x], y
