"""Binomial rates with beta priors, and learning of dogs from their own history of shocks and avoidances."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayesrecon.domains import Domain
from bayesrecon.model import Model, Records
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.latent import BinomialLogit, DensityLaw, index, levels, observe, standard
from bayesrecon.models.entry import Shipped


def _rate(name: str, latents: tuple[str, ...], separate: bool = False) -> Any:
    """Successes `k` of `n`; one rate for all samples, or one each."""

    def build() -> Model:
        def program(n: Any, k: Any, sample: Any = None) -> None:
            rates = [numpyro.sample(name, dist.Beta(1, 1)) for name in latents]
            theta: Any = jnp.stack(rates)[sample - 1] if separate else rates[0]
            logit = jnp.broadcast_to(jnp.log(theta) - jnp.log1p(-theta), n.shape)
            observe("k", BinomialLogit(logit, n), k, n.shape[0])

        record: dict[str, tuple[int, ...]] = {**({"sample": ()} if separate else {}), "n": (), "k": ()}
        domain: dict[str, Any] = {"n": "count", "k": "count"}
        if separate:
            domain["sample"] = levels(len(latents))
        return adapt(program, record, domain=domain, name=name)

    return build


def survey(nmax: int = 500, surveys: int = 5) -> Model:
    """Returns `k_i ~ Binomial(n, theta)` of several surveys of one size, `n` uniform on 1 to `nmax` and summed out.

    They share n, so that one record is all counts.
    """
    sizes = np.arange(1.0, nmax + 1)

    def program(k: Any) -> None:
        theta: Any = numpyro.sample("theta", dist.Beta(1, 1))
        logit = jnp.log(theta) - jnp.log1p(-theta)

        def log_density(counts: Any) -> Any:
            terms = BinomialLogit(logit, sizes).log_prob(counts[..., None]).sum(axis=-2)
            large = sizes >= counts.max(axis=-1)[..., None]
            possible: Any = jnp.where(large, terms, -jnp.inf)
            return jax.scipy.special.logsumexp(possible, axis=-1) - jnp.log(nmax)

        def draw(key: Any) -> Any:
            size, returns = jax.random.split(key)
            n = jax.random.randint(size, (k.shape[0], 1), 1, nmax + 1)
            return jax.random.binomial(returns, n, theta, (k.shape[0], surveys)).astype(int)

        support = constraints.independent(constraints.integer_interval(0, nmax), 1)
        observe("k", DensityLaw(log_density, support, (k.shape[0],), (surveys,), draw), k, k.shape[0])

    return adapt(
        program,
        {"k": (surveys,)},
        domain={"k": Domain("integer", 0, nmax)},
        name="Survey_model",
        settings={"nmax": nmax, "surveys": surveys},
    )


def _one(data: Mapping[str, Any]) -> Records:
    return {"n": np.array([data["n"]]), "k": np.array([data["k"]])}


def _two(data: Mapping[str, Any], separate: bool = False) -> Records:
    both = {"n": np.array([data["n1"], data["n2"]]), "k": np.array([data["k1"], data["k2"]])}
    return {"sample": np.array([1, 2]), **both} if separate else both


# Dogs: 25 trials each; in the first every dog is shocked.


def _history(data: Mapping[str, Any]) -> Records:
    y = index(data, "y")
    shock = np.cumsum(y, axis=1) - y
    dog, trial = np.indices(y.shape)
    return {
        "dog": dog.ravel() + 1,
        "shock": shock.ravel(),
        "avoid": (trial - shock).ravel(),
        "y": y.ravel(),
    }


def _after_the_first(data: Mapping[str, Any]) -> Records:
    """The first trial says nothing where its probability is one whatever the parameters."""
    z = _history(data)
    later = z["shock"] + z["avoid"] > 0
    return {k: v[later] for k, v in z.items()}


def _without_dog(records: Records) -> Records:
    return {k: v for k, v in records.items() if k != "dog"}


def _shocked(log_p: Any) -> Any:
    """Law of y with `log P(y = 1) = log_p < 0`."""

    def log_density(y: Any) -> Any:
        return jnp.where(y == 1, log_p, jnp.log(-jnp.expm1(jnp.minimum(log_p, -1e-300))))

    return DensityLaw(
        log_density, constraints.boolean, log_p.shape, draw=lambda key: jax.random.bernoulli(key, jnp.exp(log_p)) * 1
    )


def _domain(trials: int, first: bool) -> dict[str, Any]:
    # Avoidance is possible from the second trial on, when there has been a shock.
    return {"shock": Domain("integer", 0 if first else 1, trials - 1), "avoid": Domain("integer", 0, trials - 2)}


def dogs(trials: int = 25) -> Model:
    """`logit P(shock) = beta_1 + beta_2 avoidances + beta_3 shocks`."""

    def program(shock: Any, avoid: Any, y: Any = None) -> None:
        beta: Any = numpyro.sample("beta", dist.Normal(0, 100).expand((3,)).to_event(1))
        observe("y", dist.Bernoulli(logits=beta[0] + beta[1] * avoid + beta[2] * shock), y, shock.shape[0])

    record = {"shock": (), "avoid": (), "y": ()}
    return adapt(program, record, domain=_domain(trials, True), name="dogs", settings={"trials": trials})


def dogs_log(trials: int = 25) -> Model:
    """`logit P(shock) = beta_1 avoidances + beta_2 shocks` with `beta_1 < 0 < beta_2`."""

    def program(shock: Any, avoid: Any, y: Any = None) -> None:
        low, high = np.array([-100.0, 0.0]), np.array([0.0, 100.0])
        beta: Any = numpyro.sample("beta", dist.Uniform(low, high).to_event(1))
        observe("y", dist.Bernoulli(logits=beta[0] * avoid + beta[1] * shock), y, shock.shape[0])

    record = {"shock": (), "avoid": (), "y": ()}
    return adapt(program, record, domain=_domain(trials, True), name="dogs_log", settings={"trials": trials})


def dogs_hierarchical(trials: int = 25) -> Model:
    """`P(shock) = a^shocks b^avoidances`, the same for all dogs (posteriordb's name notwithstanding)."""

    def program(shock: Any, avoid: Any, y: Any = None) -> None:
        a: Any = numpyro.sample("a", dist.Uniform(0, 1))
        b: Any = numpyro.sample("b", dist.Uniform(0, 1))
        observe("y", _shocked(shock * jnp.log(a) + avoid * jnp.log(b)), y, shock.shape[0])

    record = {"shock": (), "avoid": (), "y": ()}
    domain, settings = _domain(trials, False), {"trials": trials}
    return adapt(program, record, domain=domain, name="dogs_hierarchical", settings=settings)


def dogs_nonhierarchical(dogs: int = 30, trials: int = 25) -> Model:
    """`P(shock) = a_dog^shocks b_dog^avoidances`, with `(logit a, logit b)` jointly normal over dogs."""

    def program(dog: Any, shock: Any, avoid: Any, y: Any = None) -> None:
        mu = numpyro.sample("mu_logit_ab", dist.Logistic(0, 1).expand((2,)).to_event(1))
        sigma: Any = numpyro.sample("sigma_logit_ab", dist.HalfNormal(1).expand((2,)).to_event(1))
        factor: Any = numpyro.sample("L_logit_ab", dist.LKJCholesky(2, 2.0))
        # The original multiplies by diag(sigma) L, not by its transpose.
        logit = mu + standard("z", dogs, 2) @ (sigma[:, None] * factor)
        log_ab = jax.nn.log_sigmoid(logit[dog - 1])
        observe("y", _shocked(shock * log_ab[:, 0] + avoid * log_ab[:, 1]), y, shock.shape[0])

    return adapt(
        program,
        {"dog": (), "shock": (), "avoid": (), "y": ()},
        domain={**_domain(trials, False), "dog": levels(dogs)},
        name="dogs_nonhierarchical",
        settings={"dogs": dogs, "trials": trials},
    )


def _trials(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"trials": int(data["n_trials"])}


_SEEN = ("shock", "avoid")

MODELS: tuple[Shipped, ...] = (
    *(
        Shipped(
            f"Rate_{k}_model",
            _rate(f"Rate_{k}_model", latents, separate),
            f"binomial rate with a uniform prior ({what})",
            records,
            (f"Rate_{k}_data-Rate_{k}_model",),
            design=("sample", "n") if separate else ("n",),
            response="k",
        )
        for k, latents, separate, what, records in (
            (1, ("theta",), False, "one sample", _one),
            (2, ("theta1", "theta2"), True, "two samples, two rates", partial(_two, separate=True)),
            (3, ("theta",), False, "two samples, one rate", _two),
            (4, ("theta", "thetaprior"), False, "one sample, and a draw from the prior", _one),
            (5, ("theta",), False, "two unlike samples, one rate", _two),
        )
    ),
    Shipped(
        "Survey_model",
        survey,
        "returns of several surveys of one unknown size; one record is all of them",
        lambda data: {"k": index(data, "k")[None]},
        ("Survey_data-Survey_model",),
        constants=lambda data: {"nmax": int(data["nmax"]), "surveys": int(data["m"])},
        response="k",
    ),
    Shipped(
        "dogs",
        dogs,
        "learning of dogs, logistic",
        lambda data: _without_dog(_history(data)),
        ("dogs-dogs",),
        constants=_trials,
        design=_SEEN,
        response="y",
    ),
    Shipped(
        "dogs_log",
        dogs_log,
        "learning of dogs, logistic without intercept",
        lambda data: _without_dog(_history(data)),
        ("dogs-dogs_log",),
        constants=_trials,
        design=_SEEN,
        response="y",
    ),
    Shipped(
        "dogs_hierarchical",
        dogs_hierarchical,
        "learning of dogs, powers of two rates",
        lambda data: _without_dog(_after_the_first(data)),
        ("dogs-dogs_hierarchical",),
        constants=_trials,
        design=_SEEN,
        response="y",
    ),
    Shipped(
        "dogs_nonhierarchical",
        dogs_nonhierarchical,
        "learning of dogs, powers of two rates per dog",
        _after_the_first,
        ("dogs-dogs_nonhierarchical",),
        constants=lambda data: {"dogs": int(data["n_dogs"]), **_trials(data)},
        design=("dog", *_SEEN),
        response="y",
    ),
)
