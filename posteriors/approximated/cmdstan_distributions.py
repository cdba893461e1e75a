"""Normal distributions from the draws that CmdStan's `variational` and `laplace` write."""

import os
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.digits import decimal_step
from bayesrecon.errors import BayesreconError, beside, reading
from bayesrecon.model import Model
from bayesrecon.posteriors.approximated.fitted_distribution import FittedDistribution, phi_of
from bayesrecon.posteriors.draws import Draws, assemble
from bayesrecon.posteriors.recognition import CMDSTAN_METHODS
from bayesrecon.posteriors.sources import accepted_draws
from bayesrecon.untrusted.cmdstan_file import CmdStanFile, Settings
from bayesrecon.untrusted.guarded import opened

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
