"""Responses that Stan programs predict: drawn from their densities, in order, or not at all."""

import jax
import numpy as np
import pytest
from quick import quick
from scipy.special import expit

from bayesrecon.models import from_stan
from bayesrecon.precision import x64

pytestmark = pytest.mark.usefixtures("hardly_optimised")

pytest.importorskip("lark")

REGRESSION = (
    "data { int N; vector[N] x; vector[N] y; } parameters { real b; real<lower=0> s; } model { y ~ normal(b * x, s); }"
)
SERIES = """
data { int N; int T; matrix[N, T] y; }
parameters { real b; }
model { for (n in 1:N) for (t in 2:T) y[n, t] ~ normal(b * y[n, t - 1], 1); }
"""
LOGIT = """
data { int N; int K; matrix[N, K] X; array[N] int<lower=0, upper=1> y; }
parameters { vector[K] b; real a; }
model { target += bernoulli_logit_glm_lpmf(y | X, a, b) + normal_lpdf(b | 0, 1); }
"""


def drawn(text, theta, count=20_000, **options):
    """Draws of the responses of records that are one in every field."""
    model = from_stan(text, **options)
    records = {k: np.ones((count, *f.shape), f.domain.dtype) for k, f in model.fields.items()}
    with x64():
        found = model.simulate(model.constrain(np.array(theta)), records, jax.random.key(0))
    for name, v in found.items():
        assert v.shape == records[name].shape
        assert v.dtype == records[name].dtype
    return {k: np.asarray(v) for k, v in found.items()}


def test_a_regression():
    found = drawn(REGRESSION, [0.5, 0.0])
    assert np.ptp(found["x"]) == 0
    assert abs(found["y"].mean() - 0.5) < 5 / np.sqrt(20_000)
    assert abs(found["y"].std() - 1) < 0.03


def test_later_responses_follow_earlier_ones():
    y = drawn(SERIES, [0.5], constants={"T": 4})["y"]
    np.testing.assert_allclose(y.mean(axis=0), [1, 0.5, 0.25, 0.125], atol=0.05)
    np.testing.assert_allclose(y.var(axis=0), [0, 1, 1.25, 1.3125], rtol=0.05)


@pytest.mark.slow
def test_an_increment_of_a_linear_predictor():
    y = drawn(LOGIT, [0.5, 0.5, 0.5], constants={"K": 2}, sizes={"b": (2,)})["y"]
    assert abs(y.mean() - expit(1.5)) < 0.02


COUNTED = {
    "poisson_log(b)": (np.exp(0.5), np.exp(0.5)),
    "poisson(exp(b))": (np.exp(0.5), np.exp(0.5)),
    "neg_binomial_2_log(b, 2)": (np.exp(0.5), np.exp(0.5) * (1 + np.exp(0.5) / 2)),
    "neg_binomial_2(exp(b), 2)": (np.exp(0.5), np.exp(0.5) * (1 + np.exp(0.5) / 2)),
    "neg_binomial(4 * b, 1)": (2.0, 4.0),
    "binomial_logit(7, b)": (7 * expit(0.5), 7 * expit(0.5) * expit(-0.5)),
    "binomial(7, 0.4 * b)": (1.4, 1.12),
    "beta_binomial(7, 4 * b, 3)": (2.8, 2.8 * 0.6 * 12 / 6),
}
REAL = {
    "student_t(9, b, 2)": (0.5, 4 * 9 / 7),
    "double_exponential(b, 2)": (0.5, 8.0),
    "logistic(b, 2)": (0.5, 4 * np.pi**2 / 3),
    "gumbel(b, 2)": (0.5 + 2 * np.euler_gamma, 4 * np.pi**2 / 6),
    "lognormal(b, 0.3)": (np.exp(0.545), (np.exp(0.09) - 1) * np.exp(1.09)),
    "exponential(4 * b)": (0.5, 0.25),
    "gamma(6 * b, 2)": (1.5, 0.75),
    "inv_gamma(12 * b, 2)": (0.4, 0.04),
    "weibull(4 * b, 3)": (3 * np.sqrt(np.pi) / 2, 9 * (1 - np.pi / 4)),
    "beta(4 * b, 3)": (0.4, 0.04),
}


