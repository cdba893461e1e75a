"""The kernel mean embedding of a Gaussian linear regression, in closed form (`divergence.monomials`)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from itertools import groupby
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from bayesrecon.arrays import Array, Stored
from bayesrecon.divergence.definite import by_triangle, factor, largest, solver
from bayesrecon.divergence.mean_embedding import (
    Basis,
    Coordinates,
    FeatureBasis,
    Influence,
    LostDigits,
    Moments,
    Stretch,
)
from bayesrecon.divergence.metric_view import AtomPart, ReleaseView, unwhitened
from bayesrecon.divergence.monomials import Expansion, Frame
from bayesrecon.divergence.products import Fold, Products, Squares
from bayesrecon.divergence.score import prior_score
from bayesrecon.divergence.sums import covariance
from bayesrecon.model import GaussianPredictor, Model, Records
from bayesrecon.running.draws_on_disk import mean_and_covariance
from bayesrecon.running.engine import block_entries, on_host, placed, pooled, spread

# The contribution of a part of the atoms to the closed form of a regression, in this process or on devices.


Tree = TypeVar("Tree")

Part = Any
"""A part of the atoms, `metric_view.Part`."""

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
    prior: Callable[[Model, Array, Array, float], Array] = field(metadata={"static": True})
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

    def blocks(self, model: Model, part: Part) -> Iterator[tuple[Expansion, np.ndarray, np.ndarray, np.ndarray]]:
        """Expansions at the atoms of a part, block by block, in this process.

        Each comes with the weights, the atoms, and the scores of prior and transforms `(C, k)`.
        """
        for metric, theta, a, n, _ in part.blocks():
            base = np.asarray(self.base(model, metric, theta))[:n]
            with np.errstate(over="ignore", invalid="ignore"):  # extreme scales, which no data support
                yield self.expanded(likelihood_of(model), theta[:n], metric), a[:n], theta[:n], base

    def device_blocks(self, part: Part) -> Iterator[tuple[Array, Array, Array, int]]:
        """The atoms of a part, block by block, on the devices.

        Each block has metric, atoms, weights, and its number of atoms without padding.
        """
        metric = placed(part.metric)
        for _, theta, a, n, _ in part.blocks():
            yield metric, spread(theta), spread(a), n

    def base(self, model: Model, metric: Array, theta: Array) -> Array:
        """Scores of prior and transforms `(C, k)`."""
        return self.prior(model, metric, theta, self.temperature)

    def score(self, expansion: Expansion, theta: Array, base: Array | None, metric: Array) -> Array:
        """Score of the posterior of the fitted data, or of the normal distribution that replaces it, `(C, k)`."""
        if self.normal is None:
            assert self.fitted is not None
            assert base is not None
            return expansion.score(self.fitted) + base
        centre, precision = self.normal
        return -(theta - centre) @ precision @ metric

    def target(self, expansion: Expansion, a: Array, base: Array) -> Array:
        """Minus the embedding of the private data, evaluated at the monomials, `(F,)`."""
        return a @ (self.temperature * expansion.lap + expansion.along(base))

    def residual(self, expansion: Expansion, score: Array) -> Array:
        """`<phi, score> + tau tr(Sigma Hess l)` for the functions, `(C, r)`."""
        return self.combined(expansion.along(score) + self.temperature * expansion.lap)


def moments_of(model: Model, inputs: PassInputs, part: Part) -> tuple[Any, ...]:
    """Sums over a part: weight, shift of the values, products of scores, target, mean and products of values."""
    return (_moments_on_host if on_host() else _moments_on_devices)(model, inputs, part)


def target_of(model: Model, inputs: PassInputs, part: Part) -> Array:
    """The embedding of the private data, evaluated at the monomials, `(F,)`."""
    return (_target_on_host if on_host() else _target_on_devices)(model, inputs, part)


def products_of(model: Model, inputs: PassInputs, part: Part) -> "Products | _DeviceProducts":
    """Products of the scores of a part."""
    return (_products_on_host if on_host() else _products_on_devices)(model, inputs, part)


def noise_of(model: Model, inputs: PassInputs, part: Part) -> tuple[Array, Array]:
    """Mean `(r,)` and products `(r, r)` of the residuals of a part."""
    return (_noise_on_host if on_host() else _noise_on_devices)(model, inputs, part)


def influence_of(model: Model, inputs: PassInputs, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Residuals `(C, r)` and fitted scores `(C, k)`, in units of the metric, of every atom."""
    return (_influence_on_host if on_host() else _influence_on_devices)(model, inputs, part)


