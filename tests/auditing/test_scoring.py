"""Findings scored against the private records."""

import json

import numpy as np
import pytest

from bayesrecon.auditing.private_data import read_private
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate.record_scores import match_records


def test_records_are_matched_one_to_one():
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=80), "y": rng.normal(size=80)}
    order = rng.permutation(80)
    score = match_records({k: v[order] for k, v in data.items()}, data)
    assert (score.matched, score.total, score.share, score.upper) == (80, 80, 1.0, 1.0)
    assert score.null < 0.2
    # Eighty guesses of one and the same record are one match.
    assert match_records({k: np.full(80, v[0]) for k, v in data.items()}, data).matched == 1
    nothing = match_records({k: v + 50 for k, v in data.items()}, data)
    assert (nothing.matched, nothing.lower) == (0, 0.0)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "no columns"),
        ({"N": 3}, "no columns"),
        ({"y": [1.0, 2.0], "x": []}, "'x' has no values"),
        ({"y": [1.0, 2.0], "x": [[], []]}, "'x' has no values"),
    ],
)
def test_data_without_values(data, said, tmp_path):
    """Nothing compared is nothing found: such data are refused, given as columns or as a file."""
    path = tmp_path / "data.json"
    path.write_text(json.dumps(data))
    for given in (data, path):
        with pytest.raises(BayesreconError, match=said):
            read_private(given, None)
