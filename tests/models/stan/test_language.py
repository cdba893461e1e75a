"""The Stan language, against an interpreter of it that shares no code: values up to a constant, and gradients."""

import jax
import numpy as np
import pytest

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")
stanli = pytest.importorskip("stanli", reason="stanli is not installed: pip install stanli")

from bayesrecon.models.stan.constraints import shaped  # noqa: E402
from bayesrecon.models.stan.parsing import parse  # noqa: E402
from bayesrecon.models.stan.posterior import Posterior  # noqa: E402
from bayesrecon.precision import x64  # noqa: E402

pytestmark = pytest.mark.usefixtures("hardly_optimised")

HEAD = """
data { int N; vector[N] y; array[N] int k; matrix[N, 2] X; array[2] vector[3] w; }
parameters { real x; real<lower=0> s; real<lower=0, upper=1> p; vector[3] v; vector<lower=0>[3] u; cov_matrix[3] S;
  simplex[3] t; ordered[2] c; cholesky_factor_corr[3] L; vector[2] b; }
"""
DATA = {
    "N": 4, "y": [0.3, 1.2, 2.5, 0.7], "k": [1, 3, 2, 1], "X": [[0.1, 1.0], [-0.4, 2.0], [0.3, 0.5], [1.0, -1.0]],
    "w": [[0.1, 0.2, 0.3], [0.5, -0.2, 0.4]],
}  # fmt: skip

