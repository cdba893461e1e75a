"""What is measured on a device: each case makes its inputs, then works on them as often as it is asked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

ANSWERS = {False: (100, 20), True: (5, 4)}
"""Persons and items, of tiny sizes too."""

Numbers = dict[str, np.ndarray]
Work = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """One kind of work.

    Attributes:
        make: `(tiny) -> work`, which is timed; what comes before it is not.
        told: numbers of a result that do not depend on the device but for rounding.
        chance: whether they are averages over draws, with their standard errors as `NAME se`.
        profiled: whether the share of the host is measured, by a profile.
    """

    make: Callable[[bool], Work]
    told: Callable[[Any], Numbers]
    chance: bool = False
    profiled: bool = False


def _rows(table: Any) -> Numbers:
    """Estimates and standard errors of a table of statistics."""
    seen = [row for row in table.rows if row.estimate is not None]
    return {name: np.array([getattr(row, name) for row in seen], float) for name in ("estimate", "se")}


def _recovered(release: Any) -> Work:
    import bayesrecon

    return lambda: bayesrecon.recover(release, force=True)


def _regression(coordinates: int, draws: int, tiny: bool) -> Work:
    from benchmarks.draws.run import regression

    return _recovered(regression(min(coordinates, 5) if tiny else coordinates, 1000 if tiny else draws))


def _logistic(covariates: int, tiny: bool) -> Work:
    from tests.support.covariates import simulated

    return _recovered(simulated("logistic", 2 if tiny else covariates, 0 if tiny else 9)[2])


def _groups(count: int, tiny: bool) -> Work:
    from bayesrecon.posteriors import from_draws
    from tests.support import conjugate

    count = 6 if tiny else count
    rng, group = np.random.default_rng(0), np.repeat(np.arange(1, count + 1), 10)
    y = rng.normal(size=count)[group - 1] + rng.normal(size=len(group))
    draws = conjugate.sample_effects(group, y, count, 400 if tiny else 4000, rng)
    return _recovered(from_draws(draws, conjugate.effects_model(count)))


def _scores(tiny: bool) -> Work:
    """A score matrix: 2,048 atoms in 11 directions, 512 records."""
    from bayesrecon.divergence.dense import DenseEmbedding
    from bayesrecon.divergence.metrics import metric_factor
    from bayesrecon.precision import in_float64
    from tests.support.covariates import data_of, simulated

    release = simulated("logistic", 10, 0 if tiny else 9)[2]
    records = data_of("logistic", 10, 16 if tiny else 512, np.random.default_rng(1))
    embedding = DenseEmbedding(release, metric_factor(release, None))
    return in_float64(lambda: embedding.scores(records, np.arange(64 if tiny else 2048)))


def _sampled(records: int, covariates: int, chains: int, draws: int, tiny: bool) -> Work:
    """NUTS on a logistic regression, all chains together."""
    from bayesrecon.posteriors import nuts
    from tests.support.covariates import data_of, model_of

    covariates, records = (2, 50) if tiny else (covariates, records)
    data = data_of("logistic", covariates, records, np.random.default_rng(0))
    many = 20 if tiny else draws
    how = {"chains": chains, "draws": many, "warmup": many, "chain_method": "vectorized"}
    return lambda: nuts(model_of("logistic", covariates), data, **how)


def _means(release: Any) -> Numbers:
    """Posterior means with the errors that sampling leaves."""
    from bayesrecon.diagnostics import effective_sample_size

    theta = np.asarray(release.theta)
    size = effective_sample_size(theta, np.asarray(release.chain))
    return {"mean": theta.mean(axis=0), "mean se": theta.std(axis=0) / np.sqrt(size)}


def _reconstructed(count: int, tiny: bool) -> Work:
    import bayesrecon
    from bayesrecon import WeightedRecords
    from bayesrecon.posteriors import from_draws
    from tests.support.conjugate import regression_model, sample_regression

    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (434, 1))
    y = 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, 434)
    release = from_draws(sample_regression(x, y, 200 if tiny else 4000, rng), regression_model())
    attack = WeightedRecords(n=10 if tiny else count, start="published")
    return lambda: bayesrecon.reconstruct(release, attack=attack)


def _divergence(found: Any) -> Numbers:
    return {"bound": np.array([found.bound])}


def _matched(tiny: bool) -> Work:
    """Records of a small network that was trained on 20 of them."""
    import bayesrecon
    from bayesrecon import GradientMatching
    from tests.support.networks import trained

    release, data = trained("events", 8 if tiny else 20)
    attack = GradientMatching(n=len(data["x"]), restarts=1 if tiny else 4, steps=20 if tiny else 300)
    return lambda: bayesrecon.reconstruct(release, attack=attack, total=len(data["x"]))


def _deleted(tiny: bool) -> Work:
    """The record deleted from a linear regression of many columns, from public records."""
    import bayesrecon
    from bayesrecon import HRec
    from bayesrecon.models import load
    from bayesrecon.posteriors import retrain_without, train

    rng, width, count = np.random.default_rng(0), 5 if tiny else 400, 200 if tiny else 8000
    model = load("linear_predictor", features=width, penalty=1.0)
    x = rng.normal(size=(2 * count, width))
    data = {"x": x, "y": x @ rng.normal(size=width) + rng.normal(size=2 * count)}
    private, public = ({k: v[part] for k, v in data.items()} for part in (slice(count), slice(count, None)))
    before = train(model, private).release
    pair = bayesrecon.deletion(before, retrain_without(before, private, [7])[0].release)
    return lambda: bayesrecon.reconstruct(pair, attack=HRec(public=public), total=count)


def _residual(found: Any) -> Numbers:
    return {"residual": np.array([found.residual])}


def _record(found: Any) -> Numbers:
    return {name: np.atleast_1d(value) for name, value in found.record.items()}


def _answered(tiny: bool) -> Work:
    from benchmarks.draws.records import ask, table_of

    release, records = table_of(*ANSWERS[tiny])
    return lambda: ask(release, records)


def _decomposed(what: str, rows: int, columns: int, tiny: bool) -> Work:
    """A decomposition of a score matrix by LAPACK, or on the accelerator, there and back."""
    import jax
    import jax.numpy as jnp
    import scipy.linalg

    from bayesrecon.precision import in_float64

    rows, columns = (32, 8) if tiny else (rows, columns)
    matrix = np.random.default_rng(0).normal(size=(rows, columns)) * np.geomspace(1, 1e-6, columns)
    if what == "Cholesky":
        matrix = matrix @ matrix.T + np.eye(rows)
    if jax.default_backend() == "cpu":
        lapack: dict[str, Callable[[np.ndarray], Any]] = {
            "QR": lambda a: scipy.linalg.qr(a, mode="economic")[1],
            "SVD": lambda a: scipy.linalg.svdvals(a),
            "Cholesky": lambda a: scipy.linalg.cholesky(a, lower=True),
        }
        return partial(lapack[what], matrix)
    device: dict[str, Callable[[Any], Any]] = {
        "QR": lambda a: jnp.linalg.qr(a, mode="reduced")[1],
        "SVD": lambda a: jnp.linalg.svd(a, compute_uv=False),
        "Cholesky": jnp.linalg.cholesky,
    }
    program = jax.jit(device[what])
    return in_float64(lambda: np.asarray(program(matrix)))


def _magnitudes(found: Any) -> Numbers:
    """Of the largest entries: signs of a decomposition are free."""
    return {"decomposed": np.abs(np.diag(found)) if np.ndim(found) == 2 else np.asarray(found)}


def _answers(found: Any) -> Numbers:
    return {"estimate": found["y"].estimate, "se": found["y"].se}


CASES = {
    "recover, 10 parameters, 100,000 draws": Case(partial(_regression, 10, 100_000), _rows, profiled=True),
    "recover, logistic, 10 covariates": Case(partial(_logistic, 10), _rows, profiled=True),
    "recover, 26 parameters, 100,000 draws": Case(partial(_regression, 26, 100_000), _rows, profiled=True),
    "recover, 200 groups": Case(partial(_groups, 200), _rows, profiled=True),
    "NUTS, 4 chains, 500 records of 8 covariates": Case(partial(_sampled, 500, 8, 4, 1000), _means, True),
    "NUTS, 64 chains, the same": Case(partial(_sampled, 500, 8, 64, 1000), _means, True),
    "NUTS, 4 chains, 100,000 records of 20 covariates": Case(partial(_sampled, 100_000, 20, 4, 100), _means, True),
    "recover, 10 parameters, 1,000,000 draws": Case(partial(_regression, 10, 1_000_000), _rows, profiled=True),
    "QR, 4,096 by 1,024": Case(partial(_decomposed, "QR", 4096, 1024), _magnitudes),
    "SVD, 1,024 by 1,024": Case(partial(_decomposed, "SVD", 1024, 1024), _magnitudes),
    "Cholesky, 4,096": Case(partial(_decomposed, "Cholesky", 4096, 1024), _magnitudes),
    "recover, 26 parameters, 10,000 draws": Case(partial(_regression, 26, 10_000), _rows),
    "reconstruct, 400 records": Case(partial(_reconstructed, 400), _divergence),
    "scores, 22,528 rows of 512 records": Case(_scores, lambda found: {"scores": found[::97, ::7].ravel()}),
    "records, 2PL, 2,000 answers": Case(_answered, _answers),
    "recover, logistic, 4 covariates": Case(partial(_logistic, 4), _rows),
    "recover, 10 parameters, 10,000 draws": Case(partial(_regression, 10, 10_000), _rows),
    "HRec, 400 columns, 8,000 public records": Case(_deleted, _record),
    "gradient matching, 20 records of a network": Case(_matched, _residual),
}
"""In the order in which they are measured: what matters most comes first, where time may end."""
