"""How many independent quantities the outputs of a model determine about its input."""

import math
import time

import numpy as np

from bayesrecon.divergence.output_embedding import Outputs
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.error_laws import DETERMINED, PARTLY
from bayesrecon.model import entry
from bayesrecon.results.diagnosis import Feature
from bayesrecon.results.input_estimate import OutputsDiagnosis

_RANK = 1e-10  # an output with a residual variance below this share of the largest is a function of the others


def diagnose_outputs(release: Outputs) -> OutputsDiagnosis:
    """The spectrum of the outputs' covariance on public records, the noise, and the visibility of each field.

    Let l_k be the eigenvalues of the covariance, s the standard deviation of the noise, and cor_k the correlation of a
    field with the k-th principal component. The visibility of the field is `sum_k cor_k^2 l_k / (l_k + s^2)`. A normal
    channel carries `sum_k log2(1 + l_k / s^2) / 2` bits.

    Raises:
        BayesreconError: no more public records than outputs.
    """
    began = time.perf_counter()
    count, width = release.answers.shape
    if count <= width + 1:
        raise BayesreconError(f"{count} public records for {width} outputs: supply more records than outputs")
    centred = release.answers - release.answers.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / count)
    values, vectors = values[::-1], vectors[:, ::-1]
    nonzero = values > _RANK * values[0]
    values, scores = values[nonzero], centred @ vectors[:, nonzero] / np.sqrt(values[nonzero])
    variance = _noise(release) ** 2
    shares = values / (values + variance)
    visibility, residual = _visibilities(release.public, scores, shares)
    features = tuple(
        Feature(
            entry("x", index),
            1,
            float(visible),
            float(visible),
            float(sd),
            None,
            float(sd),
            "determined" if visible >= DETERMINED else "partly" if visible >= PARTLY else "undetermined",
        )
        for index, visible, sd in zip(np.ndindex(*release.answer.shape), visibility, residual, strict=True)
    )
    return OutputsDiagnosis(
        release=release.name,
        model="outputs",
        draws=1,
        rank=len(values),
        gap=True,
        resolved=int((values > variance).sum()),
        index=float(shares.sum()),
        spectrum=values / values[0],
        noise=np.full(len(values), variance / values[0]),
        features=features,
        eigenfunctions=(),
        warnings=release.notes,
        seconds=time.perf_counter() - began,
        numbers=len(values),
        bits=_bits(release, values),
        view=release.answer.view,
    )


def _visibilities(x: np.ndarray, scores: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Visibility of each field, corrected for chance correlation, and its residual standard deviation in its units."""
    centred = x - x.mean(axis=0)
    variance = (centred**2).mean(axis=0)
    varies = variance > 0
    correlation = (centred.T @ scores) / len(x) / np.sqrt(np.where(varies, variance, 1.0))[:, None]
    explained = (correlation**2) @ shares
    unexplained = (1 - explained) * (len(x) - 1) / max(len(x) - 1 - scores.shape[1], 1)
    visibility = np.where(varies, np.clip(1 - unexplained, 0.0, 1.0), 0.0)
    return visibility, np.sqrt((1 - visibility) * variance)


def _noise(release: Outputs) -> float:
    """Standard deviation of the noise of an output, rounding included."""
    return max(release.noise, rounding_noise(release.answer.decimals) if release.answer.view == "rounded" else 0.0)


def _bits(release: Outputs, values: np.ndarray) -> float | None:
    view, decimals = release.answer.view, release.answer.decimals
    if view == "argmax":
        return sum(math.log2(classes) for classes in release.widths)
    if view == "rounded":
        return sum(softmax_bits(classes, decimals) for classes in release.widths if classes > 1)
    return float(np.log2(1 + values / release.noise**2).sum() / 2) if release.noise else None


def softmax_bits(classes: int, decimals: int) -> float:
    """Logarithm to base two of the number of probability vectors with so many decimals, `C(10^q + N - 1, N - 1)`.

    No reconstruction can carry more. The largest class alone carries `log2 N`.

    Args:
        classes: N, two or more.
        decimals: q, of each probability.

    Raises:
        BayesreconError: fewer than two classes, or a negative number of decimals.

    >>> round(softmax_bits(10, 1), 2), round(softmax_bits(100, 2), 2)
    (16.5, 194.85)
    """
    if classes < 2 or decimals < 0:
        raise BayesreconError(f"classes={classes}, decimals={decimals}: expected two classes or more, and 0 or more")
    return math.log2(math.comb(10**decimals + classes - 1, classes - 1))


def rounding_noise(decimals: int) -> float:
    """Standard deviation `10^-q / sqrt(12)` of what rounding to q decimals adds, uniform within a cell.

    >>> round(rounding_noise(1), 4)
    0.0289
    """
    return float(10.0**-decimals / math.sqrt(12))
