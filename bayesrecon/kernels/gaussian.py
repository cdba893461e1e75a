"""The kernel mean embedding of a Gaussian linear regression, in closed form (`kernels.monomials`)."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from bayesrecon.kernels.definite import factor, largest, solver
from bayesrecon.kernels.embedding import Basis, Coordinates, LostDigits, Moments, Stretch
from bayesrecon.kernels.monomials import Expansion, Frame
from bayesrecon.kernels.products import Products, Squares
from bayesrecon.kernels.score import prior_score
from bayesrecon.kernels.sums import covariance
from bayesrecon.kernels.view import Part, View, unwhitened
from bayesrecon.model import GaussianPredictor, Model, Records
from bayesrecon.running.stored import mean_and_covariance

_BLOCK = 2**20  # coefficients of a block of atoms, of which a dozen arrays are under way
_SCORES = 2**22  # entries of a block of scores
_KEPT = 2  # kernels of the monomials at some atoms: a basis is chosen on some, and solved on others
_NONE = np.zeros((0, 0))
_CONDITION = 1e3  # of the monomials, from which the kernel of combinations of them loses too many digits


@dataclass(frozen=True)
class GaussianEmbedding(View):
    """`MeanEmbedding` of a release of a model that has a `GaussianPredictor`."""

    _grams: dict[bytes, np.ndarray] = field(default_factory=dict, init=False, repr=False)
    _last: list[Any] = field(default_factory=list, init=False, repr=False)  # a basis, and what it is in the monomials

    def scores(self, records: Records, atoms: np.ndarray) -> np.ndarray:
        e, x = self._frame.design(self._predictor, records)
        chunk = _atoms_of(_SCORES, len(e) * self.metric.shape[1])
        given, found = self._given(_NONE), []
        with np.errstate(over="ignore", invalid="ignore"):  # of records over many orders of magnitude
            for metric, theta, weights, n, _ in self._atoms(chunk, None, atoms):
                phi = given.expanded(self.release.model, theta[:n], metric).scores(e, x)
                found.append((phi * np.sqrt(weights[:n])[:, None, None]).reshape(-1, len(e)))
        return np.concatenate(found)

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
        for _, part in self._pass(
            _target_of, self._given(_NONE), self._parts(self._block, atoms), "locating the records"
        ):
            target += part
        return solve(target)

    def slopes(self, records: Records, h: Any, j: np.ndarray) -> np.ndarray:
        plain = replace(self, metric=np.eye(len(self.metric)), folds=None, progress=None)
        found = np.zeros((self.width, len(j)))
        start = 0
        for metric, theta, weights, n, _ in plain._atoms(self._block, None):
            at = self._given(_NONE).expanded(self.release.model, theta[:n], metric)
            found += at.sums(h[start : start + n] * weights[:n, None], j)
            start += n
        return self._frame.monomials(self._predictor, records).T @ found

    def moments(
        self, basis: Basis, atoms: np.ndarray | None = None, label: str = "summing over the draws", stretches: int = 1
    ) -> Moments:
        functions, found, shift = self._functions(basis), [], None
        given = self._given(functions)
        mean, square = np.zeros(basis.size), np.zeros((basis.size, basis.size))
        passed = self._pass(_moments_of, given, self._parts(self._block, atoms, stretches), label)
        whole = np.zeros((len(functions), len(functions)))
        for _, stretch in groupby(passed, key=lambda one: one[0].stretch):
            products = Products.none(len(functions))
            target, share = np.zeros(len(functions)), 0.0
            for part, (weight, own, kept, aim, first, second) in stretch:
                products.plus(id(part.metric), kept)
                target += aim
                shift = own if shift is None else shift
                # Every part's values are summed about its own first ones.
                off, share = own - shift, share + weight
                square += second.whole()
                square += np.outer(first, off)
                square += np.outer(off, first + weight * off)
                mean += first + weight * off
            gram = products.gram()
            whole += gram
            found.append(Stretch(share, gram, target, functions))
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
        products = Products.none(self.width)
        given = self._given(_NONE)
        for part, kept in self._pass(_products_of, given, self._parts(self._block, atoms), "comparing records"):
            products.plus(id(part.metric), kept)
        return products.gram()

    def _covariance(self, given: "_Given", parts: list[Part]) -> np.ndarray:
        return covariance(self._pass(_noise_of, given, parts, "estimating noise"))

    def _given(self, functions: np.ndarray, **more: Any) -> "_Given":
        return _Given(self._frame, functions, self.temperature, **more)

    @property
    def _predictor(self) -> GaussianPredictor:
        return _predictor(self.release.model)

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
        return _atoms_of(_BLOCK, self.width)

    def _functions(self, basis: Basis) -> np.ndarray:
        """The basis in the monomials, `(F, r)`: of one basis kept, which is asked for again and again."""
        if not self._last or self._last[0] is not basis:
            found = self._frame.monomials(self._predictor, basis.records) @ basis.coefficients
            self._last[:] = [basis, found]
        return self._last[1]


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
    functions: np.ndarray
    temperature: float
    fitted: Any = None
    normal: Any = None

    def expanded(self, model: Model, theta: np.ndarray, metric: np.ndarray) -> Expansion:
        return Expansion.at(_predictor(model), self.frame, model.power, theta, metric)

    def blocks(self, model: Model, part: Part) -> Iterator[tuple[Expansion, np.ndarray, np.ndarray, np.ndarray]]:
        """Expansions at a part's atoms, with their weights, places and the scores of prior and transforms `(C, k)`."""
        for metric, theta, a, n, _ in part.blocks():
            base = np.asarray(prior_score(model, metric, theta, self.temperature))[:n]
            with np.errstate(over="ignore", invalid="ignore"):  # scales of no model of these data
                yield self.expanded(model, theta[:n], metric), a[:n], theta[:n], base

    def residual(self, at: Expansion, score: np.ndarray) -> np.ndarray:
        """`<phi, score> + tau tr(Sigma Hess l)` of the functions, `(C, r)`."""
        return (at.along(score) + self.temperature * at.lap) @ self.functions


