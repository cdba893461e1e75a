"""What a part of the atoms (`view.Part`) adds to the closed form of a regression: in this process, or on the devices in
use."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.kernels.monomials import Expansion, Frame
from bayesrecon.kernels.products import Fold, Products, Squares
from bayesrecon.model import GaussianPredictor, Model
from bayesrecon.running.engine import on_host, placed, spread

Law = tuple[GaussianPredictor, float]
"""What programs of the devices are compiled for: the predictor and the power of a model."""


def law_of(model: Model) -> Law:
    assert model.gaussian is not None, "a model without closed form"
    return model.gaussian, model.power


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Given:
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
    fitted: Any = None
    normal: Any = None

    @property
    def size(self) -> int:
        """r, the number of functions."""
        return self.frame.features if self.functions is None else self.functions.shape[1]

    def combined(self, rows: Any) -> Any:
        """Rows of the monomials `(C, F)` as those of the functions."""
        return rows if self.functions is None else rows @ self.functions

    def expanded(self, law: Law, theta: Any, metric: Any) -> Expansion:
        return Expansion.at(law[0], self.frame, law[1], theta, metric)

    def blocks(self, model: Model, part: Any) -> Iterator[tuple[Expansion, np.ndarray, np.ndarray, np.ndarray]]:
        """Expansions at a part's atoms, with their weights, places and the scores of prior and transforms `(C, k)`, in
        this process."""
        for metric, theta, a, n, _ in part.blocks():
            base = np.asarray(self.prior(model, metric, theta, self.temperature))[:n]
            with np.errstate(over="ignore", invalid="ignore"):  # scales of no model of these data
                yield self.expanded(law_of(model), theta[:n], metric), a[:n], theta[:n], base

    def there(self, model: Model, part: Any, prior: bool = True) -> Iterator[tuple[Any, ...]]:
        """The same atoms on the devices: metric, atoms, weights, scores of prior and transforms, and how many are none
        of padding."""
        metric = placed(part.metric)
        for _, theta, a, n, _ in part.blocks():
            t = spread(theta)
            yield metric, t, spread(a), self.prior(model, metric, t, self.temperature) if prior else None, n

    def score(self, at: Expansion, theta: Any, base: Any, metric: Any) -> Any:
        """Of the posterior of the fitted data, or of the normal law in its place, `(C, k)`."""
        if self.normal is None:
            return at.score(self.fitted) + base
        centre, precision = self.normal
        return -(theta - centre) @ precision @ metric

    def aim(self, at: Expansion, a: Any, base: Any) -> Any:
        """Minus the embedding of the private data in the monomials, `(F,)`."""
        return a @ (self.temperature * at.lap + at.along(base))

    def residual(self, at: Expansion, score: Any) -> Any:
        """`<phi, score> + tau tr(Sigma Hess l)` of the functions, `(C, r)`."""
        return self.combined(at.along(score) + self.temperature * at.lap)


def moments_of(model: Model, given: Given, part: Any) -> tuple[Any, ...]:
    """Weight of a part, the values that its sums are taken about, its products of scores, target and values."""
    return (_moments_here if on_host() else _moments_there)(model, given, part)


def target_of(model: Model, given: Given, part: Any) -> Any:
    """The embedding of the private data in the monomials, `(F,)`."""
    return (_target_here if on_host() else _target_there)(model, given, part)


def products_of(model: Model, given: Given, part: Any) -> Any:
    """Products of scores."""
    return (_products_here if on_host() else _products_there)(model, given, part)


def noise_of(model: Model, given: Given, part: Any) -> tuple[Any, Any]:
    """Mean and products of residuals."""
    return (_noise_here if on_host() else _noise_there)(model, given, part)


def influence_of(model: Model, given: Given, part: Any) -> tuple[np.ndarray, np.ndarray]:
    """Residuals and fitted scores of every atom, these along the metric."""
    return (_influence_here if on_host() else _influence_there)(model, given, part)


def scores_of(model: Model, given: Given, part: Any, e: np.ndarray, x: np.ndarray) -> Iterator[tuple[Any, int]]:
    """Rows of the score matrix of records with that design, block by block, and how many are none of padding."""
    if not on_host():
        at = placed((e, x))
        for metric, theta, a, _, n in given.there(model, part, prior=False):
            yield _scores(law_of(model), given, metric, theta, a, *at), n * metric.shape[1]
        return
    for metric, theta, weights, n, _ in part.blocks():
        with np.errstate(over="ignore", invalid="ignore"):  # of records over many orders of magnitude
            phi = given.expanded(law_of(model), theta[:n], metric).scores(e, x)
            rows = (phi * np.sqrt(weights[:n])[:, None, None]).reshape(-1, len(e))
        yield rows, len(rows)


def back(passed: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
    """What a pass gives, read back once where the devices made it."""
    if on_host():
        return passed
    parts, found = zip(*passed, strict=True)
    return zip(parts, map(_landed, jax.device_get(found)), strict=True)


def _moments_here(model: Model, given: Given, part: Any) -> tuple[Any, ...]:
    size, features = given.size, given.frame.features
    target, mean, square = np.zeros(features), np.zeros(size), Squares(size)
    products, shift, weight = Products.none(features), None, 0.0
    for at, a, _, base in given.blocks(model, part):
        products.add(0, at.weighted(a), at.fold(a))
        target -= given.aim(at, a, base)
        value = given.combined(at.value)
        # One atom's values as a shift keep the covariance of large log likelihoods accurate.
        shift = value[0].copy() if shift is None else shift
        value = (value - shift) * np.sqrt(a)[:, None]
        mean += np.sqrt(a) @ value
        square.add(value)
        weight += a.sum()
    return weight, shift, products, target, mean, square


def _target_here(model: Model, given: Given, part: Any) -> np.ndarray:
    return -np.asarray(sum(given.aim(at, a, base) for at, a, _, base in given.blocks(model, part)))


def _products_here(model: Model, given: Given, part: Any) -> Products:
    products = None
    for metric, theta, a, n, _ in part.blocks():
        with np.errstate(over="ignore", invalid="ignore"):
            at = given.expanded(law_of(model), theta[:n], metric)
            products = Products.none(at.q.shape[1]) if products is None else products
            products.add(0, at.weighted(a[:n]), at.fold(a[:n]))
    assert products is not None
    return products


def _noise_here(model: Model, given: Given, part: Any) -> tuple[np.ndarray, np.ndarray]:
    size = given.size
    mean, square = np.zeros(size), np.zeros((size, size))
    for at, a, theta, base in given.blocks(model, part):
        score = given.score(at, theta, base, part.metric)
        residual = given.residual(at, score) * np.sqrt(a)[:, None]
        mean += np.sqrt(a) @ residual
        square += residual.T @ residual
    return mean, square


def _influence_here(model: Model, given: Given, part: Any) -> tuple[np.ndarray, np.ndarray]:
    rows, scores = [], []
    for at, _, theta, base in given.blocks(model, part):
        score = given.score(at, theta, base, part.metric)
        rows.append(given.residual(at, score))
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
    def of(cls, at: Expansion, a: Any) -> "_Summed":
        rows = at.weighted(a)
        return cls(rows.T @ rows, at.fold(a))


def _landed(found: Any) -> Any:
    """As it is in this process."""
    if isinstance(found, _Summed):
        return Products(Squares.of(found.squares), {0: found.fold})
    if isinstance(found, tuple):
        weight, shift, products, target, mean, square = found
        return weight, shift, _landed(products), target, mean, Squares.of(square)
    return found


_compiled = partial(jax.jit, static_argnums=0)
_joined = jax.jit(_Summed.plus)
_both = jax.jit(partial(jax.tree.map, jnp.add))


def _plus(total: Any, more: Any) -> Any:
    """Sums, the first of which is None."""
    if total is None:
        return more
    return (_joined if isinstance(total, _Summed) else _both)(total, more)


def _moments_there(model: Model, given: Given, part: Any) -> tuple[Any, ...]:
    law, products, sums = law_of(model), None, None
    shift: Any = None
    for metric, theta, a, base, _ in given.there(model, part):
        shift = _first(law, given, metric, theta) if shift is None else shift
        own, terms = _moments(law, given, metric, theta, a, base, shift)
        products = _plus(products, own)
        sums = _plus(sums, terms)
    assert sums is not None
    return part.weights.sum(), shift, products, *sums


@_compiled
def _first(law: Law, given: Given, metric: Any, theta: Any) -> Any:
    return given.combined(given.expanded(law, theta[:1], metric).value)[0]


@_compiled
def _moments(law: Law, given: Given, metric: Any, theta: Any, a: Any, base: Any, shift: Any) -> tuple[Any, Any]:
    at, root = given.expanded(law, theta, metric), jnp.sqrt(a)
    value = (given.combined(at.value) - shift) * root[:, None]
    return _Summed.of(at, a), (-given.aim(at, a, base), root @ value, value.T @ value)


def _target_there(model: Model, given: Given, part: Any) -> Any:
    total: Any = None
    for metric, theta, a, base, _ in given.there(model, part):
        total = _plus(total, _target(law_of(model), given, metric, theta, a, base))
    return total


@_compiled
def _target(law: Law, given: Given, metric: Any, theta: Any, a: Any, base: Any) -> Any:
    return -given.aim(given.expanded(law, theta, metric), a, base)


def _products_there(model: Model, given: Given, part: Any) -> Any:
    total: Any = None
    for metric, theta, a, *_ in given.there(model, part, prior=False):
        total = _plus(total, _products(law_of(model), given, metric, theta, a))
    return total


@_compiled
def _products(law: Law, given: Given, metric: Any, theta: Any, a: Any) -> _Summed:
    return _Summed.of(given.expanded(law, theta, metric), a)


def _noise_there(model: Model, given: Given, part: Any) -> tuple[Any, Any]:
    total: Any = None
    for metric, theta, a, base, _ in given.there(model, part, prior=given.normal is None):
        total = _plus(total, _noise(law_of(model), given, metric, theta, a, base))
    return total


@_compiled
def _noise(law: Law, given: Given, metric: Any, theta: Any, a: Any, base: Any) -> tuple[Any, Any]:
    at, root = given.expanded(law, theta, metric), jnp.sqrt(a)
    residual = given.residual(at, given.score(at, theta, base, metric)) * root[:, None]
    return root @ residual, residual.T @ residual


def _influence_there(model: Model, given: Given, part: Any) -> tuple[np.ndarray, np.ndarray]:
    blocks = [
        (_influence(law_of(model), given, metric, theta, base), n)
        for metric, theta, _, base, n in given.there(model, part)
    ]
    found = jax.device_get([one for one, _ in blocks])
    rows, scores = (np.concatenate([one[k][:n] for one, (_, n) in zip(found, blocks, strict=True)]) for k in (0, 1))
    return rows, scores


@_compiled
def _influence(law: Law, given: Given, metric: Any, theta: Any, base: Any) -> tuple[Any, Any]:
    at = given.expanded(law, theta, metric)
    score = given.score(at, theta, base, metric)
    return given.residual(at, score), score


@_compiled
def _scores(law: Law, given: Given, metric: Any, theta: Any, a: Any, e: Any, x: Any) -> Any:
    phi = given.expanded(law, theta, metric).scores(e, x)
    return (phi * jnp.sqrt(a)[:, None, None]).reshape(-1, len(e))