def scores_of(
    model: Model, inputs: PassInputs, part: Part, e: np.ndarray, x: np.ndarray
) -> Iterator[tuple[Array, int]]:
    """Blocks of rows of the score matrix of records with design x and errors e, with their number without padding."""
    if not on_host():
        design = placed((e, x))
        for metric, theta, a, n in inputs.device_blocks(part):
            yield _scores(likelihood_of(model), inputs, metric, theta, a, *design), n * metric.shape[1]
        return
    for metric, theta, weights, n, _ in part.blocks():
        with np.errstate(over="ignore", invalid="ignore"):  # records over many orders of magnitude
            phi = inputs.expanded(likelihood_of(model), theta[:n], metric).scores(e, x)
            rows = (phi * np.sqrt(weights[:n])[:, None, None]).reshape(-1, len(e))
        yield rows, len(rows)


def back(passed: Iterable[tuple[Part, Any]]) -> Iterable[tuple[Part, Any]]:
    """The results of a pass in this process. Results on devices are read back together."""
    if on_host():
        return passed
    parts, sums = zip(*passed, strict=True)
    return zip(parts, map(_as_host_sums, jax.device_get(sums)), strict=True)


def _moments_on_host(model: Model, inputs: PassInputs, part: Part) -> tuple[Any, ...]:
    size, features = inputs.size, inputs.frame.features
    target, mean, square = np.zeros(features), np.zeros(size), Squares(size)
    products, shift, weight = Products.none(features), None, 0.0
    for expansion, a, _, base in inputs.blocks(model, part):
        products.add(0, np.asarray(expansion.weighted(a)), expansion.fold(a))
        target -= inputs.target(expansion, a, base)
        value = np.asarray(inputs.combined(expansion.value))
        # One atom's values as a shift keep the covariance of large log likelihoods accurate.
        shift = value[0].copy() if shift is None else shift
        value = (value - shift) * np.sqrt(a)[:, None]
        mean += np.sqrt(a) @ value
        square.add(value)
        weight += a.sum()
    return weight, shift, products, target, mean, square


def _target_on_host(model: Model, inputs: PassInputs, part: Part) -> np.ndarray:
    return -np.asarray(sum(inputs.target(expansion, a, base) for expansion, a, _, base in inputs.blocks(model, part)))


def _products_on_host(model: Model, inputs: PassInputs, part: Part) -> Products:
    products = None
    for metric, theta, a, n, _ in part.blocks():
        with np.errstate(over="ignore", invalid="ignore"):
            expansion = inputs.expanded(likelihood_of(model), theta[:n], metric)
            products = Products.none(expansion.q.shape[1]) if products is None else products
            products.add(0, np.asarray(expansion.weighted(a[:n])), expansion.fold(a[:n]))
    assert products is not None
    return products


def _noise_on_host(model: Model, inputs: PassInputs, part: Part) -> tuple[np.ndarray, np.ndarray]:
    size = inputs.size
    mean, square = np.zeros(size), np.zeros((size, size))
    for expansion, a, theta, base in inputs.blocks(model, part):
        score = inputs.score(expansion, theta, base, part.metric)
        residual = inputs.residual(expansion, score) * np.sqrt(a)[:, None]
        mean += np.sqrt(a) @ residual
        square += residual.T @ residual
    return mean, square


def _influence_on_host(model: Model, inputs: PassInputs, part: Part) -> tuple[np.ndarray, np.ndarray]:
    rows, scores = [], []
    for expansion, _, theta, base in inputs.blocks(model, part):
        score = inputs.score(expansion, theta, base, part.metric)
        rows.append(inputs.residual(expansion, score))
        scores.append(score)
    return np.concatenate(rows), np.concatenate(scores)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _DeviceProducts:
    """`Products` for one metric, on the devices."""

    squares: Array
    fold: Fold

    def plus(self, other: "_DeviceProducts") -> "_DeviceProducts":
        return _DeviceProducts(self.squares + other.squares, self.fold.plus(other.fold))

    @classmethod
    def of(cls, expansion: Expansion, a: Array) -> "_DeviceProducts":
        rows = expansion.weighted(a)
        return cls(rows.T @ rows, expansion.fold(a))


def _as_host_sums(sums: Any) -> Any:
    """The same sums in the types that this process uses."""
    if isinstance(sums, _DeviceProducts):
        return Products(Squares.of(np.asarray(sums.squares)), {0: sums.fold})
    if isinstance(sums, tuple):
        weight, shift, products, target, mean, square = sums
        return weight, shift, _as_host_sums(products), target, mean, Squares.of(square)
    return sums