TERMS = {
    "numbers": [
        "exp(x)", "log(s)", "log1p(s)", "log1m(p)", "inv_logit(x)", "logit(p)", "sqrt(s)", "square(x)", "inv(s)",
        "x^3", "s^x", "abs(x - 0.3)", "tanh(x)", "lgamma(s)", "digamma(s)", "Phi(x)", "erf(x)", "log1p_exp(x)",
        "log_inv_logit(x)", "log1m_inv_logit(x)", "cbrt(s)", "expm1(x)", "atan(x)", "fmin(x, p)", "fmax(x, p)",
        "log_sum_exp(x, p)", "log_mix(p, x, s)", "lbeta(s, p)", "lchoose(5, 2) * x", "fma(x, s, p)", "hypot(x, s)",
        "inv_cloglog(x)", "Phi_approx(x)", "lmultiply(s, p)", "log_diff_exp(2.0, -s)", "pow(s, 1.5)", "pi() * x",
        "x > 0 ? s : p", "(7 / 2) * x", "(7 % 4) * x", "inv_square(s)", "log1m_exp(-s)", "step(1) * x",
    ],
    "containers": [
        "sum(v)", "prod(u)", "mean(v)", "variance(v)", "sd(v)", "max(v)", "min(v)", "dot_product(v, u)", "dot_self(v)",
        "v' * u", "sum(v * u')", "sum(exp(v) ./ u)", "sum(v .* u)", "log_sum_exp(v)", "softmax(v)[2]",
        "log_softmax(v)[1]", "cumulative_sum(v)[2]", "append_row(v, u)[5]", "append_col(v, u)[2, 2]", "v[2:3][1]",
        "v[{3, 1}][1]", "head(v, 2)[2]", "tail(v, 2)[1]", "segment(v, 2, 2)[1]", "rep_vector(x, 3)[2]",
        "rep_matrix(v, 2)[3, 1]", "rep_row_vector(x, 2)[1]", "to_vector(S)[4]", "to_matrix(v, 3, 1)[2, 1]",
        "squared_distance(v, u)", "sort_asc(v)[1]", "reverse(v)[1]", "num_elements(S) * x",
        "rows(S) * x", "cols(S) * x", "size(k) * x", "{x, s}[2]", "[x, s][1]", "w[1][2] * v[1]",
        "linspaced_vector(3, 0, 1)[2] * x",
    ],
    "matrices": [
        "S[1, 2]", "S[2][3]", "S[, 2][3]", "(S * v)[1]", "(v' * S)[2]", "(S * S)[1, 3]", "(S \\ v)[2]", "(v' / S)[1]",
        "log_determinant(S)", "inverse(S)[1, 2]", "cholesky_decompose(S)[3, 1]", "quad_form(S, v)",
        "diag_pre_multiply(u, S)[2, 3]", "diag_matrix(u)[1, 1]", "diagonal(S)[2]",
        "multiply_lower_tri_self_transpose(L)[2, 1]",
        "mdivide_left_tri_low(L, v)[3]", "quad_form_diag(S, u)[1, 2]", "tcrossprod(L)[3, 2]", "crossprod(L)[3, 2]",
        "gp_exp_quad_cov({0.0, 1.0, 2.5}, s, 1.5)[1, 3]", "add_diag(S, x)[2, 2]", "block(S, 1, 2, 2, 2)[2, 1]",
        "col(S, 2)[1]", "row(S, 3)[1]", "sub_col(S, 1, 3, 2)[2]", "columns_dot_self(S)[2]", "(S')[1, 3]",
        "gp_matern32_cov({0.0, 1.0}, s, 1.5)[1, 2]",
    ],
    "continuous": [
        "normal_lpdf(y | x, s)", "normal_lpdf(x | 0, 2)", "std_normal_lpdf(v)", "student_t_lpdf(y | 4, x, s)",
        "cauchy_lpdf(y | x, s)", "double_exponential_lpdf(y | x, s)", "logistic_lpdf(y | x, s)",
        "gumbel_lpdf(y | x, s)", "lognormal_lpdf(y | x, s)", "exponential_lpdf(y | s)", "gamma_lpdf(y | s, p)",
        "inv_gamma_lpdf(y | s, p)", "chi_square_lpdf(y | s)", "inv_chi_square_lpdf(s | 3)", "weibull_lpdf(y | s, p)",
        "frechet_lpdf(y | s, p)", "rayleigh_lpdf(y | s)", "pareto_lpdf(y | 0.1, s)", "pareto_type_2_lpdf(y | 0, s, p)",
        "beta_lpdf(p | 2, 3)", "beta_lpdf(0.3 | s, 2)", "beta_proportion_lpdf(0.3 | p, s)", "uniform_lpdf(p | 0, 2)",
        "von_mises_lpdf(x | 0.5, s)", "exp_mod_normal_lpdf(y | x, s, p)", "skew_normal_lpdf(y | x, s, 2)",
        "scaled_inv_chi_square_lpdf(s | 3, 2)", "loglogistic_lpdf(y | s, 2)",
        "student_t_lccdf(0 | 3, 0, 2.5) * x",
        "exponential_lccdf(s | 2)", "weibull_lcdf(s | 2, 1)", "cauchy_lcdf(x | 0, s)", "logistic_lccdf(x | 0, s)",
        "lognormal_lcdf(s | x, 1)", "gumbel_lcdf(x | 0, s)", "double_exponential_lcdf(x | 0, s)",
    ],
    "normal tails": ["normal_lcdf(x | 0, s)", "normal_lccdf(x | p, s)", "ordered_probit_lpmf(2 | x, c)"],
    "discrete": [
        "bernoulli_lpmf({1, 0} | p)", "bernoulli_logit_lpmf({1, 0} | x)", "binomial_lpmf(k | 5, p)",
        "binomial_logit_lpmf(k | 5, x)", "beta_binomial_lpmf(k | 5, s, p)", "poisson_lpmf(k | s)",
        "poisson_log_lpmf(k | x)", "neg_binomial_lpmf(k | s, p)", "neg_binomial_2_lpmf(k | s, 2)",
        "neg_binomial_2_log_lpmf(k | x, s)", "categorical_lpmf(k | t)", "categorical_logit_lpmf(2 | v)",
        "ordered_logistic_lpmf(k | y, c)", "ordered_logistic_lpmf(2 | x, c)", "multinomial_lpmf({1, 2, 4} | t)",
        "poisson_lcdf(2 | s)", "poisson_lccdf(2 | s)", "bernoulli_logit_glm_lpmf({1, 0, 1, 1} | X, x, b)",
        "normal_id_glm_lpdf(y | X, x, b, s)", "poisson_log_glm_lpmf(k | X, x, b)",
        "neg_binomial_2_log_glm_lpmf(k | X, x, b, s)", "ordered_logistic_glm_lpmf(k | X, b, c)",
        "multi_normal_lpdf(w | v, S)", "multi_normal_prec_lpdf(w | v, S)", "multi_normal_cholesky_lpdf(v | w[1], L)",
        "multi_student_t_lpdf(v | 4, w[2], S)", "dirichlet_lpdf(t | u)", "lkj_corr_cholesky_lpdf(L | 1.5)",
        "lkj_corr_lpdf(multiply_lower_tri_self_transpose(L) | 2)", "wishart_lpdf(S | 4, diag_matrix(u))",
        "inv_wishart_lpdf(S | 4, diag_matrix(u))",
    ],
}  # fmt: skip

APPROXIMATE = {"normal tails", "truncated"}
"""Where Stan's derivative of the logarithm of the normal distribution function is approximate, off by up to 6e-6."""

