"""Bounds on partly determined statistics."""

import numpy as np
import pytest
import summaries
import variational
from gridded import logistic, poisson
from parts import slow_then_large

import bayesrecon
from bayesrecon.evaluate import true_statistics
from bayesrecon.posteriors import gaussian
from bayesrecon.posteriors.sources import dirac


@pytest.fixture(scope="module")
def narrow(logistic_case):
    """Bounds that need nothing but the domain."""
    _, release, domain = logistic_case
    return bayesrecon.bound(release, domain=domain)


@pytest.mark.slow
def test_bounds_hold_the_truth_and_widen_with_the_domain(logistic_case, narrow):
    data, release, _ = logistic_case
    truth = true_statistics(release.model, data)
    wide = bayesrecon.bound(release, domain={"dist": (0, 1000)})
    for interval in narrow.intervals:
        assert interval.lower is not None
        assert interval.upper is not None
        assert interval.lower <= truth[interval.name] <= interval.upper, interval
    # Candidates are random: up to their density the wider domain can only widen the bounds.
    assert wide["var(dist)"].width > 1.1 * narrow["var(dist)"].width
    assert wide["n"].width > 0.9 * narrow["n"].width
    assert narrow.domain["dist"] == (0, 250)
    assert list(narrow.to_dataframe().columns) == ["lower", "upper", "width"]
    assert "dist" in narrow._repr_html_()


@pytest.mark.slow
def test_bounds_shrink_with_what_is_known(logistic_case, narrow):
    data, release, domain = logistic_case
    told = bayesrecon.bound(release, domain=domain, total=600, variances=False)
    assert told["n"].lower == pytest.approx(600, rel=1e-6)
    assert told["n"].upper == pytest.approx(600, rel=1e-6)
    assert told["mean(dist)"].width < narrow["mean(dist)"].width
    assert told["mean(dist)"].lower <= data["dist"].mean() <= told["mean(dist)"].upper


@pytest.mark.slow
def test_bounds_need_a_domain_and_draws(logistic_case):
    _, release, _ = logistic_case
    with pytest.raises(bayesrecon.BayesreconError, match="domain of field 'dist'"):
        bayesrecon.bound(release, domain={})
    with pytest.raises(bayesrecon.BayesreconError, match="level"):
        bayesrecon.bound(release, domain={"dist": (0, 250)}, level=99)
    draws = {"beta": np.random.default_rng(0).normal(size=(2, 50, 2))}
    with pytest.raises(bayesrecon.BayesreconError, match="domain of field 'dist'"):
        bayesrecon.bound(draws, model=release.model)
    trained = dirac(release.model, {"beta": [0.5, -0.01]})
    with pytest.raises(bayesrecon.BayesreconError, match="posterior draws"):
        bayesrecon.bound(trained, domain={"dist": (0, 250)})


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("digits", slow_then_large(4, None))
def test_a_mean_field_bounds_what_it_does_not_tell(digits):
    """Its equations hold n and leave the means open, but for what records of the domain can have."""
    start = summaries.mode(summaries.MODEL, summaries.DATA, summaries.start())
    mean, covariance = variational.optimum(summaries.MODEL, summaries.DATA, *start, full=False)
    if digits is not None:
        mean, covariance = summaries.cut(mean, covariance, digits)
    release = gaussian(summaries.MODEL, mean, covariance, fit="mean field", digits=digits)
    found = bayesrecon.bound(release, domain={"x": (-3, 9), "y": (-5, 9)})
    for interval in found.intervals:
        assert interval.lower <= summaries.TRUTH[interval.name] <= interval.upper, interval
    assert found["n"].width < (1e-3 if digits is None else 0.5)
    assert 0.05 < found["mean(y)"].width < 5


@pytest.mark.slow
@pytest.mark.large
def test_bounds_cover():
    """Stated to hold jointly at 99 %: at least 7 of 8 data sets (at 98 % a false alarm in a hundred runs; bounds that
    hold for half of all sets pass once in 28), many more in benchmarks/draws/calibration.py."""
    rng, hits = np.random.default_rng(1), 0
    for i in range(8):
        data, release, domain = (logistic if i % 2 else poisson)(rng)
        truth = true_statistics(release.model, data)
        result = bayesrecon.bound(release, domain=domain, key=i, variances=False)
        hits += all(
            (x.lower is None or x.lower <= truth[x.name]) and (x.upper is None or truth[x.name] <= x.upper)
            for x in result.intervals
        )
    assert hits >= 7
