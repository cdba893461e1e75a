"""Parameters that draws leave out, from what they hold: of `r = sd * z` with r and sd in the draws, z is `r / sd`.

Programs of brms write group effects non-centred and save the effects; other people leave out what is not of interest.
Transformed parameters and generated quantities that stand among the draws are equations for what is missing. They are
solved by Gauss-Newton steps in free coordinates, each by conjugate gradients, first the equations that are affine.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Transform
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.needs import computing
from bayesrecon.models.stan.posterior import ParameterDeclaration, declarations, machine_of, transform_of
from bayesrecon.models.stan.values import V, consolidated

STEPS = 30
"""Gauss-Newton steps; correlations need about ten from the identity."""

AFFINE_STEPS = 5
"""Gauss-Newton steps for affine equations: the later ones remove the residual of conjugate gradients."""

ITERATIONS = 60
"""Of conjugate gradients in one step: as many as effects of one group have different scales, and some for rounding."""

CLOSE = 1e-7
"""Largest relative difference between solutions from different starting points, and largest relative residual.

Parameters beyond it are not determined.
"""

Draws = dict[str, np.ndarray]
"""`{name: (chains, draws, *shape)}`."""

Solver = Callable[[Mapping[str, jax.Array]], tuple[dict[str, jax.Array], jax.Array]]
"""Known values of one draw -> missing parameters, and how far they are from being determined."""


@dataclass(frozen=True, eq=False)
class _Output:
    """A name among the draws, the statements that compute it, and the missing parameters that these need."""

    node: tree.Declare
    statements: tuple[tree.Statement, ...]
    needs: frozenset[str]


class LeftOut:
    """The way from draws that leave out parameters to all of them.

    Args:
        program: the whole of it, generated quantities too.
        places: its parameters, with their sizes.
        frame: constants, and what of the transformed data is known.
    """

    def __init__(self, program: tree.Program, places: Iterable[ParameterDeclaration], frame: Frame):
        self.program, self.frame = program, frame
        self.machine = machine_of(program)
        self.places = {p.name: p for p in places}
        self.solvers: dict[tuple[tuple[str, ...], tuple[str, ...], int], Solver] = {}  # traced once for all draws

    def completed(self, draws: Draws, free: Mapping[str, str]) -> Draws:
        """Draws `{name: (chains, draws, *shape)}` with the parameters that what they hold determines.

        Args:
            free: names under which draws may hold parameters in other coordinates.
        """
        missing = {n for n in self.places if n not in draws and free.get(n, n) not in draws}
        outputs = self._outputs(draws, missing) if missing else []
        result = dict(draws) if outputs else draws
        while outputs:
            ready = [o for o in outputs if o.needs & missing]
            if not ready:
                break
            wanted = min((o.needs & missing for o in ready), key=lambda s: (len(s), sorted(s)))
            solved = self._solved(result, wanted, [o for o in ready if o.needs & missing == wanted])
            missing -= wanted
            outputs = [o for o in outputs if o not in ready or o.needs & missing]
            if solved is None:  # what needs them as well is not determined either
                outputs = [o for o in outputs if not o.needs & wanted]
            else:
                result |= solved
        return result

    def equations(self, draws: Draws) -> dict[str, frozenset[str]]:
        """Names among the draws that are computed of parameters which these leave out, with the names of these."""
        return {o.node.name: o.needs for o in self._outputs(draws, {n for n in self.places if n not in draws})}

    def computed(self, name: str, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """What the program computes under a name `(chains, draws, *shape)`, of draws of all that it needs."""
        statements = computing(self.program, name)
        lacking = sorted((tree.names_in(statements) & self.places.keys()) - draws.keys())
        if lacking:
            raise BayesreconError(f"the draws lack {lacking[0]}")
        given = {n: draws[n] for n in self.places if n in draws}
        chains, length = next(iter(given.values())).shape[:2]

        def compute(values: Mapping[str, jax.Array]) -> jax.Array:
            frame = self._frame(values)
            self.machine.block(statements, frame, Run())
            return jnp.asarray(consolidated(frame[name]).a, float)

        flat = {n: jnp.asarray(v, float).reshape(-1, *v.shape[2:]) for n, v in given.items()}
        result = np.asarray(jax.jit(jax.vmap(compute))(flat))
        return result.reshape(chains, length, *result.shape[1:])

    def _outputs(self, draws: Draws, missing: set[str]) -> list[_Output]:
        """What the program computes of parameters and known constants alone, in its order."""
        blocks = (self.program.data, self.program.transformed_data)
        unknown = {d.name for block in blocks for d in declarations(block)} - self.frame.keys()
        result = []
        for node in (*declarations(self.program.transformed_parameters), *declarations(self.program.generated)):
            if node.name in draws and node.name not in self.places:
                statements = computing(self.program, node.name)
                names = tree.names_in(statements)
                if names & missing and not names & unknown:
                    result.append(_Output(node, statements, frozenset(names & missing)))
        return result

    def _solved(self, draws: Draws, wanted: frozenset[str], outputs: list[_Output]) -> Draws | None:
        """Draws of the wanted parameters, None if the outputs do not determine them."""
        places = [self.places[n] for n in sorted(wanted)]
        given = {n: draws[n] for n in self.places if n in draws and n not in wanted}
        first_draw = {n: jnp.asarray(v[0, 0], float) for n, v in given.items()}
        try:
            size = sum(_free_size(self._transform(p, first_draw), p) for p in places)
            widths = {o.node.name: int(np.prod(draws[o.node.name].shape[2:])) for o in outputs}
            affine = [o for o in outputs if self._is_affine(first_draw, places, [o])]
            for chosen, steps in ((affine, AFFINE_STEPS), (_enough(outputs, widths, size), STEPS)):
                if sum(widths[o.node.name] for o in chosen) >= size:
                    result = self._solve_all(draws, given, places, chosen, steps)
                    if result is not None:
                        return result
        except BayesreconError:  # a function that is not there, or draws at random
            pass
        return None

    def _solve_all(
        self, draws: Draws, given: Draws, places: list[ParameterDeclaration], chosen: list[_Output], steps: int
    ) -> Draws | None:
        chains, length = next(iter(draws.values())).shape[:2]
        targets = {o.node.name: draws[o.node.name] for o in chosen}
        flat = {n: jnp.asarray(v, float).reshape(-1, *v.shape[2:]) for n, v in {**given, **targets}.items()}
        key = tuple(p.name for p in places), tuple(targets), steps
        if key not in self.solvers:
            self.solvers[key] = jax.jit(jax.vmap(self._solver(places, chosen, steps)))
        values, errors = self.solvers[key](flat)
        if not np.all(np.asarray(errors) <= CLOSE):
            return None
        return {n: np.asarray(v).reshape(chains, length, *v.shape[1:]) for n, v in values.items()}

    def _transform(self, place: ParameterDeclaration, known: Mapping[str, jax.Array]) -> Transform:
        return transform_of(self.machine, place, self._frame(known))

    def _frame(self, known: Mapping[str, jax.Array]) -> Frame:
        frame = dict(self.frame)
        for name, value in known.items():
            place = self.places.get(name)
            if place is not None and np.size(value) != int(np.prod(place.shape)):
                raise BayesreconError(f"{name} has shape {place.shape}, but its draws have {np.shape(value)}")
            if place is not None:
                frame[name] = V(place.base, jnp.asarray(value).reshape(place.shape), place.depth)
        return frame

    def _map(
        self, known: Mapping[str, jax.Array], places: list[ParameterDeclaration], outputs: list[_Output]
    ) -> "Callable[[jax.Array], tuple[dict[str, jax.Array], jax.Array]]":
        """The map from free coordinates `(k,)` to the parameters and the outputs `(m,)`."""

        def values(x: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
            frame, at, result = self._frame(known), 0, {}
            for place in places:
                transform = transform_of(self.machine, place, frame)
                size = _free_size(transform, place)
                y = transform(x[at : at + size].reshape(_free_shape(transform, place)))
                frame[place.name], result[place.name], at = V(place.base, y, place.depth), y, at + size
            flat = []
            for output in outputs:
                inside = dict(frame)
                self.machine.block(output.statements, inside, Run())
                flat.append(jnp.ravel(jnp.asarray(consolidated(inside[output.node.name]).a, float)))
            return result, jnp.concatenate(flat)

        return values

    def _is_affine(
        self, known: Mapping[str, jax.Array], places: list[ParameterDeclaration], outputs: list[_Output]
    ) -> bool:
        function = self._map(known, places, outputs)
        size = sum(_free_size(self._transform(p, known), p) for p in places)
        first, second, direction = np.random.default_rng(0).normal(size=(3, size))
        slope = jax.jit(lambda at: jax.jvp(lambda x: function(x)[1], (at,), (jnp.asarray(direction),))[1])
        slopes = [np.asarray(slope(at)) for at in (first, second)]
        return bool(np.allclose(*slopes, rtol=1e-10, atol=1e-12)) and bool(np.any(slopes[0]))

    def _solver(self, places: list[ParameterDeclaration], outputs: list[_Output], steps: int) -> Solver:
        def solve(values: Mapping[str, jax.Array]) -> tuple[dict[str, jax.Array], jax.Array]:
            function = self._map(values, places, outputs)
            target = jnp.concatenate([jnp.ravel(values[o.node.name]) for o in outputs])
            size = sum(_free_size(self._transform(p, values), p) for p in places)
            solutions = jax.vmap(lambda x: _newton(lambda y: function(y)[1], target, x, steps))(
                _starting_points(size, steps)
            )
            parameters, reached = jax.vmap(function)(solutions)
            residual = jnp.max(jnp.abs(reached - target) / (1 + jnp.abs(target)), axis=1)
            residual = jnp.where(jnp.isfinite(residual), residual, jnp.inf)
            result = {n: v[jnp.argmin(residual)] for n, v in parameters.items()}
            # Another solution is as good: which of them it was cannot be told.
            other = jnp.stack(
                [jax.vmap(_relative_difference, (None, 0))(result[n], parameters[n]) for n in result]
            ).max(axis=0)
            return result, jnp.maximum(residual.min(), jnp.where(residual <= CLOSE, other, 0.0).max())

        return solve


def _enough(outputs: list[_Output], widths: Mapping[str, int], size: int) -> list[_Output]:
    """The outputs with the fewest dependencies, until there are as many equations as unknowns."""
    result: list[_Output] = []
    for output in sorted(outputs, key=lambda o: len(o.needs)):
        if sum(widths[o.node.name] for o in result) < size:
            result.append(output)
    return result


def _relative_difference(first: jax.Array, second: jax.Array) -> jax.Array:
    return jnp.max(jnp.abs(first - second) / (1 + jnp.abs(first)))


def _starting_points(size: int, steps: int) -> jax.Array:
    """Starting points of the solver; equations that are not affine may have several solutions."""
    direction = np.random.default_rng(1).normal(size=size)
    scales = (0.0, 0.3) if steps == AFFINE_STEPS else (0.0, 0.3, -0.3, 3.0, -3.0, 30.0, -30.0)
    return jnp.asarray(np.outer(scales, direction))


def _newton(function: Callable[[jax.Array], jax.Array], target: jax.Array, start: jax.Array, steps: int) -> jax.Array:
    """Gauss-Newton steps with a line search over fixed step lengths."""

    def step(x: jax.Array, _: None) -> tuple[jax.Array, None]:
        reached, back = jax.vjp(function, x)
        residual = target - reached

        def normal_product(v: jax.Array) -> jax.Array:
            return back(jax.jvp(function, (x,), (v,))[1])[0]

        direction = jax.scipy.sparse.linalg.cg(normal_product, back(residual)[0], tol=1e-14, maxiter=ITERATIONS)[0]
        direction = jnp.asarray(jnp.where(jnp.isfinite(direction).all(), direction, 0.0))  # not finite at the solution
        lengths = jnp.array([1.0, 0.5, 0.25, 0.1, 0.0])
        losses = jax.vmap(lambda t: jnp.sum((target - function(x + t * direction)) ** 2))(lengths)
        best = jnp.argmin(jnp.where(jnp.isfinite(losses), losses, jnp.inf))
        return x + lengths[best] * direction, None

    return jax.lax.scan(step, start, None, length=steps)[0]


def _free_shape(transform: Transform, place: ParameterDeclaration) -> tuple[int, ...]:
    return tuple(transform.inverse_shape(place.shape))


def _free_size(transform: Transform, place: ParameterDeclaration) -> int:
    return int(np.prod(_free_shape(transform, place)))
