"""Binomial rates with beta priors, and learning of dogs from their own history of shocks and avoidances."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.domains import Domain
from bayesrecon.model import Records
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import Data, given, index, latent, levels, observe, standard
from bayesrecon.models.catalogue.lazy_numpyro import constraints, dist, extra
from bayesrecon.models.entry import Shipped

if TYPE_CHECKING:
    from bayesrecon.models.catalogue._extra_distributions import FromLogDensity


def _rate(
    k: int, latents: tuple[str, ...], description: str, records: Callable[[Data], Records], separate: bool = False
) -> Shipped:
    """Entry of a model of `k` successes in `n` trials, with one rate for all samples or separate rates."""
    sample = {"sample": levels(len(latents))} if separate else {}

    def program(n: jax.Array, k: Array, sample: Array | None = None) -> None:
        rates = [latent(name, dist.Beta(1, 1)) for name in latents]
        theta = rates[0] if sample is None else jnp.stack(rates)[sample - 1]
        logit = jnp.broadcast_to(jnp.log(theta) - jnp.log1p(-theta), n.shape)
        observe("k", extra.BinomialLogit(logit, n), k, n.shape[0])

    return from_program(
        program,
        f"binomial rate with a uniform prior ({description})",
        name=f"Rate_{k}_model",
        fields=(*sample, "n", "k"),
        domain={"n": "count", "k": "count", **sample},
        records=records,
        posteriors=(f"Rate_{k}_data-Rate_{k}_model",),
        design=(*sample, "n"),
    )


def survey(k: Array, *, nmax: int = 500, surveys: int = 5) -> None:
    """Returns `k_i ~ Binomial(n, theta)` of several surveys of one size, `n` uniform on 1 to `nmax` and summed out.

    Because the surveys share n, one record holds all counts.
    """
    sizes = np.arange(1.0, nmax + 1)
    theta = latent("theta", dist.Beta(1, 1))
    logit = jnp.log(theta) - jnp.log1p(-theta)

    def log_density(counts: jax.Array) -> jax.Array:
        terms = jnp.sum(extra.BinomialLogit(logit, sizes).log_prob(counts[..., None]), axis=-2)
        feasible = sizes >= counts.max(axis=-1)[..., None]
        feasible_terms = jnp.where(feasible, terms, jnp.asarray(-jnp.inf))
        return jax.scipy.special.logsumexp(feasible_terms, axis=-1) - jnp.log(nmax)

    def draw(key: jax.Array) -> jax.Array:
        size, returns = jax.random.split(key)
        n = jax.random.randint(size, (k.shape[0], 1), 1, nmax + 1)
        return jax.random.binomial(returns, n, theta, (k.shape[0], surveys)).astype(int)

    support = constraints.independent(constraints.integer_interval(0, nmax), 1)
    observe("k", extra.FromLogDensity(log_density, support, (k.shape[0],), (surveys,), draw), k, k.shape[0])


def _one_sample(data: Data) -> Records:
    return {"n": np.array([data["n"]]), "k": np.array([data["k"]])}


def _two_samples(data: Data, separate: bool = False) -> Records:
    records = {"n": np.array([data["n1"], data["n2"]]), "k": np.array([data["k1"], data["k2"]])}
    return {"sample": np.array([1, 2]), **records} if separate else records


# Dogs have 25 trials each, and every dog is shocked in the first.


def _history_of_dogs(data: Data) -> Records:
    y = index(data, "y")
    shock = np.cumsum(y, axis=1) - y
    dog, trial = np.indices(y.shape)
    return {
        "dog": dog.ravel() + 1,
        "shock": shock.ravel(),
        "avoid": (trial - shock).ravel(),
        "y": y.ravel(),
    }


def _after_the_first(data: Data) -> Records:
    """Records without the first trial, whose probability is one for all parameters."""
    trials = _history_of_dogs(data)
    informative = trials["shock"] + trials["avoid"] > 0
    return {k: v[informative] for k, v in trials.items()}


def _shock_distribution(log_p: Array) -> "FromLogDensity":
    """Distribution of y with `log P(y = 1) = log_p < 0`."""

    def log_density(y: jax.Array) -> jax.Array:
        return jnp.where(y == 1, log_p, jnp.log(-jnp.expm1(jnp.minimum(log_p, -1e-300))))

    return extra.FromLogDensity(
        log_density, constraints.boolean, log_p.shape, draw=lambda key: jax.random.bernoulli(key, jnp.exp(log_p)) * 1
    )


def _domain(trials: int, first: bool) -> dict[str, Domain]:
    # Avoidance is possible from the second trial on, when there has been a shock.
    return {"shock": Domain("integer", 0 if first else 1, trials - 1), "avoid": Domain("integer", 0, trials - 2)}


def dogs(shock: Array, avoid: Array, y: Array | None = None, *, trials: int = 25) -> None:
    """`logit P(shock) = beta_1 + beta_2 avoidances + beta_3 shocks`."""
    beta = latent("beta", dist.Normal(0, 100).expand((3,)).to_event(1))
    observe("y", dist.Bernoulli(logits=beta[0] + beta[1] * avoid + beta[2] * shock), y, shock.shape[0])


def dogs_log(shock: Array, avoid: Array, y: Array | None = None, *, trials: int = 25) -> None:
    """`logit P(shock) = beta_1 avoidances + beta_2 shocks` with `beta_1 < 0 < beta_2`."""
    low, high = np.array([-100.0, 0.0]), np.array([0.0, 100.0])
    beta = latent("beta", dist.Uniform(low, high).to_event(1))
    observe("y", dist.Bernoulli(logits=beta[0] * avoid + beta[1] * shock), y, shock.shape[0])


def dogs_hierarchical(shock: Array, avoid: Array, y: Array | None = None, *, trials: int = 25) -> None:
    """`P(shock) = a^shocks b^avoidances`, the same for all dogs (posteriordb's name notwithstanding)."""
    a = latent("a", dist.Uniform(0, 1))
    b = latent("b", dist.Uniform(0, 1))
    observe("y", _shock_distribution(shock * jnp.log(a) + avoid * jnp.log(b)), y, shock.shape[0])


def dogs_nonhierarchical(
    dog: Array, shock: Array, avoid: Array, y: Array | None = None, *, dogs: int = 30, trials: int = 25
) -> None:
    """`P(shock) = a_dog^shocks b_dog^avoidances`, with `(logit a, logit b)` jointly normal over dogs."""
    mu = latent("mu_logit_ab", dist.Logistic(0, 1).expand((2,)).to_event(1))
    sigma = latent("sigma_logit_ab", dist.HalfNormal(1).expand((2,)).to_event(1))
    factor = latent("L_logit_ab", dist.LKJCholesky(2, 2.0))
    # The original multiplies by diag(sigma) L, not by its transpose.
    logit = mu + standard("z", dogs, 2) @ (sigma[:, None] * factor)
    log_ab = jax.nn.log_sigmoid(logit[dog - 1])
    observe("y", _shock_distribution(shock * log_ab[:, 0] + avoid * log_ab[:, 1]), y, shock.shape[0])


_HISTORY = ("shock", "avoid")


def _pooled(program: Callable[..., None], how: str, informative: bool = False) -> Shipped:
    """Entry of a model in which all dogs learn alike, of all trials or of those after the first."""
    history = _after_the_first if informative else _history_of_dogs
    return from_program(
        program,
        f"learning of dogs, {how}",
        domain=lambda trials: _domain(trials, not informative),
        records=lambda data: {k: v for k, v in history(data).items() if k != "dog"},
        posteriors=(f"dogs-{program.__name__}",),
        constants=given(trials="n_trials"),
        design=_HISTORY,
    )


MODELS: tuple[Shipped, ...] = (
    _rate(1, ("theta",), "one sample", _one_sample),
    _rate(2, ("theta1", "theta2"), "two samples, two rates", partial(_two_samples, separate=True), separate=True),
    _rate(3, ("theta",), "two samples, one rate", _two_samples),
    _rate(4, ("theta", "thetaprior"), "one sample, and a draw from the prior", _one_sample),
    _rate(5, ("theta",), "two unlike samples, one rate", _two_samples),
    from_program(
        survey,
        "returns of several surveys of one unknown size; one record is all of them",
        name="Survey_model",
        shapes=lambda surveys: {"k": (surveys,)},
        domain=lambda nmax: {"k": Domain("integer", 0, nmax)},
        records=lambda data: {"k": index(data, "k")[None]},
        posteriors=("Survey_data-Survey_model",),
        constants=given("nmax", surveys="m"),
    ),
    _pooled(dogs, "logistic"),
    _pooled(dogs_log, "logistic without intercept"),
    _pooled(dogs_hierarchical, "powers of two rates", informative=True),
    from_program(
        dogs_nonhierarchical,
        "learning of dogs, powers of two rates per dog",
        domain=lambda dogs, trials: {**_domain(trials, False), "dog": levels(dogs)},
        records=_after_the_first,
        posteriors=("dogs-dogs_nonhierarchical",),
        constants=given(dogs="n_dogs", trials="n_trials"),
        design=("dog", *_HISTORY),
    ),
)
