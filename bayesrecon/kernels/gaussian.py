"""The kernel mean embedding of a Gaussian linear regression, in closed form (`kernels.monomials`)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import jax
import numpy as np

from bayesrecon.kernels.definite import factor, solver
from bayesrecon.kernels.embedding import Basis, Coordinates, LostDigits, Moments, Stretch
from bayesrecon.kernels.monomials import Expansion, Frame, Products
from bayesrecon.kernels.score import prior_score
from bayesrecon.kernels.sums import covariance, either_way, numbers, plus
from bayesrecon.kernels.view import Part, View, unwhitened
from bayesrecon.model import GaussianPredictor, Model, Records
from bayesrecon.running.engine import Work, block_entries, on_host, placed, pooled, spread
from bayesrecon.running.stored import mean_and_covariance

_BLOCK = 2**20  # coefficients of a block of atoms, of which a dozen arrays are under way
_SCORES = 2**22  # entries of a block of scores
_KEPT = 2  # kernels of the monomials at some atoms: a basis is chosen on some, and solved on others
_NONE = np.zeros((0, 0))
_POWERS = 8  # from which a largest singular value is known to a few per cent: its size is what matters
_CONDITION = 1e3  # of the monomials, from which the kernel of combinations of them loses too many digits


@dataclass(frozen=True)
class GaussianEmbedding(View):
    """`MeanEmbedding` of a release of a model that has a `GaussianPredictor`."""

    _grams: dict[bytes, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    def scores(self, records: Records, atoms: np.ndarray) -> np.ndarray:
        e, x = self._frame.design(self._predictor, records)
        chunk, given = _atoms_of(_SCORES, len(e) * self.metric.shape[1]), self._given(_NONE)
        at, found = numbers((e, x)), []
        for part in self._parts(chunk, atoms):
            for theta, weights, n in given.blocks(part):
                rows = _scores(_law(self.release.model), given, numbers(part.metric), theta, weights, *at)
                found.append((rows, n))
        rows = jax.device_get([rows for rows, _ in found])  # the only one
        return np.concatenate([one[:n] for one, (_, n) in zip(rows, found, strict=True)]).reshape(-1, len(e))

    @property
    def features(self) -> int:
        return self.width

    def columns(self, records: Records) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # of records over many orders of magnitude
            return self._frame.monomials(self._predictor, records)

    def coordinates(self, atoms: np.ndarray) -> Coordinates | None:
        root = factor(self._gram(atoms))
        return None if root is None else lambda records: root @ self.columns(records)

    def totals(self, atoms: np.ndarray) -> np.ndarray | None:
        solve = solver(self._gram(atoms))
        if solve is None:
            return None
        target = np.zeros(self.width)
        for _, part in self._back(
            _target_of, self._given(_NONE), self._parts(self._block, atoms), "locating the records"
        ):
            target += part
        return solve(target)

    def slopes(self, records: Records, h: Any, j: np.ndarray) -> np.ndarray:
        plain = replace(self, metric=np.eye(len(self.metric)), folds=None, progress=None)
        found, given, law = np.zeros((self.width, len(j))), self._given(_NONE, here=True), _law(self.release.model)
        start = 0
        for metric, theta, weights, n, _ in plain._atoms(_atoms_of(_BLOCK, self.width), None):
            with np.errstate(over="ignore", invalid="ignore"):
                found += given.expanded(law, theta[:n], metric).sums(h[start : start + n] * weights[:n, None], j)
            start += n
        return self._frame.monomials(self._predictor, records).T @ found

    def moments(
        self, basis: Basis, atoms: np.ndarray | None = None, label: str = "summing over the draws", stretches: int = 1
    ) -> Moments:
        functions, found, shift = self._functions(basis), [], None
        given = self._given(functions)
        mean, square = np.zeros(basis.size), np.zeros((basis.size, basis.size))
        passed = self._back(_moments_of, given, self._parts(self._block, atoms, stretches), label)
        whole = np.zeros((len(functions), len(functions)))
        for _, stretch in groupby(passed, key=lambda one: one[0].stretch):
            products: dict[int, Products] = {}
            target, share = np.zeros(len(functions)), 0.0
            for part, (weight, own, kept, aim, first, second) in stretch:
                fold = id(part.metric)
                products[fold] = products[fold].plus(kept) if fold in products else kept
                target += aim
                shift = own if shift is None else shift
                # Every part's values are summed about its own first ones.
                off, share = own - shift, share + weight
                square += second + np.outer(first, off) + np.outer(off, first) + weight * np.outer(off, off)
                mean += first + weight * off
            gram = sum(one.gram() for one in products.values())
            whole += gram
            found.append(Stretch(share, functions.T @ gram @ functions, target @ functions))
        self._keep(atoms, whole)
        _check(np.diag(whole), functions)
        return Moments.of_stretches(found, square - np.outer(mean, mean))

    def cross(self, basis: Basis, probes: Records, atoms: np.ndarray | None = None) -> np.ndarray:
        functions, columns = self._functions(basis), self._frame.monomials(self._predictor, probes)
        gram = self._gram(atoms)
        _check(np.diag(gram), functions)
        return columns.T @ (gram @ functions)

    def noise(self, basis: Basis, y: np.ndarray) -> np.ndarray:
        functions = self._functions(basis)
        return self._covariance(self._given(functions, fitted=functions @ y), self._parts(self._block))

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> np.ndarray:
        given = self._given(self._functions(basis), normal=self._normal[1:])
        return self._covariance(given, self._noise_parts(self._block, simulated))

    def influence(self, basis: Basis, y: np.ndarray, b: np.ndarray) -> tuple[Any, Any]:
        functions = self._functions(basis)
        given = self._given(functions @ b, fitted=functions @ y)
        rows, scores = self._series(b.shape[1])
        for _, (series, score) in self._pass(_influence_of, given, self._parts(self._block), "estimating errors"):
            rows.add(series)
            scores.add(score)
        return rows.done(), scores.done()

    def _gram(self, atoms: np.ndarray | None) -> np.ndarray:
        """Kernel of the monomials, `(F, F)`."""
        which = _name(atoms)
        if which not in self._grams:
            self._keep(atoms, self._summed(atoms))
        return self._grams[which]

    def _keep(self, atoms: np.ndarray | None, gram: np.ndarray) -> None:
        if len(self._grams) >= _KEPT:
            del self._grams[next(iter(self._grams))]
        self._grams[_name(atoms)] = gram

    def _summed(self, atoms: np.ndarray | None) -> np.ndarray:
        products: dict[int, Products] = {}
        given = self._given(_NONE)
        for part, kept in self._back(_products_of, given, self._parts(self._block, atoms), "comparing records"):
            fold = id(part.metric)
            products[fold] = products[fold].plus(kept) if fold in products else kept
        return np.asarray(sum(one.gram() for one in products.values()))

    def _covariance(self, given: "_Given", parts: list[Part]) -> np.ndarray:
        return covariance(self._pass(_noise_of, given, parts, "estimating noise"))

    def _back(self, work: Work, given: "_Given", parts: list[Part], label: str) -> Iterable[tuple[Part, Any]]:
        """A pass whose sums come back from the devices once, where they are made there."""
        passed = self._pass(work, given, parts, label)
        return passed if on_host() else _read_back(passed)

    def _given(self, functions: np.ndarray, here: bool = False, **more: Any) -> "_Given":
        """Kept on the devices for a whole pass, where they work on it."""
        given = _Given(self._frame, functions, self.temperature, **more)
        return given if here or on_host() or pooled() else placed(given)

    @property
    def _predictor(self) -> GaussianPredictor:
        return _law(self.release.model)[0]

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
        """Atoms of a block."""
        return _atoms_of(block_entries(_BLOCK), self.width, 11 if on_host() else 16)

    def _functions(self, basis: Basis) -> np.ndarray:
        """The basis in the monomials, `(F, r)`."""
        return self._frame.monomials(self._predictor, basis.records) @ basis.coefficients


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Given:
    """What all parts of a pass share.

    Attributes:
        frame: of the monomials.
        functions: `(F, r)` polynomials that sums are taken of.
        temperature: tau.
        fitted: `(F,)` the polynomial whose score is the fitted data's.
        normal: centre and precision of a normal law whose score stands for the fitted one.
    """

    frame: Frame
    functions: Any
    temperature: float = field(metadata={"static": True})
    fitted: Any = None
    normal: Any = None

    def expanded(self, law: "_Law", theta: Any, metric: Any) -> Expansion:
        return Expansion.at(law[0], self.frame, law[1], theta, metric)

    def blocks(self, part: Part) -> Iterator[tuple[Any, Any, int]]:
        """Atoms of a part with their weights, where they are worked on, and how many are none of padding."""
        for _, theta, a, n, _ in part.blocks():
            with np.errstate(over="ignore", invalid="ignore"):  # scales of no model of these data
                yield (theta[:n], a[:n], n) if on_host() else (spread(theta), spread(a), n)

    def prior(self, model: Model, theta: Any, metric: Any) -> Any:
        """Scores of prior and transforms, `(C, k)`."""
        found = prior_score(model, metric, theta, self.temperature)
        return np.asarray(found) if on_host() else found

    def aim(self, at: Expansion, weights: Any, base: Any) -> Any:
        """The embedding of the private data in the monomials, `(F,)`."""
        return -(weights @ (self.temperature * at.lap + at.along(base)))

    def residual(self, at: Expansion, score: Any) -> Any:
        """`<phi, score> + tau tr(Sigma Hess l)` of the functions, `(C, r)`."""
        return (at.along(score) + self.temperature * at.lap) @ self.functions


_Law = tuple[GaussianPredictor, float]
"""What the programs are compiled for: the predictor and the power of a model."""

_compiled = partial(either_way, static=("law",))


def _moments_of(model: Model, given: _Given, part: Part) -> tuple[Any, ...]:
    """Weight of a part, the values that its sums are taken about, its products of scores, target and values."""
    law, metric = _law(model), numbers(part.metric)
    sums: Any = None
    shift: Any = None
    own: Any = None
    for theta, a, _ in given.blocks(part):
        # One atom's values as a shift keep the covariance of large log likelihoods accurate.
        shift = _first(law, given, metric, theta) if shift is None else shift
        own, terms = _moments(law, given, metric, theta, a, given.prior(model, theta, metric), shift)
        sums = plus(sums, terms)
    half, inner, target, mean, square = sums
    return float(part.weights.sum()), shift, Products(own, half, inner), target, mean, square


@_compiled
def _first(law: _Law, given: _Given, metric: Any, theta: Any) -> Any:
    return (given.expanded(law, theta[:1], metric).value @ given.functions)[0]


@_compiled
def _moments(
    law: _Law, given: _Given, metric: Any, theta: Any, a: Any, base: Any, shift: Any
) -> tuple[Any, tuple[Any, ...]]:
    at = given.expanded(law, theta, metric)
    products = at.moments(a)
    root = a**0.5
    value = (at.value @ given.functions - shift) * root[:, None]
    terms = products.half, products.inner, given.aim(at, a, base), root @ value, value.T @ value
    return products.own, terms


def _target_of(model: Model, given: _Given, part: Part) -> Any:
    law, metric = _law(model), numbers(part.metric)
    total: Any = None
    for theta, a, _ in given.blocks(part):
        total = plus(total, _target(law, given, metric, theta, a, given.prior(model, theta, metric)))
    return total


@_compiled
def _target(law: _Law, given: _Given, metric: Any, theta: Any, a: Any, base: Any) -> Any:
    return given.aim(given.expanded(law, theta, metric), a, base)


def _products_of(model: Model, given: _Given, part: Part) -> Any:
    law, metric = _law(model), numbers(part.metric)
    sums: Any = None
    own: Any = None
    for theta, a, _ in given.blocks(part):
        own, terms = _products(law, given, metric, theta, a)
        sums = plus(sums, terms)
    return Products(own, *sums)


@_compiled
def _products(law: _Law, given: _Given, metric: Any, theta: Any, a: Any) -> tuple[Any, tuple[Any, Any]]:
    found = given.expanded(law, theta, metric).moments(a)
    return found.own, (found.half, found.inner)


def _noise_of(model: Model, given: _Given, part: Part) -> tuple[Any, Any]:
    law, metric = _law(model), numbers(part.metric)
    total: Any = None
    for theta, a, _ in given.blocks(part):
        base = None if given.normal is not None else given.prior(model, theta, metric)
        total = plus(total, _noise(law, given, metric, theta, a, base))
    return total


@_compiled
def _noise(law: _Law, given: _Given, metric: Any, theta: Any, a: Any, base: Any) -> tuple[Any, Any]:
    at, root = given.expanded(law, theta, metric), a**0.5
    if given.normal is not None:
        centre, precision = given.normal
        score = -(theta - centre) @ precision @ metric
    else:
        score = at.score(given.fitted) + base
    residual = given.residual(at, score) * root[:, None]
    return root @ residual, residual.T @ residual


def _influence_of(model: Model, given: _Given, part: Part) -> tuple[np.ndarray, np.ndarray]:
    law, metric = _law(model), numbers(part.metric)
    found, counts = [], []
    for theta, _, n in given.blocks(part):
        found.append(_influence(law, given, metric, theta, given.prior(model, theta, metric)))
        counts.append(n)
    pairs = [(row[:n], score[:n]) for (row, score), n in zip(jax.device_get(found), counts, strict=True)]
    scores = np.concatenate([score for _, score in pairs])
    return np.concatenate([row for row, _ in pairs]), unwhitened(part.metric, scores, given.temperature)


@_compiled
def _influence(law: _Law, given: _Given, metric: Any, theta: Any, base: Any) -> tuple[Any, Any]:
    at = given.expanded(law, theta, metric)
    score = at.score(given.fitted) + base
    return given.residual(at, score), score


@_compiled
def _scores(law: _Law, given: _Given, metric: Any, theta: Any, a: Any, e: Any, x: Any) -> Any:
    return given.expanded(law, theta, metric).scores(e, x) * a[:, None, None] ** 0.5


def _read_back(passed: Iterable[tuple[Part, Any]]) -> Iterable[tuple[Part, Any]]:
    parts, found = zip(*passed, strict=True)
    return zip(parts, jax.device_get(found), strict=True)


def _name(atoms: np.ndarray | None) -> bytes:
    return b"" if atoms is None else atoms.tobytes()


def _law(model: Model) -> _Law:
    assert model.gaussian is not None, "a model without closed form"
    return model.gaussian, model.power


def _atoms_of(entries: int, width: int, most: int = 11) -> int:
    """At most `2^most`."""
    return 2 ** int(np.clip(np.log2(entries / max(1, width)), 0, most))


def _check(diagonal: np.ndarray, functions: np.ndarray) -> None:
    """That sums over the monomials keep the digits of the functions."""
    scaled = np.sqrt(np.maximum(diagonal, 0.0))[:, None] * functions
    direction = np.ones(scaled.shape[1])
    for _ in range(_POWERS):
        direction = scaled.T @ (scaled @ (direction / np.linalg.norm(direction)))
    # Steps of that size squared, from below.
    if not np.linalg.norm(direction) <= _CONDITION**2:
        raise LostDigits
