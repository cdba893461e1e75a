import numpy as np
from scipy import stats

from bayesrecon.domains import BINARY, REAL
from bayesrecon.estimation.anchors import Reference
from bayesrecon.types import Field


def test_stretched_records_follow_a_t_law():
    reference = Reference({"x": Field((2,), REAL), "y": Field((), BINARY)}, tails=8.0)
    reference = reference.recentred({"x": np.array([1.0, -3.0])}, {"x": np.array([0.5, 2.0])})
    records = reference.draw(np.random.default_rng(0), 4000)
    standard = (records["x"] - [1.0, -3.0]) / [0.5, 2.0]
    for column in standard.T:
        assert stats.kstest(column, stats.t(8).cdf).pvalue > 1e-3
        assert stats.kurtosis(column) > 0.75  # 1.5; a normal law: 0 with an error of 0.08
    assert np.corrcoef(np.square(standard).T)[0, 1] > 0.1  # far in both: one stretch per record
    assert set(np.unique(records["y"])) == {0.0, 1.0}
