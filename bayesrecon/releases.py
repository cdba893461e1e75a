"""What was released, one type a kind.

A type has the fields of its kind alone, and one line that says what it is; attacks and verbs name the types they take.
What else differs by kind, its equations and their errors, lives in `bayesrecon.estimation.kinds`.

Shapes follow the notation table in docs/glossary.md: T atoms, d unconstrained coordinates, k equations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.inexact import Ascent, Limits, Noise
from bayesrecon.model import Model, PseudoData, as_html
from bayesrecon.pairs import ApproximatedPair, Deletion, DrawsPair, TrainedPair, shortly

_STATIC = {"static": True}  # part of the structure of the tree that JAX sees, no leaf of it


@dataclass(frozen=True, eq=False)
class Release:
    """What was released: weighted atoms in unconstrained coordinates, and the model they belong to.

    Build one with `bayesrecon.posteriors`; the constructors of the kinds do not validate.

    Attributes:
        what: one line, what it is after a comma or a colon explained.
        temperature: tau, 1 where atoms are draws and 0 where the one there is is stationary.
        weights, chain, log_density: those of draws; of one atom there is nothing to tell.
        default_metric: in which its divergence is taken.
        theta: `(T, d)` atoms, or `Stored` ones, which are read when they are needed.
        model: of the atoms.
        name: shown in tables.
        notes: what happened while reading (dropped draws and the like).
    """

    what: ClassVar[str]
    temperature: ClassVar[float]

    theta: Any
    model: Model = field(metadata=_STATIC)
    name: str = field(default="release", kw_only=True, metadata=_STATIC)
    notes: tuple[str, ...] = field(default=(), kw_only=True, metadata=_STATIC)

    if TYPE_CHECKING:  # fields of draws, and properties of one atom

        @property
        def weights(self) -> Any: ...
        @property
        def chain(self) -> Any: ...
        @property
        def log_density(self) -> Any: ...

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
        """`(d, k)` directions of its own, in which a divergence may be taken.

        Raises `BayesreconError` for what has none.
        """
        raise BayesreconError(f"{self.name} has no metric of its own: expected 'covariance' or 'identity'")

    @property
    def size(self) -> int:
        """T, the number of atoms."""
        return self.theta.shape[0]

    @property
    def about(self) -> Model:
        """The model of the private data, where the atoms are of one that is derived from it."""
        return self.model

    @property
    def pair(self) -> type[Deletion]:
        """What two of the kind are around a deletion.

        Raises `BayesreconError` where they tell nothing of it.
        """
        raise NotImplementedError

    @property
    def spans(self) -> bool:
        """Whether its equations span a function of a record exactly or do not."""
        return False

    def printed(self, theta: Any, directions: Any, columns: Any) -> "Release":
        """The release with its parameter rounded to `theta (1, d)`, each number's rounding a column `(d, b)`.

        Raises `BayesreconError` for what is no mean with a covariance.
        """
        raise BayesreconError(f"{self.name} is no mean with a covariance")


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDraws(Release):
    """Draws of a posterior.

    Args:
        weights: `(T,)`, summing to one.
        chain: `(T,)` chain number of each draw, in order within a chain.
        log_density: `(T,)` log posterior values where the release carries them.
    """

    what: ClassVar[str] = "posterior draws"
    temperature: ClassVar[float] = 1.0

    weights: Any
    chain: Any
    log_density: Any = None

    def _sized(self, count: int, width: int) -> str:
        beside = ", with log densities" if self.log_density is not None else ""
        return f"{count} draws of {width} coordinates{beside}"

    @property
    def default_metric(self) -> str:
        return "covariance"

    @property
    def pair(self) -> type[Deletion]:
        return DrawsPair

    def take(self, at: Any) -> "PosteriorDraws":
        """Some draws, in the order of their positions `at`, with their weights scaled to one."""
        weights = np.asarray(self.weights)[at]
        rows = self.theta if hasattr(self.theta, "part") else np.asarray(self.theta)  # some lie in a file
        return replace(
            self,
            theta=rows[at],
            weights=weights / weights.sum(),
            chain=np.asarray(self.chain)[at],
            log_density=None if self.log_density is None else np.asarray(self.log_density)[at],
        )


@dataclass(frozen=True, eq=False, repr=False)
class OneAtom(Release):
    """A parameter that is stationary for the data: `theta (1, d)`, a Dirac mass."""

    temperature: ClassVar[float] = 0.0
    log_density: ClassVar[None] = None

    @property
    def weights(self) -> np.ndarray:
        return np.ones(1)

    @property
    def chain(self) -> np.ndarray:
        return np.ones(1, int)


@dataclass(frozen=True, eq=False, repr=False)
class Trained(OneAtom):
    """A parameter of the model of the data itself, stationary in all directions: its equations are the gradient."""

    along: ClassVar[None] = None

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
    """A mode alone that an optimiser ended at, which need not be its optimum.

    Args:
        ascent: what is left of the optimisation.
    """

    what: ClassVar[str] = "a mode of an optimiser, which may have ended beside its optimum"

    ascent: Ascent


@dataclass(frozen=True, eq=False, repr=False)
class Derived(OneAtom):
    """A parameter of a model that is derived from that of the data.

    Args:
        directions: `(d, k)`, those in which it is stationary, each in units of its own.
        of: the model whose posterior it describes.
    """

    directions: Any = field()
    of: Model = field(metadata=_STATIC)

    @property
    def default_metric(self) -> str:
        return "own"

    def own_metric(self) -> np.ndarray:
        return np.asarray(self.directions)

    @property
    def along(self) -> np.ndarray:
        """`(k, d)`, what its equations are of the gradient."""
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
    """A mode with its covariance, to all digits."""

    what: ClassVar[str] = "an approximation of a posterior, whose equations are exact along some directions"

    def printed(self, theta: Any, directions: Any, columns: Any) -> "Release":
        noise = Noise(np.zeros((len(columns), 0)), columns)
        return Summary(theta, self.model, directions, self.of, noise, name=self.name, notes=self.notes)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class VariationalOptimum(Derived):
    """A variational fit at its optimum.

    Args:
        finer: the model with its expectations taken by another rule, which tells how far they are off.
    """

    what: ClassVar[str] = "a variational fit, whose equations hold as well as its expectations are taken"

    finer: Model = field(metadata=_STATIC)

    def printed(self, theta: Any, directions: Any, columns: Any) -> "Release":
        noise = Noise(np.zeros((len(columns), 0)), columns)
        return Summary(theta, self.model, directions, self.of, noise, self.finer, name=self.name, notes=self.notes)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Summary(Derived):
    """A printed table, or the mean and covariance of draws.

    Args:
        noise: what was rounded, and of how few draws they are.
        finer: as of a variational fit, where expectations are taken.
        matched: of a summary whose equations hold only nearly: `(given (d,), theta (d,), PseudoData) -> theta`, the
            parameter that the equations give the data for which the posterior has the given one.
    """

    what: ClassVar[str] = "a summary with errors: printed numbers, or the mean and covariance of draws"

    noise: Noise
    finer: Model | None = field(default=None, metadata=_STATIC)
    matched: Callable[[Any, Any, PseudoData], Any] | None = field(default=None, metadata=_STATIC)

    def printed(self, theta: Any, directions: Any, columns: Any) -> "Release":
        return replace(self, theta=theta, directions=directions, noise=self.noise.rounded(columns))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class OptimisedFit(Derived):
    """A mode with its covariance or a variational fit that an optimiser ended at, which need not be its optimum.

    Args:
        noise: what separates it from where the optimiser ended.
        ascent: what is left of the optimisation.
        finer: as of a variational fit, where expectations are taken.
    """

    what: ClassVar[str] = "a fit of an optimiser, which may have ended beside its optimum"

    noise: Noise
    ascent: Ascent
    finer: Model | None = field(default=None, metadata=_STATIC)

    def printed(self, theta: Any, directions: Any, columns: Any) -> "Release":
        return replace(self, theta=theta, directions=directions, noise=self.noise.rounded(columns))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class LogDensity(Derived):
    """A log density that was evaluated at points, off by what no data make of it."""

    what: ClassVar[str] = "a log density at points, off by an unknown amount"

    @property
    def spans(self) -> bool:
        return False


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class StatedLimits(OneAtom):
    """Estimates and standard errors without their correlations: limits of statistics in the place of equations."""

    what: ClassVar[str] = "limits of statistics, which leave the equations of the data open"

    limits: Limits = field(metadata=_STATIC)

    @property
    def pair(self) -> type[Deletion]:
        raise BayesreconError(f"{self.name} leaves its equations open; read it with its correlations (correlations=)")


def refuse_others(release: Any, takes: Sequence[Any], verb: str, instead: str) -> None:
    """Refuse a release of a kind that a verb or an attack does not take.

    Args:
        instead: what takes it, or why nothing does.

    Raises `BayesreconError` naming what is taken.
    """
    if isinstance(release, tuple(takes)):
        return
    if not hasattr(release, "what"):
        raise BayesreconError(
            f"expected a release (bayesrecon.posteriors makes one) or a deletion pair, got a {type(release).__name__}"
        )
    every = set(EQUATIONS) <= set(takes)
    taken = "what has equations of its data" if every else " or ".join(shortly(one.what) for one in takes)
    raise BayesreconError(f"{verb} takes {taken}, and this is {release.what}; {instead}")


LIMITED = "`recover` says which, or supply the correlations of its estimates"
"""What is done with limits of statistics, which no other verb takes."""

EQUATIONS = (PosteriorDraws, Trained, Derived)
"""Kinds that have equations of their data, and what is derived from them."""
