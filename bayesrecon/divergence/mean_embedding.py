"""The interface of mean embeddings: `MeanEmbedding`.

For records z and atoms theta_t with weights a_t (Fisher divergence = MMD: Wynne 2025, Theorem 3.4, 4.3):

    gram       k(z, z') = sum_t a_t <phi_z(t), phi_z'(t)>
    target     mu(z)    = -sum_t a_t [tau tr(Sigma Hess l(theta_t, z)) + <phi_z(t), Sigma^(1/2)' grad log pi0(theta_t)>]
    noise      Cov(r_t), r_t(m) = <phi_m(t), sum_j w_j phi_j(t) + Sigma^(1/2)' grad log pi0> + tau tr(Sigma Hess l_m)
    value      V(z, z') = Cov_t(l(theta_t, z), l(theta_t, z'))
    influence  r_t along chosen directions, atom by atom

Everything is expressed in a basis psi = phi_Z A of r functions spanned by M anchors, chosen orthonormal on a
thinned set of atoms, so that the accumulated Gram matrix is well conditioned however small the kernel's
last eigenvalues are. `dense`, `sparse` and `gaussian` compute it for one release, `adaptive` chooses the cheapest, and
`joint` adds several releases.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesrecon.arrays import Array, Stored
from bayesrecon.domains import Records

Influence = tuple[Any, Any]
"""Residuals `(T, S)` of every atom along S directions, and its fitted score `(T, d)`: arrays, or `Stored` ones."""

PART, PARTED = 32, 512
"""Records of a part, and the largest number of records that are divided into parts. Programs are compiled for each
size; for more records a program of their own pays off."""
_LARGEST = 1e75  # largest score whose fourth power, which errors of squares contain, is finite


def moderate(values: Array) -> np.ndarray:
    """Whether values are finite and so small that sums of their fourth powers are finite."""
    return np.abs(np.asarray(values)) < _LARGEST


class LostDigits(ArithmeticError):
    """The kernel of a basis is a small difference of large kernels, so that rounding errors dominate."""


@dataclass(frozen=True)
class Basis:
    """r functions of a record: `psi = phi_Z A`, with anchors `records` `{field: (M, ...)}` and `A (M, r)`.

    Attributes:
        decays: whether the functions come from a spectrum that decays. Then r differs between releases.
    """

    records: Records
    coefficients: Float[Array, "M r"]
    decays: bool = False

    @property
    def size(self) -> int:
        return self.coefficients.shape[1]

    @property
    def padded(self) -> "Basis":
        """The basis padded to one of few sizes if the spectrum decays, so that few programs are compiled.

        It has copies of an anchor with coefficient zero, and functions that are zero.
        """
        m, r = self.coefficients.shape
        if not self.decays or max(m, r) > PARTED:
            return self
        rows, columns = (_rounded_up(count) for count in (m, r))
        records = {k: np.concatenate([v, np.repeat(v[:1], rows - m, axis=0)]) for k, v in self.records.items()}
        return Basis(records, np.pad(np.asarray(self.coefficients), ((0, rows - m), (0, columns - r))), self.decays)

    @property
    def parts(self) -> list[Records]:
        """The anchors of a padded basis."""
        rows = len(self.coefficients)
        if not self.decays or not PART < rows <= PARTED:
            return [self.records]
        return [{k: v[i : i + PART] for k, v in self.records.items()} for i in range(0, rows, PART)]


@dataclass(frozen=True)
class FeatureBasis(Basis):
    """The features of an embedding (`Featured`) as a basis. For other atoms it is an ordinary basis.

    Attributes:
        atoms: the atoms whose features they are.
    """

    atoms: object = None

    @classmethod
    def bare(cls, atoms: object, count: int) -> "FeatureBasis":
        """The `count` features of the atoms, without anchors."""
        return cls({}, np.zeros((0, count)), atoms=atoms)


def _rounded_up(count: int) -> int:
    return -(-count // PART) * PART if count > PART else max(8, 2 ** (count - 1).bit_length())


@dataclass(frozen=True)
class Stretch:
    """Sums over successive atoms.

    Attributes:
        share: their share of the weight.
        feature_gram: `(F, F)`, Gram matrix of the features that the basis combines.
        feature_target: `(F,)`, their target.
        functions: `(F, r)`, coefficients of the basis; None if the features are the basis.
    """

    share: float
    feature_gram: Float[np.ndarray, "F F"]
    feature_target: Float[np.ndarray, " F"]
    functions: Float[np.ndarray, "F r"] | None = None

    @property
    def gram(self) -> Float[np.ndarray, "r r"]:
        if self.functions is None:
            return self.feature_gram
        scale = self.functions.diagonal()
        if np.count_nonzero(scale) == np.count_nonzero(self.functions) and len(scale) == len(self.feature_gram):
            return self.feature_gram * scale * scale[:, None]
        return self.functions.T @ self.feature_gram @ self.functions

    @property
    def target(self) -> Float[np.ndarray, " r"]:
        return self.feature_target if self.functions is None else self.feature_target @ self.functions


@dataclass(frozen=True)
class Moments:
    """Sums of one pass over the atoms.

    Attributes:
        gram: `(r, r)`, kernel of the basis.
        target: `(r,)`, embedding of the private data in the basis, `sum_n e_k(x_n)`.
        value: `(r, r)`, value kernel of the basis.
        stretches: the terms of gram and target.
    """

    gram: Float[np.ndarray, "r r"]
    target: Float[np.ndarray, " r"]
    value: Float[np.ndarray, "r r"]
    stretches: tuple[Stretch, ...] = ()

    @classmethod
    def of_stretches(cls, stretches: Sequence[Stretch], value: Float[np.ndarray, "r r"]) -> "Moments":
        """The sums over the stretches."""
        total = summed(stretches)
        return cls(total.gram, total.target, value, tuple(stretches))


def summed(stretches: Sequence[Stretch]) -> Stretch:
    """The sums over all stretches."""
    gram = reduce(np.add, [stretch.feature_gram for stretch in stretches])
    target = reduce(np.add, [stretch.feature_target for stretch in stretches])
    return Stretch(sum(stretch.share for stretch in stretches), gram, target, stretches[0].functions)


class MeanEmbedding(Protocol):
    """The kernel mean embedding that one release, or several, determine.

    Attributes:
        temperature: tau.
        size: number of atoms.
        equations: rows of the score matrix: atoms times directions.
        effective_size: `1 / sum a_t^2`: T for equal weights.
        independent_size: `effective_size`, reduced by the autocorrelation of a typical coordinate.
        weights, chain: weights and chain numbers of the atoms, `(T,)`.
    """

    @property
    def temperature(self) -> float: ...
    @property
    def size(self) -> int: ...
    @property
    def equations(self) -> int: ...
    @property
    def effective_size(self) -> float: ...
    @property
    def independent_size(self) -> float: ...
    @property
    def weights(self) -> Float[np.ndarray, " T"]: ...
    @property
    def chain(self) -> Int[np.ndarray, " T"]: ...

    def thinned(self, count: int) -> Int[np.ndarray, " A"]:
        """Positions of evenly spread atoms, enough for eight rows of the score matrix per record."""
        ...

    def scores(self, records: Records, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, "rows M"]:
        """Score matrix `(rows, M)` at some atoms, scaled by the square roots of the weights."""
        ...

    def tame(self, records: Records, *, everywhere: bool = False) -> Bool[np.ndarray, " M"]:
        """Records `(M,)` whose log likelihoods, scores and Laplacians are `moderate` at the atoms farthest out, where
        they overflow first, or at all atoms; not looked at where sums are taken in closed form or sparse."""
        ...

    def moments(
        self,
        basis: Basis,
        atoms: Int[np.ndarray, " A"] | None = None,
        label: str = "summing over the draws",
        stretches: int = 1,
    ) -> Moments:
        """Gram matrix, target and value kernel of the basis, and of so many stretches of the atoms.

        Args:
            atoms: positions; all by default.
            label: for progress.
        """
        ...

    def cross(
        self, basis: Basis, probes: Records, atoms: Int[np.ndarray, " A"] | None = None
    ) -> Float[np.ndarray, "Q r"]:
        """The basis functions at probe records, `e_k(z) = sum_m A_mk k(z_m, z)`, `(Q, r)`."""
        ...

    def noise(self, basis: Basis, y: Float[np.ndarray, " r"]) -> Float[np.ndarray, "r r"]:
        """`Cov(r_t)` `(r, r)` of the residuals at the solution `y (r,)`."""
        ...

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> Float[np.ndarray, "r r"]:
        """`Cov(r_t)` `(r, r)` with the score of the normal distribution with the atoms' mean and covariance in
        place of the fitted score: the noise before anything is solved.

        Args:
            simulated: at many atoms of that distribution instead of the release's own. An estimator tuned with the
                noise of its own draws favours the functions on which these happen to err, and is biased by it.
        """
        ...

    def influence(self, basis: Basis, y: Float[np.ndarray, " r"], b: Float[np.ndarray, "r S"]) -> Influence:
        """Per-atom residuals along `b (r, S)`, `(T, S)`, and the fitted posterior scores `(T, d)`; no rows of these at
        temperature 0 and for several releases."""
        ...


@runtime_checkable
class Featured(Protocol):
    """An embedding whose kernel may have finitely many known features, `k = F' G F`.

    Then F features of a record replace its scores at every atom along every direction.

    Attributes:
        features: F; 0 if the features are not known.
    """

    @property
    def features(self) -> int: ...

    def coordinates(self, atoms: Int[np.ndarray, " A"]) -> "Coordinates | None":
        """Function from records to columns `(F, M)` that have the inner products of their scores at these atoms.

        None if there are no features, or if they are not linearly independent at these atoms.
        """
        ...

    def columns(self, records: Records) -> Float[np.ndarray, "F M"]:
        """The features of records, `(F, M)`."""
        ...

    def totals(self, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, " F"] | None:
        """Totals of the features over the private data `(F,)`, from the equations at these atoms.

        None if the features are not linearly independent at these atoms.
        """
        ...

    def slopes(self, records: Records, h: Array | Stored, j: Int[np.ndarray, " P"]) -> Float[np.ndarray, "M P"] | None:
        """`sum_t a_t h_tp d_j(p) l(theta_t, z)` of records, `(M, P)`.

        None if there are neither features nor records that touch few parameters.

        Args:
            h: `(T, P)`; rows of `Stored` arrays are read when needed.
            j: `(P,)` coordinates.
        """
        ...


@runtime_checkable
class Separable(Protocol):
    """An embedding that recognises records whose log likelihood depends on few parameters each."""

    def pieces(self, records: Records, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The coordinates that records touch, `(q, M)`, -1 for none, and the derivatives along them, `(q, C, M)`.

        Derivatives are at these atoms, and scaled by the square roots of the weights. None if records touch too many
        coordinates.
        """
        ...


