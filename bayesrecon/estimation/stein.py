"""Do the draws and the model belong together?

For draws of the posterior with score s and mean m, Stein's identity gives `E[s] = 0`,
`E[(theta - m)_i s_j] = -[i = j]` and `E[(theta - m)_i^2 s_i] = 0`. With the score of the solved measure
these are tested over the draws; convergence is looked at directly. A trained parameter is
stationary only if its regulariser's gradient lies in the span of the records' gradients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from bayesrecon.diagnostics import effective_sample_size, split_r_hat

# False alarms per release, half a percent in all. Of single identities, by their family:
_SCORE, _MOMENTS = 1.2e-3, 1e-4
# Of fields, above zero and below: what other likelihoods and approximations do is above, and heavy tails get least.
_SPREAD, _ACROSS, _SQUARES = (2.5e-3, 2e-4), (4e-4, 0.0), (1e-4, 0.0)
_FEWEST = 500  # draws, from which fields are tested: with a hundred, three good releases in a hundred fail
_CHAINS = 1.9e-3  # of the means of chains
_SIMULATED = 20_000  # means of chains of one law, by which the level is kept to a seventh of itself
_COLUMNS = 400  # up to which they are simulated, in a second; of more Bonferroni's bound is taken
_AT_ONCE = 500  # of them: a megabyte or so for a hundred coordinates
_SMALLEST_SIZE = 0.05  # violations of one identity below this are not worth a failure however significant
_PAIRED = 40  # coordinates up to which all pairs are tested
_LOOKED_AT = 64  # violations of an identity that are looked at again, the largest first
_NUMBERS = 2**22  # of the series of identities that are looked at together
_R_HAT = 1.01  # Vehtari et al. (2021); where chains are short its own scatter is allowed for
_SHORTEST = 32  # draws in a chain from which its autocorrelation can be judged
# Share of the regulariser's gradient that no data cancel, from which a parameter is not stationary: above what training
# to the usual tolerances leaves; and the pivot below which a record's gradient is a sum of others.
_STATIONARY, _RANK = 1e-6, 1e-10


Moved = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""For functions of the atoms `h (T, P)`, coordinates `j (P,)` and numbers `into (P,)` from zero to K, the series
`(T, K)` by which errors of the fitted data move the sums of the `E[h_p score_j]` that go into the same number."""


def summed(values: np.ndarray, into: np.ndarray) -> np.ndarray:
    """Sums `(M, K)` of the columns of `values (M, P)` that go into the same number.

    >>> summed(np.array([[1.0, 2.0, 3.0]]), np.array([0, 1, 0]))
    array([[4., 2.]])
    """
    return np.asarray(values @ (into[:, None] == np.arange(into.max(initial=-1) + 1)))


