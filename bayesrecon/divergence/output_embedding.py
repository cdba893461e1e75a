"""Outputs of a model for one record: its mean embedding in the kernel `k(x, x') = <F(x), F(x')>`, as it was released.

One user's input is a data set of one record. What reaches an attacker is a view of z = F(x): the logits, their softmax,
the softmax rounded to q decimals, or the largest class alone. Several models that were asked about one record stack.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.precision import in_float64

VIEWS = ("logits", "softmax", "rounded", "argmax")
"""What is released of the outputs."""

_LEAST = 1e-30  # probability below which single precision has no digits left


@dataclass(frozen=True)
class Answer:
    """What one record is answered: a view of the outputs of one or several models.

    Attributes:
        predicts: `(m, *shape) -> (m, k)`, each.
        shape: shape of one record.
        view: one of `VIEWS`.
        decimals: decimals of "rounded".
        noisy: whether noise is added to what is seen.

    It compares by its fields, so that compiled functions are reused.
    """

    predicts: tuple[Callable[[Array], Array], ...]
    shape: tuple[int, ...]
    view: str = "logits"
    decimals: int = 0
    noisy: bool = False

    def __call__(self, x: Array) -> jax.Array:
        """What is seen of one record `(p,)` before it is rounded, `(K,)`; differentiable where the models are."""
        outputs = [jnp.asarray(predict(jnp.reshape(x, (1, *self.shape))))[0] for predict in self.predicts]
        return jnp.concatenate([self.smooth(z) for z in outputs])

    def smooth(self, logits: Array) -> Array:
        """The part of the view that is continuous in the logits `(..., k)`.

        For a softmax without noise it is the centred logits, which the softmax determines.
        """
        if self.view == "rounded" or (self.view == "softmax" and self.noisy):
            return jax.nn.softmax(logits, axis=-1)
        return centred_logits(jax.nn.softmax(logits, axis=-1)) if self.view == "softmax" else logits

    @in_float64
    def seen(self, logits: np.ndarray) -> np.ndarray:
        """The numbers that a decoder reads, `(m, k)`, of one model's logits `(m, k)`, without noise."""
        z = np.asarray(self.smooth(jnp.asarray(logits, float)))
        if self.view == "rounded":
            return z.round(self.decimals)
        return np.eye(z.shape[1])[z.argmax(axis=1)] if self.view == "argmax" else z


def centred_logits(probabilities: Array) -> jax.Array:
    """Logarithms less their mean, `(..., k)`; probabilities below 1e-30 count as that.

    >>> np.allclose(centred_logits(np.array([0.5, 0.25, 0.25])), np.log(2) * np.array([2, -1, -1]) / 3, atol=1e-5)
    True
    """
    logarithm = jnp.log(jnp.maximum(probabilities, _LEAST))
    return logarithm - logarithm.mean(axis=-1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Outputs:
    """A release at inference time: what was answered to one record, and what is public.

    Build one with `bayesrecon.posteriors.outputs`; the constructor does not validate.

    Attributes:
        what: one line.
        answer: what records are answered.
        z: `(K,)` what was seen of the private record, as `Answer.seen` has it.
        public: `(m, p)` public records.
        answers: `(m, K)` what is seen of them, without noise.
        widths: number of outputs of each model.
        noise: standard deviation of what was added to each number in z.
        values: smallest and largest value of a field.
        name: shown in tables.
        notes: what an attacker must know.
    """

    what: ClassVar[str] = "outputs of a model"

    answer: Answer
    z: Float[np.ndarray, " K"]
    public: Float[np.ndarray, "m p"]
    answers: np.ndarray
    widths: tuple[int, ...]
    noise: float
    values: tuple[float, float]
    name: str = "outputs"
    notes: tuple[str, ...] = ()

    def noisy(self, answers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Answers as they would have been released."""
        return answers + self.noise * rng.normal(size=answers.shape) if self.noise else answers


def refuse_given(kind: str, **options: object) -> None:
    """Refuse options that belong to other releases.

    Raises:
        BayesreconError: one was given.
    """
    for name, value in options.items():
        if value is not None:
            raise BayesreconError(
                f"{name}= does not apply to {kind}: public records state the distribution of their one record"
            )
