"""Parameters that draws leave out are computed of what these hold, or said not to be determined."""

import numpy as np
import pytest

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")

from bayesrecon.models import from_stan
from bayesrecon.models.stan import knowing

GROUPS = """
data {
  int<lower=1> N; int<lower=1> K; matrix[N, K] X; vector[N] Y; int<lower=1> G; int<lower=1> M; array[N] int J;
  int<lower=0> C;
}
transformed data { vector[K] means = rep_vector(0, K); for (k in 1:K) means[k] = mean(X[, k]); }
parameters {
  vector[K] b; real centred; vector<lower=0>[M] sd; matrix[M, G] z; cholesky_factor_corr[M] L;
}
transformed parameters {
  vector[G] r1 = (diag_pre_multiply(sd, L) * z)[1]'; vector[G] r2 = (diag_pre_multiply(sd, L) * z)[2]';
  real prior = normal_lpdf(centred | 0, 10);
}
model {
  for (n in 1:N) Y[n] ~ normal(centred + X[n] * b + r1[J[n]] + r2[J[n]] * X[n, 1], 1);
  target += prior;
  to_vector(z) ~ std_normal();
}
generated quantities {
  real intercept = centred - dot_product(means, b);
  matrix[M, M] whole = multiply_lower_tri_self_transpose(L);
  vector[C] cor;
  for (k in 1:M) for (j in 1:(k - 1)) cor[choose(k - 1, 2) + j] = whole[j, k];
}
"""
"""Effects of groups that are correlated, as brms writes them."""


def drawn(rng, groups=5, shape=(2, 20)):
    """All parameters, and what the program computes of them."""
    b, centred, z = (rng.normal(size=(*shape, *s)) for s in ((2,), (), (2, groups)))
    sd, rho = rng.gamma(2, size=(*shape, 2)), rng.uniform(-0.99, 0.99, size=shape)
    factor = np.zeros((*shape, 2, 2))
    factor[..., 0, 0], factor[..., 1, 0], factor[..., 1, 1] = 1, rho, np.sqrt(1 - rho**2)
    effects = (sd[..., None] * factor) @ z
    own = {"b": b, "centred": centred, "sd": sd, "z": z, "L": factor}
    computed = {"r1": effects[..., 0, :], "r2": effects[..., 1, :], "cor": rho[..., None]}
    return own, {**computed, "intercept": centred - b @ np.array([3.0, -2.0])}


def model_of_groups():
    sizes = {"b": (2,), "sd": (2,), "z": (2, 5), "L": (2, 2), "cor": (1,)}
    return from_stan(GROUPS, sizes=sizes)


@pytest.mark.slow
def test_effects_give_back_what_they_are_made_of():
    own, computed = drawn(np.random.default_rng(0))
    model = knowing(model_of_groups(), {"means": [3.0, -2.0]})
    found = model.prepare({"b": own["b"], "sd": own["sd"], **computed})
    for name in ("centred", "z", "L"):
        np.testing.assert_allclose(found[name], own[name], atol=1e-9)


@pytest.mark.slow
def test_what_is_not_determined_stays_missing():
    own, computed = drawn(np.random.default_rng(0))
    found = model_of_groups().prepare({"b": own["b"], "sd": own["sd"], **computed})  # nobody knows the means
    assert "centred" not in found
    del computed["cor"], computed["r2"]
    found = model_of_groups().prepare({**{k: own[k] for k in ("b", "sd", "centred")}, **computed})
    assert not {"z", "L"} & found.keys()


def test_a_product_of_two_that_are_missing_determines_neither():
    program = """
    data { int N; vector[N] y; } parameters { real a; real b; } transformed parameters { real c = a * b; }
    model { a ~ std_normal(); b ~ std_normal(); y ~ normal(c, 1); }
    """
    found = from_stan(program).prepare({"c": np.ones((1, 3))})
    assert not {"a", "b"} & found.keys()


@pytest.mark.slow
def test_draws_that_hold_all_are_left_alone():
    own, _ = drawn(np.random.default_rng(0))
    assert model_of_groups().prepare(dict(own)).keys() == own.keys()


def test_means_that_are_stated_make_the_column_a_field():
    """Their size is one of the transformed data."""
    program = """
    data { int N; int K; matrix[N, K] X; vector[N] Y; }
    transformed data {
      int Kc = K - 1; matrix[N, Kc] Xc; vector[Kc] means;
      for (i in 2:K) { means[i - 1] = mean(X[, i]); Xc[, i - 1] = X[, i] - means[i - 1]; }
    }
    parameters { vector[Kc] b; real a; } model { Y ~ normal(a + Xc * b, 1); }
    """
    model = from_stan(program, sizes={"b": (2,), "a": ()}, constants={"means": [1.0, 2.0]})
    assert model.fields["X"].shape == (3,)
