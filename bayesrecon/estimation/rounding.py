"""Rounding of draws: the cells they lay in before, and the effect on recovered totals.

Values that were rounded to the nearest multiple of a step carry noise of variance `step^2 / 12`. With D of these in
the diagonal and Sigma the covariance of the draws, the largest share of noise in a posterior variance is the largest
eigenvalue rho of `Sigma^-1 D`. Strongly correlated parameters are affected by steps far below the standard deviation
of each. Totals are off by about rho.
"""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Array, Stored
from bayesrecon.model import Model, entry
from bayesrecon.releases import PosteriorDraws
from bayesrecon.running.draws_on_disk import as_rows, column_blocks

_DIGITS = 6  # significant, at most: with one more single precision passes for a number that was rounded
_SINGLE, _DOUBLE = 2e-7, 1e-13  # relative: either precision beside the decimal it stands for
_CLEAR = 10.0  # of what is taken for arithmetic, from which a step stands out of it
_FINEST = 1e-8  # of a standard deviation: finer steps are of no account
_FAILS_ABOVE = 0.5  # of the least relative error of any total, `sqrt(2 / (d T))`, from which rounding fails a check
_NOISE_ABOVE = 0.05  # the same, from which it is taken for noise
_MOST = 0.25  # share of a posterior variance, above which rounding cannot be corrected
_REPEATED = 0.98  # distinct values per draw, from which nothing was rounded
_LOST = 0.002  # share of draws next to a bound, from which those that were rounded onto it are missed


@dataclass(frozen=True)
class Rounding:
    """Cells in which draws lay before they were rounded.

    Attributes:
        low, high: `(T, d)` ends of the cells, equal if a coordinate was not rounded.
        constrained: for each parameter, whether its constrained values were rounded. The cells are in these values.
        share: rho, the largest share of a variance that is noise.
        relative_effect: the effect on totals, in units of the smallest relative error of any total.
        summary: the most affected coordinate and the size of its steps, in words.
        uncorrectable: the reason why the rounding cannot be corrected; None if it can.
    """

    low: Float[np.ndarray, "T d"]
    high: Float[np.ndarray, "T d"]
    constrained: tuple[bool, ...]
    share: float
    relative_effect: float
    summary: str
    uncorrectable: str | None

    @property
    def correctable(self) -> bool:
        """Whether the lost digits are to be treated as noise."""
        return self.relative_effect > _NOISE_ABOVE and self.uncorrectable is None


