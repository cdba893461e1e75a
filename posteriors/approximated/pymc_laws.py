"""PyMC's mean-field and full-rank approximations as distributions over a model's coordinates, without importing
PyMC."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.posteriors.approximated.fitted_law import (
    FittedLaw,
    check_transforms,
    named_entries,
    numbers,
    phi_of,
    positions_in_model,
    probes,
)

APPROXIMATIONS = ("MeanField", "FullRank")
"""Approximations that are read, by their names."""


def is_pymc_approximation(guide: object) -> bool:
    """Whether this is one of PyMC's approximations, read or not."""
    return any(c.__name__ == "Approximation" and c.__module__.startswith("pymc") for c in type(guide).__mro__)


def pymc_law(model: Model, fit: Any, params: Any, iterates: Sequence[object]) -> FittedLaw:
    """The distribution of what `pymc.fit` returned.

    Args:
        params: `{"mean", "std"}` or `{"mean", "cov"}`, as a `Tracker` stores them; None for the fit's own.

    Raises:
        BayesreconError: as `posteriors.from_guide`.
    """
    kind = type(fit).__name__
    if kind not in APPROXIMATIONS:
        raise BayesreconError(f"PyMC's approximation {kind} is not supported; expected {', '.join(APPROXIMATIONS)}")
    variables = {str(v.name): v for v in fit.model.free_RVs}
    values = {str(fit.model.rvs_to_values[v].name): name for name, v in variables.items()}
    positions = {}
    for name, part, shape, _ in fit.ordering.values():
        positions[values.get(name, name)] = np.arange(part.start, part.stop).reshape(shape)
    at = positions_in_model(model, positions, "PyMC fit")
    theirs = {name: _constrained(fit.model, variables[name], x) for name, x in probes(model).items()}
    check_transforms(model, theirs, "PyMC fit")
    d, full = model.dimension, kind == "FullRank"
    lower = np.tril_indices(d)
    spread = "cov" if full else "std"

    def native(given: object, label: str) -> np.ndarray:
        entries = named_entries(given, ("mean", spread), label)
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

    def phi(x: Any) -> Any:
        if not full:
            return phi_of(model, x[:d][at], jnp.diag(jax.nn.softplus(x[d:]))[at])
        root = jnp.zeros((d, d)).at[lower].set(x[d:])
        root = root - jnp.diag(jnp.diag(root)) + jnp.diag(jax.nn.softplus(jnp.diag(root)))
        return phi_of(model, x[:d][at], root[at])

    return FittedLaw(
        kind="variational",
        name=f"PyMC {kind} of {model.name}",
        native=native(_own(fit, spread) if params is None else params, "the parameters of the fit"),
        phi=phi,
        iterates=tuple(native(given, f"iterate {i}") for i, given in enumerate(iterates, 1)),
    )


def _rho(scale: np.ndarray) -> np.ndarray:
    """The inverse of softplus, which PyMC has standard deviations through."""
    return np.asarray(scale + np.log(-np.expm1(-scale)))


def _own(fit: Any, spread: str) -> Mapping[str, Any]:
    return {"mean": fit.mean.eval(), spread: getattr(fit, spread).eval()}


def _constrained(program: Any, variable: Any, value: np.ndarray) -> Any:
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
