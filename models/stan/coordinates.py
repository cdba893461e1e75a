"""The coordinates of a model: parameters as they are declared, those with a centred prior written non-centred, and
those whose bounds depend on others by their free values."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.errors import BayesreconError, Note
from bayesrecon.model import Identity, Parameter, Params, Transform
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.constraints import ElementBounds
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.linear_algebra import cholesky, lower_solve
from bayesrecon.models.stan.machine import StanMachine
from bayesrecon.models.stan.needs import adds, declared_in, flattened
from bayesrecon.models.stan.posterior import ParameterDeclaration, transform_of
from bayesrecon.models.stan.values import V
from bayesrecon.precision import in_float64

SCALED = {"normal", "student_t", "cauchy", "double_exponential", "logistic", "gumbel"}
"""Families of a location and a scale, their last two parameters."""

CENTRED = SCALED | {"lognormal", "multi_normal_cholesky", "multi_normal"}


@dataclass(frozen=True, eq=False)
class Rule:
    """A parameter that is computed of a free one.

    Args:
        place: the parameter.
        name: name of the free one.
        needs: parameters that have to be there before.
        apply: frame and free values -> parameter and log Jacobian.
        invert: frame (with the parameter) -> free values.
        note: what happened, for the reader.
    """

    place: ParameterDeclaration
    name: str
    needs: frozenset[str]
    apply: Callable[[Frame, jax.Array], tuple[jax.Array, jax.Array]]
    invert: Callable[[Frame, jax.Array], jax.Array]
    note: str


class Coordinates:
    """Parameters of a model and the way from them to those of the program.

    Args:
        machine, frame: the program, and constants with the transformed data that no record enters.
        places: its parameters.
        tainted: names that depend on records.
    """

    def __init__(self, machine: StanMachine, frame: Frame, places: tuple[ParameterDeclaration, ...], tainted: set[str]):
        self.machine, self.frame, self.places = machine, frame, places
        names = {p.name for p in places}
        rules = {p.name: dependent_rule(machine, p, names) for p in places if p.dependent}
        for p in places:
            if p.name not in rules:
                rule = centred_rule(machine, p, names, tainted)
                if rule is not None:
                    rules[p.name] = rule
        self.rules = _in_order(rules, machine)
        self.transforms = {p.name: transform_of(machine, p, frame) for p in places if p.name not in rules}
        self.parameters = tuple(self._parameter(p) for p in places)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(rule.note for rule in self.rules)

    def _parameter(self, place: ParameterDeclaration) -> Parameter:
        rule = next((r for r in self.rules if r.place is place), None)
        if rule is not None:
            return Parameter(rule.name, place.shape, Identity())
        transform = self.transforms[place.name]
        return Parameter(place.name, place.shape, transform, _box(transform))

    def values(self, params: Params) -> tuple[Frame, jax.Array]:
        """The program's parameters, and the log Jacobian of those that are computed."""
        frame = dict(self.frame)
        total = jnp.zeros(())
        ruled = {r.place.name for r in self.rules}
        for p in self.places:
            if p.name not in ruled:
                frame[p.name] = V(p.base, params[p.name], p.depth)
        for rule in self.rules:
            value, jacobian = rule.apply(frame, params[rule.name])
            frame[rule.place.name] = V(rule.place.base, value, rule.place.depth)
            total = total + jacobian
        return frame, total

    @in_float64
    def prepare(self, draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Draws of the program's parameters as those of the model's."""
        converted_rules = [r for r in self.rules if r.name not in draws and r.place.name in draws]
        if not converted_rules:
            return draws
        published = {p.name: p for p in self.places if p.name in draws}
        missing = [p.name for p in self.places if p.name not in draws and _free(self.rules, p.name) not in draws]
        if missing:
            raise BayesreconError(f"the draws lack {missing[0]}, from which other parameters are computed")

        def inverted(values: dict[str, jax.Array]) -> dict[str, jax.Array]:
            frame = dict(self.frame)
            frame.update({n: V(published[n].base, a, published[n].depth) for n, a in values.items()})
            return {r.name: r.invert(frame, values[r.place.name]) for r in converted_rules}

        published_values = {
            n: jnp.asarray(draws[n], float).reshape(*draws[n].shape[:2], *p.shape) for n, p in published.items()
        }
        converted = jax.jit(jax.vmap(jax.vmap(inverted)))(published_values)
        unchanged = {k: v for k, v in draws.items() if k not in {r.place.name for r in converted_rules}}
        return {**unchanged, **{k: np.asarray(v) for k, v in converted.items()}}


def _free(rules: tuple[Rule, ...], name: str) -> str:
    return next((r.name for r in rules if r.place.name == name), name)


def _box(transform: Transform) -> tuple[float, float] | None:
    if not isinstance(transform, ElementBounds):
        return (-math.inf, math.inf) if isinstance(transform, Identity) else None
    bounds = []
    for bound, missing in ((transform.low, -math.inf), (transform.high, math.inf)):
        values = np.unique(missing if bound is None else bound)
        if values.size != 1:
            return None
        bounds.append(float(values[0]))
    return bounds[0], bounds[1]


def _in_order(rules: Mapping[str, Rule], machine: StanMachine) -> tuple[Rule, ...]:
    """Rules in an order in which each finds what it needs."""
    waiting, done = dict(rules), []
    while waiting:
        ready = [n for n, r in waiting.items() if not (r.needs & waiting.keys())]
        if not ready:
            raise BayesreconError(
                f"{machine.program.name}: the parameters {', '.join(waiting)} depend on each other cyclically"
            )
        done += [waiting.pop(n) for n in ready]
    return tuple(done)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def dependent_rule(machine: StanMachine, place: ParameterDeclaration, names: set[str]) -> Rule:
    """A parameter whose bounds, offset or multiplier depend on other parameters."""
    needs = frozenset(names & {n for _, b in place.node.type.bounds for n in tree.names_in(b)})

    def apply(frame: Frame, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        transform = transform_of(machine, place, frame)
        y = jnp.asarray(transform(x))
        return y, jnp.sum(transform.log_abs_det_jacobian(x, y))

    def invert(frame: Frame, y: jax.Array) -> jax.Array:
        transform = transform_of(machine, place, frame)
        return jnp.asarray(transform._inverse(y))  # pyright: ignore[reportPrivateUsage]  # NumPyro's name

    name = _unused(f"{place.name}_free", names)
    note = Note(
        f"the bounds of {place.name} depend on {', '.join(sorted(needs))}, so its coordinates are relative to them"
    )
    return Rule(place, name, needs, apply, invert, note)


@dataclass(frozen=True, eq=False)
class _Prior:
    """A statement that gives a parameter a centred prior: the family, its arguments, and the loop around it."""

    family: str
    args: tuple[tree.Expression, ...]
    loop: tree.For | None
    line: int


def _priors(block: tuple[tree.Statement, ...], name: str, loop: tree.For | None = None) -> list[_Prior]:
    result: list[_Prior] = []
    for s in flattened(block):
        if isinstance(s, tree.For) and loop is None and s.high is not None:
            body = s.body.body if isinstance(s.body, tree.Block) else (s.body,)
            result += _priors(body, name, s)
        line = s.position[0]
        if isinstance(s, tree.Tilde) and not s.truncated:
            parameter, family, args = s.variate, s.name, s.args
        elif isinstance(s, tree.Increment) and isinstance(s.value, tree.Call) and s.value.args:
            family = s.value.name.removesuffix("_lpdf").removesuffix("_lupdf").removesuffix("_log")
            parameter, args = s.value.args[0], s.value.args[1:]
            if family == s.value.name:
                continue
        else:
            continue
        if loop is None:
            if isinstance(parameter, tree.Call) and parameter.name == "to_vector" and len(parameter.args) == 1:
                parameter = parameter.args[0]
            if isinstance(parameter, tree.VariableName) and parameter.name == name:
                result.append(_Prior(family, args, None, line))
        elif (
            isinstance(parameter, tree.Index)
            and isinstance(parameter.container, tree.VariableName)
            and parameter.container.name == name
        ):
            at_iteration = (
                len(parameter.indices) == 1
                and isinstance(parameter.indices[0], tree.VariableName)
                and parameter.indices[0].name == loop.name
            )
            if at_iteration:
                result.append(_Prior(family, args, loop, line))
    return result


def _behind(program: tree.Program, names: set[str], parameters: set[str]) -> tuple[list[tree.Statement], set[str]]:
    """Statements that compute the names, and everything that they read."""
    statements = [*flattened(program.transformed_parameters), *flattened(program.model)]
    needed, keep = set(names), set()
    grown = True
    while grown:
        grown = False
        for i, s in enumerate(statements):
            writes = tree.assigned_in(s) | (declared_in(s) if isinstance(s, tree.Declare) else set())
            if i not in keep and writes & (needed - parameters):
                keep.add(i)
                needed |= tree.names_in(s)
                grown = True
    return [statements[i] for i in sorted(keep)], needed


def centred_rule(machine: StanMachine, place: ParameterDeclaration, names: set[str], tainted: set[str]) -> Rule | None:
    """A parameter whose prior has a location and a scale that is a parameter; None if there is none."""
    kind, program = place.node.type, machine.program
    priors = [p for p in _priors(program.model, place.name) if p.family in CENTRED]
    if not priors or kind.base not in ("real", "vector", "row_vector", "matrix"):
        return None
    prior = priors[0]
    positive = [n for n, _ in kind.bounds] == ["lower"]
    if (kind.bounds and prior.family != "lognormal") or (prior.family == "lognormal" and not positive):
        return None
    if len(prior.args) < 2 or (prior.family.startswith("multi") and kind.base != "vector"):
        return None
    loops = {prior.loop.name} if prior.loop else set()
    if prior.family.startswith("multi") and tree.names_in(prior.args[-1]) & loops:
        return None
    statements, needed = _behind(program, tree.names_in(prior.args) - loops, names)
    scale_names = _behind(program, tree.names_in(prior.args[-1]) - loops, names)[1]
    if not scale_names & names or place.name in needed or needed & tainted or any(adds(s) for s in statements):
        return None
    location, scale = prior.args[-2:]
    loop, iteration = prior.loop, prior.loop.name if prior.loop else ""

    def location_scale(frame: Frame) -> tuple[jax.Array, ...]:
        inside, run = dict(frame), Run()
        machine.block(tuple(statements), inside, run)
        if loop is None:
            return tuple(machine.value(a, inside, run).a for a in (location, scale))

        def in_iteration(i: jax.Array) -> tuple[jax.Array, ...]:
            here = {**inside, iteration: V("int", i)}
            return tuple(jnp.asarray(machine.value(a, here, run).a, float) for a in (location, scale))

        return jax.vmap(in_iteration)(jnp.arange(1, place.shape[0] + 1))

    forward, backward = _reparametrisation(prior.family, place, loop is not None)

    def apply(frame: Frame, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return forward(x, *location_scale(frame))

    def invert(frame: Frame, y: jax.Array) -> jax.Array:
        return backward(y, *location_scale(frame))

    name = _unused(f"{place.name}_raw", names)
    note = Note(f"{place.name} (line {prior.line}) is rewritten as non-centred, {name}, and its draws are converted")
    return Rule(place, name, frozenset(needed & names), apply, invert, note)


def _reparametrisation(
    family: str, place: ParameterDeclaration, looped: bool
) -> tuple[Callable[..., tuple[jax.Array, jax.Array]], Callable[..., jax.Array]]:
    """Maps from standardised values to values with a location and a scale, with the log Jacobian, and back."""
    rows = place.shape[0] if len(place.shape) > 1 else 1

    def wide(a: jax.Array) -> jax.Array:
        """One number for each element of a loop over the first axis."""
        return a.reshape(-1, *(1,) * (len(place.shape) - 1)) if looped and jnp.ndim(a) == 1 else a

    def location_scale(x: jax.Array, mu: jax.Array, tau: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = wide(mu) + wide(tau) * x
        return y, jnp.sum(jnp.broadcast_to(jnp.log(wide(tau)), place.shape))

    def lognormal(x: jax.Array, mu: jax.Array, tau: jax.Array) -> tuple[jax.Array, jax.Array]:
        logs, jacobian = location_scale(x, mu, tau)
        return jnp.exp(logs), jacobian + jnp.sum(logs)

    def factor_of(a: jax.Array) -> jax.Array:
        return jnp.asarray(a, float) if family.endswith("cholesky") else cholesky(jnp.asarray(a, float))

    def multivariate(x: jax.Array, mu: jax.Array, matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
        if jnp.ndim(matrix) == 3:  # one matrix for each iteration of a loop, which is the same
            matrix = matrix[0]
        factor = factor_of(matrix)
        y = mu + x @ factor.T
        return y, rows * jnp.sum(jnp.log(jnp.diagonal(factor)))

    def multivariate_inverse(y: jax.Array, mu: jax.Array, matrix: jax.Array) -> jax.Array:
        if jnp.ndim(matrix) == 3:
            matrix = matrix[0]
        return lower_solve(factor_of(matrix), (y - mu).T).T

    if family.startswith("multi"):
        return multivariate, multivariate_inverse
    if family == "lognormal":
        return lognormal, lambda y, mu, tau: (jnp.log(y) - wide(mu)) / wide(tau)
    return location_scale, lambda y, mu, tau: (y - wide(mu)) / wide(tau)
