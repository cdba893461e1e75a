"""What rounding leaves of an answer: how many bits it can carry at all, and the noise that it adds."""

import math

from bayesrecon.errors import BayesreconError


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
