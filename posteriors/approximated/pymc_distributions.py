"""PyMC's mean-field and full-rank approximations as distributions over a model's coordinates, without importing
PyMC."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.posteriors.approximated.fitted_distribution import (
    FittedDistribution,
    check_transforms,
    named_entries,
    numbers,
    phi_of,
    positions_in_model,
    probes,
)

APPROXIMATIONS = ("MeanField", "FullRank")
"""Names of the supported approximations."""


def is_pymc_approximation(guide: object) -> bool:
    """Whether this is one of PyMC's approximations, supported or not."""
    return any(c.__name__ == "Approximation" and c.__module__.startswith("pymc") for c in type(guide).__mro__)


def pymc_distribution(model: Model, fit: Any, params: object, iterates: Sequence[object]) -> FittedDistribution:
    """The distribution of a result of `pymc.fit`.

    Args:
        model: the model of the fit.
        fit: the result.
        params: `{"mean", "std"}` or `{"mean", "cov"}`, as a `Tracker` stores them; None for those of the result.
        iterates: earlier `params`.
    """
    kind = type(fit).__name__
    if kind not in APPROXIMATIONS:
        raise BayesreconError(f"PyMC's approximation {kind} is not supported; expected {', '.join(APPROXIMATIONS)}")
    variables = {str(v.name): v for v in fit.model.free_RVs}
    names = {str(fit.model.rvs_to_values[v].name): name for name, v in variables.items()}
    site_positions = {}
    for name, span, shape, _ in fit.ordering.values():
        site_positions[names.get(name, name)] = np.arange(span.start, span.stop).reshape(shape)
    order = positions_in_model(model, site_positions, "PyMC fit")
    transformed = {name: _constrained(fit.model, variables[name], x) for name, x in probes(model).items()}
    check_transforms(model, transformed, "PyMC fit")
    d, full = model.dimension, kind == "FullRank"
    lower = np.tril_indices(d)
    spread = "cov" if full else "std"

    def native(params: object, label: str) -> np.ndarray:
        entries = named_entries(params, ("mean", spread), label)
        mean = numbers(entries["mean"], "mean", (d,))
        scale = numbers(entries[spread], spread, (d, d) if full else (d,))
        try:
            root = np.linalg.cholesky(scale) if full else scale
        except np.linalg.LinAlgError:
            raise BayesreconError(f"{label}: cov is not positive definite") from None
        if not full:
            if not (scale > 0).all():
                raise BayesreconError(f"{label}: std is not positive")
            return np.concatenate([mean, _rho(scale)])
        root[np.diag_indices(d)] = _rho(np.diag(root))
        return np.concatenate([mean, root[lower]])

    def phi(x: Array) -> jax.Array:
        if not full:
            return phi_of(model, x[:d][order], jnp.diag(jax.nn.softplus(x[d:]))[order])
        root = jnp.zeros((d, d)).at[lower].set(x[d:])
        root = root - jnp.diag(jnp.diag(root)) + jnp.diag(jax.nn.softplus(jnp.diag(root)))
        return phi_of(model, x[:d][order], root[order])

    return FittedDistribution(
        kind="variational",
        name=f"PyMC {kind} of {model.name}",
        native=native(_params_of(fit, spread) if params is None else params, "the parameters of the fit"),
        phi=phi,
        iterates=tuple(native(step, f"iterate {i}") for i, step in enumerate(iterates, 1)),
    )


def _rho(scale: np.ndarray) -> np.ndarray:
    """The inverse of softplus, by which PyMC parametrises standard deviations."""
    return np.asarray(scale + np.log(-np.expm1(-scale)))


def _params_of(fit: Any, spread: str) -> Mapping[str, np.ndarray]:
    return {"mean": fit.mean.eval(), spread: getattr(fit, spread).eval()}


def _constrained(program: Any, variable: Any, value: np.ndarray) -> np.ndarray:
    transform = program.rvs_to_transforms.get(variable)
    if transform is None:
        return value
    try:
        return transform.backward(value, *variable.owner.inputs).eval()
    except Exception:  # bounds that are computed, or a transform of another kind
        raise BayesreconError(
            f"the transform {type(transform).__name__} of {variable.name} in the PyMC model cannot be compared with "
            "the model's"
        ) from None