_compiled = partial(jax.jit, static_argnums=0)
_merged = jax.jit(_DeviceProducts.plus)
_added = jax.jit(partial(jax.tree.map, jnp.add))


def _plus(total: Tree | None, more: Tree) -> Tree:
    """The sum of a total so far (None before the first block) and of one more block."""
    if total is None:
        return more
    return (_merged if isinstance(total, _DeviceProducts) else _added)(total, more)


def _moments_on_devices(model: Model, inputs: PassInputs, part: Part) -> tuple[Any, ...]:
    likelihood = likelihood_of(model)
    shift: Array | None = None
    products: _DeviceProducts | None = None
    sums: tuple[Array, Array, Array] | None = None
    for metric, theta, a, _ in inputs.device_blocks(part):
        shift = _shift_of(likelihood, inputs, metric, theta) if shift is None else shift
        base = inputs.base(model, metric, theta)
        more, terms = _moments(likelihood, inputs, metric, theta, a, base, shift)
        products = _plus(products, more)
        sums = _plus(sums, terms)
    assert sums is not None
    return part.weights.sum(), shift, products, *sums


@_compiled
def _shift_of(likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array) -> Array:
    return inputs.combined(inputs.expanded(likelihood, theta[:1], metric).value)[0]


@_compiled
def _moments(
    likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, a: Array, base: Array, shift: Array
) -> tuple[_DeviceProducts, tuple[Array, Array, Array]]:
    expansion, root = inputs.expanded(likelihood, theta, metric), jnp.sqrt(a)
    value = (inputs.combined(expansion.value) - shift) * root[:, None]
    return _DeviceProducts.of(expansion, a), (-inputs.target(expansion, a, base), root @ value, value.T @ value)


def _target_on_devices(model: Model, inputs: PassInputs, part: Part) -> Array:
    blocks = ((block, inputs.base(model, *block[:2])) for *block, _ in inputs.device_blocks(part))
    return reduce(_plus, (_target(likelihood_of(model), inputs, *block, base) for block, base in blocks))


@_compiled
def _target(likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, a: Array, base: Array) -> Array:
    return -inputs.target(inputs.expanded(likelihood, theta, metric), a, base)


def _products_on_devices(model: Model, inputs: PassInputs, part: Part) -> _DeviceProducts:
    likelihood = likelihood_of(model)
    return reduce(_plus, (_products(likelihood, inputs, *block) for *block, _ in inputs.device_blocks(part)))


@_compiled
def _products(likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, a: Array) -> _DeviceProducts:
    return _DeviceProducts.of(inputs.expanded(likelihood, theta, metric), a)


def _noise_on_devices(model: Model, inputs: PassInputs, part: Part) -> tuple[Array, Array]:
    def terms(metric: Array, theta: Array, a: Array) -> tuple[Array, Array]:
        base = inputs.base(model, metric, theta) if inputs.normal is None else None
        return _noise(likelihood_of(model), inputs, metric, theta, a, base)

    return reduce(_plus, (terms(metric, theta, a) for metric, theta, a, _ in inputs.device_blocks(part)))


@_compiled
def _noise(
    likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, a: Array, base: Array | None
) -> tuple[Array, Array]:
    expansion, root = inputs.expanded(likelihood, theta, metric), jnp.sqrt(a)
    residual = inputs.residual(expansion, inputs.score(expansion, theta, base, metric)) * root[:, None]
    return root @ residual, residual.T @ residual


def _influence_on_devices(model: Model, inputs: PassInputs, part: Part) -> tuple[np.ndarray, np.ndarray]:
    blocks = [
        (_influence(likelihood_of(model), inputs, metric, theta, inputs.base(model, metric, theta)), n)
        for metric, theta, _, n in inputs.device_blocks(part)
    ]
    values = jax.device_get([block for block, _ in blocks])
    counts = [count for _, count in blocks]
    rows, scores = (np.concatenate([block[k][:n] for block, n in zip(values, counts, strict=True)]) for k in (0, 1))
    return rows, scores


@_compiled
def _influence(
    likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, base: Array
) -> tuple[Array, Array]:
    expansion = inputs.expanded(likelihood, theta, metric)
    score = inputs.score(expansion, theta, base, metric)
    return inputs.residual(expansion, score), score


@_compiled
def _scores(
    likelihood: Likelihood, inputs: PassInputs, metric: Array, theta: Array, a: Array, e: Array, x: Array
) -> Array:
    phi = inputs.expanded(likelihood, theta, metric).scores(e, x)
    return (phi * jnp.sqrt(a)[:, None, None]).reshape(-1, len(e))