Coordinates = Callable[[Records], np.ndarray]
"""Function from records to columns `(F, M)`."""


def features_of(embedding: MeanEmbedding) -> int:
    """The number of known features of the kernel; 0 if they are not known."""
    return embedding.features if isinstance(embedding, Featured) else 0


def coordinates(embedding: MeanEmbedding, atoms: np.ndarray) -> Coordinates:
    """Function from records to columns that have the inner products of their scores at these atoms.

    It computes features if they are known, and otherwise the scores.
    """
    by_features = embedding.coordinates(atoms) if isinstance(embedding, Featured) else None
    return partial(embedding.scores, atoms=atoms) if by_features is None else by_features


_REPEATED = 1024  # records from which those that repeat others are looked for


def distinct(records: Records) -> tuple[np.ndarray | None, Records]:
    """The distinct ones of many records, and the place of each of all among them; no places, and all records, if most
    differ."""
    count = len(next(iter(records.values())))
    if count < _REPEATED:
        return None, records
    _, first, which = np.unique(as_table(records), axis=0, return_index=True, return_inverse=True)
    if 2 * len(first) > count:
        return None, records
    return which.reshape(-1), {k: np.asarray(v)[first] for k, v in records.items()}


def as_table(records: Records) -> np.ndarray:
    """Records as rows of numbers, `(M, width)`."""
    return np.concatenate([np.asarray(v).reshape(len(v), -1) for v in records.values()], axis=1)
