"""Item response models: a record is the answer of one person to one item, both known by their numbers.

Abilities and difficulties are written non-centred. Person covariates that a program centres and scales by
their own statistics enter the likelihood through the ability: they are a field of the record.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Records
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import (
    ILLEGAL,
    Data,
    Draws,
    Rebuilt,
    given,
    index,
    latent,
    levels,
    observe,
    rebuild,
    standard,
    standardised,
)
from bayesrecon.models.catalogue.lazy_numpyro import dist, extra, numpyro
from bayesrecon.models.catalogue.linear import Fields, Identities
from bayesrecon.models.entry import Shipped

if TYPE_CHECKING:
    from numpyro.distributions import Distribution


def irt_2pl(person: Array, item: Array, y: Array | None = None, *, persons: int = 100, items: int = 20) -> None:
    """Two-parameter logistic: `logit P(y = 1) = a_i (theta_j - b_i)`, all three hierarchical."""
    sigma_theta = latent("sigma_theta", dist.HalfCauchy(2))
    theta = sigma_theta * standard("theta_raw", persons)
    sigma_a = latent("sigma_a", dist.HalfCauchy(2))
    a = jnp.exp(sigma_a * standard("a_raw", items))
    mu_b = latent("mu_b", dist.Normal(0, 5))
    sigma_b = latent("sigma_b", dist.HalfCauchy(2))
    b = mu_b + sigma_b * standard("b_raw", items)
    eta = a[item - 1] * (theta[person - 1] - b[item - 1])
    observe("y", dist.Bernoulli(logits=eta), y, eta.shape[0])


def _irt_2pl_records(data: Data) -> Records:
    y = index(data, "y")
    item, person = np.indices(y.shape) + 1
    return {"person": person.ravel(), "item": item.ravel(), "y": y.ravel()}


def lsat_model(person: Array, item: Array, y: Array | None = None, *, persons: int = 1000, items: int = 5) -> None:
    """Rasch model with a common slope: `logit P(y = 1) = beta theta_j - alpha_k`."""
    alpha = latent("alpha", dist.Normal(0, 100).expand((items,)).to_event(1))
    theta = standard("theta", persons)
    beta = latent("beta", dist.HalfNormal(100))
    eta = beta * theta[person - 1] - alpha[item - 1]
    observe("y", dist.Bernoulli(logits=eta), y, eta.shape[0])


def _lsat_records(data: Data) -> Records:
    # Persons are listed by answer pattern; `culm` counts them cumulatively.
    answers = np.repeat(index(data, "response"), np.diff(index(data, "culm"), prepend=0), axis=0)
    person, item = np.indices(answers.shape) + 1
    return {"person": person.ravel(), "item": item.ravel(), "y": answers.ravel()}


def hier_2pl(person: Array, item: Array, y: Array | None = None, *, persons: int = 600, items: int = 32) -> None:
    """Two-parameter logistic with correlated items: `(log alpha_i, beta_i)` jointly normal."""
    theta = standard("theta", persons)
    mu = latent("mu", dist.Normal(0, np.array([1.0, 5.0])).to_event(1))
    tau = latent("tau", dist.Exponential(0.1).expand((2,)).to_event(1))
    factor = latent("L_Omega", dist.LKJCholesky(2, 4.0))
    xi = mu + standard("xi_raw", items, 2) @ (jnp.expand_dims(tau, -1) * factor).T
    eta = jnp.exp(xi[item - 1, 0]) * (theta[person - 1] - xi[item - 1, 1])
    observe("y", dist.Bernoulli(logits=eta), y, eta.shape[0])


def _standard_items(draws: Draws) -> Draws:
    """Published draws hold `xi1` and `xi2`; `xi_raw` solves `xi = mu + diag(tau) L xi_raw`."""
    if "xi_raw" in draws or not {"xi1", "xi2", "mu", "tau", "L_Omega"} <= draws.keys():
        return draws
    centred = np.stack([draws["xi1"], draws["xi2"]], axis=-1) - draws["mu"][:, :, None]
    factor = draws["tau"][..., None] * draws["L_Omega"]
    raw = np.linalg.solve(factor[:, :, None], centred[..., None])[..., 0]
    return {**{k: v for k, v in draws.items() if k not in ("xi1", "xi2")}, "xi_raw": raw}


# Latent regression: abilities have a mean that is linear in standardised person covariates.


def _ability(person: Array, W: Array | None, persons: int, covariates: int) -> jax.Array:
    weights = latent("lambda_adj", dist.StudentT(3, 0, 1).expand((covariates + 1,)).to_event(1))
    theta = weights[0] + standard("theta_raw", persons)[person - 1]
    return theta if W is None else theta + W @ weights[1:]


def _sum_to_zero(name: str, length: int) -> jax.Array:
    """`length` values that sum to zero, each with a normal distribution of scale 3, in terms of all but the last."""
    free = latent(f"{name}_free", dist.Normal(0, 3).expand((length - 1,)).to_event(1))
    last = -jnp.sum(free)
    numpyro.sample(f"{name}_last", dist.Normal(0, 3), obs=last)
    return jnp.append(free, last)


# Of a regression without covariates.
_ABILITY = Rebuilt("theta_raw", "theta", ("lambda_adj",), lambda x, weights: x - weights[..., :1])


def _without_means(draws: Draws, *, covariates: int) -> Draws:
    if not covariates:
        return rebuild(_ABILITY)(draws)
    if "theta" in draws and "theta_raw" not in draws:
        raise BayesreconError(
            "draws of theta include the effects of the persons' covariates, which are not in the draws; supply "
            "theta_raw = theta - lambda_adj[1] - W_adj lambda_adj[2:], where W_adj are the covariates as the program "
            "scales them"
        )
    return draws


def _scaled(items: int, covariates: int) -> Identities:
    """Every person answers every item, and the program scales each covariate to mean 0 and sd 1/2 over persons."""
    result: dict[str, tuple[Callable[[Fields], Array], float]] = {}
    for k in range(covariates):
        result[f"sum(W[{k + 1}])"] = (lambda z, k=k: z["W"][k], 0.0)
        result[f"sum(W[{k + 1}]^2)"] = (lambda z, k=k: 4 * z["W"][k] ** 2 - 1, -float(items))
    return result


def _latent_regression(
    program: Callable[..., None],
    name: str,
    summary: str,
    *,
    domain: Callable[..., dict[str, list[int]]],
    posteriors: tuple[str, ...],
    constants: Callable[[Data], dict[str, object]],
    design: tuple[str, ...],
    identities: Callable[..., Identities] = _scaled,
) -> Shipped:
    return from_program(
        program,
        summary,
        name=name,
        fields=lambda covariates: ("person", "item", *(["W"] if covariates else []), "y"),
        shapes=lambda covariates: {"W": (covariates,)} if covariates else {},
        prepare=_without_means,
        domain=domain,
        identities=identities,
        posteriors=posteriors,
        constants=constants,
        design=design,
        records=_answers_and_covariates,
    )


def latent_regression_2pl(
    person: Array,
    item: Array,
    W: Array | None = None,
    y: Array | None = None,
    *,
    persons: int = 500,
    items: int = 14,
    covariates: int = 3,
) -> None:
    """`logit P(y = 1) = alpha_i theta_j - beta_i` with `theta_j ~ Normal(lambda_1 + W_j lambda, 1)`."""
    alpha = latent("alpha", dist.LogNormal(1, 1).expand((items,)).to_event(1))
    beta = _sum_to_zero("beta", items)
    theta = _ability(person, W, persons, covariates)
    item = item - 1
    observe("y", dist.Bernoulli(logits=alpha[item] * theta - beta[item]), y, theta.shape[0])


def latent_regression_grsm(
    person: Array,
    item: jax.Array,
    W: Array | None = None,
    y: Array | None = None,
    *,
    persons: int = 392,
    items: int = 7,
    covariates: int = 0,
    steps: int = 3,
) -> None:
    """Generalised rating scale: categories 0 to `steps` with thresholds `beta_i + kappa_s`."""
    alpha = latent("alpha", dist.LogNormal(1, 1).expand((items,)).to_event(1))
    beta = _sum_to_zero("beta", items)
    kappa = _sum_to_zero("kappa", steps)
    theta = _ability(person, W, persons, covariates)
    item = item - 1
    above = (alpha[item] * theta - beta[item])[:, None] - kappa
    observe("y", _credit(above), y, theta.shape[0])


_STEPS = (1, 1, 1, 1, 1, 1, 1, 2, 2, 1, 1)


def latent_regression_gpcm(
    person: Array,
    item: Array,
    W: Array | None = None,
    y: Array | None = None,
    *,
    persons: int = 500,
    covariates: int = 4,
    steps: Sequence[int] = _STEPS,
) -> None:
    """Generalised partial credit: item i has categories 0 to `steps[i]`, each with a threshold of its own."""
    counts = np.asarray(steps, int)
    offered = np.arange(counts.max()) < counts[:, None]
    where = np.where(offered, np.cumsum(counts)[:, None] - counts[:, None] + np.arange(counts.max()), 0)
    alpha = latent("alpha", dist.LogNormal(1, 1).expand((len(counts),)).to_event(1))
    beta = _sum_to_zero("beta", int(counts.sum()))
    theta = _ability(person, W, persons, covariates)
    item = item - 1
    above = (alpha[item] * theta)[:, None] - beta[jnp.asarray(where)[item]]
    observe("y", _credit(jnp.where(jnp.asarray(offered)[item], above, ILLEGAL)), y, theta.shape[0])


def _credit(above: Array) -> "Distribution":
    """Distribution of the category: log odds against the one below it are the columns of `above`."""
    start = jnp.zeros((above.shape[0], 1))
    return dist.CategoricalLogits(jax.nn.log_softmax(jnp.cumsum(jnp.hstack([start, above]), axis=1)))


def _answers(data: Data) -> Records:
    return {"person": index(data, "jj"), "item": index(data, "ii"), "y": index(data, "y")}


def _answers_and_covariates(data: Data) -> Records:
    covariates = np.asarray(data["W"], float)[:, 1:]
    if not covariates.shape[1]:
        return _answers(data)
    # Mean and twice the standard deviation also for binary columns: so the program computes it.
    scaled = (covariates - covariates.mean(axis=0)) / (2 * covariates.std(axis=0, ddof=1))
    return {**_answers(data), "W": scaled[index(data, "jj") - 1]}


_SIZES = given(persons="J", items="I")


def _latent_sizes(data: Data) -> dict[str, object]:
    return {**_SIZES(data), "covariates": int(data["K"]) - 1}


def _gpcm_sizes(data: Data) -> dict[str, object]:
    item, y = index(data, "ii"), index(data, "y")
    steps = tuple(int(y[item == i].max()) for i in range(1, int(data["I"]) + 1))
    return {"persons": int(data["J"]), "covariates": int(data["K"]) - 1, "steps": steps}


def _answered(persons: int, items: int) -> dict[str, list[int]]:
    return {"person": levels(persons), "item": levels(items)}


_DESIGN = ("person", "item")

# Graded ratings of known items: skeletal age.


def bones_model(
    child: jax.Array,
    indicator: Array,
    grade: Array | None = None,
    *,
    children: int = 13,
    delta: Sequence[float] = (2.9541,),
    gamma: Sequence[Sequence[float]] = ((0.7425, -1.0, -1.0, -1.0),),
    categories: Sequence[int] = (2,),
) -> None:
    """Graded response with published item parameters: `P(grade > k) = logit^-1(delta_j (theta_i - gamma_jk))`."""
    slope, cut, count = np.asarray(delta, float), np.asarray(gamma, float), np.asarray(categories, int)
    grades = cut.shape[1] + 1
    exists = np.arange(1, grades) < count[:, None]  # threshold k exists for item j
    theta = latent("theta", dist.Normal(0, 36).expand((children,)).to_event(1))
    j = indicator - 1
    log_odds = jnp.asarray(slope)[j][:, None] * (theta[child - 1][:, None] - jnp.asarray(cut)[j])
    logits = _graded(jnp.where(jnp.asarray(exists)[j], log_odds, ILLEGAL))
    observe("grade", extra.OneBased(logits), grade, logits.shape[0])


def _graded(log_odds: Array) -> jax.Array:
    """Log probabilities of the grades from the log odds `at[:, k]` of exceeding grade k, which decrease in k."""
    first = -jax.nn.softplus(log_odds[:, :1])
    last = -jax.nn.softplus(-log_odds[:, -1:])
    # log(s(u) - s(v)) = log s(u) + log s(-v) + log(1 - exp(v - u)) for the logistic function s and u > v.
    gap = jnp.maximum(log_odds[:, :-1] - log_odds[:, 1:], 1e-12)
    between = -jax.nn.softplus(-log_odds[:, :-1]) - jax.nn.softplus(log_odds[:, 1:]) + jnp.log(-jnp.expm1(-gap))
    return jnp.concatenate([first, between, last], axis=1)


def _bones_records(data: Data) -> Records:
    grade = index(data, "grade")
    child, indicator = np.nonzero(grade != -1)
    return {"child": child + 1, "indicator": indicator + 1, "grade": grade[child, indicator]}


MODELS: tuple[Shipped, ...] = (
    from_program(
        irt_2pl,
        "two-parameter logistic item response, answers of persons to items",
        domain=_answered,
        prepare=rebuild(
            standardised("theta_raw", "theta", None, "sigma_theta"),
            Rebuilt("a_raw", "a", ("sigma_a",), lambda a, s: np.log(a) / s),
            standardised("b_raw", "b", "mu_b", "sigma_b"),
        ),
        records=_irt_2pl_records,
        posteriors=("irt_2pl-irt_2pl",),
        constants=_SIZES,
        design=_DESIGN,
    ),
    from_program(
        lsat_model,
        "Rasch model with a common slope",
        domain=_answered,
        records=_lsat_records,
        posteriors=("lsat_data-lsat_model",),
        constants=given(persons="N", items="T"),
        design=_DESIGN,
    ),
    from_program(
        hier_2pl,
        "two-parameter logistic item response with correlated item parameters",
        domain=_answered,
        prepare=_standard_items,
        records=_answers,
        posteriors=("sat-hier_2pl",),
        constants=_SIZES,
        design=_DESIGN,
    ),
    _latent_regression(
        latent_regression_2pl,
        "2pl_latent_reg_irt",
        "two-parameter logistic item response with a regression of ability",
        domain=lambda persons, items: _answered(persons, items) | {"y": [0, 1]},
        posteriors=("fims_Aus_Jpn_irt-2pl_latent_reg_irt",),
        constants=_latent_sizes,
        design=(*_DESIGN, "W"),
    ),
    _latent_regression(
        latent_regression_grsm,
        "grsm_latent_reg_irt",
        "generalised rating scale with a regression of ability",
        domain=lambda persons, items, steps: _answered(persons, items) | {"y": list(range(steps + 1))},
        posteriors=("science_irt-grsm_latent_reg_irt",),
        constants=lambda data: {**_latent_sizes(data), "steps": int(max(data["y"]))},
        design=_DESIGN,
    ),
    _latent_regression(
        latent_regression_gpcm,
        "gpcm_latent_reg_irt",
        "generalised partial credit with a regression of ability",
        domain=lambda persons, steps: _answered(persons, len(steps)) | {"y": list(range(max(steps) + 1))},
        identities=lambda steps, covariates: _scaled(len(steps), covariates),
        posteriors=("timssAusTwn_irt-gpcm_latent_reg_irt",),
        constants=_gpcm_sizes,
        design=(*_DESIGN, "W"),
    ),
    from_program(
        bones_model,
        "graded skeletal age: grades of children on known indicators",
        domain=lambda children, delta, gamma: {
            "child": levels(children),
            "indicator": levels(len(delta)),
            "grade": levels(len(gamma[0]) + 1),
        },
        records=_bones_records,
        posteriors=("bones_data-bones_model",),
        constants=given("delta", "gamma", children="nChild", categories="ncat"),
        design=("child", "indicator"),
    ),
)
