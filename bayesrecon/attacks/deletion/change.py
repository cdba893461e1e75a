"""The change between two trained parameters: is there one, what would records have caused, and what is doubtful.

A parameter that was trained on the same records again does not come out the same: in another order sums are rounded
differently, and an optimiser stops anywhere within its tolerance. By Newton's step, a remaining gradient r moves the
parameter by `H^-1 r`. So the change Delta says something about a deletion only if `H Delta`, which is the gradient of
the deleted record, is larger than the gradients that rounding and the stopping rules leave (`refuse_rounding`).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.diagnostics import evenly
from bayesrecon.digits import round_to
from bayesrecon.divergence.outer_products import predictor_of, split_gradient
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Model, Records
from bayesrecon.pairs import Deletion, Unchanged

_ACCUMULATED = 10.0  # rounding errors of a sum, in units of the last place of its largest part
_FAR, _OFF = 1.645, 100.0  # standard errors (one-sided 95 %), and the factor by which public records are off at most
_FEWEST_DIGITS, _MOST_DIGITS = 3, 14  # of printed parameters
_FEWEST, _SAMPLE = 6, 64  # numbers from which their precision is read


def resolution_of(theta: np.ndarray) -> float:
    """Relative precision in which numbers were stored: that of doubles, of single precision, or of printed digits.

    >>> resolution_of(np.array([0.1234, 17.08, 1.1, 2.3, -4.56, 7.0])) == 0.5e-3
    True
    """
    values = theta[theta != 0]
    values = values[evenly(len(values), _SAMPLE)]
    if len(values) < _FEWEST:
        return float(np.finfo(float).eps)
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS):
        if np.allclose(values, round_to(values, digits), rtol=2 * np.finfo(float).eps, atol=0):
            return 0.5 * 10.0 ** (1 - digits)
    for kind in (np.float16, np.float32):
        with np.errstate(over="ignore"):
            if (values.astype(kind) == values).all():
                return float(np.finfo(kind).eps)
    return float(np.finfo(float).eps)


def refuse_rounding(
    pair: Deletion,
    gradient: np.ndarray,
    rounding: np.ndarray,
    records: float,
    *,
    error: np.ndarray | float = 0.0,
    condition: float = 1.0,
) -> None:
    """Refuse a change of the parameters that says nothing about a deletion.

    Args:
        gradient: `H Delta`.
        rounding: of the same shape, the sums of the absolute values of what the gradient of the objective adds up, and
            of `H` times the parameter. Times the precision of the numbers, this is the gradient that rounding leaves.
        records: n. An optimiser whose stopping rule is known leaves up to n times its tolerance.
        error: standard error of the gradient, because public records estimate H. Along the flat directions in which
            an optimiser stops, few of them contribute, and the gradient can seem twenty times as large as it is.
        condition: by which rounding errors are magnified where H is not known.

    Raises:
        Unchanged: no part of the gradient is larger than what rounding and tolerance leave.
    """
    theta = np.concatenate([np.ravel(pair.before.theta), np.ravel(pair.after.theta)])
    noise = (_ACCUMULATED * condition * np.finfo(float).eps + resolution_of(theta)) * rounding
    left = records * sum(getattr(release, "tolerance", 0.0) for release in (pair.before, pair.after))
    size = np.abs(gradient)
    if (size - np.minimum(_FAR * error, (1 - 1 / _OFF) * size) > noise + left).any():
        return
    within = " beyond the tolerance of their optimiser" if left > np.max(noise) else ""
    raise Unchanged(
        f"the two models differ by rounding: nothing can be said{within}; if a record was deleted, train both to a "
        "gradient of 1e-8 and keep all digits"
    )


def thetas_of(pair: Deletion) -> tuple[np.ndarray, np.ndarray]:
    """The two trained parameters as vectors `(d,)`, checked."""
    if pair.before.theta.shape != pair.after.theta.shape:
        raise BayesreconError("before and after have parameters of different size; they cannot be of one model")
    if np.array_equal(pair.before.theta, pair.after.theta):
        raise Unchanged("before and after are identical: the deletion changed nothing (is the loss flat there?)")
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


# The likelihood of a deleted record, from the direction and the length of the change it would cause.

_LEFT = 1e-11  # of a parameter's length: what a solver's last steps and their rounding leave
_FREEDOM = 4.0  # of the t distribution of lengths
_UNLIKE = 20.0  # times as long or as short as a record's own move


def log_likelihood(
    along: np.ndarray, own: np.ndarray, moved: float, freedom: float, *, length: float
) -> tuple[np.ndarray, np.ndarray]:
    """Log likelihoods of records, given the change Delta of a parameter.

    The observed change and the changes that records would cause have the same rounding error, which hides small ones.

    Args:
        along: `Delta' g_i` of each record.
        own: `g_i' H^-1 g_i` of each record.
        moved: `Delta' H Delta`.
        freedom: nu, the number of dimensions.
        length: `theta' H theta`, the scale of the rounding error.

    Returns:
        The log likelihoods, up to a constant, and the logarithm of the observed change relative to each record's own.
    """
    tiny = np.finfo(float).tiny
    error = _LEFT**2 * length
    # A record that stays would pull the other way.
    along, own, moved = np.maximum(along, 0.0) + error, own + error, moved + error
    cosine = along**2 / np.maximum(own * moved, tiny)
    share = np.log(np.maximum(along, tiny) / np.maximum(own, tiny))
    angle = -0.5 * max(freedom - 1, 0.0) * np.log1p(-np.minimum(cosine, 1 - np.finfo(float).eps))
    return angle - 0.5 * (_FREEDOM + 1) * np.log1p(share**2 / _FREEDOM), share


def unlike(logs: np.ndarray, shares: np.ndarray) -> tuple[str, ...]:
    """A warning if the likeliest record would have moved the parameters much less, or much further."""
    share = float(shares[int(np.argmax(logs))])
    if abs(share) < np.log(_UNLIKE):
        return ()
    return (
        f"the parameters moved {np.exp(share):.2g} times as far as the likeliest candidate's deletion would have moved "
        "them: no candidate, or more than one, was deleted, or training did not end at the optimum",
    )


# Reasons to doubt a reconstructed record, as messages.

_FEW = 20  # an estimate without a probability from fewer public records gets a message
_TOO_LARGE = 3.0  # a larger excess is not explained by a single record
SURE = 0.9  # probability of a label or sign above which it is not doubted


def notes_of(pair: Deletion) -> tuple[str, ...]:
    """Notes from reading both releases."""
    return tuple(dict.fromkeys((*pair.before.notes, *pair.after.notes)))


def cautions_about(
    probability: float | None,
    *,
    what: str,
    effective: float,
    absent: Sequence[int] = (),
    excess: float | None = None,
    spanned: tuple[int, int] | None = None,
    noise: float | None = None,
) -> tuple[str, ...]:
    """Reasons to doubt a reconstruction, one line each.

    Args:
        probability: probability that the label or the sign is right; None if it is unknown.
        what: "label" or "sign".
        effective: effective number of public records behind the estimate.
        absent: labels without public records.
        excess: norm of the slope, relative to the largest one of a public record.
        spanned: number of public records, and number of directions without a penalty.
        noise: error of the features, relative to their distance from the mean public record.

    >>> cautions_about(0.7, what="sign", effective=100.0)
    ('the sign is right with probability 0.70: a record on the other side of the mean explains the change, too',)
    """
    lines = []
    if probability is not None and probability < SURE:
        other = (
            "another label explains the change, too"
            if what == "label"
            else "a record on the other side of the mean explains the change, too"
        )
        lines.append(f"the {what} is right with probability {probability:.2f}: {other}")
    if absent:
        lines.append(
            f"no public record has label {', '.join(map(str, absent))}: the probability of the label is unknown; "
            "supply records of every label"
        )
    if probability is None and effective < _FEW:
        lines.append(f"about {effective:.0f} public records contribute to the estimate; supply more of them")
    if spanned is not None and spanned[0] < spanned[1]:
        lines.append(
            f"the public Hessian is singular: {spanned[0]} records for {spanned[1]} directions; the result lies in "
            "the span of the public records"
        )
    if noise is not None and noise > 1:
        lines.append(
            f"the error of the public Hessian is {noise:.1f} times as large as what it shows of the record's features: "
            "they are near those of the mean public record; supply more public records"
        )
    if excess is not None and excess > _TOO_LARGE:
        lines.append(
            f"the parameters moved {excess:.0f} times as far as any public record would move them: noise was added to "
            "them, training stopped short of the optimum, or more than one record was deleted; retrain to a gradient "
            "of 1e-8, or read the record as a mean of the deleted ones"
        )
    return tuple(lines)
