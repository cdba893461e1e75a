import itertools
import math

import pytest

from bayesrecon.disclosure.output_numbers import softmax_bits
from bayesrecon.errors import BayesreconError


@pytest.mark.parametrize(
    ("classes", "decimals", "bits"),
    [(10, 1, 16.50), (10, 2, 41.96), (10, 3, 71.29), (100, 2, 194.85), (200, 1, 54.97)],
)
def test_published_sizes(classes, decimals, bits):
    assert softmax_bits(classes, decimals) == pytest.approx(bits, abs=0.005)


def test_it_counts_vectors_that_add_up_to_one():
    vectors = [v for v in itertools.product(range(11), repeat=3) if sum(v) == 10]
    assert softmax_bits(3, 1) == pytest.approx(math.log2(len(vectors)))


def test_bad_input():
    with pytest.raises(BayesreconError, match="classes=1"):
        softmax_bits(1, 2)
