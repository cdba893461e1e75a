"""What a part of the atoms (`view.Part`) adds to the closed form of a regression: in this process, or on the devices in
use."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.kernels.monomials import Expansion, Frame
from bayesrecon.kernels.products import Fold, Products, Squares
from bayesrecon.model import GaussianPredictor, Model
from bayesrecon.running.engine import on_host, placed, spread

if TYPE_CHECKING:
    from bayesrecon.kernels.metric_view import Part


Law = tuple[GaussianPredictor, float]
"""What programs of the devices are compiled for: the predictor and the power of a model."""


def law_of(model: Model) -> Law:
    assert model.gaussian is not None, "a model without closed form"
    return model.gaussian, model.power


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PassInputs:
    """What all parts of a pass share.

    Attributes:
        frame: of the monomials.
        functions: `(F, r)` polynomials that sums are taken of; None for the monomials themselves.
        temperature: tau.
        prior: `score.prior_score`.
        fitted: `(F,)` the polynomial whose score is the fitted data's.
        normal: centre and precision of a normal law whose score stands for the fitted one.
    """

    frame: Frame
    functions: Any
    temperature: float = field(metadata={"static": True})
    prior: Any = field(metadata={"static": True})
    fitted: Array | None = None
    normal: Any = None

    @property
    def size(self) -> int:
        """r, the number of functions."""
        return self.frame.features if self.functions is None else self.functions.shape[1]

    def combined(self, rows: Array) -> Array:
        """Rows of the monomials `(C, F)` as those of the functions."""
        return rows if self.functions is None else rows @ self.functions

    def expanded(self, law: Law, theta: Array, metric: Array) -> Expansion:
        return Expansion.at(law[0], self.frame, law[1], theta, metric)

    def blocks(self, model: Model, part: "Part") -> Iterator[tuple[Expansion, np.ndarray, np.ndarray, np.ndarray]]:
        """Expansions at a part's atoms, with their weights, places and the scores of prior and transforms `(C, k)`, in
        this process."""
        for metric, theta, a, n, _ in part.blocks():
            base = np.asarray(self.prior(model, metric, theta, self.temperature))[:n]
            with np.errstate(over="ignore", invalid="ignore"):  # scales of no model of these data
                yield self.expanded(law_of(model), theta[:n], metric), a[:n], theta[:n], base

    def device_blocks(self, model: Model, part: "Part", prior: bool = True) -> Iterator[tuple[Any, ...]]:
        """The same atoms on the devices: metric, atoms, weights, scores of prior and transforms, and how many are none
        of padding."""
        metric = placed(part.metric)
        for _, theta, a, n, _ in part.blocks():
            t = spread(theta)
            yield metric, t, spread(a), self.prior(model, metric, t, self.temperature) if prior else None, n

    def score(self, expansion: Expansion, theta: Array, base: Array, metric: Array) -> Any:
        """Of the posterior of the fitted data, or of the normal law in its place, `(C, k)`."""
        if self.normal is None:
            return expansion.score(self.fitted) + base
        centre, precision = self.normal
        return -(theta - centre) @ precision @ metric

    def aim(self, expansion: Expansion, a: Array, base: Array) -> Array:
        """Minus the embedding of the private data in the monomials, `(F,)`."""
        return a @ (self.temperature * expansion.lap + expansion.along(base))

    def residual(self, expansion: Expansion, score: Array) -> Any:
        """`<phi, score> + tau tr(Sigma Hess l)` of the functions, `(C, r)`."""
        return self.combined(expansion.along(score) + self.temperature * expansion.lap)


def moments_of(model: Model, inputs: PassInputs, part: "Part") -> tuple[Any, ...]:
    """Weight of a part, the values that its sums are taken about, its products of scores, target and values."""
    return (_moments_on_host if on_host() else _moments_on_devices)(model, inputs, part)


def target_of(model: Model, inputs: PassInputs, part: "Part") -> np.ndarray:
    """The embedding of the private data in the monomials, `(F,)`."""
    return (_target_on_host if on_host() else _target_on_devices)(model, inputs, part)


def products_of(model: Model, inputs: PassInputs, part: "Part") -> Products:
    """Products of scores."""
    return (_products_on_host if on_host() else _products_on_devices)(model, inputs, part)


def noise_of(model: Model, inputs: PassInputs, part: "Part") -> tuple[np.ndarray, np.ndarray]:
    """Mean and products of residuals."""
    return (_noise_on_host if on_host() else _noise_on_devices)(model, inputs, part)


def influence_of(model: Model, inputs: PassInputs, part: "Part") -> tuple[np.ndarray, np.ndarray]:
    """Residuals and fitted scores of every atom, these along the metric."""
    return (_influence_on_host if on_host() else _influence_on_devices)(model, inputs, part)


def scores_of(
    model: Model, inputs: PassInputs, part: "Part", e: np.ndarray, x: np.ndarray
) -> Iterator[tuple[Any, int]]:
    """Rows of the score matrix of records with that design, block by block, and how many are none of padding."""
    if not on_host():
        design = placed((e, x))
        for metric, theta, a, _, n in inputs.device_blocks(model, part, prior=False):
            yield _scores(law_of(model), inputs, metric, theta, a, *design), n * metric.shape[1]
        return
    for metric, theta, weights, n, _ in part.blocks():
        with np.errstate(over="ignore", invalid="ignore"):  # of records over many orders of magnitude
            phi = inputs.expanded(law_of(model), theta[:n], metric).scores(e, x)
            rows = (phi * np.sqrt(weights[:n])[:, None, None]).reshape(-1, len(e))
        yield rows, len(rows)


def back(passed: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
    """What a pass gives, read back once where the devices made it."""
    if on_host():
        return passed
    parts, found = zip(*passed, strict=True)
    return zip(parts, map(_as_host_sums, jax.device_get(found)), strict=True)


def _moments_on_host(model: Model, inputs: PassInputs, part: "Part") -> tuple[Any, ...]:
    size, features = inputs.size, inputs.frame.features
    target, mean, square = np.zeros(features), np.zeros(size), Squares(size)
    products, shift, weight = Products.none(features), None, 0.0
    for expansion, a, _, base in inputs.blocks(model, part):
        products.add(0, expansion.weighted(a), expansion.fold(a))
        target -= inputs.aim(expansion, a, base)
        value = inputs.combined(expansion.value)
        # One atom's values as a shift keep the covariance of large log likelihoods accurate.
        shift = value[0].copy() if shift is None else shift
        value = (value - shift) * np.sqrt(a)[:, None]
        mean += np.sqrt(a) @ value
        square.add(value)
        weight += a.sum()
    return weight, shift, products, target, mean, square


def _target_on_host(model: Model, inputs: PassInputs, part: "Part") -> np.ndarray:
    return -np.asarray(sum(inputs.aim(expansion, a, base) for expansion, a, _, base in inputs.blocks(model, part)))


def _products_on_host(model: Model, inputs: PassInputs, part: "Part") -> Products:
    products = None
    for metric, theta, a, n, _ in part.blocks():
        with np.errstate(over="ignore", invalid="ignore"):
            expansion = inputs.expanded(law_of(model), theta[:n], metric)
            products = Products.none(expansion.q.shape[1]) if products is None else products
            products.add(0, expansion.weighted(a[:n]), expansion.fold(a[:n]))
    assert products is not None
    return products


def _noise_on_host(model: Model, inputs: PassInputs, part: "Part") -> tuple[np.ndarray, np.ndarray]:
    size = inputs.size
    mean, square = np.zeros(size), np.zeros((size, size))
    for expansion, a, theta, base in inputs.blocks(model, part):
        score = inputs.score(expansion, theta, base, part.metric)
        residual = inputs.residual(expansion, score) * np.sqrt(a)[:, None]
        mean += np.sqrt(a) @ residual
        square += residual.T @ residual
    return mean, square


def _influence_on_host(model: Model, inputs: PassInputs, part: "Part") -> tuple[np.ndarray, np.ndarray]:
    rows, scores = [], []
    for expansion, _, theta, base in inputs.blocks(model, part):
        score = inputs.score(expansion, theta, base, part.metric)
        rows.append(inputs.residual(expansion, score))
        scores.append(score)
    return np.concatenate(rows), np.concatenate(scores)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Summed:
    """`Products` of one metric on the devices."""

    squares: Any
    fold: Fold

    def plus(self, other: "_Summed") -> "_Summed":
        return _Summed(self.squares + other.squares, self.fold.plus(other.fold))

    @classmethod
    def of(cls, expansion: Expansion, a: Array) -> "_Summed":
        rows = expansion.weighted(a)
        return cls(rows.T @ rows, expansion.fold(a))


def _as_host_sums(found: object) -> Any:
    """As it is in this process."""
    if isinstance(found, _Summed):
        return Products(Squares.of(found.squares), {0: found.fold})
    if isinstance(found, tuple):
        weight, shift, products, target, mean, square = found
        return weight, shift, _as_host_sums(products), target, mean, Squares.of(square)
    return found


_compiled = partial(jax.jit, static_argnums=0)
_merged = jax.jit(_Summed.plus)
_added = jax.jit(partial(jax.tree.map, jnp.add))


def _plus(total: Any, more: object) -> Any:
    """Sums, the first of which is None."""
    if total is None:
        return more
    return (_merged if isinstance(total, _Summed) else _added)(total, more)


def _moments_on_devices(model: Model, inputs: PassInputs, part: "Part") -> tuple[Any, ...]:
    law, products, sums = law_of(model), None, None
    shift = None
    for metric, theta, a, base, _ in inputs.device_blocks(model, part):
        shift = _shift_of(law, inputs, metric, theta) if shift is None else shift
        own, terms = _moments(law, inputs, metric, theta, a, base, shift)
        products = _plus(products, own)
        sums = _plus(sums, terms)
    assert sums is not None
    return part.weights.sum(), shift, products, *sums


@_compiled
def _shift_of(law: Law, inputs: PassInputs, metric: Array, theta: Array) -> jax.Array:
    return inputs.combined(inputs.expanded(law, theta[:1], metric).value)[0]


@_compiled
def _moments(
    law: Law, inputs: PassInputs, metric: Array, theta: Array, a: Array, base: Array, shift: Array
) -> tuple[Any, Any]:
    expansion, root = inputs.expanded(law, theta, metric), jnp.sqrt(a)
    value = (inputs.combined(expansion.value) - shift) * root[:, None]
    return _Summed.of(expansion, a), (-inputs.aim(expansion, a, base), root @ value, value.T @ value)


def _target_on_devices(model: Model, inputs: PassInputs, part: Any) -> Any:
    total = None
    for metric, theta, a, base, _ in inputs.device_blocks(model, part):
        total = _plus(total, _target(law_of(model), inputs, metric, theta, a, base))
    return total


@_compiled
def _target(law: Law, inputs: PassInputs, metric: Any, theta: Any, a: Any, base: Any) -> Any:
    return -inputs.aim(inputs.expanded(law, theta, metric), a, base)


def _products_on_devices(model: Model, inputs: PassInputs, part: Any) -> Any:
    total = None
    for metric, theta, a, *_ in inputs.device_blocks(model, part, prior=False):
        total = _plus(total, _products(law_of(model), inputs, metric, theta, a))
    return total


@_compiled
def _products(law: Law, inputs: PassInputs, metric: Any, theta: Any, a: Any) -> _Summed:
    return _Summed.of(inputs.expanded(law, theta, metric), a)


def _noise_on_devices(model: Model, inputs: PassInputs, part: Any) -> tuple[Any, Any]:
    total: Any = None
    for metric, theta, a, base, _ in inputs.device_blocks(model, part, prior=inputs.normal is None):
        total = _plus(total, _noise(law_of(model), inputs, metric, theta, a, base))
    return total


@_compiled
def _noise(law: Law, inputs: PassInputs, metric: Any, theta: Any, a: Any, base: Any) -> tuple[Any, Any]:
    expansion, root = inputs.expanded(law, theta, metric), jnp.sqrt(a)
    residual = inputs.residual(expansion, inputs.score(expansion, theta, base, metric)) * root[:, None]
    return root @ residual, residual.T @ residual


def _influence_on_devices(model: Model, inputs: PassInputs, part: Any) -> tuple[np.ndarray, np.ndarray]:
    blocks = [
        (_influence(law_of(model), inputs, metric, theta, base), n)
        for metric, theta, _, base, n in inputs.device_blocks(model, part)
    ]
    found = jax.device_get([one for one, _ in blocks])
    rows, scores = (np.concatenate([one[k][:n] for one, (_, n) in zip(found, blocks, strict=True)]) for k in (0, 1))
    return rows, scores


@_compiled
def _influence(law: Law, inputs: PassInputs, metric: Any, theta: Any, base: Any) -> tuple[Any, Any]:
    expansion = inputs.expanded(law, theta, metric)
    score = inputs.score(expansion, theta, base, metric)
    return inputs.residual(expansion, score), score


@_compiled
def _scores(law: Law, inputs: PassInputs, metric: Any, theta: Any, a: Any, e: Any, x: Any) -> Any:
    phi = inputs.expanded(law, theta, metric).scores(e, x)
    return (phi * jnp.sqrt(a)[:, None, None]).reshape(-1, len(e))