def cells(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the cells in which values `(T,)` lay; the values themselves if no rounding is detected.

    Values may be rounded to decimals (multiples of a step) or to significant digits, whose step grows with the value.
    Either looks like a finer rounding of the other kind, so the coarser one is chosen.

    >>> import numpy as np
    >>> low, high = cells(np.array([0.25, 9.0, 10.5, 123.25, 0.0]))
    >>> (high - low).tolist()
    [0.25, 0.25, 0.25, 0.25, 0.25]
    >>> low, high = cells(np.array([0.97, 1.2, 35.0, 10.0]))
    >>> np.round(low, 3).tolist(), np.round(high, 3).tolist()
    ([0.965, 1.15, 34.5, 9.95], [0.975, 1.25, 35.5, 10.5])
    """
    size = np.abs(values)
    fixed = _step(values)
    power = np.floor(np.log10(np.where(size > 0, size, 1.0)) + 1e-12)
    units = np.zeros_like(values)
    for digits in range(1, _DIGITS + 1):
        unit = 10.0 ** (power - digits + 1)
        if (np.abs(np.round(values / unit) * unit - values) <= _SINGLE * size).all():
            units = np.where(size > 0, unit, 0.0)
            break
    outward = np.maximum(fixed, units)
    # The cell of a power of ten reaches as far down as those of the decade below.
    first = np.abs(size - 10.0**power) <= _SINGLE * size
    inward = np.maximum(fixed, np.where(first, units / 10, units))
    above, below = np.where(values >= 0, (outward, inward), (inward, outward))
    return values - below / 2, values + above / 2


def _step(values: np.ndarray) -> float:
    """The largest decimal step of which all values are multiples; 0 if there is none."""
    largest, finest = float(np.abs(values).max()), _FINEST * float(values.std())
    if not (largest > 0 and finest > 0):
        return 0.0
    for exponent in range(math.ceil(math.log10(largest)), math.floor(math.log10(finest)), -1):
        unit = 10.0**exponent
        match = _SINGLE if unit > _CLEAR * _SINGLE * largest else _DOUBLE
        if unit < _CLEAR * match * largest:
            break
        multiples = np.round(values / unit)
        if (np.abs(multiples * unit - values) <= match * np.abs(values)).all():
            return unit * float(np.gcd.reduce(multiples.astype(np.int64)))
    return 0.0


def rounding_of(release: PosteriorDraws, independent: float = 1.0) -> Rounding | None:
    """The rounding of draws; None if they were not rounded.

    Args:
        independent: number of independent draws.
    """
    if _distinct(as_rows(release.theta)) > _REPEATED * release.size:
        return None
    theta = np.asarray(release.theta)
    model, values = release.model, jax.vmap(release.model.constrain)(theta)
    ends, start = [], 0
    constrained: list[bool] = []
    reasons = ["the model's coordinates are computed from the published ones"] if model.prepare is not None else []
    coarsest = 0.0  # share of a variance, of values whose cells are not those of a coordinate
    for p in model.parameters:
        own, free = np.asarray(values[p.name]).reshape(len(theta), -1), theta[:, start : start + p.size]
        start += p.size
        low, high = _cells_of(own)
        rounded = bool((high > low).any())
        if rounded and p.bounds is None:
            reasons.append(f"the elements of {p.name} are constrained jointly")
            coarsest = max(coarsest, float((_noise(low, high) / np.maximum(own.var(axis=0), 1e-300)).max()))
        if not rounded or p.bounds is None:
            low, high = _cells_of(free)
        elif _lost_at_bounds(low, high, *p.bounds):
            reasons.append(f"draws of {p.name} may have been rounded onto its bound and dropped")
        constrained.append(rounded and p.bounds is not None)
        ends.append((low, high))
    low, high = (np.concatenate(sides, axis=1) for sides in zip(*ends, strict=True))
    if not (coarsest or (high > low).any()):
        return None
    noise = _noise(*(np.asarray(atoms(model, tuple(constrained), x)) for x in (low, high)))
    shares, share = _shares(theta, noise, np.asarray(release.weights))
    names = [entry(p.name, index) for p in model.parameters for index in np.ndindex(*p.free_shape)]
    worst = int(shares.argmax())
    summary = f"{names[worst]} is rounded to steps of {math.sqrt(12 * shares[worst]):.2g} of its standard deviation"
    if theta.shape[1] > 1:
        summary += " given all others"
    share = max(share, coarsest)
    if not share <= _MOST:
        reasons.append("the loss of precision is too large")
    least = math.sqrt(2 / (theta.shape[1] * independent))
    return Rounding(low, high, tuple(constrained), share, share / least, summary, reasons[0] if reasons else None)


def _distinct(theta: np.ndarray | Stored) -> int:
    """Number of distinct values of the coordinate with the fewest."""
    return min(len(np.unique(column)) for _, part in column_blocks(theta) for column in part.T)


def rounding_failure(release: PosteriorDraws, independent: float) -> str | None:
    """A failure message if rounding of the draws affects totals; None if not.

    Args:
        independent: number of independent draws.
    """
    rounding = rounding_of(release, independent)
    if rounding is None or rounding.relative_effect <= _FAILS_ABOVE:
        return None
    why = f" and this cannot be corrected, since {rounding.uncorrectable}" if rounding.uncorrectable else ""
    return (
        f"{rounding.summary}{why}: totals are off by about {rounding.share:.1%}, which their errors do not include; "
        "supply "
        f"draws with more digits"
    )


@partial(jax.jit, static_argnames=("model", "constrained"))
def atoms(model: Model, constrained: tuple[bool, ...], x: Array) -> jax.Array:
    """Unconstrained values `(T, d)` of values in the coordinates in which they were rounded."""
    parts, start = [], 0
    for p, own in zip(model.parameters, constrained, strict=True):
        part = x[:, start : start + p.size]
        start += p.size
        parts.append(p.unconstrained(part) if own else part)
    return jnp.concatenate(parts, axis=1)


def _cells_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = zip(*map(cells, values.T), strict=True)
    return np.stack(low, axis=1), np.stack(high, axis=1)


def _noise(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Mean variance of a uniform distribution in the cells, `(d,)`."""
    with np.errstate(invalid="ignore"):
        return np.asarray(((high - low) ** 2).mean(axis=0) / 12)


def _lost_at_bounds(low: np.ndarray, high: np.ndarray, least: float, most: float) -> bool:
    """Whether cells next to a bound, whose neighbour was lost there, hold some of the draws."""
    width = high - low
    near = (width > 0) & ((low < least + 0.6 * width) | (high > most - 0.6 * width))
    return bool((near.mean(axis=0) > _LOST).any())


def _shares(x: np.ndarray, noise: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Shares of noise in each conditional variance, `(d,)`, and the largest share in any direction."""
    centred = (x - weights @ x) * np.sqrt(weights)[:, None]
    sd = np.maximum(np.sqrt((centred**2).sum(axis=0)), 1e-300)
    correlation = (centred / sd).T @ (centred / sd)
    own, vectors = np.linalg.eigh(correlation)
    inverse = (vectors / np.maximum(own, 1e-14 * own[-1])) @ vectors.T
    root = np.sqrt(noise) / sd
    if not np.isfinite(root).all():
        return np.where(np.isfinite(root), 0.0, np.inf), np.inf
    return np.diag(inverse) * root**2, float(np.linalg.eigvalsh(root[:, None] * inverse * root)[-1])