STATEMENTS = {
    "loops": """model { vector[N] m; real total = 0; for (n in 1:N) { if (k[n] > 1) m[n] = x * n; else m[n] = s; }
      for (z in y) total += z * p; y ~ normal(m, s + 1); target += total; for (i in 1:3) { if (i == 2) continue;
      target += v[i]; } { int i = 0; while (i < 3) { i += 1; if (i == 3) break; target += u[i]; } } }""",
    "truncated": """model { y ~ normal(x, 1 + s) T[0, ]; x ~ normal(0, 1) T[-3, 3]; s ~ student_t(3, 0, 1) T[0, ];
      for (n in 1:N) k[n] ~ poisson(1 + s) T[1, 9]; p ~ beta(2, 2) T[, 1]; s ~ exponential(1) T[0, 50]; }""",
    "functions": """functions { real half(real z) { return z / 2; } real pick(int i, real z) { if (i > 1) return z;
      return -z; } real own_lpdf(real z, real m) { return normal_lpdf(z | m, 2); } void add_lp(real z) { target += z; }
      vector twice(vector z) { vector[rows(z)] r = 2 * z; return r; }
      real part_sum(array[] int ks, int from, int to, real z) { return poisson_log_lpmf(ks | z); } }
      model { x ~ own(p); add_lp(half(s)); target += pick(1, x) + pick(2, p) + sum(twice(v));
      target += reduce_sum(part_sum, k, 1, x); }""",
    "scans": """model { vector[20] h; h[1] = x; for (i in 2:20) h[i] = 0.5 * h[i - 1] + s * sin(i);
      target += sum(h); for (i in 1:20) { real q = i * p; target += -square(q - x); }
      for (i in 3:20) { h[i] ~ normal(-sum(h[i - 2:i - 1]), s); target += sum(h[i - 1:i] .* h[{1, 2}]); }
      for (i in 9:20) target += x * sum(h[2:i]); }""",
}


def compared(text, data, points=3, scale=0.6):
    """Largest differences of log densities and of gradients, relative to their size."""
    with x64():
        posterior = Posterior(parse(text), data)
        oracle = stanli.Model(stan_code=text, data=data)
        rng = np.random.default_rng(3)
        theta = rng.uniform(-scale, scale, (points, posterior.dimension))
        found = jax.jit(jax.vmap(jax.value_and_grad(posterior.log_density)))(theta)
        values, slopes = (np.asarray(a) for a in found)
    expected = [oracle.log_prob_grad(t) for t in theta]
    theirs, gradients = np.array([v for v, _ in expected]), np.array([g for _, g in expected])
    return (
        np.abs(np.diff(values) - np.diff(theirs)).max() / np.abs(theirs).max(),
        np.abs(slopes - gradients).max() / np.abs(gradients).max(),
    )


@pytest.mark.slow  # compiling a hundred functions with their derivatives
@pytest.mark.parametrize("group", TERMS)
def test_functions_are_those_of_stan(group):
    weighted = " ".join(f"target += {0.3 + 0.1 * (i % 7)} * ({term});" for i, term in enumerate(TERMS[group]))
    value, gradient = compared(HEAD + "model {" + weighted + "}", DATA)
    assert value < 1e-9
    assert gradient < (1e-5 if group in APPROXIMATE else 1e-9)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "functions" else pytest.mark.slow) for name in STATEMENTS]
)
def test_statements_are_those_of_stan(name):
    functions, _, model = STATEMENTS[name].rpartition("model {")
    value, gradient = compared(functions + HEAD + "model {" + model, DATA)
    assert value < 1e-9
    assert gradient < (1e-5 if name in APPROXIMATE else 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["corr_matrix", "cholesky_factor_corr"])
def test_coordinates_of_correlations_come_in_the_order_of_stan(kind):
    """Which shows from four rows on: those of matrices column by column, those of factors row by row."""
    terms = "target += O[2, 1] + 2 * O[3, 1] - O[3, 2] + 3 * O[4, 1] + square(O[4, 3]);"
    value, gradient = compared(f"parameters {{ {kind}[4] O; }} model {{ {terms} }}", {})
    assert value < 1e-12
    assert gradient < 1e-12
    with x64():
        there = shaped(kind, (4, 4))
        x = np.random.default_rng(0).normal(size=6)
        np.testing.assert_allclose(there.backward(there.forward(x, (4, 4))[0]), x, rtol=1e-10)


