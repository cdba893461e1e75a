"""Two trained parameters and public records, checked."""

from collections.abc import Mapping

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.divergence.outer_products import predictor_of, split_gradient
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Model, Records
from bayesrecon.pairs import Deletion


def thetas_of(pair: Deletion) -> tuple[np.ndarray, np.ndarray]:
    """The two trained parameters as vectors `(d,)`, checked."""
    if pair.before.theta.shape != pair.after.theta.shape:
        raise BayesreconError("before and after have parameters of different size; they cannot be of one model")
    if np.array_equal(pair.before.theta, pair.after.theta):
        raise BayesreconError("before and after are identical: the deletion changed nothing (is the loss flat there?)")
    return np.asarray(pair.before.theta)[0], np.asarray(pair.after.theta)[0]


def parameters_of(pair: Deletion, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The two trained parameters of a linear predictor as `(K, q)`, checked."""
    return tuple(split_gradient(model, theta) for theta in thetas_of(pair))  # type: ignore[return-value]


def beside_one(step: np.ndarray) -> float:
    """Share of a change `(K, q)` of several outputs that is no outer product, such as one record's gradient is.

    >>> beside_one(np.outer([1.0, 2.0], [3.0, 4.0])) < 1e-9
    True
    """
    sizes = np.linalg.svd(step, compute_uv=False)
    return float(np.sqrt((sizes[1:] ** 2).sum() / max((sizes**2).sum(), np.finfo(float).tiny)))


def whole_records(model: Model, public: Mapping[str, Array], total: float | None) -> tuple[Records, float]:
    """Public records with all fields of a model, checked, and how many private ones each stands for."""
    missing = [k for k in model.fields if k not in public]
    if missing:
        raise BayesreconError(f"public data lack field {missing[0]!r}: {model.name} needs all fields of public records")
    table = check_knowledge(model, known={k: public[k] for k in model.fields}).known
    count = len(next(iter(table.values())))
    if count < 2:
        raise BayesreconError("public data need at least two records")
    return table, 1.0 if total is None else float(total) / count


def public_records(model: Model, public: Mapping[str, Array]) -> tuple[np.ndarray, np.ndarray | None]:
    """Features `(m, p)` and labels of public records, checked; None for labels that are not given."""
    linear = predictor_of(model)
    width = model.fields[linear.x].shape[0]
    if linear.x not in public:
        raise BayesreconError(f"public data lack field {linear.x!r} (they hold {', '.join(public)})")
    try:
        x = np.asarray(public[linear.x], float)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError(
            f"public field {linear.x!r} holds values that are not numbers; pass what the model was fitted on"
        ) from None
    if x.ndim != 2 or x.shape[1] != width:
        raise BayesreconError(f"public data have {x.shape[-1] if x.ndim == 2 else x.shape} columns, the model {width}")
    given = {k: public[k] for k in (linear.x, linear.y) if k in public}
    table = check_knowledge(model, known=given).known
    if len(x) < 2:
        raise BayesreconError("public data need at least two records")
    y = table.get(linear.y)
    if y is not None and linear.loss == "squared":
        y = y.reshape(len(x), -1)
    return table[linear.x], y
