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
from bayesrecon.estimation.fields import Fields
from bayesrecon.estimation.scored import Draws, Moved, confirmed
from bayesrecon.estimation.standard import Combined, Rows, Standard
from bayesrecon.stored import column_blocks, mean_and_covariance

# False alarms per release, half a percent in all. Of single identities, by their family:
_SCORE, _MOMENTS = 1.2e-3, 1e-4
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


def summed(values: np.ndarray, into: np.ndarray) -> np.ndarray:
    """Sums `(M, K)` of the columns of `values (M, P)` that go into the same number.

    >>> summed(np.array([[1.0, 2.0, 3.0]]), np.array([0, 1, 0]))
    array([[4., 2.]])
    """
    return np.asarray(values @ (into[:, None] == np.arange(into.max(initial=-1) + 1)))


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

    def errors(h: Rows, j: np.ndarray, into: np.ndarray) -> np.ndarray:
        return moved(Rows(lambda at: h[at] * sd[j], h.shape), j, into)

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
    t: Standard,
    s: Standard,
    moved: Moved,
    halves: Callable[[], Sequence[Draws]],
) -> list[tuple[str, str]]:
    """`E[h score_j + d_j h] = 0` for powers h of one coordinate, each by itself."""
    found = []
    for label, power in _powers(t, s).items():
        level, i, j = power.level, power.i, power.j
        size, z = power.judged(s, draws)
        threshold = -NormalDist().inv_cdf(level / len(z) / 2)
        broken = np.flatnonzero((z > threshold) & (np.abs(size) > _SMALLEST_SIZE))
        if broken.size:
            broken = broken[np.argsort(-z[broken])][:_LOOKED_AT]
            series = power.values(s, broken) + moved(power.rows(i[broken]), j[broken], np.arange(len(broken)))
            z[broken] = _significance(series, size[broken], draws.weights, draws.chain)
            broken = broken[z[broken] > threshold]
        if broken.size and (parts := halves()):
            others = np.mean([_sizes_of_powers(half, label)[broken] for half in parts], axis=0)
            z[broken] = confirmed(size[broken], z[broken], others)
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
    """Identities `E[t_i^k score_j + rest] = 0` of one kind for pairs i, j, and the false alarms that they are given.

    Attributes:
        k: the power.
        t: `(T, d)`.
        rest: what is added for some of the pairs, `(T, P)` or less.
        i, j: `(P,)`.
    """

    level: float
    k: int
    t: Standard
    rest: Callable[[np.ndarray], Any]
    i: np.ndarray
    j: np.ndarray

    def values(self, s: Standard, at: np.ndarray) -> np.ndarray:
        """At the draws, for some of the pairs, `(T, P)`."""
        score = s.columns(self.j[at])
        h = self.t.columns(self.i[at]) ** self.k if self.k else 1.0
        return np.asarray(h * score + self.rest(at))

    def rows(self, i: np.ndarray) -> Rows:
        """The powers of some coordinates, `(T, len(i))`."""
        return Rows(lambda at: self.t[at][:, i] ** self.k, (len(self.t), len(i)))

    def blocks(self, draws: int) -> list[np.ndarray]:
        """The pairs, as many at once as there is room for."""
        return np.array_split(np.arange(len(self.i)), -(-len(self.i) * draws // _NUMBERS))

    def sizes(self, s: Standard, weights: np.ndarray) -> np.ndarray:
        """Means over the draws, `(P,)`."""
        return np.concatenate([weights @ self.values(s, at) for at in self.blocks(len(s))])

    def judged(self, s: Standard, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
        """Means over the draws and their number of standard errors, `(P,)` each."""
        sizes, z = [], []
        for at in self.blocks(len(s)):
            values = self.values(s, at)
            sizes.append(draws.weights @ values)
            z.append(_significance(values, sizes[-1], draws.weights, draws.chain))
        return np.concatenate(sizes), np.concatenate(z)


def _powers(t: Standard, s: Standard) -> dict[str, _Power]:
    """By the name of the identity."""
    every = np.arange(s.shape[1])
    rows, columns = (every, every) if t.shape[1] > _PAIRED else map(np.ravel, np.indices((t.shape[1], len(every))))
    # The mean is estimated too: its sampling error enters linearly and is carried by -t.
    return {
        "E[score]": _Power(_SCORE, 0, t, lambda at: 0.0, every, every),
        "E[(theta - mean) score] + 1": _Power(_MOMENTS, 1, t, lambda at: (rows == columns)[at], rows, columns),
        "E[(theta - mean)^2 score]": _Power(_MOMENTS, 2, t, lambda at: 2 * t.columns(every[at]), every, every),
    }


def _sizes_of_powers(draws: Draws, label: str) -> np.ndarray:
    t, s, _ = draws.standardised()
    return _powers(t, s)[label].sizes(s, draws.weights)


def _together(
    draws: Draws,
    t: Standard,
    s: Standard,
    moved: Moved,
    halves: Callable[[], Sequence[Draws]],
    finite: bool,
) -> list[tuple[str, str]]:
    """`E[<h, score> + div h] = 0` for fields h that sum up what single coordinates show too little of."""
    if np.sum(draws.weights**2) * _FEWEST > 1:
        return []
    j, fields = np.arange(s.shape[1]), Fields.of(t, s)
    count = len(Fields.labels)
    h = Rows(lambda at: np.concatenate([h for h, _ in fields.at(at)], axis=1), (len(t), count * len(j)))
    errors = moved(h, np.tile(j, count), np.repeat(range(count), len(j)))
    sums = fields.sums()
    sizes = fields.sizes(sums, draws.weights)
    others: list[float] = []
    found = []
    for k, (label, levels) in enumerate(Fields.labels.items()):
        size, values = sizes[k], sums[:, k, None]
        level = levels[int(size < 0)]
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
            z = confirmed(size, z, others[k])
        if z > threshold:
            found.append((f"E[<h, score> + div h], h {label},", f"all coordinates together (z {z:.1f})"))
    return found


def _sizes(draws: Draws) -> list[float]:
    t, s, _ = draws.standardised()
    fields = Fields.of(t, s)
    return fields.sizes(fields.sums(), draws.weights)


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


def _chains(names: tuple[str, ...], theta: Any, chain: np.ndarray) -> list[str]:
    found = []
    r_hat = np.concatenate([split_r_hat(part, chain) for _, part in column_blocks(theta)])
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
    mean, covariance = mean_and_covariance(theta, np.full(len(theta), 1 / len(theta)))
    d = len(mean)
    given = np.linalg.lstsq(covariance, np.eye(d), rcond=_RANK)[0].T
    both = Combined(theta, mean, np.concatenate([np.eye(d), given], axis=1))
    wide = max(1, _NUMBERS // len(theta))
    parts = [_apart(both.columns(slice(k, min(k + wide, 2 * d))), chain) for k in range(0, 2 * d, wide)]
    apart, chance, which = (np.concatenate(one) for one in zip(*parts, strict=True))
    worst = int(chance.argmin())
    probability = _of_any(float(chance[worst]), both.matrix.T @ covariance @ both.matrix, len(np.unique(chain)))
    if probability < _CHAINS:
        rest = ", given all others," if worst >= len(names) else ""
        found.append(
            f"the chains are not of one law: in chain {which[worst]} the mean of {names[worst % len(names)]}{rest} is "
            f"{apart[worst]:+.2g} standard deviations off that of the others (probability {probability:.1g}); are "
            "they all of the same posterior, and converged?"
        )
    return found


def _of_any(chance: float, covariance: np.ndarray, chains: int) -> float:
    """Probability that the chain that stands out most in any of K columns, of that `(K, K)` covariance, does so at
    `chance` or less.

    Coordinates are correlated, and what is left of one given the others may be the coordinate itself: Bonferroni's
    bound, unless it leaves the question open; then the means of chains of one law, simulated with that correlation.
    """
    count = len(covariance)
    bound = min(1.0, chance * count)
    if bound < _CHAINS or chance > _CHAINS or count > _COLUMNS:
        return bound
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    values, vectors = np.linalg.eigh(covariance * inverse * inverse[:, None])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    limit = -scipy.special.ndtri(chance / (2 * chains))
    rng = np.random.default_rng(0)
    beyond_it = 0
    for _ in range(_SIMULATED // _AT_ONCE):
        means = rng.normal(size=(_AT_ONCE, chains, count)) @ root.T
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
