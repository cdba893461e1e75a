"""Constants of priors that are made of the data are found, stated by name, and said."""

import re

import numpy as np
import pytest

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")

from bayesrecon.auditing.look import Look
from bayesrecon.auditing.plain.priors import find
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_stan, stan_data
from bayesrecon.posteriors.formats import read_contents

PROGRAM = """
data { int<lower=1> N; vector[N] x; vector[N] y; }
transformed data { real spread = sd(x); }
parameters { real alpha; real beta; real<lower=0> sigma; }
model {
  alpha ~ normal(mean(y), 10);
  beta ~ normal(0, 2.5 / spread);
  target += exponential_lpdf(sigma | 1 / sd(y));
  y ~ normal(alpha + beta * x, sigma);
}
"""
STATED = {"mean_y": 3.0, "sd_y": 2.0, "spread": 1.5}


def test_what_a_prior_makes_of_the_data_is_asked_for_by_name():
    with pytest.raises(BayesreconError, match=r'line 6, column 18: mean_y .* pass it in constants=\{"mean_y"'):
        from_stan(PROGRAM, constants={"spread": 1.5, "sd_y": 2.0})


def test_with_its_constants_the_model_is_that_of_fixed_priors():
    model = from_stan(PROGRAM, constants=STATED)
    fixed = PROGRAM.replace("mean(y)", "3").replace("sd(y)", "2.0").replace("spread;", "1.5;").replace("sd(x)", "1.0")
    fixed = fixed.replace("/ spread", "/ 1.5")
    theta = np.array([0.3, -0.2, 0.1])
    assert float(model.log_prior(theta)) == pytest.approx(float(from_stan(fixed).log_prior(theta)), rel=1e-5)
    assert [told.split(":")[0] for told in model.data_priors] == ["line 6", "line 7", "line 8"]


def test_data_at_hand_tell_them():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20))
    model, records = stan_data(PROGRAM, {"N": 20, "x": x, "y": y})
    assert tuple(records) == ("x", "y")
    assert float(model.parts.constants["mean_y"].a) == pytest.approx(y.mean())


def test_sums_in_the_likelihood_are_left_alone():
    program = "data { int N; vector[N] y; } parameters { real m; } model { target += m * sum(y) - N * square(m) / 2; }"
    assert from_stan(program).data_priors == ()


def test_the_audit_says_that_priors_are_made_of_the_data():
    rng = np.random.default_rng(0)
    draws = {"alpha": rng.normal(size=(2, 40)), "beta": rng.normal(size=(2, 40)), "sigma": rng.gamma(9, size=(2, 40))}
    (told,), _ = find(Look(read_contents(draws), from_stan(PROGRAM, constants=STATED)))
    assert "line 6: alpha ~ normal(mean(y), 10);" in told.summary


@pytest.mark.slow
def test_default_priors_of_brms_are_read_in_the_program_of_a_model():
    program = """
    data { int N; vector[N] Y; } parameters { real Intercept; real<lower=0> sigma; }
    model { target += student_t_lpdf(Intercept | 3, 111.7, 12.2); Y ~ normal(Intercept, sigma); }
    """
    draws = {"Intercept": np.linspace(111, 112, 80).reshape(2, 40), "sigma": np.linspace(1, 2, 80).reshape(2, 40)}
    (told,), _ = find(Look(read_contents(draws), from_stan(program)))
    assert re.search(r"median of the response \(\W?111\.7\W?\)", told.title)
