from dataclasses import replace

import numpy as np
import numpyro
import pytest
import summaries
from numpyro import distributions as dist
from summaries import DATA, MODEL

import bayesrecon
from bayesrecon.estimation.error_laws import STATIONARY
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws, gaussian


def test_an_approximation_spans_a_statistic_or_does_not():
    assert STATIONARY.verdict(0.999999) == "determined"
    assert STATIONARY.verdict(0.999999, spanned=True) == "undetermined"
    assert STATIONARY.verdict(1.0, spanned=True) == "determined"


@pytest.mark.slow
def test_what_few_equations_leave_open_far_from_zero_is_not_determined():
    """Fewer of a mode's equations than statistics, at data whose spread is small beside their place: what the equations
    leave open looks seen wherever the records are written."""
    data = {"x": DATA["x"] + 100, "y": DATA["y"]}
    release = gaussian(MODEL, *summaries.mode(MODEL, data, [-49.0, 0.5, np.log(2.0)]), jacobian=True)
    found = bayesrecon.recover(replace(release, directions=np.asarray(release.directions)[:, : MODEL.dimension + 2]))
    truth = summaries.TRUTH | {"mean(x[1])": data["x"].mean()}
    seen = [row.name for row in found if row.verdict == "determined"]
    assert len(seen) < len(truth)
    for name in seen:
        assert found[name].estimate == pytest.approx(truth[name], rel=1e-6)


def test_a_step_that_the_probes_do_not_reach_is_not_a_constant():
    """The spread of the data is not seen here, so that generic records lie close together."""

    def program(wait):
        mean = numpyro.sample("mean", dist.Normal(40, 20))
        with numpyro.plate("visits", wait.shape[0]):
            numpyro.sample("wait", dist.Normal(mean, 20), obs=wait)

    rng = np.random.default_rng(1)
    model = from_numpyro(program, {"wait": ()})
    release = from_draws({"mean": rng.normal(39, 20 / np.sqrt(201), (2, 500))}, model)
    steps = {"over": lambda r: r["wait"] > 60, "under": lambda r: r["wait"] < 80}
    found = bayesrecon.recover(release, statistics={**steps, "all": lambda r: 1.0})
    for name in steps:
        assert (found[f"total({name})"].verdict, found[f"mean({name})"].estimate) == ("undetermined", None)
    assert found["total(all)"].estimate == found["n"].estimate  # a constant is one everywhere


def test_no_interval_has_zero_width(regression):
    """What is known or follows exactly is as exact as the sums that it is computed from."""
    data, release = regression
    x = data["x"][:, 0]
    found = bayesrecon.recover(release, total=len(x), known={"x": data["x"]})
    exact = {row.name: row for row in found if row.se == 0}
    for name, truth in {"n": len(x), "mean(x)": x.mean()}.items():
        if name in exact:
            assert exact[name].lower < truth < exact[name].upper
    for row in exact.values():
        assert 0 < row.upper - row.lower < 1e-6 * max(1, abs(row.estimate))


@pytest.mark.slow
def test_few_draws_determine_nothing_and_understate_no_error(regression):
    """Of 20 draws for six features nothing is determined, and no stated error is below its floor."""
    _, release = regression
    few, more = (bayesrecon.recover(release.take(np.arange(size))) for size in (20, 60))
    assert "determined" not in {row.verdict for row in few}
    assert any("below 36 nothing is determined" in warning for warning in few.warnings)
    mean = more["mean(y)"]
    assert mean.verdict == "determined"
    assert mean.se >= mean.floor
    assert mean.upper - mean.lower > 2 * 2.004 * mean.se  # t with 54 degrees of freedom, not normal
    assert more["n"].verdict == "partly"  # so few draws do not tell normal errors from others with heavier tails
    assert more["n"].lower < more["n"].estimate < more["n"].upper
