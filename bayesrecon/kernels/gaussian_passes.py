"""The contribution of a part of the atoms (`view.Part`) to the closed form of a regression, computed in this process or
on the devices in use."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.kernels.monomials import Expansion, Frame
from bayesrecon.kernels.products import Fold, Products, Squares
from bayesrecon.model import GaussianPredictor, Model
from bayesrecon.running.engine import on_host, placed, spread

Likelihood = tuple[GaussianPredictor, float]
"""The predictor and the power of a model. Programs for devices are compiled for each such pair."""


def likelihood_of(model: Model) -> Likelihood:
    assert model.gaussian is not None, "a model without closed form"
    return model.gaussian, model.power


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PassInputs:
    """Inputs that all parts of a pass share.

    Attributes:
        frame: the monomials, with the coordinates in which they are expanded.
        functions: `(F, r)` coefficients of the polynomials to be summed; None for the monomials themselves.
        temperature: tau.
        prior: function that computes the score of the prior (`score.prior_score`).
        fitted: `(F,)` coefficients of the polynomial whose score is that of the fitted data.
        normal: centre and precision of a normal distribution whose score replaces that of the fitted data; or None.
    """

    frame: Frame
    functions: Array | None
    temperature: float = field(metadata={"static": True})
    prior: Any = field(metadata={"static": True})
    fitted: Array | None = None
    normal: tuple[Array, Array] | None = None

    @property
    def size(self) -> int:
        """r, the number of functions."""
        return self.frame.features if self.functions is None else self.functions.shape[1]

    def combined(self, rows: Array) -> Array:
        """Convert rows for the monomials `(C, F)` to rows for the functions `(C, r)`."""
        return rows if self.functions is None else rows @ self.functions

    def expanded(self, likelihood: Likelihood, theta: Array, metric: Array) -> Expansion:
        return Expansion.at(likelihood[0], self.frame, likelihood[1], theta, metric)

    def blocks(self, model: Model, part: Any) -> Iterator[tuple[Expansion, np.ndarray, np.ndarray, np.ndarray]]:
        """Expansions at the atoms of a part, block by block, in this process.

        Each comes with the weights, the atoms, and the scores of prior and transforms `(C, k)`.
        """
        for metric, theta, a, n, _ in part.blocks():
            base = np.asarray(self.prior(model, metric, theta, self.temperature))[:n]
            with np.errstate(over="ignore", invalid="ignore"):  # extreme scales, which no data support
                yield self.expanded(likelihood_of(model), theta[:n], metric), a[:n], theta[:n], base

    def device_blocks(self, model: Model, part: Any, prior: bool = True) -> Iterator[tuple[Any, ...]]:
        """The atoms of a part, block by block, on the devices.

        Each block has metric, atoms, weights, scores of prior and transforms, and its number of atoms without padding.
        """
        metric = placed(part.metric)
        for _, theta, a, n, _ in part.blocks():
            t = spread(theta)
            yield metric, t, spread(a), self.prior(model, metric, t, self.temperature) if prior else None, n

    def score(self, expansion: Expansion, theta: Array, base: Array, metric: Array) -> Any:
        """Score of the posterior of the fitted data, or of the normal distribution that replaces it, `(C, k)`."""
        if self.normal is None:
            return expansion.score(self.fitted) + base
        centre, precision = self.normal
        return -(theta - centre) @ precision @ metric

    def aim(self, expansion: Expansion, a: Array, base: Array) -> Any:
        """Minus the embedding of the private data, evaluated at the monomials, `(F,)`."""
        return a @ (self.temperature * expansion.lap + expansion.along(base))

    def residual(self, expansion: Expansion, score: Array) -> Any:
        """`<phi, score> + tau tr(Sigma Hess l)` for the functions, `(C, r)`."""
        return self.combined(expansion.along(score) + self.temperature * expansion.lap)


def moments_of(model: Model, inputs: PassInputs, part: Any) -> tuple[Any, ...]:
    """Sums over a part: weight, shift of the values, products of scores, target, mean and products of values."""
    return (_moments_on_host if on_host() else _moments_on_devices)(model, inputs, part)


def target_of(model: Model, inputs: PassInputs, part: Any) -> Any:
    """The embedding of the private data, evaluated at the monomials, `(F,)`."""
    return (_target_on_host if on_host() else _target_on_devices)(model, inputs, part)


def products_of(model: Model, inputs: PassInputs, part: Any) -> Any:
    """Products of the scores of a part."""
    return (_products_on_host if on_host() else _products_on_devices)(model, inputs, part)


def noise_of(model: Model, inputs: PassInputs, part: Any) -> tuple[Any, Any]:
    """Mean `(r,)` and products `(r, r)` of the residuals of a part."""
    return (_noise_on_host if on_host() else _noise_on_devices)(model, inputs, part)


def influence_of(model: Model, inputs: PassInputs, part: Any) -> tuple[np.ndarray, np.ndarray]:
    """Residuals `(C, r)` and fitted scores `(C, k)`, in units of the metric, of every atom."""
    return (_influence_on_host if on_host() else _influence_on_devices)(model, inputs, part)


def scores_of(model: Model, inputs: PassInputs, part: Any, e: np.ndarray, x: np.ndarray) -> Iterator[tuple[Any, int]]:
    """Blocks of rows of the score matrix of records with design x and errors e, with their number without padding."""
    if not on_host():
        design = placed((e, x))
        for metric, theta, a, _, n in inputs.device_blocks(model, part, prior=False):
            yield _scores(likelihood_of(model), inputs, metric, theta, a, *design), n * metric.shape[1]
        return
    for metric, theta, weights, n, _ in part.blocks():
        with np.errstate(over="ignore", invalid="ignore"):  # records over many orders of magnitude
            phi = inputs.expanded(likelihood_of(model), theta[:n], metric).scores(e, x)
            rows = (phi * np.sqrt(weights[:n])[:, None, None]).reshape(-1, len(e))
        yield rows, len(rows)


def back(passed: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
    """The results of a pass. Results on devices are read back once."""
    if on_host():
        return passed
    parts, sums = zip(*passed, strict=True)
    return zip(parts, map(_as_host_sums, jax.device_get(sums)), strict=True)


def _moments_on_host(model: Model, inputs: PassInputs, part: Any) -> tuple[Any, ...]:
    size, features = inputs.size, inputs.frame.features
    target, mean, square = np.zeros(features), np.zeros(size), Squares(size)
    products, shift, weight = Products.none(features), None, 0.0
    for expansion, a, _, base in inputs.blocks(model, part):
        products.add(0, expansion.weighted(a), expansion.fold(a))
        target -= inputs.aim(expansion, a, base)
        value = np.asarray(inputs.combined(expansion.value))
        # One atom's values as a shift keep the covariance of large log likelihoods accurate.
        shift = value[0].copy() if shift is None else shift
        value = (value - shift) * np.sqrt(a)[:, None]
        mean += np.sqrt(a) @ value
        square.add(value)
        weight += a.sum()
    return weight, shift, products, target, mean, square


def _target_on_host(model: Model, inputs: PassInputs, part: Any) -> np.ndarray:
    return -np.asarray(sum(inputs.aim(expansion, a, base) for expansion, a, _, base in inputs.blocks(model, part)))


def _products_on_host(model: Model, inputs: PassInputs, part: Any) -> Products:
    products = None
    for metric, theta, a, n, _ in part.blocks():
        with np.errstate(over="ignore", invalid="ignore"):
            expansion = inputs.expanded(likelihood_of(model), theta[:n], metric)
            products = Products.none(expansion.q.shape[1]) if products is None else products
            products.add(0, expansion.weighted(a[:n]), expansion.fold(a[:n]))
    assert products is not None
    return products


def _noise_on_host(model: Model, inputs: PassInputs, part: Any) -> tuple[np.ndarray, np.ndarray]:
    size = inputs.size
    mean, square = np.zeros(size), np.zeros((size, size))
    for expansion, a, theta, base in inputs.blocks(model, part):
        score = inputs.score(expansion, theta, base, part.metric)
        residual = inputs.residual(expansion, score) * np.sqrt(a)[:, None]
        mean += np.sqrt(a) @ residual
        square += residual.T @ residual
    return mean, square


def _influence_on_host(model: Model, inputs: PassInputs, part: Any) -> tuple[np.ndarray, np.ndarray]:
    rows, scores = [], []
    for expansion, _, theta, base in inputs.blocks(model, part):
        score = inputs.score(expansion, theta, base, part.metric)
        rows.append(inputs.residual(expansion, score))
        scores.append(score)
    return np.concatenate(rows), np.concatenate(scores)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Summed:
    """`Products` for one metric, on the devices."""

    squares: Any
    fold: Fold

    def plus(self, other: "_Summed") -> "_Summed":
        return _Summed(self.squares + other.squares, self.fold.plus(other.fold))

    @classmethod
    def of(cls, expansion: Expansion, a: Array) -> "_Summed":
        rows = expansion.weighted(a)
        return cls(rows.T @ rows, expansion.fold(a))


def _as_host_sums(sums: Any) -> Any:
    """The same sums in the types that this process uses."""
    if isinstance(sums, _Summed):
        return Products(Squares.of(sums.squares), {0: sums.fold})
    if isinstance(sums, tuple):
        weight, shift, products, target, mean, square = sums
        return weight, shift, _as_host_sums(products), target, mean, Squares.of(square)
    return sums


_compiled = partial(jax.jit, static_argnums=0)
_merged = jax.jit(_Summed.plus)
_added = jax.jit(partial(jax.tree.map, jnp.add))


def _plus(total: Any, more: Any) -> Any:
    """The sum of a total so far (None before the first block) and of one more block."""
    if total is None:
        return more
    return (_merged if isinstance(total, _Summed) else _added)(total, more)


def _moments_on_devices(model: Model, inputs: PassInputs, part: Any) -> tuple[Any, ...]:
    likelihood, products, sums = likelihood_of(model), None, None
    shift: Any = None
    for metric, theta, a, base, _ in inputs.device_blocks(model, part):
        shift = _shift_of(likelihood, inputs, metric, theta) if shift is None else shift
        own, terms = _moments(likelihood, inputs, metric, theta, a, base, shift)
        products = _plus(products, own)
        sums = _plus(sums, terms)
    assert sums is not None
    return part.weights.sum(), shift, products, *sums


@_compiled
def _shift_of(likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array) -> Any:
    return inputs.combined(inputs.expanded(likelihood, theta[:1], metric).value)[0]


@_compiled
def _moments(
    likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, a: Array, base: Array, shift: Array
) -> tuple[Any, Any]:
    expansion, root = inputs.expanded(likelihood, theta, metric), jnp.sqrt(a)
    value = (inputs.combined(expansion.value) - shift) * root[:, None]
    return _Summed.of(expansion, a), (-inputs.aim(expansion, a, base), root @ value, value.T @ value)


def _target_on_devices(model: Model, inputs: PassInputs, part: Any) -> Any:
    total: Any = None
    for metric, theta, a, base, _ in inputs.device_blocks(model, part):
        total = _plus(total, _target(likelihood_of(model), inputs, metric, theta, a, base))
    return total


@_compiled
def _target(likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, a: Array, base: Array) -> Any:
    return -inputs.aim(inputs.expanded(likelihood, theta, metric), a, base)


def _products_on_devices(model: Model, inputs: PassInputs, part: Any) -> Any:
    total: Any = None
    for metric, theta, a, *_ in inputs.device_blocks(model, part, prior=False):
        total = _plus(total, _products(likelihood_of(model), inputs, metric, theta, a))
    return total


@_compiled
def _products(likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, a: Array) -> _Summed:
    return _Summed.of(inputs.expanded(likelihood, theta, metric), a)


def _noise_on_devices(model: Model, inputs: PassInputs, part: Any) -> tuple[Any, Any]:
    total: Any = None
    for metric, theta, a, base, _ in inputs.device_blocks(model, part, prior=inputs.normal is None):
        total = _plus(total, _noise(likelihood_of(model), inputs, metric, theta, a, base))
    return total


@_compiled
def _noise(
    likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, a: Array, base: Array
) -> tuple[Any, Any]:
    expansion, root = inputs.expanded(likelihood, theta, metric), jnp.sqrt(a)
    residual = inputs.residual(expansion, inputs.score(expansion, theta, base, metric)) * root[:, None]
    return root @ residual, residual.T @ residual


def _influence_on_devices(model: Model, inputs: PassInputs, part: Any) -> tuple[np.ndarray, np.ndarray]:
    blocks = [
        (_influence(likelihood_of(model), inputs, metric, theta, base), n)
        for metric, theta, _, base, n in inputs.device_blocks(model, part)
    ]
    values = jax.device_get([block for block, _ in blocks])
    counts = [count for _, count in blocks]
    rows, scores = (np.concatenate([block[k][:n] for block, n in zip(values, counts, strict=True)]) for k in (0, 1))
    return rows, scores


@_compiled
def _influence(likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, base: Array) -> tuple[Any, Any]:
    expansion = inputs.expanded(likelihood, theta, metric)
    score = inputs.score(expansion, theta, base, metric)
    return inputs.residual(expansion, score), score


@_compiled
def _scores(
    likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, a: Array, e: Array, x: Array
) -> Any:
    phi = inputs.expanded(likelihood, theta, metric).scores(e, x)
    return (phi * jnp.sqrt(a)[:, None, None]).reshape(-1, len(e))