@pytest.mark.parametrize(
    "density",
    quick({**COUNTED, **REAL}, ["gamma(6 * b, 2)"]),
)
def test_means_and_variances(density):
    kind = "array[N] int<lower=0>" if density in COUNTED else "vector[N]"
    mean, variance = (COUNTED | REAL)[density]
    y = drawn(f"data {{ int N; {kind} y; }} parameters {{ real b; }} model {{ y ~ {density}; }}", [0.5])["y"]
    assert abs(y.mean() - mean) < 6 * np.sqrt(variance / len(y))
    assert abs(y.var() / variance - 1) < 0.15


MIXED = {
    "log_mix(0.3, normal_lpdf(y[n] | b, 0.1), normal_lpdf(y[n] | 8 * b, 0.2))",
    "log_sum_exp(log(0.3) + normal_lpdf(y[n] | b, 0.1), log1m(0.3) + normal_lpdf(y[n] | 8 * b, 0.2))",
    "log_sum_exp(normal_lpdf(y[n] | b, 0.1) + log(0.3), normal_lpdf(y[n] | 8 * b, 0.2) + log(0.7))",
}


@pytest.mark.slow
@pytest.mark.parametrize("term", sorted(MIXED))
def test_a_mixture_is_drawn_by_its_component(term):
    text = f"data {{ int N; vector[N] y; }} parameters {{ real b; }} model {{ for (n in 1:N) target += {term}; }}"
    y = drawn(text, [0.5])["y"]
    first = y < 2
    assert abs(first.mean() - 0.3) < 5 * np.sqrt(0.21 / len(y))
    assert (y[first].mean(), y[first].std()) == pytest.approx((0.5, 0.1), abs=0.01)
    assert (y[~first].mean(), y[~first].std()) == pytest.approx((4.0, 0.2), abs=0.02)


NOT = {
    "a mixture with a part of another kind": "for (n in 1:N) target += log_mix(0.3, normal_lpdf(y[n] | b, 1), -y[n]);",
    "a mixture of densities of two fields": """for (n in 1:N)
      target += log_mix(0.3, normal_lpdf(y[n] | b, 1), normal_lpdf(x[n] | b, 1));""",
    "truncated": "for (n in 1:N) y[n] ~ normal(b, 1) T[0, ];",
    "two densities": "y ~ normal(b, 1); y ~ normal(0, 9);",
    "a hurdle": "for (n in 1:N) if (y[n] > 0) y[n] ~ normal(b, 1); else target += -b;",
    "a weight": "for (n in 1:N) target += 0.5 * normal_lpdf(y[n] | b, 1);",
    "transformed": "log(y) ~ normal(b, 1);",
}


@pytest.mark.parametrize("what", NOT)
def test_programs_without_a_distribution_of_the_response_do_not_simulate(what):
    data = f"int N; vector<lower=0>[N] y; {'vector[N] x;' if 'x[n]' in NOT[what] else ''}"
    model = from_stan(f"data {{ {data} }} parameters {{ real b; }} model {{ {NOT[what]} }}")
    assert model.simulate is None


@pytest.mark.slow
def test_parts_of_a_sum_are_terms_of_their_own():
    """A prior in the sum of an increment belongs to no record; sums of containers stay what they are."""
    head = "data { int N; vector[N] y; } parameters { real b; } model { "
    one = from_stan(head + "target += normal_lpdf(y | b, 1) + normal_lpdf(b | 0, 1); }")
    two = from_stan(head + "y ~ normal(b, 1); b ~ normal(0, 1); }")
    vector = from_stan(head + "target += -0.5 * (y - b) .* (y - b) + b; }")
    with x64():
        theta, record = np.array([0.3]), {"y": 1.2}
        np.testing.assert_allclose(one.log_prior(theta), two.log_prior(theta))
        np.testing.assert_allclose(one.log_lik(theta, record), two.log_lik(theta, record))
        np.testing.assert_allclose(vector.log_lik(theta, record), -0.5 * 0.81 + 0.3)
