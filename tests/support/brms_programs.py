"""Stan programs in the style of those that brms writes, by family and structure, with data of known truth."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

N, GROUPS = 120, 6

CENTRED = """
  int<lower=1> K;  // number of population-level effects
  matrix[N, K] X;  // population-level design matrix
  int<lower=1> Kc;  // number of population-level effects after centering"""
MEANS = """
  matrix[N, Kc] Xc;  // centered version of X without an intercept
  vector[Kc] means_X;  // column means of X before centering
  for (i in 2:K) {
    means_X[i - 1] = mean(X[, i]);
    Xc[, i - 1] = X[, i] - means_X[i - 1];
  }"""
POPULATION = """
  vector[Kc] b;  // regression coefficients
  real Intercept;  // temporary intercept for centered predictors"""
INTERCEPT = """
  lprior += student_t_lpdf(Intercept | 3, 0, 2.5);"""
SIGMA = """
  lprior += student_t_lpdf(sigma | 3, 0, 2.5)
    - 1 * student_t_lccdf(0 | 3, 0, 2.5);"""
GENERATED = """
generated quantities {
  // actual population-level intercept
  real b_Intercept = Intercept - dot_product(means_X, b);
}
"""


def program(
    response: str, likelihood: str, *, functions: str = "", data: str = "", parameters: str = "", transformed: str = "",
    lprior: str = "", priors: str = "", setup: str = "",
) -> str:  # fmt: skip
    """A program of the blocks that brms writes."""
    return f"""functions {{{functions}
}}
data {{
  int<lower=1> N;  // total number of observations
  {response}  // response variable{CENTRED}{data}
  int prior_only;  // should the likelihood be ignored?
}}
transformed data {{{MEANS}
}}
parameters {{{POPULATION}{parameters}
}}
transformed parameters {{{transformed}
  // prior contributions to the log posterior
  real lprior = 0;{INTERCEPT}{lprior}
}}
model {{
  // likelihood including constants
  if (!prior_only) {{{setup}
    {likelihood}
  }}
  // priors including constants
  target += lprior;{priors}
}}
{GENERATED}"""


LINEAR = """
    // initialize linear predictor term
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept + Xc * b;"""
ONE_GROUP = """
  int<lower=1> N_1;  // number of grouping levels
  int<lower=1> M_1;  // number of coefficients per level
  array[N] int<lower=1> J_1;  // grouping indicator per observation
  vector[N] Z_1_1;"""
DEVIATIONS = """
  vector<lower=0>[M_1] sd_1;  // group-level standard deviations
  array[M_1] vector[N_1] z_1;  // standardized group-level effects"""
EFFECTS = """
  vector[N_1] r_1_1;  // actual group-level effects
  r_1_1 = (sd_1[1] * (z_1[1]));"""
SD = """
  lprior += student_t_lpdf(sd_1 | 3, 0, 2.5)
    - 1 * student_t_lccdf(0 | 3, 0, 2.5);"""


@dataclass(frozen=True)
class Case:
    """A program and a generator of its data."""

    text: str
    data: Callable[[np.random.Generator], dict[str, Any]]


def design(rng: np.random.Generator) -> dict[str, Any]:
    X = np.column_stack([np.ones(N), rng.normal(0.5, 1, N), rng.integers(0, 2, N)])
    return {"N": N, "K": 3, "Kc": 2, "X": X, "prior_only": 0}


def eta(data: dict[str, Any], *b: float) -> np.ndarray:
    return data["X"] @ np.array(b)


