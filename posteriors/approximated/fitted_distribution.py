"""`FittedDistribution`: a normal distribution or a mode, in the parameters of its optimiser."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.digits import decimal_step
from bayesrecon.errors import BayesreconError, beside, near, reading
from bayesrecon.model import Model
from bayesrecon.posteriors.approximated.normal import order_of
from bayesrecon.posteriors.draws import Draws, assemble
from bayesrecon.posteriors.recognition import CMDSTAN_METHODS
from bayesrecon.posteriors.sources import accepted_draws
from bayesrecon.untrusted.cmdstan_file import CmdStanFile, Settings
from bayesrecon.untrusted.guarded import opened

_TOLERANCE = 1e-5  # of transformed values: guides are often fitted in single precision


@dataclass(frozen=True, eq=False)
class FittedDistribution:
    """A fitted distribution.

    Attributes:
        kind: "variational", "laplace" (a mode with its covariance) or "mode".
        name: name for display.
        native: `(g,)`, the optimiser's parameters, unconstrained.
        phi: function from native parameters to the parameter of the derived model (`approximated.normal`), or to theta
            for a mode.
        iterates: native parameters at other steps.
        jacobian: for a mode with its covariance, whether its density includes the Jacobian of the transforms.
        draws: number of draws of the distribution if it is estimated from them, else None.
        printed: `(d,)` half units of the last printed digit of the mean; None if it is not rounded.
        slow: the reason why only a stated residual shows the distance from the optimum; empty if iterates do too.
    """

    kind: str
    name: str
    native: np.ndarray
    phi: Callable[[Array], Array]
    iterates: tuple[np.ndarray, ...] = ()
    jacobian: bool = True
    draws: int | None = None
    printed: np.ndarray | None = None
    slow: str = ""


def phi_of(model: Model, mean: Array, factor: Array) -> jax.Array:
    """The parameter phi of a mean `(d,)` and a covariance `F F'`, as a differentiable function of any `F (d, g)`."""
    order = order_of(model)
    rows = factor[order]
    lower = jnp.linalg.cholesky(rows @ rows.T)
    return jnp.concatenate([mean, lower[np.tril_indices(model.dimension)]])


def positions_in_model(model: Model, positions: Mapping[str, Array], label: str) -> np.ndarray:
    """Positions `(d,)` of the model's coordinates in the vector of a fit, from the positions of each site."""
    expected = {p.name: p for p in model.parameters}
    for name in expected:
        if name not in positions:
            raise BayesreconError(
                f"the {label} has no site {name}, which model {model.name} has{near(name, positions)}: it belongs to "
                "another model"
            )
    for name in positions:
        if name not in expected:
            raise BayesreconError(
                f"the {label} has a site {name}, which model {model.name} does not have{near(name, expected)}: it "
                "belongs to another model"
            )
    for name, p in expected.items():
        if np.shape(positions[name]) != p.free_shape:
            raise BayesreconError(
                f"{name} of the {label} has shape {np.shape(positions[name])} unconstrained, and {p.free_shape} in "
                f"model {model.name}: it belongs to another model"
            )
    return np.concatenate([np.ravel(np.asarray(positions[name], int)) for name in expected])


def probes(model: Model) -> dict[str, np.ndarray]:
    """Unconstrained values of every parameter, at which transforms are compared."""
    grids = {p.name: np.linspace(-0.6, 0.9, p.size).reshape(p.free_shape) for p in model.parameters}
    return {name: np.where(values == 0, 0.3, values) for name, values in grids.items()}


@lru_cache(maxsize=256)
def _transformed(model: Model) -> dict[str, np.ndarray]:
    points = probes(model)
    transformed = jax.jit(lambda: {p.name: p.transform(jnp.asarray(points[p.name])) for p in model.parameters})()
    return {name: np.asarray(values) for name, values in transformed.items()}


def check_transforms(model: Model, values: Mapping[str, Array], label: str) -> None:
    """Refuse a fit in other coordinates than the model's.

    Args:
        values: `{parameter: value}`, the probes transformed by the fit.
        label: name of the fit, for the message.
    """
    for p in model.parameters:
        expected, actual = _transformed(model)[p.name], np.asarray(values[p.name])
        if expected.shape != actual.shape or not np.allclose(expected, actual, rtol=_TOLERANCE, atol=_TOLERANCE):
            raise BayesreconError(
                f"the {label} transforms {p.name} differently from model {model.name} "
                f"({type(p.transform).__name__}): the two are not in the same coordinates"
            )


