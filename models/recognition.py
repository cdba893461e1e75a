"""Which programs are Gaussian linear regressions: read off what they compute, not off their names.

A program's trace as a list of elementary operations is walked once. Every intermediate value is marked: free of the
parameters, an affine function of some, a multiple of a power of one, or anything else. Operations that are not known
here make anything else, so that what is recognised is so for every value of parameters and records.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from bayesrecon.model import GaussianPredictor, Model, Params, Records

Response = tuple[Any, Any, Any]
"""Location, scale and value of the observed site, each one entry a record."""

_PADDED = 512  # records to a multiple of which designs are computed: one program serves pools and probes
_DENSE = 0.5  # of the coefficients in a record, from which records touch most of them
_MOVES = {"broadcast_in_dim", "copy", "dynamic_slice", "gather", "reshape", "rev", "slice", "squeeze", "transpose"}
_SUMS = {"add", "add_any", "concatenate", "cumsum", "neg", "pad", "reduce_sum", "stack", "sub"}
_PRODUCTS = {"dot_general", "mul"}
_POWERS = {"sqrt": 0.5, "rsqrt": -0.5, "square": 2.0}
_CALLS = {"closed_call", "custom_jvp_call", "custom_vjp_call", "jit", "pjit"}


@dataclass(frozen=True)
class _Mark:
    """What a value is.

    Attributes:
        names: parameters that enter it.
        affine: in them.
        power: of the one parameter that it is a multiple of, the factor free of parameters; None where it is not.
        plain: the factor is one.
        logged: it is a power of that parameter's exponential.
    """

    names: frozenset[str] = frozenset()
    affine: bool = True
    power: float | None = None
    plain: bool = False
    logged: bool = False

    def to(self, power: float) -> "_Mark":
        """A power of this."""
        return replace(self, affine=False, power=None if self.power is None else power * self.power)


_FREE = _Mark()


def gaussian_predictor(
    model: Model, response: Callable[[Params, Records], Response], params: Params, batch: Records
) -> GaussianPredictor | None:
    """The Gaussian linear regression that a program is, None where it is none.

    Args:
        response: location, scale and value of the site that is normal given the parameters.
        params, batch: any values of the right shapes.
    """
    from numpyro.distributions.transforms import ExpTransform, IdentityTransform

    names = sorted(params)
    trace: Any = jax.make_jaxpr(lambda values, z: response(dict(zip(names, values, strict=True)), z))
    closed = trace([params[n] for n in names], batch)
    rest = len(closed.jaxpr.invars) - len(names)
    marks = [*(_Mark(frozenset([n]), power=1.0, plain=True) for n in names), *[_FREE] * rest]
    location, scale, value = _walk(closed.jaxpr, marks)
    transforms = {p.name: type(getattr(p.transform, "base_transform", p.transform)) for p in model.parameters}
    owners = [p.name for p in model.parameters for _ in range(p.size)]
    coefficients = tuple(i for i, owner in enumerate(owners) if owner in location.names)
    sigma = [i for i, owner in enumerate(owners) if owner in scale.names]
    if value.names or not location.affine or scale.names & location.names:
        return None
    if not all(transforms[n] is IdentityTransform for n in location.names):
        return None
    if sigma and (not scale.power or len(sigma) > 1):
        return None
    if not all(transforms[n] is (IdentityTransform if scale.logged else ExpTransform) for n in scale.names):
        return None
    if not 0 < len(coefficients) <= GaussianPredictor.MOST_DENSE:
        return None
    at, dimension = np.array(coefficients), model.dimension

    @jax.jit
    def padded(beta: Any, records: Records) -> tuple[Any, Any, Any]:
        def residual(values: Any) -> tuple[Any, Any]:
            found, width, seen = response(model.constrain(jnp.zeros(dimension).at[at].set(values)), records)
            return seen - found, width

        slope, width = jax.jacfwd(residual, has_aux=True)(beta)
        return residual(beta)[0], -slope, width

    def design(beta: np.ndarray, records: Records) -> tuple[Any, Any, Any]:
        count = len(next(iter(records.values())))
        rows = np.minimum(np.arange(-(-count // _PADDED) * _PADDED), count - 1)
        r, x, s = padded(beta, {k: np.asarray(v)[rows] for k, v in records.items()})
        return np.asarray(r)[:count], np.asarray(x)[:count], np.asarray(s)[:count]

    if len(coefficients) > GaussianPredictor.MOST:
        (_, x, _) = design(np.zeros(len(coefficients)), batch)
        if np.count_nonzero(x) < _DENSE * x.size:
            return None
    return GaussianPredictor(coefficients, design, sigma[0] if sigma else None, scale.power or 1.0)


def _walk(jaxpr: Any, marks: Sequence[_Mark]) -> list[_Mark]:
    """Marks of a list of operations' results, given those of its arguments."""
    known: dict[Any, _Mark] = dict(zip(jaxpr.invars, marks, strict=True))

    def of(atom: Any) -> _Mark:
        return _FREE if isinstance(atom, core.Literal) else known.get(atom, _FREE)

    for step in jaxpr.eqns:
        given = [of(a) for a in step.invars]
        found = _results(step, given) if any(m.names for m in given) else [_FREE] * len(step.outvars)
        known.update(zip(step.outvars, found, strict=True))
    return [of(a) for a in jaxpr.outvars]


def _results(step: Any, given: Sequence[_Mark]) -> list[_Mark]:
    name, names = step.primitive.name, frozenset().union(*(m.names for m in given))
    moving = [m for m in given if m.names]
    first, alone = given[0], moving == [given[0]]
    sums = _Mark(names, affine=all(m.affine for m in given))
    if name in _CALLS:
        inner = step.params.get("jaxpr") or step.params.get("call_jaxpr")
        inner = getattr(inner, "jaxpr", inner)
        if inner is not None and len(inner.invars) == len(given):
            return _walk(inner, given)
    elif alone and (name in _MOVES or name == "convert_element_type") and _is_real(step.outvars[0]):
        return [first]  # where to does not depend on them
    elif name in _SUMS or (name == "select_n" and not first.names):
        return [sums]
    elif name in _PRODUCTS and len(moving) == 1:
        return [replace(moving[0], plain=False, power=moving[0].power if name == "mul" else None)]
    elif name == "div" and len(moving) == 1:
        return [replace(first if alone else moving[0].to(-1.0), plain=False)]
    elif name == "exp" and first.plain and first.power == 1.0:
        return [replace(first, affine=False, plain=False, logged=True)]
    elif name in _POWERS:
        return [first.to(_POWERS[name])]
    elif name == "integer_pow":
        return [first.to(step.params["y"])]
    elif name == "pow" and alone and isinstance(step.invars[1], core.Literal):
        return [first.to(float(step.invars[1].val))]
    return [_Mark(names, affine=False)] * len(step.outvars)


def _is_real(variable: Any) -> bool:
    return jnp.issubdtype(variable.aval.dtype, jnp.floating)
