"""A release at inference time: a model's outputs for one private record."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from bayesrecon.divergence.output_embedding import VIEWS, Answer, Outputs, centred_logits
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.precision import x64

_BLOCK = 4096  # records per call of a model
_LEAST = 60  # smallest number of public records: half are fitted, a quarter calibrates and a quarter checks
_SUM = 1e-3  # largest difference of the sum of probabilities from one, which half precision allows
_GRID = 0.05  # largest difference from a rounded number, in units of its last decimal, which single precision allows
_FAR = 3.0  # largest distance of an answer, in units of the distance of the farthest public answer

Predict = Callable[[Any], Any]


def outputs(
    predict: Predict | Sequence[Predict],
    z: Any,
    *,
    public: np.ndarray,
    noise: float = 0.0,
    view: Literal["logits", "softmax", "rounded", "argmax"] = "logits",
    decimals: int | None = None,
    values: tuple[float, float] | None = None,
    name: str = "outputs",
) -> Outputs:
    """A release of a model's outputs for one private record.

    The record x is a data set of one record. Its output z = F(x) is the mean embedding in the kernel `<F(x), F(x')>`.
    The verbs `recover`, `reconstruct` and `diagnose` accept this release.

    Args:
        predict: F, a function `(m, *shape) -> (m, k)` from records to logits (or to what is released, with view
            "logits"). Write it with `jax.numpy` for attacks that need its gradient. Pass a list if several models were
            queried.
        z: the outputs: `(k,)` for one query, or `(r, k)` for repeated queries of one model with independent noise. For
            a list of models, a list with one output each. With view "argmax", the class.
        public: `(m, *shape)`, at least 60 records from the same distribution. More are better.
        noise: standard deviation of normal noise that was added to every logit or probability of each output.
        view: what was released: "logits", "softmax", "rounded" (softmax rounded to `decimals`), or "argmax" (only the
            class).
        decimals: number of decimals for the view "rounded".
        values: smallest and largest value of a field: (0, 1) for images. Defaults to the range of the public records.
        name: name in tables.

    Raises:
        BayesreconError: shapes do not match; there are too few public records, or they are not finite or outside
            `values`; the model fails on them; view or noise is invalid; or the model cannot give this output.

    >>> rng = np.random.default_rng(0)
    >>> x, w = rng.normal(size=(400, 5)), rng.normal(size=(5, 3))
    >>> release = outputs(lambda records: records @ w, x[0] @ w, public=x[1:])
    >>> release.z.shape, release.answers.shape
    ((3,), (399, 3))
    """
    predicts: tuple[Predict, ...] = tuple(predict) if isinstance(predict, Sequence) else (predict,)
    if not predicts or not all(callable(function) for function in predicts):
        raise BayesreconError("predict: expected one or several functions from records (m, *shape) to outputs (m, k)")
    _check_view(view, decimals, noise)
    public = _records(public, values)
    answer = Answer(predicts, public.shape[1:], view, int(decimals or 0), noise > 0)
    logits = [answers_of(function, public) for function in predicts]
    released = list(z) if isinstance(predict, Sequence) else [z]
    if len(released) != len(predicts):
        raise BayesreconError(f"{len(predicts)} models and {len(released)} answers: supply one answer per model")
    seen, repeats = zip(
        *(_answer(value, answer, known.shape[1]) for value, known in zip(released, logits, strict=True)),
        strict=True,
    )
    if len(set(repeats)) > 1 or (repeats[0] > 1 and not noise):
        raise BayesreconError(
            "repeated answers help only if noise was added to each, and every model needs equally many: supply noise="
        )
    answers = np.concatenate([answer.seen(known) for known in logits], axis=1)
    if not (answers.max(axis=0) > answers.min(axis=0)).any():
        raise BayesreconError("the model gives the same answer to all public records: its answers carry no information")
    noise = noise / np.sqrt(repeats[0])
    low, high = (float(public.min()), float(public.max())) if values is None else values
    result = Outputs(
        answer,
        np.concatenate(seen),
        public.reshape(len(public), -1),
        answers,
        tuple(known.shape[1] for known in logits),
        float(noise),
        (low, high),
        name,
    )
    _check_distance(result)
    return result


def answers_of(predict: Predict, records: np.ndarray) -> np.ndarray:
    """Outputs `(m, k)` of records `(m, *shape)`."""
    parts = []
    for first in range(0, len(records), _BLOCK):
        batch = records[first : first + _BLOCK]
        try:
            part = np.asarray(predict(batch), float)
        except Exception as error:
            raise BayesreconError(
                f"predict fails on records {batch.shape}: {first_line(error)}; it must map (m, *shape) to (m, k)"
            ) from None
        if part.ndim != 2 or len(part) != len(batch):
            raise BayesreconError(f"predict gives {part.shape} for records {batch.shape}: expected outputs (m, k)")
        parts.append(part)
    result = np.concatenate(parts)
    if not np.isfinite(result).all():
        raise BayesreconError("predict gives missing or infinite values for public records")
    return result


def _check_view(view: str, decimals: int | None, noise: float) -> None:
    if view not in VIEWS:
        raise BayesreconError(f"view={view!r}: expected {', '.join(VIEWS)}")
    if (view == "rounded") != (decimals is not None) or (decimals is not None and not 0 <= decimals <= 12):
        raise BayesreconError(f"view={view!r}, decimals={decimals}: decimals= (0 to 12) belongs to view='rounded' only")
    if not (np.isfinite(noise) and noise >= 0):
        raise BayesreconError(f"noise={noise}: expected a standard deviation, 0 or more")
    if noise and view in ("rounded", "argmax"):
        raise BayesreconError(f"noise= belongs to logits and softmax; with view={view!r} it is not modelled")


def _records(public: np.ndarray, values: tuple[float, float] | None) -> np.ndarray:
    try:
        result = np.asarray(public, float)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError("public records must be one numeric array, (m, *shape)") from None
    if result.ndim < 2 or len(result) < _LEAST:
        raise BayesreconError(f"public records of shape {result.shape}: expected (m, *shape) with m at least {_LEAST}")
    if not np.isfinite(result).all():
        raise BayesreconError("public records hold missing or infinite values")
    if values is not None:
        low, high = values
        if not low < high:
            raise BayesreconError(f"values={values}: expected the smallest and largest value of a field")
        outside = result[(result < low) | (result > high)]
        if outside.size:
            raise BayesreconError(
                f"public records hold {outside.flat[0]:g}, outside {low:g} to {high:g}: scale them as for the model"
                + (
                    " (divide by 255)"
                    if (low, high) == (0, 1) and 1 < result.max() <= 255 and result.min() >= 0
                    else ""
                )
            )
    return result


def _answer(released: object, answer: Answer, width: int) -> tuple[np.ndarray, int]:
    """The mean of one model's answers as a decoder uses it, `(k,)`, and the number of answers."""
    try:
        z = np.asarray(released, float)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError("an answer must be a numeric array, (k,)") from None
    if not np.isfinite(z).all():
        raise BayesreconError("the answer holds missing or infinite values")
    if answer.view == "argmax":
        if z.size != 1 or not 0 <= z.item() < width or z.item() != int(z.item()):
            raise BayesreconError(
                f"the answer is a class, 0 to {width - 1}, where the view is argmax; got {_preview(z)}"
            )
        return np.eye(width)[int(z.item())], 1
    if z.shape[-1:] != (width,) or z.ndim > 2 or not z.size:
        raise BayesreconError(f"the answer has shape {z.shape} and the model {width} outputs: expected ({width},)")
    table = np.atleast_2d(z)
    if answer.view in ("softmax", "rounded") and not answer.noisy:
        slack = max(_SUM, width * 10.0**-answer.decimals / 2 if answer.view == "rounded" else 0.0)
        if (table < 0).any() or (table > 1).any() or (abs(table.sum(axis=1) - 1) > slack).any():
            raise BayesreconError(
                f"the answer is not a softmax: {_preview(table[0])} sums to {table[0].sum():.4g}; set view= (logits?)"
            )
        if (
            answer.view == "rounded"
            and abs(table - table.round(answer.decimals)).max() > _GRID * 10.0**-answer.decimals
        ):
            raise BayesreconError(
                f"the answer has more than {answer.decimals} decimals: set decimals= to the number that were kept"
            )
    mean = table.mean(axis=0)
    if answer.view == "softmax" and not answer.noisy:
        with x64():
            mean = np.asarray(centred_logits(mean))
    return mean, len(table)


def _preview(z: np.ndarray) -> str:
    return np.array2string(z.ravel()[:4], precision=3, separator=", ") + (" ..." if z.size > 4 else "")


def _check_distance(release: Outputs) -> None:
    """Refuse an answer that is far from those of the public records, in units of their standard deviations."""
    if release.answer.view in ("rounded", "argmax"):
        return
    centre = release.answers.mean(axis=0)
    residuals = release.answers - centre
    values, vectors = np.linalg.eigh(residuals.T @ residuals / len(residuals))
    # If outputs sum to a constant, rounding errors of single precision are of this size.
    scale = np.sqrt(np.maximum(values, 1e-12 * values[-1]) + release.noise**2)
    # The square root is the length of standard normal noise.
    farthest = max(float(np.linalg.norm(residuals @ vectors / scale, axis=1).max()), np.sqrt(len(values)))
    distance = float(np.linalg.norm((release.z - centre) @ vectors / scale))
    if distance > _FAR * farthest:
        raise BayesreconError(
            f"the answer lies {distance / farthest:.3g} times as far from their mean as that to any public record: it "
            "is not from this model, not in this view, or its record does not follow the distribution of the public "
            "records"
        )
