"""The kernel mean embedding of a Gaussian linear regression, in closed form (`divergence.monomials`)."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

import jax
import numpy as np
from jaxtyping import Float, Int

from bayesrecon.arrays import Array, Stored
from bayesrecon.divergence import gaussian_passes as passes
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
from bayesrecon.divergence.monomials import Frame
from bayesrecon.divergence.products import Products
from bayesrecon.divergence.score import prior_score
from bayesrecon.divergence.sums import covariance
from bayesrecon.model import GaussianPredictor, Records
from bayesrecon.running.draws_on_disk import mean_and_covariance
from bayesrecon.running.engine import block_entries, on_host, placed, pooled

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
        blocks = [block for part in parts for block in passes.scores_of(self.release.model, inputs, part, *design)]
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
        passed = self._pass(
            passes.target_of, self._inputs(_NONE), self._parts(self._block, atoms), "locating the records"
        )
        for _, part in passes.back(passed):
            target += part
        return solve(target)

    def slopes(self, records: Records, h: Array | Stored, j: Int[np.ndarray, " P"]) -> Float[np.ndarray, "M P"]:
        plain = replace(self, metric=np.eye(len(self.metric)), folds=None, progress=None)
        sums = np.zeros((self.width, len(j)))
        start = 0
        inputs = passes.PassInputs(self._frame, _NONE, self.temperature, prior_score)  # in this process, where h is
        for metric, theta, weights, n, _ in plain._atoms(_atoms_of(_BLOCK, self.width), None):
            expansion = inputs.expanded(passes.likelihood_of(self.release.model), theta[:n], metric)
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
        passed = passes.back(self._pass(passes.moments_of, inputs, self._parts(self._block, atoms, stretches), label))
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
        for part, (series, score) in self._pass(
            passes.influence_of, inputs, self._parts(self._block), "estimating errors"
        ):
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
        passed = self._pass(passes.products_of, inputs, self._parts(self._block, atoms), "comparing records")
        for part, part_products in passes.back(passed):
            products.plus(id(part.metric), part_products)
        return products.gram()

    def _covariance(self, inputs: passes.PassInputs, parts: list[AtomPart]) -> np.ndarray:
        return covariance(self._pass(passes.noise_of, inputs, parts, "estimating noise"))

    def _inputs(
        self,
        functions: np.ndarray | None,
        *,
        fitted: np.ndarray | None = None,
        normal: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> passes.PassInputs:
        """The inputs of a pass, on the devices in use."""
        inputs = passes.PassInputs(self._frame, functions, self.temperature, prior_score, fitted, normal)
        return inputs if on_host() or pooled() else placed(inputs)

    @property
    def _predictor(self) -> GaussianPredictor:
        return passes.likelihood_of(self.release.model)[0]

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
