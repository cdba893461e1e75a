from dataclasses import replace

import numpy as np
import pytest
import summaries
from summaries import DATA, MODEL

import bayesrecon
from bayesrecon.estimation.totals import verdict_of
from bayesrecon.posteriors import gaussian


def test_an_approximation_spans_a_statistic_or_does_not():
    assert verdict_of(0.999999, trained=True) == "determined"
    assert verdict_of(0.999999, trained=True, spanned=True) == "undetermined"
    assert verdict_of(1.0, trained=True, spanned=True) == "determined"


@pytest.mark.slow
def test_what_few_equations_leave_open_far_from_zero_is_not_determined():
    """Fewer of a mode's equations than statistics, at data whose spread is small beside their place: what the equations
    leave open looks seen wherever the records are written."""
    data = {"x": DATA["x"] + 100, "y": DATA["y"]}
    release = gaussian(MODEL, *summaries.mode(MODEL, data, [-49.0, 0.5, np.log(2.0)]), jacobian=True)
    found = bayesrecon.recover(replace(release, metric=np.asarray(release.metric)[:, : MODEL.dimension + 2]))
    truth = summaries.TRUTH | {"mean(x[1])": data["x"].mean()}
    seen = [row.name for row in found if row.verdict == "determined"]
    assert len(seen) < len(truth)
    for name in seen:
        assert found[name].estimate == pytest.approx(truth[name], rel=1e-6)