@pytest.mark.slow
def test_unit_vectors_are_points_of_the_sphere():
    """In one coordinate fewer than Stan's, which has the length as well: its density at length one, up to a constant,
    with the Jacobian of the projection."""
    text = """data { matrix[6, 3] X; vector[6] y; } parameters { unit_vector[3] u; real<lower=0> s; }
      model { y ~ normal(X * u, s); s ~ exponential(1); }"""
    rng = np.random.default_rng(0)
    data = {"X": rng.normal(size=(6, 3)).tolist(), "y": rng.normal(size=6).tolist()}
    there, oracle, apart = shaped("unit_vector", (3,)), stanli.Model(stan_code=text, data=data), []
    with x64():
        posterior = Posterior(parse(text), data)
        assert posterior.dimension == 3
        for theta in rng.normal(size=(5, 3)):
            point, jacobian = there.forward(theta[:2], (3,))
            assert float(point @ point) == pytest.approx(1)
            np.testing.assert_allclose(there.backward(point), theta[:2], rtol=1e-10)
            slopes = np.asarray(jax.jacobian(lambda x: there.forward(x, (3,))[0])(theta[:2]))
            assert np.linalg.slogdet(slopes.T @ slopes)[1] / 2 == pytest.approx(float(jacobian))
            theirs = oracle.log_prob_grad(np.append(point, theta[2]))[0]
            apart.append(float(posterior.log_density(theta)) - float(jacobian) - theirs)
    assert np.ptp(apart) < 1e-10


SHADOWS = """
functions { real inner(vector z) { int K; vector[2] W; K = rows(z); W = rep_vector(K, 2);
  { vector[K] u = rep_vector(2, K); return sum(W) * sum(u .* z); } } }
data { int K; vector[K] y; }
transformed data { vector[K] W; for (k in 1:K) W[k] = k; real c = inner(W); }
parameters { vector[4] a; real m; }
model { y ~ normal(m + W * inner(a) + c, 1); a ~ std_normal(); m ~ normal(0, 3); }
"""


def test_variables_of_a_function_may_have_names_of_the_program():
    value, gradient = compared(SHADOWS, {"K": 3, "y": [0.5, -1.0, 2.0]})
    assert value < 1e-12
    assert gradient < 1e-12


UNEVEN = """
data { int I; int T; array[I] int first; array[I] int last; array[I, T] int y; }
parameters { vector[T] a; vector[I] b; real x; }
transformed parameters {
  matrix[I, T] p; matrix[I, T] so_far;
  for (i in 1:I) {
    for (t in 1:(first[i] - 1)) p[i, t] = 0;
    for (t in first[i]:T) p[i, t] = inv_logit(a[t] + b[i]);
    for (t in 1:T) so_far[i, t] = 1;
    for (t in (first[i] + 1):last[i]) so_far[i, t] = so_far[i, t - 1] * p[i, t];
  }
}
model {
  a ~ normal(0, 1); b ~ normal(x, 1);
  for (i in 1:I) {
    real last_one = x;
    for (t in first[i]:last[i]) {
      target += log(so_far[i, t]) + y[i, t] * log(p[i, t]);
      last_one = p[i, t] * last_one;
    }
    target += square(last_one);
  }
}
"""


@pytest.mark.slow
def test_loops_of_other_lengths_in_every_turn_of_an_outer_one_are_scans():
    """No more operations than for one turn; outside of their bounds the logarithm of a probability of zero waits."""
    rng = np.random.default_rng(0)
    first = np.repeat(np.arange(1, 13), 3)
    last = np.minimum(first + np.tile([-1, 2, 9], 12), 12)
    y = rng.integers(0, 2, (36, 12))
    data = {"I": 36, "T": 12, "first": first.tolist(), "last": last.tolist(), "y": y.tolist()}
    value, gradient = compared(UNEVEN, data)
    assert value < 1e-9
    assert gradient < 1e-9
    with x64():
        posterior = Posterior(parse(UNEVEN), data)
        traced = jax.make_jaxpr(posterior.log_density)(np.zeros(posterior.dimension))
    assert str(traced).count("\n") < 4000  # 10,307 where turns with the same bounds are run together


OLD = """
data { int N; real y[N]; int<lower=0> k[N]; }
parameters { real x; real<lower=0> s; vector[2] v[3]; }
model { real z[2]; z[1] <- x * 2; z[2] <- s; increment_log_prob(normal_log(y, z[1], z[2]));  # an old comment
  lp__ ~ normal(0, 1); }
"""


def test_old_syntax_means_what_it_meant():
    old = OLD.replace("lp__ ~ normal(0, 1);", "for (i in 1:3) v[i] ~ normal(0, 1); k ~ poisson(s);")
    new = """data { int N; array[N] real y; array[N] int<lower=0> k; }
    parameters { real x; real<lower=0> s; array[3] vector[2] v; }
    model { target += normal_lpdf(y | x * 2, s); for (i in 1:3) v[i] ~ normal(0, 1); k ~ poisson(s); }"""
    data = {"N": 2, "y": [0.5, 1.0], "k": [1, 2]}
    theta = np.linspace(-0.5, 0.5, 8)
    with x64():
        one, other = (float(Posterior(parse(text), data).log_density(theta)) for text in (old, new))
    assert one == pytest.approx(other, rel=1e-14)
    assert float(one) != 0
