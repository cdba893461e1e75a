"""Records with responses that the program predicts.

Densities of fields are drawn from, in the order in which the model block comes to them. That is possible where every
term of a record is the density of a field given what was drawn before it, as in `y ~ normal(mu, sigma)` and in
`target += normal_lpdf(y | mu, sigma)`. Of a mixture, as `log_mix(p, normal_lpdf(y | a, s), normal_lpdf(y | b, s))`, a
component is drawn and then the field. Truncated and censored responses, and densities that the program defines are not
drawn from.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import random

from bayesrecon.model import Params, Records
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.density_visitor import DensityVisitor
from bayesrecon.models.stan.frame import Frame, Run, fork
from bayesrecon.models.stan.machine import StanMachine, summands
from bayesrecon.models.stan.multivariate import ordered_logs
from bayesrecon.models.stan.named_densities import OF_PREDICTORS, density_of_call, linear_predictor
from bayesrecon.models.stan.record_term import Parts
from bayesrecon.models.stan.special import log_inv_logit, log_normal_cdf
from bayesrecon.models.stan.values import Elements, StanError, V

Places = tuple[int | None, ...]
"""Indices of an element of a field, from one; None for several or unknown ones, and empty for the whole field."""


class _Drawing(DensityVisitor):
    """Draws the fields that it comes to.

    Args:
        fields: names of what may be drawn.
        key: key of the random numbers.
    """

    def __init__(self, record: StanMachine, fields: frozenset[str], key: jax.Array):
        super().__init__(record)
        self._fields, self._key = fields, key
        self.drawn: list[tuple[str, Places]] = []

    def _response(self, node: tree.Expression) -> str | None:
        variate = node.container if isinstance(node, tree.Index) else node
        return variate.name if isinstance(variate, tree.VariableName) and variate.name in self._fields else None

    def visit_density(
        self, name: str, variate: tree.Expression, args: tuple[tree.Expression, ...], frame: Frame, run: Run
    ) -> bool:
        """A draw comes in place of the field, or of an element of it."""
        field = self._response(variate)
        if field is None:
            return False
        indices = variate.indices if isinstance(variate, tree.Index) else ()
        places = tuple(self._place(i, frame, run) for i in indices)
        if any(drawn_field == field and (not places or not at or at == places) for drawn_field, at in self.drawn):
            raise StanError(f"{field} has two densities")
        self.drawn.append((field, places))
        y, values = self.value(variate, frame, run), [self.value(a, frame, run) for a in args]
        new = sample(name, y, values, random.fold_in(self._key, len(self.drawn)))
        new = new if y.base == "int" else jnp.asarray(new, float)
        frame[field] = self._assigned(frame[field], indices, V(y.base, new, y.depth, True), frame, run)
        return True

    def visit_mixture(self, call: tree.Call, frame: Frame, run: Run) -> bool:
        """A draw of one of the components."""
        shares = self._shares(call, frame, run)
        if shares is None:
            return False
        before, after, frames = list(self.drawn), [], []
        for _, density in shares:
            self.drawn, component = list(before), fork(frame)
            if not self.visit_density(
                str(density_of_call(density.name)), density.args[0], density.args[1:], component, run
            ):
                raise StanError("a component of a mixture is not the density of a field")
            after.append(self.drawn)
            frames.append(component)
        field, _ = after[0][-1]
        key = random.fold_in(random.fold_in(self._key, 0), len(after[0]))  # keys of fields count from 1
        if any(drawn != after[0] for drawn in after):
            raise StanError("the components of a mixture are densities of several fields")
        selected = random.categorical(key, jnp.stack([jnp.asarray(share, float) for share, _ in shares]))
        variable = frames[0][field]
        frame[field] = V(
            variable.base, jnp.stack([jnp.asarray(f[field].a) for f in frames])[selected], variable.depth, True
        )
        return True

    def _shares(self, call: tree.Call, frame: Frame, run: Run) -> list[tuple[Elements, tree.Call]] | None:
        """Logarithms of the shares of components, with the densities of these; None if it is no such mixture."""
        parts = call.args
        if call.name == "log_mix" and len(parts) == 3:
            share, parts = jnp.asarray(self.value(parts[0], frame, run).a, float), parts[1:]
            weights = [jnp.log(share), jnp.log1p(-share)]
        else:
            weights = [jnp.zeros(()) for _ in parts]
        shares = []
        for weight, part in zip(weights, parts, strict=True):
            terms = summands(part)
            densities = [
                t for t in terms if isinstance(t, tree.Call) and density_of_call(t.name) and self._response(t.args[0])
            ]
            if len(densities) != 1 or densities[0].name in self.functions:
                return None
            shares.append(
                (sum((self.value(t, frame, run).a for t in terms if t is not densities[0]), start=weight), densities[0])
            )
        return shares if len(shares) > 1 else None

    def _place(self, node: tree.IndexNode, frame: Frame, run: Run) -> int | None:
        if node is None or isinstance(node, tree.Range):
            return None
        position = self.value(node, frame, run)
        if not position.known:
            raise StanError("the index of a response is not constant")
        return int(position.a) if position.scalar else None


def simulation(parts: Parts, params: Params) -> Callable[[Params, Records, jax.Array], Records] | None:
    """`(params, records, key) -> records` with the fields drawn that the program has a density for, None if a term
    of a record is something else.

    Args:
        params: any, to try it on.
    """

    def drawn(params: Params, record: Records, at: int, key: jax.Array) -> Records:
        kind = parts.kinds[at]
        machine = _Drawing(kind.record, frozenset(kind.columns), key)
        frame, run = parts.run_record(params, record, at, machine, Run(selects=False))
        if not machine.drawn or any(tainted for *_, tainted in run.terms):
            raise StanError("a term of the record is not the density of a field")
        new = {name for name, _ in machine.drawn}
        return {name: parts.field_of(name, frame[name], record[name]) for name in new}

    def simulate_record(params: Params, record: Records, key: jax.Array) -> Records:
        result = dict(record)
        for at in range(len(parts.kinds)):
            for name, value in drawn(params, record, at, key).items():
                chosen = parts.tag is None or jnp.round(jnp.asarray(record[parts.tag])) == at + 1
                result[name] = jnp.where(chosen, value, record[name])
        return result

    def simulate(params: Params, records: Records, key: jax.Array) -> Records:
        count = len(next(iter(records.values())))
        return jax.vmap(simulate_record, (None, 0, 0))(params, records, jax.random.split(key, count))

    if any(kind.starts for kind in parts.kinds):
        return None
    try:
        blank = {k: jnp.asarray(v) for k, v in parts.joined(parts.blank(1, 0)).items()}
        jax.eval_shape(simulate, params, blank, jax.random.key(0))
    except (StanError, KeyError, TypeError, ValueError):
        return None
    return simulate


# Draws of the densities that responses have, by their names in Stan, elementwise.

Sampler = Callable[..., jax.Array]
"""`(key, shape, *parameters) -> draws of this shape`."""


def _gamma(key: jax.Array, shape: tuple[int, ...], alpha: jax.Array, beta: jax.Array) -> jax.Array:
    return random.gamma(key, jnp.broadcast_to(alpha, shape)) / beta


def _binomial(key: jax.Array, shape: tuple[int, ...], n: jax.Array, p: jax.Array) -> jax.Array:
    return random.binomial(key, n, p, shape=shape)


def _poisson(key: jax.Array, shape: tuple[int, ...], rate: jax.Array) -> jax.Array:
    return random.poisson(key, jnp.broadcast_to(rate, shape)).astype(float)


def _student_t(key: jax.Array, shape: tuple[int, ...], nu: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    return mu + sigma * random.t(key, nu, shape)


def _beta_binomial(key: jax.Array, shape: tuple[int, ...], n: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    first_key, second_key = random.split(key)
    return _binomial(second_key, shape, n, random.beta(first_key, a, b, shape))


def _neg_binomial_2(key: jax.Array, shape: tuple[int, ...], mu: jax.Array, phi: jax.Array) -> jax.Array:
    first_key, second_key = random.split(key)
    return _poisson(second_key, shape, _gamma(first_key, shape, phi, phi / mu))


SAMPLERS: dict[str, Sampler] = {
    "normal": lambda key, shape, mu, sigma: mu + sigma * random.normal(key, shape),
    "std_normal": random.normal,
    "student_t": _student_t,
    "cauchy": lambda key, shape, mu, sigma: mu + sigma * random.cauchy(key, shape),
    "double_exponential": lambda key, shape, mu, sigma: mu + sigma * random.laplace(key, shape),
    "logistic": lambda key, shape, mu, sigma: mu + sigma * random.logistic(key, shape),
    "gumbel": lambda key, shape, mu, beta: mu + beta * random.gumbel(key, shape),
    "lognormal": lambda key, shape, mu, sigma: jnp.exp(mu + sigma * random.normal(key, shape)),
    "exponential": lambda key, shape, beta: random.exponential(key, shape) / beta,
    "gamma": _gamma,
    "inv_gamma": lambda key, shape, alpha, beta: 1 / _gamma(key, shape, alpha, beta),
    "weibull": lambda key, shape, alpha, sigma: random.weibull_min(key, sigma, alpha, shape),
    "beta": lambda key, shape, a, b: random.beta(key, a, b, shape),
    "beta_proportion": lambda key, shape, mu, kappa: random.beta(key, mu * kappa, (1 - mu) * kappa, shape),
    "uniform": lambda key, shape, low, high: low + (high - low) * random.uniform(key, shape),
    "bernoulli": lambda key, shape, p: random.bernoulli(key, p, shape).astype(float),
    "bernoulli_logit": lambda key, shape, eta: random.bernoulli(key, jax.nn.sigmoid(eta), shape).astype(float),
    "binomial": _binomial,
    "binomial_logit": lambda key, shape, n, eta: _binomial(key, shape, n, jax.nn.sigmoid(eta)),
    "beta_binomial": _beta_binomial,
    "poisson": _poisson,
    "poisson_log": lambda key, shape, eta: _poisson(key, shape, jnp.exp(eta)),
    "neg_binomial": lambda key, shape, alpha, beta: _neg_binomial_2(key, shape, alpha / beta, alpha),
    "neg_binomial_2": _neg_binomial_2,
    "neg_binomial_2_log": lambda key, shape, eta, phi: _neg_binomial_2(key, shape, jnp.exp(eta), phi),
}
"""Samplers of one number, by the density's name."""


def sample(name: str, y: V, args: list[V], key: jax.Array) -> jax.Array:
    """A draw in place of y.

    Raises:
        StanError: a density that is not drawn from.
    """
    if name in OF_PREDICTORS:
        x, alpha, beta, *scales = args
        return sample(OF_PREDICTORS[name], y, [linear_predictor(x, alpha, beta), *scales], key)
    shape = y.shape
    values = [jnp.asarray(v.a, float) for v in args]
    if name in SAMPLERS:
        full_shape = jnp.broadcast_shapes(shape, *(v.shape for v in values))
        if full_shape != shape:
            raise StanError(f"a response of shape {shape} has parameters of shape {full_shape}")
        return SAMPLERS[name](key, shape, *values)
    if name == "categorical":
        return random.categorical(key, jnp.log(values[0]), shape=shape) + 1
    if name == "categorical_logit":
        return random.categorical(key, values[0], shape=shape) + 1
    if name in ("ordered_logistic", "ordered_probit"):
        table = ordered_logs(values[0], values[1], log_inv_logit if name == "ordered_logistic" else log_normal_cdf)
        return random.categorical(key, table, shape=shape) + 1
    raise StanError(f"responses of {name} cannot be simulated")
