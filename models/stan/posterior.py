"""A Stan program with its data: the transformed data, the parameters, and the log density at free coordinates."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Transform
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.constraints import Affine, bounded, shaped
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.higher import HIGHER
from bayesrecon.models.stan.loops import run_loop
from bayesrecon.models.stan.machine import StanMachine
from bayesrecon.models.stan.values import SPECIAL, StanError, V, check_size


@dataclass(frozen=True, eq=False)
class ParameterDeclaration:
    """A parameter as it is declared: constrained shape, and whether its bounds depend on other parameters."""

    node: tree.Declare
    shape: tuple[int, ...]
    dependent: bool

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def base(self) -> str:
        return SPECIAL.get(self.node.type.base, self.node.type.base)

    @property
    def depth(self) -> int:
        return len(self.node.type.dims)


def machine_of(program: tree.Program) -> StanMachine:
    return StanMachine(program, HIGHER, run_loop)


def declarations(block: tuple[tree.Statement, ...]) -> list[tree.Declare]:
    return [s for s in block if isinstance(s, tree.Declare)]


def read_data(machine: StanMachine, data: Mapping[str, npt.ArrayLike], frame: Frame | None = None) -> Frame:
    """The variables that the data block declares, from `data`; those in `frame` are kept.

    Raises:
        BayesreconError: what is missing, of other sizes, or no number.
    """
    frame = dict(frame or {})
    run = Run()
    for node in declarations(machine.program.data):
        if node.name in frame:
            continue
        if node.name not in data:
            raise BayesreconError(f"{machine.program.name}: the data lack {node.name}")
        try:
            shape = machine.shape_of(node.type, frame, run)
            check_size(shape, node.name)
            frame[node.name] = value_of(node, data[node.name], shape)
        except StanError as error:
            raise machine.placed(error, node) from None
    return frame


def value_of(node: tree.Declare, value: npt.ArrayLike, shape: tuple[int, ...]) -> V:
    """A value for a declared variable."""
    base = SPECIAL.get(node.type.base, node.type.base)
    depth = len(node.type.dims)
    try:
        a = np.asarray(value, float)
    except (TypeError, ValueError, OverflowError):
        raise StanError(f"{node.name} is assigned values that are not numbers") from None
    if a.size == 0 and 0 in shape:
        a = a.reshape(shape)
    if a.shape == (1,) and shape == ():
        a = a[0]
    if a.shape != shape and 1 in shape and a.shape == tuple(n for n in shape if n != 1):
        a = a.reshape(shape)  # a column of a table is written as a list by some tools
    if a.shape != shape:
        raise StanError(f"{node.name} has shape {shape} but is assigned {a.shape}")
    if base == "int":
        if a.size and not (np.isfinite(a).all() and (a == np.round(a)).all()):
            raise StanError(f"{node.name} is assigned values that are not integers")
        return V("int", a.astype(np.int64) if a.ndim else int(a), depth)
    return V(base, a if a.ndim else float(a), depth)


def transform_data(machine: StanMachine, frame: Frame) -> Frame:
    """The frame with the transformed data; values that are already given are kept."""
    frame = dict(frame)
    run = Run(frozen=frozenset(frame))
    with np.errstate(all="ignore"):
        machine.block(machine.program.transformed_data, frame, run)
    return frame


def places(
    machine: StanMachine, frame: Frame, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> tuple[ParameterDeclaration, ...]:
    """The parameters, of sizes that `shapes` names or that the data give."""
    result: list[ParameterDeclaration] = []
    names = {node.name for node in declarations(machine.program.parameters)}
    for node in machine.program.parameters:
        if not isinstance(node, tree.Declare):
            raise BayesreconError(
                f"{machine.program.name}, line {node.position[0]}: only declarations are allowed in this block"
            )
        kind = node.type
        if any(node.name == p.name for p in result):
            raise BayesreconError(f"{machine.program.name}, line {node.position[0]}: {node.name} is declared twice")
        if kind.base == "int":
            raise BayesreconError(f"{machine.program.name}, line {node.position[0]}: {node.name} is an integer")
        try:
            if shapes is not None and node.name in shapes:
                shape = tuple(shapes[node.name])
            else:
                shape = machine.shape_of(kind, frame, Run())
            check_size(shape, node.name)
        except StanError as error:
            raise machine.placed(error, node) from None
        dependent = bool(names & {n for _, b in kind.bounds for n in tree.names_in(b)})
        result.append(ParameterDeclaration(node, shape, dependent))
    return tuple(result)


def transform_of(machine: StanMachine, place: ParameterDeclaration, frame: Frame, run: Run | None = None) -> Transform:
    """The map from free coordinates to a parameter."""
    kind = place.node.type
    try:
        if kind.base in SPECIAL:
            return shaped(kind.base, place.shape[place.depth :])
        bounds = {name: machine.value(node, frame, run or Run()) for name, node in kind.bounds}
        for name, v in bounds.items():
            if v.shape and v.shape != place.shape[len(place.shape) - len(v.shape) :]:
                raise StanError(f"the bound {name} of {place.name} has shape {v.shape}")
        if "offset" in bounds or "multiplier" in bounds:
            offset = bounds["offset"].a if "offset" in bounds else 0.0
            return Affine(offset, bounds["multiplier"].a if "multiplier" in bounds else 1.0)
        return bounded(*(bounds[n].a if n in bounds else None for n in ("lower", "upper")))
    except StanError as error:
        raise machine.placed(error, place.node) from None


class Posterior:
    """A program with its data.

    Args:
        program: parsed.
        data: data of its data block.
    """

    def __init__(self, program: tree.Program, data: Mapping[str, npt.ArrayLike]):
        self.program = program
        self.machine = machine_of(program)
        self.frame = transform_data(self.machine, read_data(self.machine, data))
        self.places = places(self.machine, self.frame)
        self.free_shapes = {
            p.name: transform_of(self.machine, p, self.frame).inverse_shape(p.shape)
            if p.node.type.base in SPECIAL
            else p.shape
            for p in self.places
        }

    @property
    def dimension(self) -> int:
        return sum(int(np.prod(s)) for s in self.free_shapes.values())

    def constrained(self, theta: Array) -> tuple[Frame, jax.Array]:
        """Data and parameters, with the log Jacobian."""
        frame, total, at = dict(self.frame), jnp.zeros(()), 0
        for p in self.places:
            shape = self.free_shapes[p.name]
            size = int(np.prod(shape))
            x = _filled(p, theta[at : at + size], shape)
            at += size
            transform = transform_of(self.machine, p, frame)
            y = transform(x)
            total = total + jnp.sum(transform.log_abs_det_jacobian(x, y))
            frame[p.name] = V(p.base, y, p.depth)
        return frame, total

    def run(self, theta: Array) -> tuple[Run, jax.Array]:
        """The run of the model at free coordinates `(d,)`, and the log Jacobian."""
        with np.errstate(all="ignore"):
            frame, jacobian = self.constrained(theta)
            run = Run()
            self.machine.block(self.program.transformed_parameters, frame, run)
            self.machine.block(self.program.model, frame, run)
        return run, jacobian

    def log_density(self, theta: Array) -> jax.Array:
        """Log posterior density at free coordinates `(d,)`, up to a constant, with the log Jacobian."""
        run, jacobian = self.run(theta)
        return run.total() + jacobian


def _filled(place: ParameterDeclaration, values: Array, shape: tuple[int, ...]) -> Array:
    """Free coordinates in the order in which Stan stacks them: matrices by columns, arrays by rows."""
    if place.base == "matrix" and place.node.type.base == "matrix":
        swapped = (*shape[:-2], shape[-1], shape[-2])
        return jnp.swapaxes(values.reshape(swapped), -1, -2)
    return values.reshape(shape)
