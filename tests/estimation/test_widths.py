"""A number is called determined only where its error lets one use it."""

import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist

import bayesrecon
from bayesrecon.estimation.widths import too_wide
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws
from bayesrecon.results.row import Row


@pytest.mark.parametrize(
    "rows, wide",
    [
        ([Row("n", 93.8, se=78.7)], {"n"}),
        ([Row("n", 93.8, se=40.0)], set()),
        ([Row("n", 93.8, se=78.7), Row("mean(y)", 3.0, se=0.01), Row("var(y)", 4.0, se=0.0)], {"n", "mean(y)"}),
        ([Row("n", 100.0, se=2.0), Row("n[clinic=2]", 0.3, se=0.6)], set()),
        (
            [Row("n", 100.0, se=2.0), *(Row(f"n[income={k}]", 20.0, se=9.0 + k) for k in range(5))],
            {"n[income=2]", "n[income=3]", "n[income=4]"},
        ),
        ([Row("mean(y)", 0.01, se=0.4), Row("var(y)", 1.0, se=0.1)], set()),
        ([Row("mean(y)", 50.0, se=0.6), Row("var(y)", 1.0, se=0.1)], {"mean(y)"}),
        ([Row("mean(y)", 50.0, se=60.0)], set()),
        ([Row("cov(a,b)", 0.0, se=1.1), Row("var(a)", 1.0, se=0.1), Row("var(b)", 4.0, se=0.1)], {"cov(a,b)"}),
        ([Row("cov(x[0,1],b)", 0.0, se=1.1), Row("var(x[0,1])", 1.0, se=0), Row("var(b)", 9.0, se=0)], set()),
        ([Row("var(y)", 1.0), Row("n"), Row("total(above 40)", 1.0, se=9.0)], set()),
    ],
)
def test_errors_beyond_the_scale(rows, wide):
    assert too_wide(rows) == wide


@pytest.mark.slow
def test_a_count_with_an_error_as_large_is_partly_determined():
    """Twenty records under a prior that weighs as much as a hundred: from 60 draws n has a standard error of 22."""

    def program(y):
        mean = numpyro.sample("mean", dist.Normal(0, 0.1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    rng, model = np.random.default_rng(0), from_numpyro(program, {"y": ()})
    total = rng.normal(2, 1, 20).sum()
    few, many = (
        bayesrecon.recover(from_draws({"mean": rng.normal(total / 120, 120**-0.5, (1, draws))}, model))["n"]
        for draws in (60, 40000)
    )
    assert many.verdict == "determined"
    assert many.se is not None
    assert few.verdict == "partly"
    assert few.visibility == pytest.approx(1)
    assert few.se is None
    assert few.lower < 20 < few.upper
