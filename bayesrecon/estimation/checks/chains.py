"""Have the chains converged, and do all have the same distribution?

Chains are compared by functions of the draws: every coordinate, what all others leave of it, the distances of both from
their medians, the products of whitened leading coordinates, and the distance from the centre. Each function is replaced
by the normal scores of its ranks, so that means of it are nearly normal whatever the posterior's tails. R-hat of these
is the rank-normalised and folded one (Vehtari et al. 2021, doi 10.1214/20-BA1221).
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import scipy.special

from bayesrecon.arrays import Stored
from bayesrecon.diagnostics import effective_sample_size, rank_normalised, split_r_hat
from bayesrecon.estimation.checks.check import Check, CheckInput
from bayesrecon.estimation.standard import Combined
from bayesrecon.running.draws_on_disk import column_blocks, mean_and_covariance

LEVEL = 1.9e-3  # false alarms per release
_RARE = 1e-4  # of R-hat and of coupled chains, each
_STILL, _LONG = 1e-6, 0.1  # of standstill; share of a chain that is worth a word
_NUMBERS = 2**21  # of columns that are looked at together
_DRAWS = 2**14  # that are looked at
_LEADING = 30  # coordinates whose products are compared
_RANK = 1e-10  # of a covariance, below which a coordinate is a function of others
_R_HAT = 1.01  # Vehtari et al. (2021); where chains are short its own scatter is allowed for
_FAR = 2.5  # times that limit: refused before any score. Below it, scores may mix where a scale does not
_SHORTEST = 32  # draws in a chain from which its autocorrelation can be judged
_FIRST = 8  # draws of a beginning, of all chains together
_SLOW = 25.0  # effective draws of a chain, below which less does not excuse a larger R-hat
_SORTED = 0.8  # correlation with the position in the chain
_PER_DEGREE = 5.0  # effective draws per degree of freedom of a variance that is summed over autocorrelations

_SAME = "are they all of the same posterior, and converged?"


def check_chains(inputs: CheckInput) -> tuple[str, ...]:
    draws = inputs.draws
    rows = _compared(draws.chain)
    if not rows.size:
        return ()
    failure = _standstill(inputs.names, draws.theta, draws.chain)
    if failure is None:
        failure = _difference(inputs.names, draws.theta, draws.weights, draws.chain, rows)
    return () if failure is None else (failure,)


def unconverged(
    names: tuple[str, ...], theta: np.ndarray | Stored, weights: np.ndarray, chain: np.ndarray
) -> str | None:
    """A coordinate whose split R-hat is far beyond its limit, in words; seen in little time, before any score.

    Values stand for their ranks: a few that lie far out raise the variance within chains as much as that between them.
    """
    rows = _compared(chain)
    if not rows.size or np.ptp(weights) > 0:
        return None
    runs, found = Runs(chain[rows], weights[rows]), list[tuple[float, str]]()
    for at, columns in column_blocks(theta):
        values = columns[rows]
        with np.errstate(over="ignore", invalid="ignore"):  # values too large for a variance have no scores either
            sizes = runs.sizes(values)
            found.append(_unconverged(list(names[at]), values, chain[rows], sizes, _functions_of(len(names))))
    return max(((excess, words) for excess, words in found if excess > _FAR), default=(0.0, None))[1]


def _compared(chain: np.ndarray) -> np.ndarray:
    """The draws that are looked at, chain by chain; none if a chain is too short."""
    numbers, counts = np.unique(chain, return_counts=True)
    if counts.min() < _SHORTEST:
        return np.zeros(0, int)
    step = max(1, min(len(chain) // _DRAWS, int(counts.min()) // (4 * _SHORTEST)))
    return np.concatenate([np.flatnonzero(chain == c)[::step] for c in numbers])


def _functions_of(d: int) -> int:
    """The number of functions of d coordinates by which chains are compared."""
    leading = min(d, _LEADING)
    return 2 * d if d == 1 else 4 * d + leading * (leading + 1) // 2 + 1


def _standstill(names: tuple[str, ...], theta: np.ndarray | Stored, chain: np.ndarray) -> str | None:
    """A coordinate that keeps its value for so long that a chain which moves at random places would not.

    Among k changes at random places, a stretch without one covers a share s of the chain with probability
    `(k + 1) (1 - s)^k` at most.
    """
    numbers = np.unique(chain)
    for at, columns in column_blocks(theta):
        moving = np.ptp(columns, axis=0) > 0
        for number in numbers:
            part = columns[chain == number]
            changed = part[1:] != part[:-1]
            count = changed.sum(axis=0)
            for j in np.flatnonzero(moving & (count <= (1 - _LONG) * len(part) + 1)):
                places = np.r_[-1, np.flatnonzero(changed[:, j]), len(part) - 1]
                longest = int(np.diff(places).max())
                share = longest / len(part)
                probability = (count[j] + 1) * (1 - share) ** count[j] if count[j] else 0.0
                if share >= _LONG and probability * len(names) * len(numbers) < _STILL:
                    return (
                        f"the chains have not converged: in chain {number} {names[at.start + j]} does not move in "
                        f"{longest} of {len(part)} draws in a row"
                    )
    return None


def _difference(
    names: tuple[str, ...], theta: np.ndarray | Stored, weights: np.ndarray, chain: np.ndarray, rows: np.ndarray
) -> str | None:
    """What differs between chains, or between their beginning and the rest."""
    weights, chain = weights[rows], chain[rows]
    leading, count = min(len(names), _LEADING), _functions_of(len(names))
    runs = Runs(chain, weights)
    unconverged: list[tuple[float, str]] = []
    coupled = None
    found: list[tuple[float, str, str]] = []
    for labels, scores, jointly in _functions(names, theta, rows):
        position = runs.order(scores)
        last = int(position.argmax())
        if position[last] > _SORTED:
            return (
                "the chains have not converged, or their draws were sorted, which no sampler does: they stand in the "
                f"order of {labels[last]} (independent draws may be shuffled)"
            )
        sizes = runs.sizes(scores)
        if np.ptp(weights) == 0:
            unconverged.append(_unconverged(labels, scores, chain, sizes, count))
        if not found:
            coupled = runs.coupled(names[:leading], scores[:, :leading], sizes[:, :leading])
        deviation, t, p_value = runs.compared(scores, sizes)
        group, column = np.unravel_index(p_value.argmin(), p_value.shape)
        found.append((float(p_value[group, column]), *runs.told(int(group), labels[column], deviation[group, column])))
        if jointly:
            p_together, words = runs.together(scores, sizes, t)
            found.append((p_together / count, words, _SAME))
    if coupled:
        return coupled
    probability, words, question = min(found)
    probability = min(1.0, probability * count * runs.groups)
    if probability < LEVEL:
        return f"{words} (probability {probability:.1g}); {question}"
    excess, words = max(unconverged, default=(0.0, ""))
    return words if excess > 1 else None


def _functions(
    names: tuple[str, ...], theta: np.ndarray | Stored, rows: np.ndarray
) -> Iterator[tuple[list[str], np.ndarray, bool]]:
    """Functions of the draws in blocks: their `(K,)` names, their normal scores `(T, K)`, and whether these are
    products, which are also compared jointly."""
    mean, covariance = mean_and_covariance(theta, np.full(len(theta), 1 / len(theta)))
    d = len(names)
    # One coordinate that is moved by itself stands out most in what all others leave of it.
    conditional = np.linalg.lstsq(covariance, np.eye(d), rcond=_RANK)[0].T
    matrix = np.eye(d) if d == 1 else np.concatenate([np.eye(d), conditional], axis=1)
    width = max(1, _NUMBERS // len(rows))
    labels = [*names, *(f"{name}, given all others," for name in names)]
    coordinates = Combined(theta, mean, matrix)
    leading = min(d, _LEADING)
    first = np.empty((len(rows), 0))
    for start in range(0, matrix.shape[1], width):
        at = slice(start, min(start + width, matrix.shape[1]))
        values = coordinates.columns(at)[rows]
        scores = rank_normalised(values)
        first = np.concatenate([first, scores[:, : max(0, leading - start)]], axis=1)
        folded = rank_normalised(np.abs(values - np.median(values, axis=0)))
        yield (
            [*labels[at], *(f"the distance of {name} from its median" for name in labels[at])],
            np.concatenate([scores, folded], axis=1),
            False,
        )
    if d == 1:
        return
    values, vectors = np.linalg.eigh(np.corrcoef(first.T))
    kept = values > _RANK * values[-1]
    white = first @ (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
    yield ["the distance from the centre"], rank_normalised((white**2).sum(axis=1, keepdims=True)), False
    one, other = np.tril_indices(leading)
    for start in range(0, len(one), width):
        a, b = one[start : start + width], other[start : start + width]
        labels = [f"the product of {names[i]} and {names[j]}, whitened," for i, j in zip(a, b, strict=True)]
        yield labels, rank_normalised(white[:, a] * white[:, b]), True


def _unconverged(
    labels: list[str], scores: np.ndarray, chain: np.ndarray, sizes: np.ndarray, count: int
) -> tuple[float, str]:
    """The largest R-hat of these functions over its limit, and a failure in words if that is above one.

    With chains of one distribution `R-hat^2 - 1` is about `(F tau - 1) / n`, with F the ratio of variances between and
    within m parts of n draws, m - 1 degrees of freedom, and tau draws per effective one.
    """
    lengths = np.unique(chain, return_counts=True)[1]
    degrees, half = 2 * len(lengths) - 1, lengths.min() // 2
    ratio = scipy.special.chdtri(degrees, _RARE / count) / degrees
    tau = (lengths[:, None] / np.maximum(sizes, _SLOW)).mean(axis=0)
    limit = np.maximum(_R_HAT, np.sqrt(1 + np.maximum(ratio * tau - 1, 0.0) / half))
    r_hat = split_r_hat(scores, chain)
    worst = int((r_hat / limit).argmax())
    return float(r_hat[worst] / limit[worst]), (
        f"the chains have not converged: split R-hat of {labels[worst]} is {r_hat[worst]:.3f} "
        f"(at most {limit[worst]:.2f} expected); is warm-up left in?"
    )


class Runs:
    """Comparisons of parts of chains: each chain with the others, and the first draws of all chains with the rest.

    Args:
        chain, weights: `(T,)`; draws of a chain are in order.
    """

    def __init__(self, chain: np.ndarray, weights: np.ndarray) -> None:
        self.numbers = np.unique(chain)
        self._at = [np.flatnonzero(chain == c) for c in self.numbers]
        self._weights = weights
        lengths = np.array([len(at) for at in self._at])
        halved = 0.5 ** np.arange(62, 0, -1)
        self.shares = halved[(lengths.min() * halved >= 1) & (lengths.sum() * halved >= _FIRST)]
        # Each chain is cut where a beginning ends. Lengths `(chains, parts)`, in chains.
        self._cuts = [np.r_[0, (n * self.shares).astype(int), n] for n in lengths]
        self._lengths = np.array([np.diff(cuts) / cuts[-1] for cuts in self._cuts])
        chains, parts = self._lengths.shape
        one_chain = np.repeat(np.eye(chains)[:, :, None], parts, axis=2)
        beginning = np.repeat((np.arange(parts) <= np.arange(parts - 1)[:, None])[:, None, :], chains, axis=1)
        inside = np.concatenate([one_chain[: chains if chains > 1 else 0], beginning])
        self.groups = len(inside)
        self._inside = inside.reshape(len(inside), -1)  # of each group, `(groups, chains * parts)`

    def sizes(self, scores: np.ndarray) -> np.ndarray:
        """Effective sample sizes `(chains, K)` of the means of each chain."""
        found = []
        for at in self._at:
            weights = self._weights[at] / self._weights[at].mean()
            centred = scores[at] - weights @ scores[at] / len(at)
            series = weights[:, None] * centred
            size = np.minimum(effective_sample_size(series, np.zeros(len(at), int)), len(at))
            variance, weighted = (series * centred).mean(axis=0), (series**2).mean(axis=0)
            found.append(size * np.divide(variance, weighted, out=np.ones_like(size), where=weighted > 0))
        return np.array(found)

    def order(self, scores: np.ndarray) -> np.ndarray:
        """Mean correlation of each function with the position in the chain, `(K,)`; signs are left out."""
        total = np.zeros(scores.shape[1])
        for at in self._at:
            centred = scores[at] - scores[at].mean(axis=0)
            position = np.linspace(-1, 1, len(at))
            spread = np.maximum(np.linalg.norm(centred, axis=0) * np.linalg.norm(position), 1e-300)
            total += np.abs(position @ centred) / spread
        return total / len(self._at)

    def coupled(self, names: tuple[str, ...], scores: np.ndarray, sizes: np.ndarray) -> str | None:
        """A failure if two chains move together, draw by draw or one of them backwards.

        Normal scores of independent chains have correlations whose Fisher transforms are normal.
        """
        if len(self._at) < 2:
            return None
        length = min(map(len, self._at))
        parts = np.array([scores[at[:length]] - scores[at[:length]].mean(axis=0) for at in self._at])
        parts /= np.maximum(np.linalg.norm(parts, axis=1, keepdims=True), 1e-300)
        chains = len(parts)
        every = chains * (chains - 1) * len(names)
        for other in (parts, parts[:, ::-1]):
            correlation = np.moveaxis(parts, 2, 0) @ other.transpose(2, 1, 0)  # (K, chains, chains)
            least = np.minimum(sizes[:, None], sizes[None]).transpose(2, 0, 1)
            fisher = np.arctanh(np.clip(correlation, -1 + 1e-9, 1 - 1e-9)) * np.sqrt(np.maximum(least - 3, 1.0))
            fisher *= np.tri(chains, k=-1)
            j, a, b = np.unravel_index(np.abs(fisher).argmax(), fisher.shape)
            if 2 * scipy.special.ndtr(-abs(fisher[j, a, b])) * every < _RARE:
                return (
                    f"the chains are not independent: {names[j]} of chain {self.numbers[a]} has correlation "
                    f"{correlation[j, a, b]:.2f} with that of chain {self.numbers[b]}"
                    f"{'' if other is parts else ' backwards'}; do they share a seed, or is one a copy?"
                )
        return None

    def together(self, scores: np.ndarray, sizes: np.ndarray, t: np.ndarray) -> tuple[float, str]:
        """The p value of the chain whose means deviate most in all functions together, by Hotelling's T squared."""
        chains, width = len(self._at), scores.shape[1]
        degrees = float(sizes.sum(axis=0).min()) / _PER_DEGREE - chains
        if chains < 2 or degrees < 2 * width:
            return 1.0, ""
        inverse = np.linalg.pinv(np.atleast_2d(np.corrcoef(scores.T)), rcond=_RANK, hermitian=True)
        squared = np.einsum("gk,kl,gl->g", t[:chains], inverse, t[:chains])
        worst, rest = int(squared.argmax()), degrees - width + 1
        p_value = scipy.special.fdtrc(width, rest, squared[worst] * rest / (degrees * width))
        return float(p_value), (
            f"the chains differ in distribution: in chain {self.numbers[worst]} variances and covariances are not "
            "those of the others"
        )

    def compared(self, scores: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Deviation of each group's mean from that of the other draws, in standard deviations, its t statistic and
        p value, `(groups, K)` each."""
        means, variance = [], np.zeros(scores.shape[1])
        for at, cuts, size in zip(self._at, self._cuts, sizes, strict=True):
            values, weights = scores[at], self._weights[at]
            centre = weights @ values / weights.sum()
            variance += size * (weights @ (values - centre) ** 2 / weights.sum())
            for low, high in pairwise(cuts):
                mass = weights[low:high].sum()
                means.append(weights[low:high] @ values[low:high] / mass if mass > 0 else centre)
        size = (self._lengths[:, :, None] * sizes[:, None, :]).reshape(-1, scores.shape[1])
        sums = size * np.array(means)
        inside, outside = self._inside, 1 - self._inside
        inner, outer = inside @ size, outside @ size
        deviation = (inside @ sums / inner - outside @ sums / outer) / np.sqrt(variance / sizes.sum(axis=0))
        # A beginning that is shorter than a chain's memory is one draw of each chain.
        inner[-len(self.shares) :] = np.maximum(inner[-len(self.shares) :], len(self._at))
        degrees = np.maximum(sizes.sum(axis=0) / _PER_DEGREE - len(self._at), 1.0)
        t = deviation / np.sqrt(1 / inner + 1 / outer)
        return deviation, t, 2 * scipy.special.stdtr(degrees, -np.abs(t))

    def told(self, group: int, label: str, deviation: float) -> tuple[str, str]:
        """A comparison in words, and a question about it."""
        beginning = group - (self.groups - len(self.shares))
        if beginning >= 0:
            return (
                f"the chains have not converged: in the first {self.shares[beginning]:.2%} of the draws the mean of "
                f"{label} is {deviation:+.2g} standard deviations from that of the rest"
            ), "is warm-up left in?"
        return (
            f"the chains differ in distribution: in chain {self.numbers[group]} the mean of {label} is "
            f"{deviation:+.2g} standard deviations from that of the others"
        ), _SAME


CHECK = Check(30, check_chains)