_BLOCK = 2**20  # coefficients of a block of atoms; about a dozen such arrays exist at a time
_SCORES = 2**22  # entries of a block of scores
_CACHED = 2  # kernels of the monomials: a basis is chosen on some atoms, and solved on others
_NONE = np.zeros((0, 0))
_CONDITION = 1e3  # above it, the kernel of combinations of the monomials loses too many digits


@dataclass(frozen=True)
class GaussianEmbedding(ReleaseView):
    """`MeanEmbedding` of a release of a model that has a `GaussianPredictor`."""

    _grams: dict[bytes, np.ndarray] = field(default_factory=dict, init=False, repr=False)
    # The last basis, and its functions in the monomials.
    _cached_basis: list[tuple[Basis, np.ndarray]] = field(default_factory=list, init=False, repr=False)

    def scores(self, records: Records, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, "rows M"]:
        design = self._frame.design(self._predictor, records)
        parts = self._parts(_atoms_of(_SCORES, len(design[0]) * self.metric.shape[1]), atoms)
        inputs = self._inputs(_NONE)
        blocks = [block for part in parts for block in scores_of(self.release.model, inputs, part, *design)]
        rows = jax.device_get([block for block, _ in blocks])
        return np.concatenate([block[:n] for block, (_, n) in zip(rows, blocks, strict=True)])

    @property
    def features(self) -> int:
        return self.width

    def columns(self, records: Records) -> Float[np.ndarray, "F M"]:
        with np.errstate(over="ignore", invalid="ignore"):  # of records over many orders of magnitude
            return self._frame.monomials(self._predictor, records)

    def coordinates(self, atoms: Int[np.ndarray, " A"]) -> Coordinates | None:
        root = factor(self._gram(atoms))
        return None if root is None else lambda records: by_triangle(root, self.columns(records))

    def totals(self, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, " F"] | None:
        solve = solver(self._gram(atoms))
        if solve is None:
            return None
        target = np.zeros(self.width)
        passed = self._pass(target_of, self._inputs(_NONE), self._parts(self._block, atoms), "locating the records")
        for _, part in back(passed):
            target += part
        return solve(target)

    def slopes(self, records: Records, h: Array | Stored, j: Int[np.ndarray, " P"]) -> Float[np.ndarray, "M P"]:
        plain = replace(self, metric=np.eye(len(self.metric)), folds=None, progress=None)
        sums = np.zeros((self.width, len(j)))
        start = 0
        inputs = PassInputs(self._frame, _NONE, self.temperature, prior_score)  # in this process, where h is
        for metric, theta, weights, n, _ in plain._atoms(_atoms_of(_BLOCK, self.width), None):
            expansion = inputs.expanded(likelihood_of(self.release.model), theta[:n], metric)
            sums += expansion.sums(np.asarray(h[start : start + n]) * weights[:n, None], j)
            start += n
        return self._frame.monomials(self._predictor, records).T @ sums

    def moments(
        self,
        basis: Basis,
        atoms: Int[np.ndarray, " A"] | None = None,
        label: str = "summing over the draws",
        stretches: int = 1,
    ) -> Moments:
        functions, sums, shift = self._functions(basis), [], None
        inputs, features = self._inputs(functions), self.width
        mean, square = np.zeros(basis.size), np.zeros((basis.size, basis.size))
        passed = back(self._pass(moments_of, inputs, self._parts(self._block, atoms, stretches), label))
        total_gram = np.zeros((features, features))
        for _, stretch in groupby(passed, key=lambda result: result[0].stretch):
            products = Products.none(features)
            target, share = np.zeros(features), 0.0
            for part, (weight, part_shift, part_products, part_target, first, second) in stretch:
                products.plus(id(part.metric), part_products)
                target += part_target
                shift = part_shift if shift is None else shift
                # Every part's values are summed about its own first ones.
                shift_change, share = part_shift - shift, share + weight
                square += second.matrix()
                if shift_change.any():
                    square += np.outer(first, shift_change)
                    square += np.outer(shift_change, first + weight * shift_change)
                mean += first + weight * shift_change
            gram = products.gram()
            total_gram += gram
            sums.append(Stretch(share, gram, target, functions))
        self._keep(atoms, total_gram)
        _check(np.diag(total_gram), functions)
        return Moments.of_stretches(sums, square - np.outer(mean, mean))

    def cross(
        self, basis: Basis, probes: Records, atoms: Int[np.ndarray, " A"] | None = None
    ) -> Float[np.ndarray, "Q r"]:
        functions, columns = self._functions(basis), self._frame.monomials(self._predictor, probes)
        gram = self._gram(atoms)
        _check(np.diag(gram), functions)
        return columns.T @ (gram if functions is None else gram @ functions)

    def noise(self, basis: Basis, y: Float[np.ndarray, " r"]) -> Float[np.ndarray, "r r"]:
        functions = self._functions(basis)
        return self._covariance(self._inputs(functions, fitted=_in_monomials(functions, y)), self._parts(self._block))

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> Float[np.ndarray, "r r"]:
        inputs = self._inputs(self._functions(basis), normal=self._normal[1:])
        return self._covariance(inputs, self._noise_parts(self._block, simulated))

    def influence(self, basis: Basis, y: Float[np.ndarray, " r"], b: Float[np.ndarray, "r S"]) -> Influence:
        functions = self._functions(basis)
        inputs = self._inputs(_in_monomials(functions, b), fitted=_in_monomials(functions, y))
        rows, scores = self._series(b.shape[1])
        for part, (series, score) in self._pass(influence_of, inputs, self._parts(self._block), "estimating errors"):
            rows.add(series)
            scores.add(unwhitened(part.metric, score, self.temperature))
        return rows.done(), scores.done()

    def _gram(self, atoms: np.ndarray | None) -> np.ndarray:
        """Kernel of the monomials, `(F, F)`."""
        key = _key_of(atoms)
        if key not in self._grams:
            self._keep(atoms, self._summed(atoms))
        return self._grams[key]

    def _keep(self, atoms: np.ndarray | None, gram: np.ndarray) -> None:
        if len(self._grams) >= _CACHED:
            del self._grams[next(iter(self._grams))]
        self._grams[_key_of(atoms)] = gram

    def _summed(self, atoms: np.ndarray | None) -> np.ndarray:
        products = Products.none(self.width)
        inputs = self._inputs(_NONE)
        passed = self._pass(products_of, inputs, self._parts(self._block, atoms), "comparing records")
        for part, part_products in back(passed):
            products.plus(id(part.metric), part_products)
        return products.gram()

    def _covariance(self, inputs: PassInputs, parts: list[AtomPart]) -> np.ndarray:
        return covariance(self._pass(noise_of, inputs, parts, "estimating noise"))

    def _inputs(
        self,
        functions: np.ndarray | None,
        *,
        fitted: np.ndarray | None = None,
        normal: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> PassInputs:
        """The inputs of a pass, on the devices in use."""
        inputs = PassInputs(self._frame, functions, self.temperature, prior_score, fitted, normal)
        return inputs if on_host() or pooled() else placed(inputs)

    @property
    def _predictor(self) -> GaussianPredictor:
        return likelihood_of(self.release.model)[0]

    @cached_property
    def _frame(self) -> Frame:
        return Frame.of(self._predictor, *mean_and_covariance(self._theta, self.weights))

    @property
    def width(self) -> int:
        """F, the number of monomials."""
        p = len(self._predictor.coefficients)
        return 2 + p + p * (p + 1) // 2

    @property
    def _block(self) -> int:
        """Number of atoms in a block."""
        return _atoms_of(block_entries(_BLOCK), self.width, 11 if on_host() else 16)

    def _functions(self, basis: Basis) -> np.ndarray | None:
        """Coefficients of the basis in the monomials, `(F, r)`; None if these are the basis.

        Those of the last basis are cached.
        """
        if isinstance(basis, FeatureBasis) and basis.atoms is self.release:
            return None
        if not self._cached_basis or self._cached_basis[0][0] is not basis:
            functions = self._frame.monomials(self._predictor, basis.records) @ np.asarray(basis.coefficients)
            self._cached_basis[:] = [(basis, functions)]
        return self._cached_basis[0][1]


def _key_of(atoms: np.ndarray | None) -> bytes:
    return b"" if atoms is None else atoms.tobytes()


def _atoms_of(entries: int, width: int, most: int = 11) -> int:
    """Number of atoms in a block: a power of two, at most `2^most`."""
    return 2 ** int(np.clip(np.log2(entries / max(1, width)), 0, most))


def _in_monomials(functions: np.ndarray | None, combined: np.ndarray) -> np.ndarray:
    """Coefficients in the monomials of combinations of the basis."""
    return combined if functions is None else functions @ combined


def _check(diagonal: np.ndarray, functions: np.ndarray | None) -> None:
    """Raise an error if sums over the monomials lose the digits of the functions."""
    if functions is not None and not largest(diagonal, functions) <= _CONDITION:
        raise LostDigits
