"""Have the chains converged, and do all have the same distribution?"""

import numpy as np
import scipy.special

from bayesrecon.arrays import Stored
from bayesrecon.diagnostics import effective_sample_size, split_r_hat
from bayesrecon.estimation.checks.check import Check, CheckInput
from bayesrecon.estimation.standard import Combined
from bayesrecon.running.draws_on_disk import column_blocks, mean_and_covariance

LEVEL = 1.9e-3  # false alarms per release
_SIMULATED = 20_000  # means of chains of one distribution, by which the level is kept to a seventh of itself
_COLUMNS = 400  # up to which they are simulated, in a second; of more Bonferroni's bound is taken
_BLOCK = 500  # of them: a megabyte or so for a hundred coordinates
_NUMBERS = 2**22  # of columns that are looked at together
_RANK = 1e-10  # of a covariance, below which a coordinate is a function of others
_R_HAT = 1.01  # Vehtari et al. (2021); where chains are short its own scatter is allowed for
_SHORTEST = 32  # draws in a chain from which its autocorrelation can be judged


def check_chains(inputs: CheckInput) -> tuple[str, ...]:
    draws = inputs.draws
    return tuple(_messages(inputs.names, draws.theta, draws.chain))


def _messages(names: tuple[str, ...], theta: np.ndarray | Stored, chain: np.ndarray) -> list[str]:
    messages = []
    r_hat = np.concatenate([split_r_hat(part, chain) for _, part in column_blocks(theta)])
    worst = int(r_hat.argmax())
    # Over independent draws the excess of R-hat is a chi-squared over the draws of half a chain.
    shortest = np.unique(chain, return_counts=True)[1].min()
    limit = max(_R_HAT, float(np.sqrt(1 + 40 / shortest)))
    if r_hat[worst] > limit:
        messages.append(
            f"the chains have not converged: split R-hat of {names[worst]} is {r_hat[worst]:.3f} "
            f"(at most {limit:.2f} expected); is warm-up left in?"
        )
        return messages
    # One coordinate that is moved by itself stands out most in what all others leave of it.
    mean, covariance = mean_and_covariance(theta, np.full(len(theta), 1 / len(theta)))
    d = len(mean)
    conditional = np.linalg.lstsq(covariance, np.eye(d), rcond=_RANK)[0].T
    coordinates = Combined(theta, mean, np.concatenate([np.eye(d), conditional], axis=1))
    block_size = max(1, _NUMBERS // len(theta))
    parts = [
        _deviating_chain(coordinates.columns(slice(k, min(k + block_size, 2 * d))), chain)
        for k in range(0, 2 * d, block_size)
    ]
    deviation, p_value, which = (np.concatenate(one) for one in zip(*parts, strict=True))
    worst = int(p_value.argmin())
    probability = familywise_p(
        float(p_value[worst]), coordinates.matrix.T @ covariance @ coordinates.matrix, len(np.unique(chain))
    )
    if probability < LEVEL:
        rest = ", given all others," if worst >= len(names) else ""
        messages.append(
            f"the chains differ in distribution: in chain {which[worst]} the mean of "
            f"{names[worst % len(names)]}{rest} is {deviation[worst]:+.2g} standard deviations "
            f"from that of the others (probability {probability:.1g}); are "
            "they all of the same posterior, and converged?"
        )
    return messages


def familywise_p(p_value: float, covariance: np.ndarray, chains: int) -> float:
    """Probability that the smallest p value over K columns with this `(K, K)` covariance is at most `p_value`.

    The columns are coordinates and their residuals given all others, which are correlated. The result is Bonferroni's
    bound if that is conclusive. Otherwise means of chains with one distribution and this correlation are simulated.
    """
    count = len(covariance)
    bound = min(1.0, p_value * count)
    if bound < LEVEL or p_value > LEVEL or count > _COLUMNS:
        return bound
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    values, vectors = np.linalg.eigh(covariance * inverse * inverse[:, None])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    limit = -scipy.special.ndtri(p_value / (2 * chains))
    rng = np.random.default_rng(0)
    exceeding = 0
    for _ in range(_SIMULATED // _BLOCK):
        means = rng.normal(size=(_BLOCK, chains, count)) @ root.T
        deviation = (means - means.mean(axis=1, keepdims=True)) * np.sqrt(chains / (chains - 1))
        exceeding += int((np.abs(deviation).max(axis=(1, 2)) > limit).sum())
    return exceeding / _SIMULATED


def _deviating_chain(theta: np.ndarray, chain: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The most deviating chain of each column: deviation of its mean from the others' in standard deviations, p value,
    and number of the chain, `(d,)` each.

    There is one t test per chain, with the effective sample size of each chain, and Bonferroni's correction.
    """
    numbers = np.unique(chain)
    parts = [theta[chain == c] for c in numbers]
    if len(parts) < 2 or min(map(len, parts)) < _SHORTEST:
        return np.zeros(theta.shape[1]), np.ones(theta.shape[1]), np.zeros(theta.shape[1], int)
    size = np.array([np.minimum(effective_sample_size(p, np.zeros(len(p), int)), len(p)) for p in parts])
    mean, variance = (np.array([f(p, axis=0) for p in parts]) for f in (np.mean, np.var))
    within = np.maximum((size * variance).sum(axis=0) / size.sum(axis=0), 1e-300)
    others = size.sum(axis=0) - size
    difference = mean - ((size * mean).sum(axis=0) - size * mean) / others
    t = difference / np.sqrt(within * (1 / size + 1 / others))
    worst, every = np.abs(t).argmax(axis=0), np.arange(theta.shape[1])
    p_value = 2 * len(parts) * scipy.special.stdtr(size.sum(axis=0) - len(parts), -np.abs(t[worst, every]))
    return difference[worst, every] / np.sqrt(within), np.minimum(p_value, 1.0), numbers[worst]


CHECK = Check(30, check_chains)
