"""Functions that take functions: partial sums, and differential equations."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.models.stan import tree
from bayesrecon.models.stan.expressions import Expressions, Higher
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.values import StanError, V, consolidated, whole

STEPS = 64
"""Steps of the integrator between two times; curves that programs of posteriordb solve are then exact to nine digits,
where they are not stiff."""

PARTS = (2, 4, 6, 8)
"""Parts of a step, which make the method one of order eight."""


def _function(machine: Expressions, node: tree.Call) -> str:
    first = node.args[0] if node.args else None
    name = first.name if isinstance(first, tree.VariableName) else ""
    for suffix in ("_lupdf", "_lupmf"):
        if name.endswith(suffix):
            name = name.removesuffix(suffix) + suffix.replace("u", "")
    if name not in machine.functions:
        raise StanError(f"{node.name} needs a function that is defined in the program")
    return name


def _partial_sum(machine: Expressions, node: tree.Call, frame: Frame, run: Run) -> V:
    """`reduce_sum(f, x, grainsize, ...)`: f of the whole x."""
    name = _function(machine, node)
    args = [machine.value(a, frame, run) for a in node.args[1:]]
    over, *rest = args[0], *args[2:]
    return machine.call_defined(name, [over, whole(1), whole(over.shape[0]), *rest], run)


def _solved(machine: Expressions, node: tree.Call, frame: Frame, run: Run) -> V:
    """States `(times, size)` of an initial value problem, by the method of Gragg, Bulirsch and Stoer."""
    name = _function(machine, node)
    args = [machine.value(a, frame, run) for a in node.args[1:]]
    old = node.name.startswith("integrate_ode")
    skipped = 2 if node.name.endswith("_tol") else 0
    start, t0, times = args[:3]
    rest = args[3:6] if old else args[3 + (3 if skipped else 0) :]
    if not (t0.known and times.known):
        raise StanError(f"{node.name} at times that are not constants is not supported")
    base = "real" if old else "vector"

    def derivative(t: jax.Array, y: jax.Array) -> jax.Array:
        inner = Run(steps=run.steps, context=run.context, calls=run.calls)
        state = V(base, y, 1 if old else 0)
        result = consolidated(machine.call_defined(name, [V("real", t), state, *rest], inner))
        run.steps = max(run.steps, inner.steps)
        return jnp.asarray(result.a, float)

    def advance(state: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        return _extrapolated(jax.jit(derivative), state, *step), None

    def interval(state: jax.Array, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        h = (high - low) / STEPS
        starts = low + h * jnp.arange(STEPS)
        state, _ = jax.lax.scan(advance, state, (starts, jnp.full(STEPS, 1.0) * h))
        return state, state

    edges = np.concatenate([[float(t0.a)], np.asarray(times.a, float)])
    if len(edges) > 1 and (np.diff(edges) <= 0).any():
        raise StanError(f"the times of {node.name} are not increasing")
    y0 = jnp.asarray(start.a, float)
    _, states = jax.lax.scan(interval, y0, (jnp.asarray(edges[:-1]), jnp.asarray(edges[1:])))
    tainted = any(v.tainted for v in args)
    return V("real", states, 2, tainted) if old else V("vector", states, 1, tainted)


def _extrapolated(
    derivative: Callable[[jax.Array, jax.Array], jax.Array], state: jax.Array, t: jax.Array, h: jax.Array
) -> jax.Array:
    """One step: midpoint rules of more and more parts, extrapolated to parts of no length (Gragg 1965)."""

    def midpoint(parts: int) -> jax.Array:
        part = h / parts

        def move(pair: tuple[jax.Array, jax.Array], k: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            before, now = pair
            return (now, before + 2 * part * derivative(t + k * part, now)), None

        begin = (state, state + part * derivative(t, state))
        (before, last), _ = jax.lax.scan(move, begin, jnp.arange(1.0, parts))
        return (before + last + part * derivative(t + h, last)) / 2

    row: list[jax.Array] = []
    for j, parts in enumerate(PARTS):
        new = [midpoint(parts)]
        for k in range(1, j + 1):
            new.append(new[k - 1] + (new[k - 1] - row[k - 1]) / ((parts / PARTS[j - k]) ** 2 - 1))
        row = new
    return row[-1]


def _refused(machine: Expressions, node: tree.Call, frame: Frame, run: Run) -> V:
    raise StanError(f"{node.name} is not supported")


HIGHER: dict[str, Higher] = {
    **dict.fromkeys(("reduce_sum", "reduce_sum_static"), _partial_sum),
    **dict.fromkeys(("integrate_ode_rk45", "integrate_ode_bdf", "integrate_ode_adams", "integrate_ode"), _solved),
    **dict.fromkeys(("ode_rk45", "ode_bdf", "ode_adams", "ode_ckrk"), _solved),
    **dict.fromkeys(("ode_rk45_tol", "ode_bdf_tol", "ode_adams_tol", "ode_ckrk_tol"), _solved),
    **dict.fromkeys(
        ("map_rect", "algebra_solver", "algebra_solver_newton", "integrate_1d", "solve_newton", "solve_powell", "dae"),
        _refused,
    ),
}
"""Functions by their name in Stan."""
