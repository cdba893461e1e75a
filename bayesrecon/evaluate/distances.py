"""Distances between weighted sets of records."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special
from numpy.typing import ArrayLike

from bayesrecon.divergence.definitions import measure_of
from bayesrecon.divergence.metrics import Metric
from bayesrecon.divergence.theorem import fisher_divergence
from bayesrecon.errors import BayesreconError, MissingExtraError
from bayesrecon.model import PseudoData
from bayesrecon.releases import Release
from bayesrecon.results.reconstruction import Reconstruction

_MOST_PAIRS = 250_000  # of an exact transport problem


def gaussian_mmd(
    x: ArrayLike,
    y: ArrayLike,
    *,
    x_weights: ArrayLike | None = None,
    y_weights: ArrayLike | None = None,
    bandwidth: float | None = None,
) -> float:
    """Maximum mean discrepancy `|sum a_i k(x_i, .) - sum b_j k(y_j, .)|` (Gretton et al. 2012, biased form).

    Args:
        x: `(N, p)`.
        y: `(M, p)`.
        x_weights, y_weights: weights, rescaled to sum to one; equal by default.
        bandwidth: h in the Gaussian kernel `exp(-|x - y|^2 / (2 h^2))`. Defaults to the median distance in the joint
            set.

    Raises:
        BayesreconError: the sets are not tables of finite numbers or have different columns; or weights are negative,
            all zero, or not as many as the records.

    >>> round(gaussian_mmd([[0.0]], [[1.0]], bandwidth=1.0), 3)  # sqrt(2 - 2 exp(-1/2))
    0.887
    """
    first, second = as_table(x, "x"), as_table(y, "y")
    if first.shape[1] != second.shape[1]:
        raise BayesreconError(f"x has {first.shape[1]} columns and y {second.shape[1]}: supply the same fields in both")
    joined = np.concatenate([first, second])
    signed = np.concatenate([_weights(x_weights, len(first)), -_weights(y_weights, len(second))])
    squared = np.maximum((joined**2).sum(1)[:, None] + (joined**2).sum(1)[None] - 2 * joined @ joined.T, 0.0)
    if bandwidth is None:
        distances = squared[np.triu_indices(len(joined), 1)]
        bandwidth = float(np.sqrt(np.median(distances[distances > 0]))) if (distances > 0).any() else 1.0
    kernel = np.exp(-squared / (2 * bandwidth**2))
    return float(np.sqrt(max(signed @ kernel @ signed, 0.0)))


def wasserstein(
    x: ArrayLike, y: ArrayLike, *, x_weights: ArrayLike | None = None, y_weights: ArrayLike | None = None
) -> float:
    """Exact Wasserstein-1 distance of two weighted sets, in the units of the records.

    Args:
        x: `(N,)` or `(N, p)`.
        y: `(M,)` or `(M, p)`. Several columns need a linear program (HiGHS), or an assignment for equal numbers of
            equal weights. They allow at most 250,000 pairs.

    Raises:
        BayesreconError: sets of several columns are not tables of finite numbers, or have more than 250,000 pairs.

    >>> wasserstein([0.0, 1.0], [2.0, 4.0])
    2.5
    """
    import scipy.stats

    first, second = np.asarray(x, float), np.asarray(y, float)
    if first.ndim == 1 and second.ndim == 1:
        return float(scipy.stats.wasserstein_distance(first, second, x_weights, y_weights))
    first, second = as_table(first, "x"), as_table(second, "y")
    if first.shape[1] == second.shape[1] == 1:
        return float(scipy.stats.wasserstein_distance(first[:, 0], second[:, 0], x_weights, y_weights))
    if len(first) == len(second) and x_weights is None and y_weights is None:
        return float(match(first, second).cost.mean())
    if len(first) * len(second) > _MOST_PAIRS:
        raise BayesreconError(
            f"{len(first)} times {len(second)} records are too many for exact transport; thin one of them"
        )
    return float(scipy.stats.wasserstein_distance_nd(first, second, x_weights, y_weights))


CUT = 1e-10
"""Share of the largest eigenvalue of a covariance, below which a direction counts as one without variance."""


def mahalanobis(x: ArrayLike, centre: ArrayLike, covariance: ArrayLike, *, rtol: float = CUT) -> np.ndarray:
    """`sqrt((x - c)' S^+ (x - c))` of every row, `(N,)`. Directions without variance are left out.

    Args:
        rtol: directions are left out if their eigenvalue of S is at most this share of the largest one.

    Raises:
        BayesreconError: x is not a table of finite numbers, or rtol is not a share.

    >>> mahalanobis([[3.0, 4.0]], [0.0, 0.0], [[1.0, 0.0], [0.0, 4.0]]).round(3).tolist()
    [3.606]
    """
    if not 0 <= rtol < 1:
        raise BayesreconError(f"rtol={rtol}: expected a share of the largest eigenvalue, from 0 to 1")
    deviations = as_table(x, "x") - np.asarray(centre, float)
    values, vectors = np.linalg.eigh(np.asarray(covariance, float))
    varying = values > rtol * values[-1]
    return np.linalg.norm(deviations @ vectors[:, varying] / np.sqrt(values[varying]), axis=1)


def reconstruction_risk(truth: ArrayLike, guess: ArrayLike, training: ArrayLike, *, rtol: float = CUT) -> float:
    """Risk `R = mean_n d(x_n, mean) / d(x_n, x_hat_n)`, d the Mahalanobis distance under the training covariance.

    R = 1 means no better than the mean record (Malekzadeh and Gunduz 2024). R depends strongly on the cut `rtol`,
    because errors count equally in directions in which records hardly vary. State the cut wherever you report the risk.
    A pseudo-inverse in single precision cuts at 1.2e-7 p. `linear_risk` is the risk of any linear model with as many
    outputs.

    Args:
        truth, guess: `(N, p)`, the same records in the same rows.
        training: `(T, p)`, records whose mean and covariance define the distance.
        rtol: directions are left out if their variance is at most this share of the largest one.

    Raises:
        BayesreconError: an argument is not a table of finite numbers, or truth and guess differ in shape.

    >>> training = [[0.0], [1.0], [2.0]]
    >>> reconstruction_risk([[0.0], [2.0]], [[0.5], [1.5]], training)
    2.0
    """
    true, guessed, public = as_table(truth, "truth"), as_table(guess, "guess"), as_table(training, "training")
    if true.shape != guessed.shape:
        raise BayesreconError(f"truth {true.shape} and guess {guessed.shape} differ in shape")
    centre, covariance = public.mean(axis=0), np.atleast_2d(np.cov(public, rowvar=False))
    error = mahalanobis(true - guessed, 0.0, covariance, rtol=rtol)
    if (error == 0).any():
        return float("inf")
    return float(np.mean(mahalanobis(true, centre, covariance, rtol=rtol) / error))


def linear_risk(directions: int, outputs: int) -> float:
    """The reconstruction risk of the best linear decoder of k linear outputs of a normal distribution in p directions.

        R(p, k) = Gamma((p - k - 1) / 2) Gamma(p / 2) / (Gamma((p - k) / 2) Gamma((p - 1) / 2)) ~ 1 + k / (2 (p - k)),

    because in whitened coordinates `|error|^2 / |x - mean|^2` has the Beta((p - k) / 2, k / 2) distribution.

    Args:
        directions: p, the number of directions above the cut of the risk.
        outputs: k, from 0 to p - 2.

    Raises:
        BayesreconError: k is not between 0 and p - 2. The mean ratio is infinite for larger k.

    >>> round(linear_risk(332, 10), 4)
    1.0155
    """
    if not 0 <= outputs <= directions - 2:
        raise BayesreconError(f"{outputs} outputs in {directions} directions: expected 0 to {directions - 2} outputs")
    halves = np.array([directions - outputs - 1, directions, directions - outputs, directions - 1]) / 2
    return float(np.exp(scipy.special.gammaln(halves) @ [1, 1, -1, -1]))


def _weights(weights: ArrayLike | None, size: int) -> np.ndarray:
    values = np.ones(size) if weights is None else np.asarray(weights, float)
    if values.shape != (size,) or not np.isfinite(values).all() or (values < 0).any() or not values.sum() > 0:
        raise BayesreconError(f"weights of shape {values.shape}; expected {size} non-negative numbers")
    return values / values.sum()


# One-to-one matching of reconstructed records with true ones.


class Matching(NamedTuple):
    """Pairs of an assignment: `truth[i]` is matched with `guess[i]` at `cost[i]`, `(P,)` each."""

    truth: np.ndarray
    guess: np.ndarray
    cost: np.ndarray


def cosine_similarity(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Cosine similarity `<a, b> / (|a| |b|)` over the last axis; NaN where a or b is zero.

    Args:
        a, b: `(..., p)`, broadcast against each other.

    >>> float(cosine_similarity([1.0, 0.0], [1.0, 1.0]).round(4))
    0.7071
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    length = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    product = np.sum(first * second, axis=-1)
    return np.divide(product, length, out=np.full(np.shape(product), np.nan), where=length > 0)


def match(truth: ArrayLike, guess: ArrayLike, *, cost: str = "euclidean", scale: ArrayLike = 1.0) -> Matching:
    """The assignment of smallest total cost; nothing is matched twice.

    Nearest neighbours would flatter a reconstruction that repeats one good record.

    Args:
        truth: `(N, p)`.
        guess: `(M, p)`. The smaller side is matched completely.
        cost: "euclidean" or "cosine" (one minus the similarity).
        scale: units of the columns: both tables are divided by it first.

    Raises:
        BayesreconError: the arguments are not tables of finite numbers or differ in columns, or the cost is another.

    >>> match([[0.0], [1.0]], [[0.1], [0.2]]).guess.tolist()
    [0, 1]
    """
    units = np.asarray(scale, float)
    first, second = as_table(truth, "truth") / units, as_table(guess, "guess") / units
    if first.shape[1] != second.shape[1]:
        raise BayesreconError(f"truth has {first.shape[1]} columns and guess {second.shape[1]}")
    if cost == "euclidean":
        # Squared distances of images by products, not by differences of all pairs.
        square = (first**2).sum(1)[:, None] + (second**2).sum(1)[None] - 2 * first @ second.T
        matrix = np.sqrt(np.maximum(square, 0.0))
    elif cost == "cosine":
        matrix = 1 - np.nan_to_num(_directions(first) @ _directions(second).T)
    else:
        raise BayesreconError(f"cost={cost!r}: expected 'euclidean' or 'cosine'")
    rows, columns = scipy.optimize.linear_sum_assignment(matrix)
    return Matching(rows, columns, matrix[rows, columns])


def _directions(x: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, length, out=np.zeros_like(x), where=length > 0)


def as_table(values: ArrayLike, name: str) -> np.ndarray:
    """Records as an array `(N, p)` of finite numbers. `name` is for error messages."""
    array = np.asarray(values, float)
    if array.ndim < 2 or not len(array):
        raise BayesreconError(f"{name} has shape {array.shape}; expected (records, fields)")
    table = array.reshape(len(array), -1)
    if not np.isfinite(table).all():
        raise BayesreconError(f"{name} holds missing or infinite values")
    return table


# Similarity of two images.


def psnr(truth: ArrayLike, guess: ArrayLike, *, value_range: float) -> np.ndarray:
    """Peak signal-to-noise ratio `10 log10(range^2 / mean (truth - guess)^2)` in dB; infinite for equal images.

    Args:
        truth, guess: `(..., height, width)`.
        value_range: largest minus smallest legal value of a pixel: 2 for images in [-1, 1].

    Raises:
        BayesreconError: the images differ in shape, or have fewer than two dimensions.

    >>> import numpy as np
    >>> float(psnr(np.zeros((8, 8)), np.full((8, 8), 0.1), value_range=1).round(2))
    20.0
    """
    true, guessed = _images(truth, guess)
    error = np.mean((true - guessed) ** 2, axis=(-2, -1))
    with np.errstate(divide="ignore"):
        return 10 * np.log10(value_range**2 / error)


def ssim(truth: ArrayLike, guess: ArrayLike, *, value_range: float) -> np.ndarray:
    """Structural similarity with Gaussian windows of standard deviation 1.5 (Wang et al. 2004), by scikit-image.

    Args:
        truth, guess: `(..., height, width)`, at least 11 pixels high and wide; smaller images take the largest
            uniform window of odd width that fits, up to 7.
        value_range: largest minus smallest legal value of a pixel.

    Raises:
        BayesreconError: the images differ in shape, or are less than three pixels high or wide.
        MissingExtraError: scikit-image is not installed.

    >>> import numpy as np
    >>> image = np.random.default_rng(0).uniform(size=(16, 16))
    >>> float(ssim(image, image, value_range=1)), bool(ssim(image, 1 - image, value_range=1) < 0)
    (1.0, True)
    """
    try:
        from skimage.metrics import structural_similarity
    except ImportError:
        raise MissingExtraError("structural similarity", "images") from None
    true, guessed = _images(truth, guess)
    height, width = true.shape[-2:]
    smallest = min(height, width)
    if smallest < 3:
        raise BayesreconError(f"images of {height} by {width} pixels are too small for structural similarity")
    similarity = partial(structural_similarity, data_range=value_range)
    if smallest < 11:
        similarity = partial(similarity, win_size=min(7, smallest - 1 + smallest % 2))
    else:
        similarity = partial(similarity, gaussian_weights=True, sigma=1.5, use_sample_covariance=False)
    pairs = zip(true.reshape(-1, height, width), guessed.reshape(-1, height, width), strict=True)
    values = [similarity(one, other) for one, other in pairs]
    return np.array(values).reshape(true.shape[:-2])


def _images(truth: ArrayLike, guess: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    true, guessed = np.asarray(truth, float), np.asarray(guess, float)
    if true.shape != guessed.shape or true.ndim < 2:
        raise BayesreconError(f"images of shapes {true.shape} and {guessed.shape}; expected (..., height, width) twice")
    return true, guessed


# The Fisher divergence of pseudo-data from the private ones (`bayesrecon.divergence.theorem`).


def divergence(
    release: Release,
    pseudo: Reconstruction | PseudoData | Mapping[str, ArrayLike],
    truth: Mapping[str, ArrayLike],
    *,
    weights: ArrayLike | None = None,
    metric: Metric | str = "identity",
) -> float:
    """The Fisher divergence of the posterior of weighted records from that of the private data, over the draws:

        FD = 1/2 E_theta |Sigma^1/2' sum_m w_m grad l(theta, z_m) - Sigma^1/2' sum_n grad l(theta, x_n)|^2

    It is half the squared MMD between the two measures (Wynne 2025, Theorem 3.4, and 4.3 at a trained parameter):
    `divergence.fisher_divergence`.

    Args:
        release: the draws, or the trained parameter, over which the divergence is averaged.
        pseudo: result of `reconstruct`, or records `{field: (M, *shape)}`.
        truth: `{field: (N, *shape)}`, the private data.
        weights: `(M,)` weights of the records; 1 by default. A result has its own weights.
        metric: Sigma: "identity" as published, or the "covariance" of the draws, for which the divergence has no unit.

    Returns:
        The Fisher divergence FD.

    Raises:
        BayesreconError: the records lack a field, have another shape or are not finite, or there are not as many
            weights as records.

    >>> import bayesrecon, numpy as np
    >>> model = bayesrecon.models.load("linear_predictor")
    >>> release = bayesrecon.posteriors.dirac(model, {"coef": [[2.0]], "intercept": [1.0]})
    >>> truth = {"x": np.array([[0.0], [2.0]]), "y": np.array([2.0, 5.0])}
    >>> alike = {"x": np.array([[0.0], [5.0]]), "y": np.array([2.0, 11.0])}  # record 2 moved along the fitted line
    >>> divergence(release, alike, truth), divergence(release, alike, truth, weights=[2.0, 1.0])
    (0.0, 0.5)
    """
    measure = pseudo.pseudo if isinstance(pseudo, Reconstruction) else pseudo
    if weights is not None:
        if isinstance(measure, PseudoData):
            raise BayesreconError("a reconstruction has weights of its own: omit weights=")
        measure = PseudoData(np.asarray(weights, float), dict(measure))
    for records, subject in ((measure, "the pseudo-data"), (truth, "the truth")):
        measure_of(release.model, records, subject)
    return fisher_divergence(release, measure, truth, metric=metric)
