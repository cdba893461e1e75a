"""Diagnostics of many series of draws at once: effective sample size, split R-hat, calibration.

They need only NumPy and SciPy. Importing a full diagnostics package takes seconds.
"""

import numpy as np
import numpy.typing as npt

Z95 = 1.959964
"""Half width of a 95 % interval, in standard errors."""

_BLOCK = 2**20  # numbers in a block of series; the transforms take about nine times as much memory
_FEW_LAGS = 24  # autocorrelations that are computed one by one; an even number
_SHORTEST = 8  # draws per chain below which nothing is estimated


def evenly(size: int, count: int) -> np.ndarray:
    """`count` evenly spaced positions from 0 to `size - 1`, both included; all positions if there are fewer.

    >>> evenly(10, 4).tolist()
    [0, 3, 6, 9]
    """
    return np.linspace(0, size - 1, min(size, count)).astype(int)


def typical_error(errors: npt.ArrayLike) -> float:
    """Standard deviation of a normal distribution with the errors' median size, which is robust against outliers."""
    return float(np.median(np.abs(errors)) / 0.6744898)


def by_chain(series: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """`(chains, draws, S)` from a flat `(T, S)` series, chains cut to the shortest one."""
    return _cut(series, _rows_of_chains(chain))


def _rows_of_chains(chain: np.ndarray) -> list[np.ndarray | slice]:
    """Positions of the draws of each chain, in the order of the chains' numbers."""
    if chain.min() == chain.max():  # without sorting, which takes longer than the rest
        return [slice(None)]
    return [np.flatnonzero(chain == c) for c in np.unique(chain)]


def _cut(series: np.ndarray, rows: list[np.ndarray | slice]) -> np.ndarray:
    pieces = [series[at] for at in rows]
    draws = min(len(p) for p in pieces)
    return np.stack([p[:draws] for p in pieces])


def rank_normalised(series: np.ndarray) -> np.ndarray:
    """Normal scores of the ranks of each of S series, `(T, S)` (Vehtari et al. 2021, equation 14)."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    return ndtri((rankdata(series, axis=0) - 0.375) / (len(series) + 0.25))


def split(chains: np.ndarray) -> np.ndarray:
    """Each chain cut into halves: `(2 * chains, draws // 2, S)`."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def effective_sample_size(series: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """Effective sample size of the mean of each of S series, `(S,)`.

    Multi-chain estimate with Geyer's initial monotone sequence (Vehtari et al. 2021, equations 10 to 13).
    Constant series and chains too short to judge (fewer than four draws) count as independent.

    Args:
        series: `(T, S)`.
        chain: `(T,)` chain numbers.
    """
    rows = _rows_of_chains(chain)
    if min(len(chain[at]) for at in rows) < _SHORTEST:
        return np.full(series.shape[1], float(len(series)))
    wide = max(1, _BLOCK // len(series))
    blocks = [series[:, at : at + wide] for at in range(0, series.shape[1], wide)]
    return np.concatenate([np.zeros(0), *(_sizes(split(_cut(block, rows)), len(series)) for block in blocks)])


def _sizes(chains: np.ndarray, draws: int) -> np.ndarray:
    """Effective sample sizes of series `(chains, n, S)`, from a total of `draws` draws."""
    m, n, _ = chains.shape
    means = chains.mean(axis=1)
    centred = np.ascontiguousarray(np.moveaxis(chains - means[:, None], 2, 0))
    within = _lagged(centred, 0)
    total = within + means.var(axis=0, ddof=1)
    tau, varying = np.ones(len(total)), np.flatnonzero(total > 0)
    tau[varying] = _autocorrelation_times(centred[varying], within[varying], total[varying])
    # Antithetic chains may have larger sizes than independent draws, up to the usual bound.
    return draws / np.where(total > 0, np.maximum(tau, 1.0 / np.log10(max(m * n, 10))), 1.0)


def _autocorrelation_times(centred: np.ndarray, within: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Integrated autocorrelation times of series `(S, chains, n)`, of variances within chains and in all `(S,)`.

    Most sequences end within the first lags. Only the others need the Fourier transform.
    """
    n = centred.shape[2]
    scale = n / (n - 1) / total
    tau, lowest, pending = np.full(len(total), -1.0), np.full(len(total), np.inf), np.arange(len(total))
    for lag in range(0, min(n - 1, _FEW_LAGS), 2):
        lowest = np.minimum(lowest, sum(1.0 - (within - _lagged(centred, k)) * scale for k in (lag, lag + 1)))
        tau[pending] += 2.0 * np.maximum(lowest, 0.0)
        positive = lowest > 0
        if not positive.all():
            centred, within, scale = (part[positive] for part in (centred, within, scale))
            lowest, pending = lowest[positive], pending[positive]
    if pending.size and n - 1 > _FEW_LAGS:
        rho = 1.0 - (within[:, None] - _autocovariance(centred, _FEW_LAGS)) * scale[:, None]
        pairs = rho[:, : rho.shape[1] // 2 * 2].reshape(len(rho), -1, 2).sum(axis=2)
        monotone = np.minimum.accumulate(np.c_[lowest, pairs], axis=1)[:, 1:]
        tau[pending] += 2.0 * np.maximum(monotone, 0.0).sum(axis=1)
    return tau


def _lagged(centred: np.ndarray, lag: int) -> np.ndarray:
    """Biased autocovariance at one lag, `(S,)`, the mean of the chains."""
    n = centred.shape[2]
    return np.asarray(np.vecdot(centred[:, :, : n - lag], centred[:, :, lag:]).mean(axis=1) / n)


def _autocovariance(centred: np.ndarray, first: int) -> np.ndarray:
    """Biased autocovariances from a lag on, `(S, n - first)`, by the fast Fourier transform."""
    from scipy import fft

    n = centred.shape[2]
    size = fft.next_fast_len(2 * n - 1, real=True)
    transformed = np.asarray(fft.rfft(centred, size, axis=2))
    spectrum = (np.real(transformed) ** 2 + np.imag(transformed) ** 2).mean(axis=1)
    return np.asarray(fft.irfft(spectrum, size, axis=1))[:, first:n] / n


def split_r_hat(series: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """Potential scale reduction of split chains for each of S series, `(S,)`; one when too short to judge."""
    chains = by_chain(series, chain)
    if chains.shape[1] < _SHORTEST:
        return np.ones(series.shape[1])
    chains = split(chains)
    n = chains.shape[1]
    within = chains.var(axis=1, ddof=1).mean(axis=0)
    between = n * chains.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((n - 1) / n + between / within / n)
    return np.where(within > 0, ratio, np.where(between > 0, np.inf, 1.0))


def calibration_table(probability: np.ndarray, correct: np.ndarray, bins: int = 10) -> list[tuple[float, float, int]]:
    """Mean stated probability, share of correct values and count, for each non-empty bin of equal width."""
    number = np.minimum((np.asarray(probability) * bins).astype(int), bins - 1)
    groups = [number == b for b in np.unique(number)]
    return [(float(probability[g].mean()), float(np.mean(correct[g])), int(g.sum())) for g in groups]
