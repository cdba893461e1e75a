"""CmdStan's `variational` and `laplace` output as distributions: the draws that they write are those of a normal
distribution."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.digits import decimal_step
from bayesrecon.errors import BayesreconError, beside, reading
from bayesrecon.model import Model
from bayesrecon.posteriors.approximated.fitted_law import FittedLaw, phi_of
from bayesrecon.posteriors.draws import Draws, assemble
from bayesrecon.posteriors.sources import accepted_draws
from bayesrecon.untrusted.cmdstan_file import MAX_LINE, CmdStanFile, Settings
from bayesrecon.untrusted.guarded import opened

_METHODS = ("variational", "laplace")
_DIGITS = 6  # significant, that CmdStan prints unless told otherwise
_FEWEST = 20  # draws per parameter
_ODD = 6.0  # standard errors of a skewness or kurtosis, beyond which draws are not normal: 1e-9 each


def is_csv(guide: object) -> bool:
    """Whether this is the path of a file."""
    return isinstance(guide, str | os.PathLike)


def is_law(source: Any) -> bool:
    """Whether this is the path of a file whose comments say that CmdStan's `variational` or `laplace` wrote it.

    >>> Path("fit.csv").write_text("# method = laplace\\nlog_p__,log_q__,theta\\n")
    41
    >>> is_law("fit.csv")
    True
    """
    if not is_csv(source) or Path(source).suffix.lower() != ".csv" or not Path(source).is_file():
        return False
    with Path(source).open(encoding="utf-8-sig", errors="replace") as file:
        while (line := file.readline(MAX_LINE)).startswith("#"):
            key, equals, value = line[1:].partition("=")
            if equals and key.strip() == "method":
                return value.strip().removesuffix("(Default)").rstrip() in _METHODS
    return False


def cmdstan_law(model: Model, source: Any, params: Any, iterates: object) -> FittedLaw:
    """The distribution whose draws a CSV file of CmdStan holds.

    Of `variational` the first row is the mean; of `laplace` mean and covariance are those of the draws.

    Raises:
        BayesreconError: as `posteriors.from_guide`.
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
    release, kept = accepted_draws(Draws(assemble(columns), None, path.stem), model, ignore_unknown=True)
    if len(kept) < len(rows):
        raise BayesreconError(f"{path}: {len(rows) - len(kept)} rows lie on a boundary of the support")
    theta, method = np.asarray(release.theta), settings["method"]
    mean = theta[0]
    printed = None
    if method == "variational":
        first = [rows[0, header.index(c)] for c in ("log_p__", "log_g__") if c in header]
        if len(first) < 2 or any(first):
            raise BayesreconError(f"{path}: the first row is not the mean of the approximation")
        theta = theta[1:]
        printed = _half_units(model, mean, settings)
    count, d = theta.shape
    if count < _FEWEST * d:
        raise BayesreconError(f"{path}: {count} draws are too few for {d} parameters; {_FEWEST * d} are needed")
    if method == "laplace":
        mean = theta.mean(axis=0)
    about = theta - mean
    covariance = about.T @ about / (count - (method == "laplace"))
    full = method == "laplace" or settings.get("algorithm") == "fullrank"
    if not full:
        covariance = np.diag(np.diag(covariance))
    root = _root(path, covariance)
    _check_normal(path, np.linalg.solve(root, about.T), model)
    lower = np.tril_indices(d)

    def phi(x: Array) -> jax.Array:
        if full:
            return phi_of(model, x[:d], jnp.zeros((d, d)).at[lower].set(x[d:]))
        return phi_of(model, x[:d], jnp.diag(jnp.exp(x[d:])))

    native = np.concatenate([mean, root[lower] if full else np.log(np.diag(root))])
    return FittedLaw(
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
        settings, header, rows = file.rows(_METHODS)
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
    """Half a unit of the last digit of every printed value, unconstrained; the supports are boxes."""
    significant = settings.get("sig_figs", "-1")
    digits = int(significant) if significant.isdigit() and int(significant) > 0 else _DIGITS

    def constrained(x: Array) -> jax.Array:
        return jnp.concatenate([jnp.ravel(v) for v in model.constrain(x).values()])

    values, slope = jax.jvp(constrained, (jnp.asarray(theta),), (jnp.ones(len(theta)),))
    return np.asarray(0.5 * decimal_step(np.asarray(values), digits) / np.abs(np.asarray(slope)))


def _check_normal(path: Path, unit: np.ndarray, model: Model) -> None:
    """Refuse draws that are not normal in the model's coordinates: the two are not in the same ones."""
    count = unit.shape[1]
    tests: tuple[tuple[Callable[[np.ndarray], np.ndarray], float], ...] = (
        (lambda x: x**3, 15.0),
        (lambda x: x**4 - 3, 96.0),
    )
    for power, variance in tests:
        odd = np.abs(power(unit).mean(axis=1)) / np.sqrt(variance / count)
        if odd.max() > _ODD:
            raise BayesreconError(
                f"{path}: the draws are not normal in the coordinates of model {model.name} (about "
                f"{model.coordinates[int(odd.argmax())]}): does its Stan program have the same coordinates?"
            )