def _moments_of(model: Model, given: _Given, part: Part) -> tuple[Any, ...]:
    """Weight of a part, the values that its sums are taken about, its products of scores, target and values."""
    size, features = given.functions.shape[1], len(given.functions)
    target, mean, square = np.zeros(features), np.zeros(size), Squares(size)
    products, shift, weight = Products.none(features), None, 0.0
    for at, a, _, base in given.blocks(model, part):
        products.add(0, at.weighted(a), at.fold(a))
        target -= a @ (given.temperature * at.lap + at.along(base))
        value = at.value @ given.functions
        # One atom's values as a shift keep the covariance of large log likelihoods accurate.
        shift = value[0].copy() if shift is None else shift
        value = (value - shift) * np.sqrt(a)[:, None]
        mean += np.sqrt(a) @ value
        square.add(value)
        weight += a.sum()
    return weight, shift, products, target, mean, square


def _target_of(model: Model, given: _Given, part: Part) -> np.ndarray:
    blocks = given.blocks(model, part)
    return -np.asarray(sum(a @ (given.temperature * at.lap + at.along(base)) for at, a, _, base in blocks))


def _products_of(model: Model, given: _Given, part: Part) -> Products:
    products = None
    for metric, theta, a, n, _ in part.blocks():
        with np.errstate(over="ignore", invalid="ignore"):
            at = given.expanded(model, theta[:n], metric)
            products = Products.none(at.q.shape[1]) if products is None else products
            products.add(0, at.weighted(a[:n]), at.fold(a[:n]))
    assert products is not None
    return products


def _noise_of(model: Model, given: _Given, part: Part) -> tuple[np.ndarray, np.ndarray]:
    size = given.functions.shape[1]
    mean, square = np.zeros(size), np.zeros((size, size))
    for at, a, theta, base in given.blocks(model, part):
        if given.normal is not None:
            centre, precision = given.normal
            score = -(theta - centre) @ precision @ part.metric
        else:
            score = at.score(given.fitted) + base
        residual = given.residual(at, score) * np.sqrt(a)[:, None]
        mean += np.sqrt(a) @ residual
        square += residual.T @ residual
    return mean, square


def _influence_of(model: Model, given: _Given, part: Part) -> tuple[np.ndarray, np.ndarray]:
    rows, scores = [], []
    for at, _, _, base in given.blocks(model, part):
        score = at.score(given.fitted) + base
        rows.append(given.residual(at, score))
        scores.append(unwhitened(part.metric, score, given.temperature))
    return np.concatenate(rows), np.concatenate(scores)


def _name(atoms: np.ndarray | None) -> bytes:
    return b"" if atoms is None else atoms.tobytes()


def _predictor(model: Model) -> GaussianPredictor:
    assert model.gaussian is not None, "a model without closed form"
    return model.gaussian


def _atoms_of(entries: int, width: int) -> int:
    return 2 ** int(np.clip(np.log2(entries / max(1, width)), 0, 11))


def _check(diagonal: np.ndarray, functions: np.ndarray) -> None:
    """That sums over the monomials keep the digits of the functions."""
    if not largest(diagonal, functions) <= _CONDITION:
        raise LostDigits
