"""What every mean embedding answers, however it is computed: `MeanEmbedding`.

For records z and atoms theta_t with weights a_t (Fisher divergence = MMD: Wynne 2025, Theorem 3.4, 4.3):

    gram       k(z, z') = sum_t a_t <phi_z(t), phi_z'(t)>
    target     mu(z)    = -sum_t a_t [tau tr(Sigma Hess l(theta_t, z)) + <phi_z(t), Sigma^(1/2)' grad log pi0(theta_t)>]
    noise      Cov(r_t), r_t(m) = <phi_m(t), sum_j w_j phi_j(t) + Sigma^(1/2)' grad log pi0> + tau tr(Sigma Hess l_m)
    value      V(z, z') = Cov_t(l(theta_t, z), l(theta_t, z'))
    influence  r_t along chosen directions, atom by atom

Everything is expressed in a basis psi = phi_Z A of r functions spanned by M anchors, chosen orthonormal on a
thinned set of atoms, so that the accumulated Gram matrix is well conditioned however small the kernel's
last eigenvalues are. `dense` and `sparse` compute it for one release, `adaptive` takes whichever is cheaper, and
`joint` adds several releases up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesrecon.domains import Records

PART, PARTED = 32, 512
"""Records of a part, and those up to which work is done in parts: programs are compiled for sizes, and with more
records one of their own is soon worth its compilation."""
_LARGEST = 1e75  # of a score: errors of squares are made of fourth powers, which are finite below it


def moderate(values: Any) -> np.ndarray:
    """Which values are finite, and small enough that sums of their fourth powers are."""
    return np.abs(np.asarray(values)) < _LARGEST


class LostDigits(ArithmeticError):
    """The kernel of a basis is too small a difference of kernels of what it is written in."""


@dataclass(frozen=True)
class Basis:
    """r functions of a record: `psi = phi_Z A`, with anchors `records` `{field: (M, ...)}` and `A (M, r)`.

    Attributes:
        decays: whether they are of a spectrum that decays: then r is a little different with every release.
    """

    records: Records
    coefficients: Float[Any, "M r"]
    decays: bool = False

    @property
    def size(self) -> int:
        return self.coefficients.shape[1]

    @property
    def padded(self) -> "Basis":
        """Where the spectrum decays, the same with copies of an anchor that have no part in any function, and functions
        that are zero, up to one of few sizes."""
        (m, r), few = self.coefficients.shape, max(self.coefficients.shape)
        if not self.decays or few > PARTED:
            return self
        rows, columns = (_rounded_up(count) for count in (m, r))
        records = {k: np.concatenate([v, np.repeat(v[:1], rows - m, axis=0)]) for k, v in self.records.items()}
        return Basis(records, np.pad(self.coefficients, ((0, rows - m), (0, columns - r))), self.decays)

    @property
    def parts(self) -> list[Records]:
        """The anchors of a padded basis."""
        rows = len(self.coefficients)
        if not self.decays or not PART < rows <= PARTED:
            return [self.records]
        return [{k: v[i : i + PART] for k, v in self.records.items()} for i in range(0, rows, PART)]


@dataclass(frozen=True)
class FeatureBasis(Basis):
    """The features themselves that the kernel of some atoms is known to be made of (`Featured`): nothing has to be
    written in them. Other atoms have other features, and there it is a basis like any other.

    Attributes:
        atoms: whose features they are.
    """

    atoms: Any = None

    @classmethod
    def bare(cls, atoms: Any, count: int) -> "FeatureBasis":
        """So many features of atoms, not as functions of any anchors."""
        return cls({}, np.zeros((0, count)), atoms=atoms)


def _rounded_up(count: int) -> int:
    return -(-count // PART) * PART if count > PART else max(8, 2 ** (count - 1).bit_length())


@dataclass(frozen=True)
class Stretch:
    """Of successive atoms, so that stretches add up to the whole.

    Attributes:
        share: share of the weight.
        own, aim: `(F, F)` and `(F,)` gram and target of what the basis is written in.
        functions: `(F, r)` the basis in that; None where it is the basis itself. Gram and target of the basis are
            worked out when they are asked for.
    """

    share: float
    own: Float[np.ndarray, "F F"]
    aim: Float[np.ndarray, " F"]
    functions: Float[np.ndarray, "F r"] | None = None

    @property
    def gram(self) -> Float[np.ndarray, "r r"]:
        if self.functions is None:
            return self.own
        scale = self.functions.diagonal()
        if np.count_nonzero(scale) == np.count_nonzero(self.functions) and len(scale) == len(self.own):
            return self.own * scale * scale[:, None]
        return self.functions.T @ self.own @ self.functions

    @property
    def target(self) -> Float[np.ndarray, " r"]:
        return self.aim if self.functions is None else self.aim @ self.functions


@dataclass(frozen=True)
class Moments:
    """One pass over the atoms.

    Attributes:
        gram: `(r, r)` kernel of the basis.
        target: `(r,)` embedding of the private data in the basis, `sum_n e_k(x_n)`.
        value: `(r, r)` value kernel of the basis.
        stretches: what gram and target are sums of.
    """

    gram: Float[np.ndarray, "r r"]
    target: Float[np.ndarray, " r"]
    value: Float[np.ndarray, "r r"]
    stretches: tuple[Stretch, ...] = ()

    @classmethod
    def of_stretches(cls, stretches: Sequence[Stretch], value: Float[np.ndarray, "r r"]) -> "Moments":
        """The sums over the stretches."""
        whole = summed(stretches)
        return cls(whole.gram, whole.target, value, tuple(stretches))


def summed(stretches: Sequence[Stretch]) -> Stretch:
    """All of them together."""
    own, aim = (reduce(np.add, [getattr(one, name) for one in stretches]) for name in ("own", "aim"))
    return Stretch(sum(one.share for one in stretches), own, aim, stretches[0].functions)


class MeanEmbedding(Protocol):
    """The kernel mean embedding that one release, or several, determine.

    Attributes:
        temperature: tau.
        size: number of atoms.
        equations: rows of the score matrix: atoms times directions.
        effective_size: `1 / sum a_t^2`: T for equal weights.
        independent_size: the same, less what draws of a typical coordinate lose by being correlated.
        weights, chain: `(T,)` of the atoms.
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
        """`Cov(r_t)` `(r, r)` with the score of the normal law that has the atoms' mean and covariance in place
        of the fitted one: what noise is before anything is solved.

        Args:
            simulated: at many atoms of that distribution instead of the release's own. An estimator tuned with the
                noise of its own draws favours the functions on which these happen to err, and is biased by it.
        """
        ...

    def influence(self, basis: Basis, y: Float[np.ndarray, " r"], b: Float[np.ndarray, "r S"]) -> tuple[Any, Any]:
        """Per-atom residuals along `b (r, S)`, `(T, S)`, and the fitted posterior scores `(T, d)`; no rows of these at
        temperature 0 and for several releases."""
        ...