def made(response: Callable[[np.random.Generator, dict[str, Any]], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def make(rng: np.random.Generator) -> dict[str, Any]:
        data = design(rng)
        return data | response(rng, data)

    return make


def grouped(data: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"N_1": GROUPS, "M_1": 1, "J_1": rng.integers(1, GROUPS + 1, N), "Z_1_1": np.ones(N)}


def _groups(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    more = grouped(data, rng)
    return more | {"Y": eta(data, 1, 0.5, -0.5) + rng.normal(0, 0.7, GROUPS)[more["J_1"] - 1] + rng.normal(0, 1, N)}


def _slopes(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    more = grouped(data, rng) | {"M_1": 2, "Z_1_2": data["X"][:, 1], "NC_1": 1}
    effects = rng.multivariate_normal([0, 0], [[0.5, 0.1], [0.1, 0.3]], GROUPS)[more["J_1"] - 1]
    return more | {"Y": eta(data, 1, 0.5, -0.5) + effects[:, 0] + effects[:, 1] * data["X"][:, 1] + rng.normal(0, 1, N)}


def _ordinal(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    z = eta(data, 0, 0.8, -0.5) + rng.logistic(0, 1, N)
    return {"Y": 1 + (z > -0.5) + (z > 1), "nthres": 2}


def _choice(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    logits = np.column_stack([np.zeros(N), eta(data, 0.3, 0.5, 0), eta(data, -0.2, 0, 0.6)])
    return {"Y": 1 + np.argmax(logits + rng.gumbel(size=(N, 3)), axis=1), "ncat": 3}


def _counts(rng: np.random.Generator, data: dict[str, Any], share: float = 0.3) -> dict[str, Any]:
    return {"Y": np.where(rng.random(N) < share, 0, rng.poisson(np.exp(eta(data, 1.2, 0.3, -0.3))))}


def _censored(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    y = eta(data, 1, 0.5, -0.5) + rng.normal(0, 1, N)
    return {"Y": np.minimum(y, 2.0), "cens": (y > 2.0).astype(int)}


def _spline(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    x = rng.uniform(-1, 1, N)
    basis = np.column_stack([np.sin((k + 1) * np.pi * x) for k in range(3)])
    y = eta(data, 1, 0.5, -0.5) + basis @ [0.8, -0.4, 0.2] + rng.normal(0, 0.7, N)
    return {"Y": y, "nb_1": 1, "knots_1": [3], "Zs_1_1": basis}


def _exposed(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    offsets = rng.normal(0, 0.5, N)
    return {"offsets": offsets, "Y": rng.poisson(np.exp(eta(data, 1, 0.3, -0.3) + offsets))}


HURDLE = """
  real hurdle_poisson_log_lpmf(int y, real eta, real hu) {
    if (y == 0) {
      return bernoulli_lpmf(1 | hu);
    } else {
      return bernoulli_lpmf(0 | hu) + poisson_log_lpmf(y | eta) - log1m_exp(-exp(eta));
    }
  }"""
INFLATED = """
  real zero_inflated_poisson_log_lpmf(int y, real eta, real zi) {
    if (y == 0) {
      return log_sum_exp(bernoulli_lpmf(1 | zi), bernoulli_lpmf(0 | zi) + poisson_log_lpmf(0 | eta));
    } else {
      return bernoulli_lpmf(0 | zi) + poisson_log_lpmf(y | eta);
    }
  }"""
POSITIVE = "\n  real<lower=0> sigma;  // dispersion parameter"
SHAPE = "\n  lprior += gamma_lpdf(shape | 0.01, 0.01);"
COUNT, REAL, GAMMA = "array[N] int<lower=0> Y;", "vector[N] Y;", "\n  real<lower=0> shape;  // shape parameter"

CUMULATIVE = f"""data {{
  int<lower=1> N;  // total number of observations
  array[N] int Y;  // response variable
  int<lower=2> nthres;  // number of thresholds{CENTRED.replace("<lower=1> Kc", "<lower=1> Kc")}
  int prior_only;  // should the likelihood be ignored?
}}
transformed data {{
  matrix[N, Kc] Xc;  // centered version of X
  vector[Kc] means_X;  // column means of X before centering
  for (i in 2:K) {{
    means_X[i - 1] = mean(X[, i]);
    Xc[, i - 1] = X[, i] - means_X[i - 1];
  }}
}}
parameters {{
  vector[Kc] b;  // regression coefficients
  ordered[nthres] Intercept;  // temporary thresholds for centered predictors
}}
transformed parameters {{
  real lprior = 0;
  lprior += student_t_lpdf(Intercept | 3, 0, 2.5);
}}
model {{
  if (!prior_only) {{
    target += ordered_logistic_glm_lpmf(Y | Xc, b, Intercept);
  }}
  target += lprior;
}}
"""

CATEGORICAL = f"""data {{
  int<lower=1> N;  // total number of observations
  int<lower=2> ncat;  // number of categories
  array[N] int<lower=1, upper=ncat> Y;  // response variable{CENTRED}
  int prior_only;  // should the likelihood be ignored?
}}
transformed data {{{MEANS}
}}
parameters {{
  vector[Kc] b_mu2;  // regression coefficients
  real Intercept_mu2;  // temporary intercept for centered predictors
  vector[Kc] b_mu3;
  real Intercept_mu3;
}}
transformed parameters {{
  real lprior = 0;
  lprior += student_t_lpdf(Intercept_mu2 | 3, 0, 2.5);
  lprior += student_t_lpdf(Intercept_mu3 | 3, 0, 2.5);
}}
model {{
  if (!prior_only) {{
    vector[N] mu2 = rep_vector(0.0, N);
    vector[N] mu3 = rep_vector(0.0, N);
    array[N] vector[ncat] mu;
    mu2 += Intercept_mu2 + Xc * b_mu2;
    mu3 += Intercept_mu3 + Xc * b_mu3;
    for (n in 1:N) {{
      mu[n] = transpose([0, mu2[n], mu3[n]]);
    }}
    for (n in 1:N) {{
      target += categorical_logit_lpmf(Y[n] | mu[n]);
    }}
  }}
  target += lprior;
}}
"""

CASES: dict[str, Case] = {
    "gaussian": Case(
        program(REAL, "target += normal_id_glm_lpdf(Y | Xc, Intercept, b, sigma);", parameters=POSITIVE, lprior=SIGMA),
        made(lambda rng, d: {"Y": eta(d, 1, 0.5, -0.5) + rng.normal(0, 1, N)}),
    ),
    "student": Case(
        program(
            REAL, "target += student_t_lpdf(Y | nu, mu, sigma);", setup=LINEAR,
            parameters=POSITIVE + "\n  real<lower=1> nu;  // degrees of freedom or shape",
            lprior=SIGMA + "\n  lprior += gamma_lpdf(nu | 2, 0.1)\n    - 1 * gamma_lccdf(1 | 2, 0.1);",
        ),
        made(lambda rng, d: {"Y": eta(d, 1, 0.5, -0.5) + rng.standard_t(5, N)}),
    ),
    "lognormal": Case(
        program("vector<lower=0>[N] Y;", "target += lognormal_lpdf(Y | mu, sigma);", setup=LINEAR, parameters=POSITIVE,
                lprior=SIGMA),
        made(lambda rng, d: {"Y": np.exp(eta(d, 0.5, 0.3, -0.3) + rng.normal(0, 0.5, N))}),
    ),
    "bernoulli": Case(
        program("array[N] int<lower=0, upper=1> Y;", "target += bernoulli_logit_glm_lpmf(Y | Xc, Intercept, b);"),
        made(lambda rng, d: {"Y": (rng.random(N) < 1 / (1 + np.exp(-eta(d, 0.2, 0.8, -0.5)))).astype(int)}),
    ),
    "binomial": Case(
        program(COUNT, "target += binomial_logit_lpmf(Y | trials, mu);", setup=LINEAR,
                data="\n  array[N] int<lower=0> trials;  // number of trials"),
        made(lambda rng, d: {"trials": np.full(N, 8), "Y": rng.binomial(8, 1 / (1 + np.exp(-eta(d, 0.2, 0.5, -0.5))))}),
    ),
    "poisson": Case(
        program(COUNT, "target += poisson_log_glm_lpmf(Y | Xc, Intercept, b);"),
        made(lambda rng, d: {"Y": rng.poisson(np.exp(eta(d, 1, 0.3, -0.3)))}),
    ),
    "negbinomial": Case(
        program(COUNT, "target += neg_binomial_2_log_glm_lpmf(Y | Xc, Intercept, b, shape);", parameters=GAMMA,
                lprior="\n  lprior += inv_gamma_lpdf(shape | 0.4, 0.3);"),
        made(lambda rng, d: {"Y": rng.poisson(np.exp(eta(d, 1, 0.3, -0.3)) * rng.gamma(2, 0.5, N))}),
    ),
    "Gamma": Case(
        program("vector<lower=0>[N] Y;", "target += gamma_lpdf(Y | shape, shape ./ mu);", parameters=GAMMA,
                setup=LINEAR + "\n    mu = exp(mu);", lprior=SHAPE),
        made(lambda rng, d: {"Y": rng.gamma(3, np.exp(eta(d, 0.5, 0.3, -0.3)) / 3)}),
    ),
    "beta": Case(
        program("vector<lower=0, upper=1>[N] Y;", "target += beta_lpdf(Y | mu .* phi, (1 - mu) .* phi);",
                setup=LINEAR + "\n    mu = inv_logit(mu);", parameters="\n  real<lower=0> phi;  // precision parameter",
                lprior="\n  lprior += gamma_lpdf(phi | 0.01, 0.01);"),
        made(lambda rng, d: {"Y": rng.beta(4 / (1 + np.exp(-eta(d, 0, 0.5, 0))), 4 / (1 + np.exp(eta(d, 0, 0.5, 0))))}),
    ),
    "cumulative": Case(CUMULATIVE, made(_ordinal)),
    "categorical": Case(CATEGORICAL, made(_choice)),
    "hurdle_poisson": Case(
        program(COUNT, "for (n in 1:N) {\n      target += hurdle_poisson_log_lpmf(Y[n] | mu[n], hu);\n    }",
                functions=HURDLE, setup=LINEAR, parameters="\n  real<lower=0, upper=1> hu;  // hurdle probability",
                lprior="\n  lprior += beta_lpdf(hu | 1, 1);"),
        made(_counts),
    ),
    "zero_inflated_poisson": Case(
        program(COUNT, "for (n in 1:N) {\n      target += zero_inflated_poisson_log_lpmf(Y[n] | mu[n], zi);\n    }",
                functions=INFLATED, setup=LINEAR, parameters="\n  real<lower=0, upper=1> zi;  // inflation",
                lprior="\n  lprior += beta_lpdf(zi | 1, 1);"),
        made(_counts),
    ),
    "(1 | g)": Case(
        program(REAL, "target += normal_id_glm_lpdf(Y | Xc, mu, b, sigma);", data=ONE_GROUP,
                parameters=POSITIVE + DEVIATIONS, transformed=EFFECTS, lprior=SIGMA + SD,
                setup="""
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept;
    for (n in 1:N) {
      // add more terms to the linear predictor
      mu[n] += r_1_1[J_1[n]] * Z_1_1[n];
    }""",
                priors="\n  target += std_normal_lpdf(z_1[1]);"),
        made(_groups),
    ),
    "(x | g)": Case(
        program(REAL, "target += normal_id_glm_lpdf(Y | Xc, mu, b, sigma);",
                functions="""
  matrix scale_r_cor(matrix z, vector SD, matrix L) {
    // r is stored in another dimension order than z
    return transpose(diag_pre_multiply(SD, L) * z);
  }""",
                data=ONE_GROUP + "\n  vector[N] Z_1_2;\n  int<lower=1> NC_1;  // number of group-level correlations",
                parameters=POSITIVE + """
  vector<lower=0>[M_1] sd_1;  // group-level standard deviations
  matrix[M_1, N_1] z_1;  // standardized group-level effects
  cholesky_factor_corr[M_1] L_1;  // cholesky factor of correlation matrix""",
                transformed="""
  matrix[N_1, M_1] r_1;  // actual group-level effects
  vector[N_1] r_1_1;
  vector[N_1] r_1_2;
  // compute actual group-level effects
  r_1 = scale_r_cor(z_1, sd_1, L_1);
  r_1_1 = r_1[, 1];
  r_1_2 = r_1[, 2];""",
                lprior=SIGMA + SD.replace("- 1 *", "- 2 *") + "\n  lprior += lkj_corr_cholesky_lpdf(L_1 | 1);",
                setup="""
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept;
    for (n in 1:N) {
      mu[n] += r_1_1[J_1[n]] * Z_1_1[n] + r_1_2[J_1[n]] * Z_1_2[n];
    }""",
                priors="\n  target += std_normal_lpdf(to_vector(z_1));"),
        made(_slopes),
    ),
    "s(x)": Case(
        program(REAL, "target += normal_id_glm_lpdf(Y | Xc, mu, b, sigma);",
                data="""
  int nb_1;  // number of bases
  array[nb_1] int knots_1;  // number of knots
  matrix[N, knots_1[1]] Zs_1_1;  // basis function matrices""",
                parameters=POSITIVE + """
  vector[knots_1[1]] zs_1_1;  // standardized penalized spline coefficients
  vector<lower=0>[nb_1] sds_1;  // SDs of penalized spline coefficients""",
                transformed="\n  vector[knots_1[1]] s_1_1;\n  s_1_1 = sds_1[1] * zs_1_1;",
                lprior=SIGMA + SD.replace("sd_1", "sds_1"),
                setup="\n    vector[N] mu = rep_vector(0.0, N);\n    mu += Intercept + Zs_1_1 * s_1_1;",
                priors="\n  target += std_normal_lpdf(zs_1_1);"),
        made(_spline),
    ),
    "weights": Case(
        program(REAL, "for (n in 1:N) {\n      target += weights[n] * (normal_lpdf(Y[n] | mu[n], sigma));\n    }",
                setup=LINEAR, data="\n  vector<lower=0>[N] weights;  // model weights", parameters=POSITIVE,
                lprior=SIGMA),
        made(lambda rng, d: {"weights": rng.integers(1, 3, N), "Y": eta(d, 1, 0.5, -0.5) + rng.normal(0, 1, N)}),
    ),
    "offset": Case(
        program(COUNT, "target += poisson_log_lpmf(Y | mu);", data="\n  vector[N] offsets;",
                setup=LINEAR.replace("Intercept + Xc * b", "Intercept + Xc * b + offsets")),
        made(_exposed),
    ),
    "cens": Case(
        program(REAL, """for (n in 1:N) {
      // special treatment of censored data
      if (cens[n] == 0) {
        target += normal_lpdf(Y[n] | mu[n], sigma);
      } else if (cens[n] == 1) {
        target += normal_lccdf(Y[n] | mu[n], sigma);
      } else if (cens[n] == -1) {
        target += normal_lcdf(Y[n] | mu[n], sigma);
      }
    }""", setup=LINEAR, data="\n  array[N] int<lower=-1, upper=2> cens;  // indicates censoring", parameters=POSITIVE,
                lprior=SIGMA),
        made(_censored),
    ),
}  # fmt: skip
"""By the family or the term of the formula."""
