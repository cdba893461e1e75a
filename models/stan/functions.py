"""Calls functions of the language by name, except those that take functions."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.errors import near
from bayesrecon.models.stan import named_densities as densities
from bayesrecon.models.stan.containers import CONTAINERS
from bayesrecon.models.stan.mathematics import CONSTANTS, NUMERIC, ONE, THREE, TWO, numbers
from bayesrecon.models.stan.matrices import MATRICES
from bayesrecon.models.stan.values import Elements, StanError, V, real

_NUMBERS: dict[int, dict[str, Callable[..., Elements]]] = {1: ONE, 2: TWO, 3: THREE}


def apply(name: str, args: list[V]) -> V:
    """A function of the language.

    Known values give known ones, also while something is being traced.

    Raises:
        StanError: there is none of this name, or it does not take these values.
    """
    tainted = any(v.tainted for v in args)
    if not all(v.known for v in args):
        return _applied(name, args).with_taint(tainted)
    with jax.ensure_compile_time_eval():
        result = _applied(name, args)
        if isinstance(result.a, jax.Array):
            result = V(result.base, np.asarray(result.a)[()], result.depth)
    return result.with_taint(tainted)


def _applied(name: str, args: list[V]) -> V:
    try:
        if not args and name in CONSTANTS:
            return real(CONSTANTS[name])
        if name in _NUMBERS.get(len(args), {}):
            return numbers(_NUMBERS[len(args)][name], args)
        function = NUMERIC.get(name) or CONTAINERS.get(name) or MATRICES.get(name)
        if function is not None:
            return function(*args)
        density = densities.density_of_call(name)
        if density is not None and args:
            return V("real", jnp.asarray(densities.log_density(density, args)))
        cumulative = densities.cumulative(name)
        if cumulative is not None and args:
            return V("real", cumulative(args))
    except StanError:
        raise
    except (TypeError, ValueError, IndexError, AttributeError, KeyError) as error:
        if isinstance(error, jax.errors.JAXTypeError):
            raise
        raise StanError(f"{name} does not take ({', '.join(f'{v.words} {v.shape}' for v in args)})") from error
    if name.endswith("_rng"):
        raise StanError(f"{name} draws at random, which a log density cannot depend on")
    raise StanError(f"there is no function {name}{near(name, [*ONE, *TWO, *CONTAINERS, *MATRICES])}")