@runtime_checkable
class Featured(Protocol):
    """An embedding whose kernel may be made of finitely many features that are known beforehand, `k = F' G F`: what is
    asked of records is then answered by their F features in place of a score for every atom and direction.

    Attributes:
        features: F, 0 where that is not known.
    """

    @property
    def features(self) -> int: ...

    def coordinates(self, atoms: Int[np.ndarray, " A"]) -> "Coordinates | None":
        """Columns `(F, M)` of records that have the inner products of their scores at some atoms; None where there are
        no features, or where these atoms do not tell them apart."""
        ...

    def columns(self, records: Records) -> Float[np.ndarray, "F M"]:
        """The features of records, `(F, M)`."""
        ...

    def totals(self, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, " F"] | None:
        """Their totals over the private data `(F,)` by the equations at some atoms; None where these do not tell them
        apart."""
        ...

    def slopes(self, records: Records, h: Any, j: Int[np.ndarray, " P"]) -> Float[np.ndarray, "M P"] | None:
        """`sum_t a_t h_tp d_j(p) l(theta_t, z)` of records, `(M, P)`; None where there are neither features nor records
        that touch few parameters.

        Args:
            h: `(T, P)`, or rows of it that are made when looked at.
            j: `(P,)` coordinates.
        """
        ...


@runtime_checkable
class Separable(Protocol):
    """An embedding that knows records which move with few of the parameters each."""

    def pieces(self, records: Records, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The coordinates of the posterior that records touch, `(q, M)`, -1 for none, and the derivatives of their log
        likelihoods along these at some atoms, scaled by the square roots of the weights, `(q, C, M)`; None where they
        touch too many."""
        ...


Coordinates = Callable[[Records], np.ndarray]


def features_of(embedding: MeanEmbedding) -> int:
    """Features that the kernel is known to be made of, 0 where that is not known."""
    return embedding.features if isinstance(embedding, Featured) else 0


def coordinates(embedding: MeanEmbedding, atoms: np.ndarray) -> Coordinates:
    """Columns of records that have the inner products of their scores at some atoms: of the features where these are
    known, else the scores."""
    found = embedding.coordinates(atoms) if isinstance(embedding, Featured) else None
    return partial(embedding.scores, atoms=atoms) if found is None else found
