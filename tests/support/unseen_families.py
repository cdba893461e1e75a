"""Ten more families of likelihoods, which nothing was built or tuned on: what is said of families in general is
measured on them, so that no attack, test or model may use them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax.scipy.special import betaln, gammaln
from jax.scipy.stats import norm

from bayesrecon.models import from_numpyro
from bayesrecon.precision import x64
from bayesrecon.types import Model, Release
from tests.support.families import Family, exact, line, logistic, positive, release_of, with_x


def density(log_density: Callable[[Any, Any], Any]) -> Callable[..., None]:
    """The program with `y` of the log density `(x, y)`."""

    def program(x: Any, y: Any) -> None:
        numpyro.factor("records", log_density(x, y))

    return program


def kumaraswamy(x: Any, y: Any) -> Any:
    a, b = jnp.exp(line(x)), positive("b", 2.0, 1.0)
    return jnp.log(a * b) + (a - 1) * jnp.log(y) + (b - 1) * jnp.log1p(-(y**a))


def lomax(x: Any, y: Any) -> Any:
    shape, scale = positive("shape", 4.0, 1.0), jnp.exp(line(x))
    return jnp.log(shape / scale) - (shape + 1) * jnp.log1p(y / scale)


def birnbaum_saunders(x: Any, y: Any) -> Any:
    shape, z = positive("shape", 2.0, 2.0), y * jnp.exp(-line(x))
    root = jnp.sqrt(z)
    return jnp.log(root + 1 / root) - jnp.log(2 * shape * y) + norm.logpdf((root - 1 / root) / shape)


def logit_normal(x: Any, y: Any) -> Any:
    scale = positive("scale", 2.0, 2.0)
    z = (jnp.log(y) - jnp.log1p(-y) - line(x)) / scale
    return norm.logpdf(z) - jnp.log(scale * y * (1 - y))


def burr(x: Any, y: Any) -> Any:
    c, k, z = positive("c", 4.0, 2.0), positive("k", 4.0, 2.0), jnp.log(y) - line(x)
    return jnp.log(c * k / y) + c * z - (k + 1) * jnp.log1p(jnp.exp(c * z))


def gompertz(x: Any, y: Any) -> Any:
    growth, rate = positive("growth", 2.0, 2.0), jnp.exp(line(x))
    return jnp.log(rate) + growth * y - rate * jnp.expm1(growth * y) / growth


def nakagami(x: Any, y: Any) -> Any:
    m, rest = positive("m", 2.0, 1.0), line(x)
    return jnp.log(2) + m * (jnp.log(m) - rest) - gammaln(m) + (2 * m - 1) * jnp.log(y) - m * y**2 * jnp.exp(-rest)


def yule_simon(x: Any, y: Any) -> Any:
    """Of a count less one, so that it begins at zero."""
    rate = 1 + jnp.exp(line(x))
    return jnp.log(rate) + betaln(y + 1, rate + 1)


def hyperbolic_secant(x: Any, y: Any) -> Any:
    scale = positive("scale", 2.0, 1.0)
    z = jnp.pi * (y - line(x)) / (2 * scale)
    return -jnp.log(scale) - jnp.logaddexp(z, -z)


def log_series(x: Any, y: Any) -> Any:
    """Of a count less one."""
    eta, count = line(x), y + 1
    return -count * jax.nn.softplus(-eta) - jnp.log(count) - jnp.log(jax.nn.softplus(eta))


def _yule(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """A geometric law whose chance is that of a mixture."""
    return rng.geometric(np.exp(-rng.exponential(1 / (1 + np.exp(0.5 + 0.3 * x))))) - 1


def _gompertz(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return np.log1p(0.8 * rng.exponential(size=len(x)) * np.exp(1 - 0.5 * x)) / 0.8


def _birnbaum(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    z = 0.35 * rng.normal(size=len(x))
    return np.exp(1 + 0.4 * x) * (z + np.sqrt(z**2 + 1)) ** 2


def _secant(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return 1 + 0.5 * x + 1.5 * 2 / np.pi * np.log(np.tan(np.pi / 2 * rng.uniform(size=len(x))))


def _burr(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return np.exp(1 + 0.4 * x) * np.expm1(rng.exponential(1 / 1.5, len(x))) ** (1 / 2.5)


def _series(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return np.array([rng.logseries(p) for p in logistic(0.5 + 0.5 * x)]) - 1


UNSEEN = {
    "Kumaraswamy": Family(
        density(kumaraswamy),
        with_x(lambda r, x: (-np.expm1(-r.exponential(1 / 2.5, len(x)))) ** np.exp(-0.3 - 0.5 * x)),
        domain={"y": (0.0, 1.0)},
    ),
    "Lomax": Family(
        density(lomax),
        with_x(lambda r, x: np.exp(1 + 0.5 * x) * np.expm1(r.exponential(1 / 4, len(x)))),
        domain={"y": "positive"},
    ),
    "Birnbaum-Saunders": Family(density(birnbaum_saunders), with_x(_birnbaum), domain={"y": "positive"}),
    "logit-normal": Family(
        density(logit_normal), with_x(lambda r, x: logistic(r.normal(0.3 + 0.5 * x, 0.8))), domain={"y": (0.0, 1.0)}
    ),
    "Burr": Family(density(burr), with_x(_burr), domain={"y": "positive"}),
    "Gompertz": Family(density(gompertz), with_x(_gompertz), domain={"y": "positive"}),
    "Nakagami": Family(
        density(nakagami),
        with_x(lambda r, x: np.sqrt(r.gamma(1.5, np.exp(1 + 0.5 * x) / 1.5))),
        domain={"y": "positive"},
    ),
    "Yule-Simon": Family(density(yule_simon), with_x(_yule), domain={"y": "count"}),
    "hyperbolic secant": Family(density(hyperbolic_secant), with_x(_secant)),
    "log-series": Family(density(log_series), with_x(_series), domain={"y": "count"}),
}


def simulated(name: str, model: Model, key: int, draws: int, records: int) -> tuple[dict[str, Any], Release]:
    """A data set of the family, and the release of its posterior."""
    rng = np.random.default_rng([7, key])
    data = UNSEEN[name].sample(rng, rng.normal(0.3, 0.8, records))
    with x64():
        return data, release_of(model, exact(model, data, draws, rng))


@cache  # its programs are compiled once, however many data sets there are
def model_of(name: str) -> Model:
    family = UNSEEN[name]
    return from_numpyro(family.program, family.record, domain=family.domain, name=name.replace(" ", "_"))
