"""Types of releases, one for each kind of release.

A type only has the fields of its kind, and one line that describes it. Attacks and verbs declare the types they accept.
Other differences between kinds, such as their equations and errors, are in `bayesrecon.estimation.kinds`.

Shapes follow the notation table in docs/glossary.md: T atoms, d unconstrained coordinates, k equations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import jax
import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Array, Stored
from bayesrecon.errors import BayesreconError
from bayesrecon.inexact import Ascent, Limits, Noise
from bayesrecon.model import Model, PseudoData, as_html
from bayesrecon.pairs import ApproximatedPair, Deletion, DrawsPair, TrainedPair, shortly

_STATIC = {"static": True}  # for JAX, part of the tree's structure instead of a leaf


@dataclass(frozen=True, eq=False)
class Release:
    """What was released: weighted atoms in unconstrained coordinates, and their model.

    Build releases with `bayesrecon.posteriors`. The constructors of the kinds do not validate their arguments.

    Attributes:
        what: description in one line.
        temperature: tau: 1 if the atoms are draws, 0 if there is one stationary atom.
        weights, chain, log_density: weights, chain numbers and log densities of draws. A single atom has none.
        default_metric: the default metric of the divergence.
        theta: `(T, d)` atoms, or `Stored` ones, which are read when needed.
        model: the model of the atoms.
        name: name in tables.
        notes: what happened while reading, such as dropped draws.
    """

    what: ClassVar[str]
    temperature: ClassVar[float]

    theta: Array | Stored
    model: Model = field(metadata=_STATIC)
    name: str = field(default="release", kw_only=True, metadata=_STATIC)
    notes: tuple[str, ...] = field(default=(), kw_only=True, metadata=_STATIC)

    if TYPE_CHECKING:  # these are fields of draws, which override them as such, and properties of a single atom

        @property
        def weights(self) -> Array: ...
        @property
        def chain(self) -> Array: ...
        @property
        def log_density(self) -> Array | None: ...

    def __repr__(self) -> str:
        """A line: what it is, of which model."""
        try:
            count, width = self.theta.shape
        except (AttributeError, ValueError):  # leaves of a tree need not be arrays
            return f"{type(self).__name__}({self.name!r})"
        return f"{type(self).__name__}({self.name!r}: {self._sized(count, width)}, model {self.model.name!r})"

    def _repr_html_(self) -> str:
        return as_html(repr(self))

    def _sized(self, count: int, width: int) -> str:
        return f"{shortly(self.what)} with {width} coordinates"

    @property
    def default_metric(self) -> str:
        return "identity"

    def own_metric(self) -> np.ndarray:
        """`(d, k)` directions of the release's own metric.

        Raises `BayesreconError` if it has none.
        """
        raise BayesreconError(f"{self.name} has no metric of its own: expected 'covariance' or 'identity'")

    @property
    def size(self) -> int:
        """T, the number of atoms."""
        return self.theta.shape[0]

    @property
    def about(self) -> Model:
        """The model of the private data. It differs from `model` if that is derived from it."""
        return self.model

    @property
    def pair(self) -> type[Deletion]:
        """The type of a pair of two such releases around a deletion.

        Raises `BayesreconError` if such releases do not reveal deletions.
        """
        raise NotImplementedError

    @property
    def spans(self) -> bool:
        """Whether a function is either exactly in the span of the equations or not in it at all."""
        return False

    def printed(self, theta: Array, directions: Array, columns: Array) -> "Release":
        """The release with its parameter rounded to `theta (1, d)`.

        `columns (d, b)` are the rounding errors, one column per number.

        Raises `BayesreconError` if it is not a mean with a covariance.
        """
        raise BayesreconError(f"{self.name} is not a mean with a covariance")


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDraws(Release):
    """Draws from a posterior.

    Args:
        weights: `(T,)`, summing to one.
        chain: `(T,)`, chain number of each draw. Draws of a chain are in order.
        log_density: `(T,)`, log posterior values if the release has them.
    """

    what: ClassVar[str] = "posterior draws"
    temperature: ClassVar[float] = 1.0

    weights: Array  # pyright: ignore[reportIncompatibleMethodOverride]
    chain: Array  # pyright: ignore[reportIncompatibleMethodOverride]
    log_density: Array | None = None  # pyright: ignore[reportIncompatibleMethodOverride]

    def _sized(self, count: int, width: int) -> str:
        beside = ", with log densities" if self.log_density is not None else ""
        return f"{count} draws of {width} coordinates{beside}"

    @property
    def default_metric(self) -> str:
        return "covariance"

    @property
    def pair(self) -> type[Deletion]:
        return DrawsPair

    def take(self, at: slice | npt.ArrayLike) -> "PosteriorDraws":
        """The draws at the positions `at`, in this order, with weights rescaled to sum to one."""
        at = at if isinstance(at, slice) else np.asarray(at)
        weights = np.asarray(self.weights)[at]
        rows = self.theta if isinstance(self.theta, Stored) else np.asarray(self.theta)
        return replace(
            self,
            theta=rows[at],
            weights=weights / weights.sum(),
            chain=np.asarray(self.chain)[at],
            log_density=None if self.log_density is None else np.asarray(self.log_density)[at],
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class GuaranteedDraws(PosteriorDraws):
    """Draws from a posterior given noisy totals, with a guarantee of differential privacy.

    Args:
        mechanism: JSON of a `results.mechanism.Mechanism`.
    """

    what: ClassVar[str] = "posterior draws that know their noise"

    mechanism: str = field(default="", kw_only=True, metadata=_STATIC)


@dataclass(frozen=True, eq=False, repr=False)
class OneAtom(Release):
    """A parameter that is stationary for the data: `theta (1, d)`, a Dirac mass."""

    temperature: ClassVar[float] = 0.0
    log_density: ClassVar[None] = None  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def weights(self) -> np.ndarray:
        return np.ones(1)

    @property
    def chain(self) -> np.ndarray:
        return np.ones(1, int)


@dataclass(frozen=True, eq=False, repr=False)
class Trained(OneAtom):
    """A parameter of the data's own model, stationary in all directions. Its equations are the gradient.

    Args:
        tolerance: largest entry of the gradient, divided by the number of records, at which training may have stopped;
            0 if only rounding was left, or if the stopping rule is not known.
    """

    along: ClassVar[None] = None

    tolerance: float = field(default=0.0, kw_only=True, metadata=_STATIC)

    @property
    def pair(self) -> type[Deletion]:
        return TrainedPair

    @property
    def spans(self) -> bool:
        return self.model.linear is not None or self.model.gaussian is not None


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class TrainedParameter(Trained):
    """A parameter at the optimum of its objective."""

    what: ClassVar[str] = "a trained parameter"


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class OptimisedMode(Trained):
    """A mode at which an optimiser ended. It may differ from the optimum.

    Args:
        ascent: remaining error of the optimisation.
    """

    what: ClassVar[str] = "a mode of an optimiser, which may have ended beside its optimum"

    ascent: Ascent


@dataclass(frozen=True, eq=False, repr=False)
class Derived(OneAtom):
    """A parameter of a model that is derived from the data's model.

    Args:
        directions: `(d, k)`, directions in which it is stationary, each in its own units.
        of: the model whose posterior it describes.
    """

    directions: Array = field()
    of: Model = field(metadata=_STATIC)

    @property
    def default_metric(self) -> str:
        return "own"

    def own_metric(self) -> np.ndarray:
        return np.asarray(self.directions)

    @property
    def along(self) -> np.ndarray:
        """`(k, d)`, the linear map from the gradient to the equations."""
        return np.asarray(self.directions).T

    @property
    def about(self) -> Model:
        return self.of

    @property
    def pair(self) -> type[Deletion]:
        return ApproximatedPair

    @property
    def spans(self) -> bool:
        return True


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Approximation(Derived):
    """A mode with its covariance, in full precision."""

    what: ClassVar[str] = "an approximation of a posterior, whose equations are exact along some directions"

    def printed(self, theta: Array, directions: Array, columns: Array) -> "Release":
        noise = Noise(np.zeros((len(columns), 0)), columns)
        return Summary(theta, self.model, directions, self.of, noise, name=self.name, notes=self.notes)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class VariationalOptimum(Derived):
    """A variational fit at its optimum.

    Args:
        refined: the model with expectations by a different quadrature rule, which gives the error of the expectations.
    """

    what: ClassVar[str] = "a variational fit, whose equations hold as well as its expectations are taken"

    refined: Model = field(metadata=_STATIC)

    def printed(self, theta: Array, directions: Array, columns: Array) -> "Release":
        noise = Noise(np.zeros((len(columns), 0)), columns)
        return Summary(theta, self.model, directions, self.of, noise, self.refined, name=self.name, notes=self.notes)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Summary(Derived):
    """A printed table, or the mean and covariance of draws.

    Args:
        noise: errors from rounding and from the finite number of draws.
        refined: as in `VariationalOptimum`, if there are expectations.
        matched: for a summary whose equations only hold approximately: function `(target (d,), theta (d,), PseudoData)
            -> theta`. It returns the parameter for which the equations give data whose posterior has the target
            parameter.
    """

    what: ClassVar[str] = "a summary with errors: printed numbers, or the mean and covariance of draws"

    noise: Noise
    refined: Model | None = field(default=None, metadata=_STATIC)
    matched: Callable[[Array, Array, PseudoData], Array] | None = field(default=None, metadata=_STATIC)

    def printed(self, theta: Array, directions: Array, columns: Array) -> "Release":
        return replace(self, theta=theta, directions=directions, noise=self.noise.rounded(columns))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class OptimisedFit(Derived):
    """A mode with its covariance, or a variational fit, at which an optimiser ended. It may differ from the optimum.

    Args:
        noise: errors between it and the end point of the optimiser.
        ascent: remaining error of the optimisation.
        refined: as in `VariationalOptimum`, if there are expectations.
    """

    what: ClassVar[str] = "a fit of an optimiser, which may have ended beside its optimum"

    noise: Noise
    ascent: Ascent
    refined: Model | None = field(default=None, metadata=_STATIC)

    def printed(self, theta: Array, directions: Array, columns: Array) -> "Release":
        return replace(self, theta=theta, directions=directions, noise=self.noise.rounded(columns))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class LogDensity(Derived):
    """A log density, evaluated at points. Its error is the part that no data can explain."""

    what: ClassVar[str] = "a log density at points, off by an unknown amount"

    @property
    def spans(self) -> bool:
        return False


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class StatedLimits(OneAtom):
    """Estimates and standard errors without correlations. They give bounds on statistics instead of equations."""

    what: ClassVar[str] = "limits of statistics, without equations of the data"

    limits: Limits = field(metadata=_STATIC)

    @property
    def pair(self) -> type[Deletion]:
        raise BayesreconError(
            f"{self.name} has only limits, no equations of its data; read it with its correlations (correlations=)"
        )


def refuse_others(release: object, takes: Sequence[type], verb: str, instead: str) -> None:
    """Raise an error for a release of a kind that a verb or an attack does not accept.

    Args:
        instead: what accepts it, or why nothing does.

    Raises `BayesreconError`. The message lists the accepted kinds.
    """
    if isinstance(release, tuple(takes)):
        return
    what = getattr(release, "what", None)
    if what is None:
        raise BayesreconError(
            f"expected a release (bayesrecon.posteriors makes one) or a deletion pair, got a {type(release).__name__}"
        )
    raise BayesreconError(f"{verb} takes {in_words(takes)}, and this is {what}; {instead}")


def in_words(takes: Sequence[type]) -> str:
    """Kinds of releases that a verb or an attack accepts, in words.

    >>> in_words([PosteriorDraws, TrainedParameter])
    'posterior draws or a trained parameter'
    """
    if set(EQUATIONS) <= set(takes):
        return "any release with equations of its data"
    return " or ".join(shortly(kind.what) for kind in takes)


LIMITED = "`recover` says which, or supply the correlations of its estimates"
"""How an error message about limits of statistics ends. No other verb accepts them."""

EQUATIONS = (PosteriorDraws, Trained, Derived)
"""Kinds of releases that have equations of their data."""