def numbers(values: object, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A parameter of a fit as a checked array."""
    try:
        result = np.asarray(values, float)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError(f"{name} must be numeric") from None
    if result.shape != shape:
        raise BayesreconError(f"{name} has shape {result.shape}, expected {shape}")
    if not np.isfinite(result).all():
        raise BayesreconError(f"{name} holds missing or infinite values: did the fit diverge?")
    return result


def named_entries(params: object, names: Sequence[str], label: str) -> dict[str, object]:
    """The named entries of a fit's parameters."""
    if not isinstance(params, Mapping):
        raise BayesreconError(f"{label}: expected a dict of the fit's parameters, got a {type(params).__name__}")
    for name in names:
        if name not in params:
            raise BayesreconError(f"{label} lack {name}{near(name, params)} (they hold {', '.join(map(str, params))})")
    return {name: params[name] for name in names}


# Normal distributions from the draws that CmdStan's `variational` and `laplace` write.


_DIGITS = 6  # significant digits that CmdStan prints by default
_FEWEST = 20  # smallest number of draws per parameter
_LARGEST = 6.0  # z score of a skewness or kurtosis; larger ones have probability 1e-9 each in normal draws


def cmdstan_distribution(
    model: Model, source: str | os.PathLike[str], params: object, iterates: object
) -> FittedDistribution:
    """The normal distribution whose draws are in a CSV file of CmdStan.

    For `variational`, the mean is the first row. For `laplace`, the mean is that of the draws.

    Args:
        model: the model of the Stan program.
        source: path of the file.
        params, iterates: must be None and empty: the file has all parameters.
    """
    path = Path(source)
    if params is not None or iterates:
        raise BayesreconError(f"{path.name} holds its own parameters; omit params and iterates")
    if model.prepare is not None:
        raise BayesreconError(
            f"model {model.name} has other coordinates than its Stan program, in which the approximation is normal"
        )
    for p in model.parameters:
        if p.bounds is None:
            raise BayesreconError(f"Stan and model {model.name} transform {p.name} differently")
    settings, header, rows = _read(path)
    columns = {c: rows[None, :, k] for k, c in enumerate(header) if not c.endswith("__")}
    release, accepted = accepted_draws(Draws(assemble(columns), None, path.stem), model, ignore_unknown=True)
    if len(accepted) < len(rows):
        raise BayesreconError(f"{path}: {len(rows) - len(accepted)} rows lie on a boundary of the support")
    theta, method = np.asarray(release.theta), settings["method"]
    mean = theta[0]
    printed = None
    if method == "variational":
        log_densities = [rows[0, header.index(c)] for c in ("log_p__", "log_g__") if c in header]
        if len(log_densities) < 2 or any(log_densities):  # CmdStan writes zeros in the row of the mean
            raise BayesreconError(f"{path}: the first row is not the mean of the approximation")
        theta = theta[1:]
        printed = _half_units(model, mean, settings)
    count, d = theta.shape
    if count < _FEWEST * d:
        raise BayesreconError(f"{path}: {count} draws are too few for {d} parameters; {_FEWEST * d} are needed")
    if method == "laplace":
        mean = theta.mean(axis=0)
    residuals = theta - mean
    covariance = residuals.T @ residuals / (count - (method == "laplace"))
    full = method == "laplace" or settings.get("algorithm") == "fullrank"
    if not full:
        covariance = np.diag(np.diag(covariance))
    root = _root(path, covariance)
    _check_normal(path, np.linalg.solve(root, residuals.T), model)
    lower = np.tril_indices(d)

    def phi(x: Array) -> jax.Array:
        if full:
            return phi_of(model, x[:d], jnp.zeros((d, d)).at[lower].set(x[d:]))
        return phi_of(model, x[:d], jnp.diag(jnp.exp(x[d:])))

    native = np.concatenate([mean, root[lower] if full else np.log(np.diag(root))])
    return FittedDistribution(
        kind=method,
        name=path.stem,
        native=native,
        phi=phi,
        jacobian=settings.get("jacobian", "1").lower() in ("1", "true"),
        draws=count,
        printed=printed,
    )


def _read(path: Path) -> tuple[Settings, list[str], np.ndarray]:
    if not path.is_file():
        raise BayesreconError(f"{path}: no such file{beside(path)}")
    with reading(path, "a CmdStan CSV file"), opened(CmdStanFile, path) as file:
        settings, header, rows = file.rows(CMDSTAN_METHODS)
    if len(rows) < 2:
        raise BayesreconError(f"{path}: {len(rows)} rows of {rows.shape[1]} fields under a header of {len(header)}")
    if len(set(header)) < len(header):
        raise BayesreconError(f"{path}: a column appears twice")
    return settings, header, rows


def _root(path: Path, covariance: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise BayesreconError(f"{path}: the draws lie in a subspace of the parameters") from None


def _half_units(model: Model, theta: np.ndarray, settings: Settings) -> np.ndarray:
    """Half a unit of the last digit of each printed value, in unconstrained coordinates. All supports are boxes."""
    stated = settings.get("sig_figs", "-1")
    digits = int(stated) if stated.isdigit() and int(stated) > 0 else _DIGITS

    def constrained(x: Array) -> jax.Array:
        return jnp.concatenate([jnp.ravel(v) for v in model.constrain(x).values()])

    values, derivatives = jax.jvp(constrained, (jnp.asarray(theta),), (jnp.ones(len(theta)),))
    return np.asarray(0.5 * decimal_step(np.asarray(values), digits) / np.abs(np.asarray(derivatives)))


def _check_normal(path: Path, standardised: np.ndarray, model: Model) -> None:
    """Refuse draws `(d, T)` that are not normal: the model's coordinates are then not those of the fit."""
    count = standardised.shape[1]
    # Functions of a standard normal variable with mean zero, and their variances.
    tests: tuple[tuple[Callable[[np.ndarray], np.ndarray], float], ...] = (
        (lambda x: x**3, 15.0),
        (lambda x: x**4 - 3, 96.0),
    )
    for moment, variance in tests:
        z = np.abs(moment(standardised).mean(axis=1)) / np.sqrt(variance / count)
        if z.max() > _LARGEST:
            raise BayesreconError(
                f"{path}: the draws are not normal in the coordinates of model {model.name} (about "
                f"{model.coordinates[int(z.argmax())]}): does its Stan program have the same coordinates?"
            )


# PyMC's mean-field and full-rank approximations as distributions over a model's coordinates, without importing
# PyMC.


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