@dataclass(frozen=True)
class Draws:
    """Draws with the score of the posterior that was fitted to them.

    Attributes:
        theta: `(T, d)` atoms.
        weights, chain: `(T,)`.
        scores: `(T, s)` at the atoms, in the first of the same coordinates.
    """

    theta: np.ndarray
    weights: np.ndarray
    chain: np.ndarray
    scores: np.ndarray

    def part(self, at: Any, scores: np.ndarray) -> "Draws":
        """Some of the draws, with another score."""
        weights = self.weights[at]
        return Draws(self.theta[at], weights / weights.sum(), self.chain[at], scores)

    def standardised(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Atoms and scores free of units, and the `(d,)` units."""
        mean = self.weights @ self.theta
        sd = np.sqrt(self.weights @ (self.theta - mean) ** 2)
        return (self.theta - mean) / sd, self.scores * sd[: self.scores.shape[1]], sd


def check_draws(
    names: tuple[str, ...],
    draws: Draws,
    moved: Moved,
    halves: Callable[[], Sequence[Draws]] = tuple,
    finite: bool = True,
) -> tuple[str, ...]:
    """Test the Stein identities; one line for each family of them that fails.

    Args:
        names: `(d,)` coordinate names.
        draws: with the score of what was fitted to them.
        moved: by how much errors of the fitted data move an identity. With many features they show in the identities,
            and pass for their failure.
        halves: the same of every other draw alone, each fitted by itself; asked only where something seems to fail.
        finite: whether the fitted data explain the draws to rounding, as they do where the kernel has finite rank.
            Elsewhere they are shrunk, and `moved` takes out more than they explain.
    """
    t, s, sd = draws.standardised()

    def errors(h: np.ndarray, j: np.ndarray, into: np.ndarray) -> np.ndarray:
        return moved(h * sd[j], j, into)

    once = cache(halves)
    found = [
        *_identities(names, draws, t, s, errors, once),
        *_together(draws, t, s, errors, once, finite),
    ]
    return (
        *_chains(names, draws.theta, draws.chain),
        *(
            f"draws and model disagree: {what} should be 0 and is off for {which}; is the prior right, and are these "
            "converged draws of this very model?"
            for what, which in found
        ),
    )


def _identities(
    names: tuple[str, ...],
    draws: Draws,
    t: np.ndarray,
    s: np.ndarray,
    moved: Moved,
    halves: Callable[[], Sequence[Draws]],
) -> list[tuple[str, str]]:
    """`E[h score_j + d_j h] = 0` for powers h of one coordinate, each by itself."""
    found = []
    for label, power in _powers(t, s).items():
        level, h, i, j = power.level, power.h, power.i, power.j
        size, z = power.judged(s, draws)
        threshold = -NormalDist().inv_cdf(level / len(z) / 2)
        broken = np.flatnonzero((z > threshold) & (np.abs(size) > _SMALLEST_SIZE))
        if broken.size:
            broken = broken[np.argsort(-z[broken])][:_LOOKED_AT]
            series = power.values(s, broken) + moved(h[:, i[broken]], j[broken], np.arange(len(broken)))
            z[broken] = _significance(series, size[broken], draws.weights, draws.chain)
            broken = broken[z[broken] > threshold]
        if broken.size and (parts := halves()):
            others = np.mean([_sizes_of_powers(half, label)[broken] for half in parts], axis=0)
            z[broken] = _confirmed(size[broken], z[broken], others)
            broken = broken[z[broken] > threshold]
        if broken.size:
            order = broken[np.argsort(-z[broken])][:3]
            which = ", ".join(
                f"{names[j[k]]}{'' if i[k] == j[k] else ' with ' + names[i[k]]} by {size[k]:+.2g} (z {z[k]:.0f})"
                for k in order
            )
            more = f" and {broken.size - len(order)} more" if broken.size > len(order) else ""
            found.append((label, which + more))
    return found


@dataclass(frozen=True)
class _Power:
    """Identities `E[h_i score_j + rest] = 0` of one kind for pairs i, j, and the false alarms that they are given.

    Attributes:
        h: `(T, d)`.
        rest: what is added for some of the pairs, `(T, P)` or less.
        i, j: `(P,)`.
    """

    level: float
    h: np.ndarray
    rest: Callable[[np.ndarray], Any]
    i: np.ndarray
    j: np.ndarray

    def values(self, s: np.ndarray, at: np.ndarray) -> np.ndarray:
        """At the draws, for some of the pairs, `(T, P)`."""
        return np.asarray(self.h[:, self.i[at]] * s[:, self.j[at]] + self.rest(at))

    def blocks(self, draws: int) -> list[np.ndarray]:
        """The pairs, as many at once as there is room for."""
        return np.array_split(np.arange(len(self.i)), -(-len(self.i) * draws // _NUMBERS))

    def sizes(self, s: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Means over the draws, `(P,)`."""
        return np.concatenate([weights @ self.values(s, at) for at in self.blocks(len(s))])

    def judged(self, s: np.ndarray, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
        """Means over the draws and their number of standard errors, `(P,)` each."""
        sizes, z = [], []
        for at in self.blocks(len(s)):
            values = self.values(s, at)
            sizes.append(draws.weights @ values)
            z.append(_significance(values, sizes[-1], draws.weights, draws.chain))
        return np.concatenate(sizes), np.concatenate(z)


def _powers(t: np.ndarray, s: np.ndarray) -> dict[str, _Power]:
    """By the name of the identity."""
    every = np.arange(s.shape[1])
    rows, columns = (every, every) if t.shape[1] > _PAIRED else map(np.ravel, np.indices((t.shape[1], len(every))))
    # The mean is estimated too: its sampling error enters linearly and is carried by -t.
    return {
        "E[score]": _Power(_SCORE, np.ones_like(t), lambda at: 0.0, every, every),
        "E[(theta - mean) score] + 1": _Power(_MOMENTS, t, lambda at: (rows == columns)[at], rows, columns),
        "E[(theta - mean)^2 score]": _Power(_MOMENTS, t**2, lambda at: 2 * t[:, every[at]], every, every),
    }


def _sizes_of_powers(draws: Draws, label: str) -> np.ndarray:
    t, s, _ = draws.standardised()
    return _powers(t, s)[label].sizes(s, draws.weights)


def _confirmed(size: Any, z: Any, half: Any) -> Any:
    """Standard errors of a violation whose size on half of the draws is known.

    The fitted data are fitted to these draws: what is of second order in their errors, or was left out where they are
    shrunk, is no disagreement. It is not in `moved`, and on half as many draws it is about twice as large.
    """
    return np.abs(size) / np.hypot(size / z, size - half)


def _together(
    draws: Draws,
    t: np.ndarray,
    s: np.ndarray,
    moved: Moved,
    halves: Callable[[], Sequence[Draws]],
    finite: bool,
) -> list[tuple[str, str]]:
    """`E[<h, score> + div h] = 0` for fields h that sum up what single coordinates show too little of."""
    if np.sum(draws.weights**2) * _FEWEST > 1:
        return []
    j, fields = np.arange(s.shape[1]), _fields(t, s, draws.weights)
    errors = moved(
        np.concatenate([f.h for f in fields], axis=1), np.tile(j, len(fields)), np.repeat(range(len(fields)), len(j))
    )
    others: list[float] = []
    found = []
    for k, field in enumerate(fields):
        size = field.size(s, draws.weights)
        values = (field.h * s + field.divergence).sum(axis=1, keepdims=True)
        level = field.levels[int(size < 0)]
        threshold = -NormalDist().inv_cdf(level) if level else np.inf
        corrected = values + errors[:, k, None]
        z = min(
            _significance(series, np.array([size]), draws.weights, draws.chain)[0]
            for series in ((corrected,) if finite else (corrected, values))
        )
        if z <= threshold:
            continue
        if parts := halves():
            others = others or np.mean([_sizes(half) for half in parts], axis=0).tolist()
            z = _confirmed(size, z, others[k])
        if z > threshold:
            found.append((f"E[<h, score> + div h], h {field.label},", f"all coordinates together (z {z:.1f})"))
    return found


@dataclass(frozen=True)
class _Field:
    """h and what its divergence is made of, `(T, s)` each, and the false alarms it is given, above zero and below."""

    label: str
    h: np.ndarray
    divergence: np.ndarray
    levels: tuple[float, float]
    bias: float = 0.0

    def size(self, s: np.ndarray, weights: np.ndarray) -> float:
        """`E[<h, score> + div h]` over the draws."""
        return float(weights @ (self.h * s + self.divergence).sum(axis=1)) - self.bias


def _fields(t: np.ndarray, s: np.ndarray, weights: np.ndarray) -> tuple[_Field, ...]:
    """The spread of all coordinates (of another likelihood it is another one); what the score itself has of other
    coordinates (independent ones have none of it); what it has of squares (a normal law has none). The last two are
    taken from the other half of the draws: what is tested is not what was fitted.
    """
    j, half = np.arange(s.shape[1]), np.arange(len(t)) % 2
    squares = t**2 - weights @ t**2
    across, bent, slope = np.zeros_like(s), np.zeros_like(s), np.zeros_like(s)
    for one in (0, 1):
        use, other = half == one, half != one
        linear = _coefficients(t[other], s[other])
        quadratic = _coefficients(squares[other], s[other] - t[other] @ linear)
        bent[use], slope[use] = squares[use] @ quadratic, 2 * t[use][:, j] * np.diag(quadratic[j])
        linear[j, j] = 0.0
        across[use] = t[use] @ linear
    lost = len(j) * float(np.sum(weights**2))  # of the spread, since the mean is estimated
    return (
        _Field("the distance from the mean", t[:, j], np.ones_like(s), _SPREAD, lost),
        _Field("what the score has of other coordinates", across, np.zeros_like(s), _ACROSS),
        _Field("what the score has of squares", bent, slope, _SQUARES),
    )


def _sizes(draws: Draws) -> list[float]:
    t, s, _ = draws.standardised()
    return [field.size(s, draws.weights) for field in _fields(t, s, draws.weights)]


def _coefficients(features: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Of the regression of `s (T, s)` on `features (T, d)`, `(d, s)`, with a ridge of what d noisy ones need."""
    scale = np.sqrt((features**2).mean(axis=0))
    x = features / scale
    gram = x.T @ x / len(x)
    gram[np.diag_indices_from(gram)] += len(gram) / len(x)
    return np.linalg.solve(gram, x.T @ s / len(x)) / scale[:, None]


def _significance(series: np.ndarray, size: np.ndarray, weights: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """`size (P,)` in standard errors of the mean of `series (T, P)`."""
    ess = effective_sample_size(series, chain) / (len(weights) * np.sum(weights**2))
    error = np.sqrt(weights @ (series - weights @ series) ** 2 / ess)
    return np.divide(np.abs(size), error, out=np.zeros_like(size), where=error > 0)


def check_trained(scores: np.ndarray, base: np.ndarray) -> tuple[str, ...]:
    """Whether any data, with weights of either sign, could make a parameter stationary; see `beyond`."""
    left = float(np.linalg.norm(beyond(scores, base))) / (float(np.linalg.norm(base)) or 1.0)
    if left < _STATIONARY:
        return ()
    return (
        f"the parameter is not stationary: no data cancel {left:.1g} of its regulariser's gradient; was the loss "
        "summed and trained to its optimum, and is the regulariser this one?",
    )


def beyond(scores: np.ndarray, base: np.ndarray) -> np.ndarray:
    """What no combination of gradients cancels, `(d,)`.

    Args:
        scores: `(d, M)` gradients of generic records, more than there are features.
        base: `(d,)` gradient of the regulariser.
    """
    length = np.linalg.norm(scores, axis=0)
    unit = scores[:, length > 0] / length[length > 0]
    if not unit.size:
        return base
    pivoted: Any = scipy.linalg.qr(unit, mode="economic", pivoting=True, check_finite=False)
    q, r, _ = pivoted
    q = q[:, np.abs(np.diag(r)) > _RANK * abs(r[0, 0])]
    return np.asarray(base - q @ (q.T @ base))


def _chains(names: tuple[str, ...], theta: np.ndarray, chain: np.ndarray) -> list[str]:
    found = []
    r_hat = split_r_hat(theta, chain)
    worst = int(r_hat.argmax())
    # Over independent draws the excess of R-hat is a chi-squared over the draws of half a chain.
    shortest = np.unique(chain, return_counts=True)[1].min()
    limit = max(_R_HAT, float(np.sqrt(1 + 40 / shortest)))
    if r_hat[worst] > limit:
        found.append(
            f"the chains have not converged: split R-hat of {names[worst]} is {r_hat[worst]:.3f} "
            f"(at most {limit:.2f} expected); is warm-up left in?"
        )
        return found
    # One coordinate that is moved by itself stands out most in what all others leave of it.
    covariance = np.cov(theta.T).reshape(theta.shape[1], -1)
    given = np.linalg.lstsq(covariance, (theta - theta.mean(axis=0)).T, rcond=_RANK)[0].T
    apart, chance, which = _apart(np.concatenate([theta, given], axis=1), chain)
    worst = int(chance.argmin())
    probability = _of_any(float(chance[worst]), np.concatenate([theta, given], axis=1), len(np.unique(chain)))
    if probability < _CHAINS:
        rest = ", given all others," if worst >= len(names) else ""
        found.append(
            f"the chains are not of one law: in chain {which[worst]} the mean of {names[worst % len(names)]}{rest} is "
            f"{apart[worst]:+.2g} standard deviations off that of the others (probability {probability:.1g}); are "
            "they all of the same posterior, and converged?"
        )
    return found


def _of_any(chance: float, columns: np.ndarray, chains: int) -> float:
    """Probability that the chain that stands out most in any of the columns `(T, K)` does so at `chance` or less.

    Coordinates are correlated, and what is left of one given the others may be the coordinate itself: Bonferroni's
    bound, unless it leaves the question open; then the means of chains of one law, simulated with that correlation.
    """
    bound = min(1.0, chance * columns.shape[1])
    if bound < _CHAINS or chance > _CHAINS or columns.shape[1] > _COLUMNS:
        return bound
    spread = columns.std(axis=0)
    standard = np.divide(columns - columns.mean(axis=0), spread, out=np.zeros_like(columns), where=spread > 0)
    values, vectors = np.linalg.eigh(standard.T @ standard / len(columns))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    limit = -scipy.special.ndtri(chance / (2 * chains))
    rng = np.random.default_rng(0)
    beyond_it = 0
    for _ in range(_SIMULATED // _AT_ONCE):
        means = rng.normal(size=(_AT_ONCE, chains, columns.shape[1])) @ root.T
        off = (means - means.mean(axis=1, keepdims=True)) * np.sqrt(chains / (chains - 1))
        beyond_it += int((np.abs(off).max(axis=(1, 2)) > limit).sum())
    return beyond_it / _SIMULATED


def _apart(theta: np.ndarray, chain: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How far the mean of the chain that stands out most is from that of all others, in standard deviations, the
    probability of as much and the chain, `(d,)` each: t tests, of which each chain has one (Bonferroni), with a chain's
    effective sample size, from that chain alone, for its size.
    """
    numbers = np.unique(chain)
    parts = [theta[chain == c] for c in numbers]
    if len(parts) < 2 or min(map(len, parts)) < _SHORTEST:
        return np.zeros(theta.shape[1]), np.ones(theta.shape[1]), np.zeros(theta.shape[1], int)
    size = np.array([np.minimum(effective_sample_size(p, np.zeros(len(p), int)), len(p)) for p in parts])
    mean, variance = (np.array([f(p, axis=0) for p in parts]) for f in (np.mean, np.var))
    within = np.maximum((size * variance).sum(axis=0) / size.sum(axis=0), 1e-300)
    others = size.sum(axis=0) - size
    off = mean - ((size * mean).sum(axis=0) - size * mean) / others
    t = off / np.sqrt(within * (1 / size + 1 / others))
    worst, every = np.abs(t).argmax(axis=0), np.arange(theta.shape[1])
    chance = 2 * len(parts) * scipy.special.stdtr(size.sum(axis=0) - len(parts), -np.abs(t[worst, every]))
    return off[worst, every] / np.sqrt(within), np.minimum(chance, 1.0), numbers[worst]
