"""How much statistics rest on the exact form of the likelihood.

Let the draws come from a model next to the stated one, `l + alpha l1`, with a further parameter alpha that is zero in
the stated model. The equations then see the records' scores plus `alpha sum_n grad l1(theta, x_n)`, and the amplitudes
of the measure that solves them change by

    dy / dalpha = K^+ <psi, grad L1>,     L1 = sum_m v_m l1(., z_m),

with weights v on generic records, whose responses are as the posterior predicts them. Statistics change with it. A
likelihood to the power c with n records, for example, is that of c n records: n changes, and means do not. The l1 of a
response y are

    whole numbers      l, and eta l: other variances (a negative binomial distribution for Poisson's)
    finitely many      l_y - sum_k p_k l_k, and the same of l^2: another link function
    positive numbers   l, the part of l without y, and d l / d log y: other shapes, censored values
    normal             u^4 / 4 - u^2 / 2, with the standardised residual u: Student's t, alpha = 1 / degrees of freedom

Counts and positive numbers matter where the stated distributions of y are an exponential family with one parameter,
`l = eta y - A(eta)`: a model with a parameter for its dispersion does not rest on one. The draws of a normal
regression show alpha, because the precision of its coefficients and that of its scale then count different numbers of
records. Its estimate is the score test's, `alpha = E[-div h - <h, score>] / E[<h, h>]`, for the part h of `grad L1`
that no records explain.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from bayesrecon.arrays import Array
from bayesrecon.diagnostics import effective_sample_size, evenly
from bayesrecon.divergence.mean_embedding import as_table
from bayesrecon.divergence.score import log_liks
from bayesrecon.estimation.error_laws import STATIONARY
from bayesrecon.estimation.predictive import responses
from bayesrecon.estimation.span import Fit
from bayesrecon.model import GaussianPredictor, Model, Records
from bayesrecon.results.row import Row
from bayesrecon.running.draws_on_disk import as_rows, mean_and_covariance

_ALPHA = 0.5  # up to which a model counts as next to the stated one, where the draws do not show it
_TAIL = 0.05  # probability that an alpha that the draws show is larger
_ROWS_PER_FEATURE, _FEWEST, _NUMBERS = 8, 64, 2**22  # atoms at which directions are compared, and numbers of them
_ONE_FAMILY = 1e-6  # of the second singular value over the first one, where one parameter rules the response
_PROBES = 256  # records by which the design of a regression is represented
_RECORDS, _DRAWS = 8, 5  # at which that is judged

_CONDITIONS = {
    "integer": "{y} is exactly as dispersed as the model says",
    "levels": "the model's link of {y} is exact",
    "interval": "the distribution of {y} has exactly the model's shape, with nothing censored",
}


def conditioned(
    problem: Any, rows: Sequence[Row], names: Sequence[str], coefficients: Float[np.ndarray, "r S"]
) -> tuple[Row, ...]:
    """The rows with their conditions, or with wider intervals where the draws show how far the model is off.

    Args:
        problem: the `estimation.problem.Problem`.
        names, coefficients: statistics that are visible, and their linear forms in the totals of the basis.
    """
    judged = [row for row in rows if row.se and row.upper is not None]
    if problem.solved.law is STATIONARY or not judged:
        return tuple(rows)
    at = {name: k for k, name in enumerate(names)}
    gaussian = problem.release.model.gaussian
    if gaussian is not None:
        return tuple(rows) if gaussian.scale is None else _with_tails(problem, gaussian, rows, at, coefficients)
    found = {row.name: row for row in rows}
    for name, kind, gradients in _directions(problem):
        changes = np.abs(_changes(problem, gradients) @ coefficients)
        for row in judged:
            assert row.upper is not None
            assert row.estimate is not None
            if (_ALPHA * changes[:, at[row.name]] > row.upper - row.estimate).any():
                said = f"if {_CONDITIONS[kind].format(y=name)}"
                if row.name == "n" and kind == "integer":
                    said += f"; n over the dispersion of {name} is {row.estimate:.4g}"
                found[row.name] = replace(found[row.name], condition=said)
    return tuple(found.values())


def untried(problem: Any, rows: Sequence[Row]) -> tuple[str, ...]:
    """A warning about intervals that no neighbouring likelihood could be tried on."""
    model = problem.release.model
    if problem.solved.law is STATIONARY or model.gaussian or model.simulate or not any(row.se for row in rows):
        return ()
    return (f"not tried: neighbours of {model.name}, which cannot be simulated: intervals hold if its form is exact",)


def _changes(problem: Any, gradients: Float[np.ndarray, "K A d"]) -> Float[np.ndarray, "K r"]:
    """Derivatives of the target in alpha, for gradients of L1 at the atoms of `_atoms`."""
    scores, atoms = _basis_scores(problem), _atoms(problem)
    whitened = np.stack([_whitened(problem, one, atoms) for one in gradients])
    change = np.linalg.lstsq(scores, whitened.reshape(len(gradients), -1).T, rcond=1e-12)[0]
    return change.T @ problem.solved.gram


def _atoms(problem: Any) -> np.ndarray:
    size, width, rank = problem.release.size, problem.embedding.metric.shape[1], problem.solved.basis.size
    count = max(_FEWEST, _NUMBERS // (width * rank), -(-_ROWS_PER_FEATURE * rank // width))
    return evenly(size, min(size, count))


def _metrics(problem: Any, atoms: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The metrics of the atoms, each with the positions in `atoms` to which it belongs: each was made without them."""
    embedding = problem.embedding
    factors = embedding.metric[None] if embedding.folds is None else embedding.folds
    fold = atoms * len(factors) // problem.release.size
    return [(factor, np.flatnonzero(fold == k)) for k, factor in enumerate(factors)]


def _whitened(problem: Any, gradient: Float[np.ndarray, "A d"], atoms: np.ndarray) -> Float[np.ndarray, "A k"]:
    weights = np.asarray(problem.release.weights)[atoms]
    found = np.zeros((len(atoms), problem.embedding.metric.shape[1]))
    for metric, at in _metrics(problem, atoms):
        found[at] = gradient[at] @ metric
    return np.sqrt(weights / weights.sum())[:, None] * found


def _basis_scores(problem: Any) -> Float[np.ndarray, "rows r"]:
    basis = problem.solved.basis
    embedding = replace(problem.embedding, progress=None)
    return embedding.scores(basis.records, _atoms(problem)) @ np.asarray(basis.coefficients)


def _functions_at(problem: Any, records: Records) -> Float[np.ndarray, "Q r"]:
    """The basis functions at some records; those at records that are among the probes are known."""
    solved = problem.solved
    known = as_table({k: solved.probes[k] for k in records})
    both = np.concatenate([known, as_table(records)])
    count, which = len(known), np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
    place = np.full(which.max() + 1, -1)
    place[which[:count]] = np.arange(count)
    at = place[which[count:]]
    functions, new = solved.functions[at], at < 0
    if new.any():
        functions[new] = problem.embedding.cross(solved.basis, {k: v[new] for k, v in records.items()})
    return functions


def _weights_of(solved: Fit, functions: Float[np.ndarray, "Q r"]) -> Float[np.ndarray, " Q"]:
    """Weights of generic records that have the totals of the data: their posterior mean, if each has the prior mean and
    standard deviation N / Q."""
    noise = solved.ridge if solved.ridge is not None else 2 * solved.gram / solved.embedding.effective_size
    count = len(functions)
    ones = solved.project(np.ones((len(solved.cross), 1))).beta[:, 0]
    each = max(1.0, float(abs(solved.target @ ones))) / count
    prior = each**2 * functions.T @ functions
    missing = solved.target - each * functions.sum(axis=0)
    return each + each**2 * functions @ np.linalg.lstsq(prior + noise, missing, rcond=1e-13)[0]


def _directions(problem: Any) -> list[tuple[str, str, Float[np.ndarray, "K A d"]]]:
    """Name and kind of every response, with the gradients of its L1."""
    release: Any = problem.release
    model, known = release.model, problem.knowledge.known
    predict_all, predict = responses(release, ()), responses(release, known)
    if predict_all is None or predict is None:
        return []
    probes = problem.solved.probes
    drawn = predict_all(np.random.default_rng(0), probes)
    names = [k for k, v in drawn.items() if not np.array_equal(v, probes[k]) and _kind(model, k) in _CONDITIONS]
    theta = np.asarray(as_rows(release.theta))
    names = [k for k in names if _kind(model, k) == "levels" or _one_family(model, theta, drawn, k)]
    if not names:
        return []
    records = predict(np.random.default_rng(1), probes)
    functions = _functions_at(problem, records)
    usable = np.isfinite(functions).all(axis=1)
    records = {k: v[usable] for k, v in records.items()}
    weights = _weights_of(problem.solved, functions[usable])
    at = np.asarray(theta[_atoms(problem)])
    return [(k, _kind(model, k), np.asarray(_gradients(model, k, at, records, weights)).swapaxes(0, 1)) for k in names]


def _kind(model: Model, name: str) -> str:
    spec = model.fields[name]
    positive = spec.domain.kind == "interval" and spec.domain.low == 0 and np.isinf(spec.domain.high)
    return spec.domain.kind if not spec.shape and (spec.domain.discrete or positive) else ""


def _one_family(model: Model, theta: np.ndarray, records: Records, name: str) -> bool:
    """Whether one parameter rules the distributions of a response: `l(theta, y) - l(theta', y)` are multiples of one
    function of y, up to constants."""
    chosen = np.argsort(-np.asarray(records[name], float))[:_RECORDS]
    some = {k: np.asarray(v)[chosen] for k, v in records.items()}
    centre, covariance = mean_and_covariance(theta, np.full(len(theta), 1 / len(theta)))
    noise = np.random.default_rng(2).normal(size=(_DRAWS, len(centre)))
    at = centre + noise * np.sqrt(np.diag(covariance))
    values = []
    for share in (0.25, 0.5, 0.75, 1.0):
        y = share * np.asarray(some[name], float)
        y = np.ceil(y).astype(some[name].dtype) if model.fields[name].domain.discrete else y
        values.append(np.asarray(log_liks(model, at, {**some, name: y})))
    table = np.stack(values, axis=-1)  # (draws, records, values)
    table = table - table.mean(axis=0)
    table = (table - table.mean(axis=-1, keepdims=True)).swapaxes(0, 1)
    singular = np.linalg.svd(table[np.isfinite(table).all(axis=(1, 2))], compute_uv=False)
    return bool(len(singular) and (singular[:, 1] <= _ONE_FAMILY * singular[:, 0].max()).all())


@partial(jax.jit, static_argnames=("model", "name"))
def _gradients(model: Model, name: str, theta: Array, records: Records, weights: Array) -> Array:
    """Gradients of every L1 of a response at some atoms, `(A, K, d)`."""
    domain = model.fields[name].domain

    def terms(t: Array, record: Records) -> Array:
        def at(y: Array) -> Array:
            return model.log_lik(t, {**record, name: y})

        y = record[name]
        if domain.kind == "levels":
            logs = jnp.stack([at(jnp.asarray(level, y.dtype)) for level in domain.levels])
            share, value = jax.nn.softmax(logs), at(y)
            return jnp.stack([value - share @ logs, value**2 - share @ logs**2])
        if domain.kind == "integer":
            eta = jax.lax.stop_gradient(at(jnp.ones_like(y)) - at(jnp.zeros_like(y)))
            return jnp.stack([at(y), eta * at(y)])
        slope = jax.grad(lambda e: at(y * jnp.exp(e)))(0.0)
        rest = at(y) - slope
        return jnp.stack([at(y), rest, rest**2 / 2, slope * jnp.log(y)])

    def total(t: Array) -> Array:
        return weights @ jax.vmap(lambda record: terms(t, record))(records)

    return jax.lax.map(jax.jacrev(total), jnp.asarray(theta), batch_size=64)


def _with_tails(
    problem: Any, gaussian: GaussianPredictor, rows: Sequence[Row], at: dict[str, int], coefficients: np.ndarray
) -> tuple[Row, ...]:
    """The rows of a normal regression with their intervals for errors by Student's t, as far as the draws allow it.

    Scores and traces are taken in the metrics of the embedding: in one made of all draws they share its errors, and
    few draws would seem to have heavy tails.
    """
    solved, release = problem.solved, problem.release
    theta, atoms, every = as_rows(release.theta), _atoms(problem), np.arange(release.size)
    weights = np.asarray(release.weights)
    gradient, trace = _tails(problem, gaussian, np.asarray(theta[: release.size]))
    scores = _basis_scores(problem)
    here = _whitened(problem, gradient[atoms], atoms).ravel()
    explained = np.linalg.lstsq(scores, here, rcond=1e-12)[0]
    size = float(np.sum((here - scores @ explained) ** 2))
    residual, fitted = replace(solved, embedding=problem.embedding).influence(explained[:, None])
    series, fitted = np.asarray(residual[:])[:, 0] - trace, fitted[:]
    for metric, of in _metrics(problem, every):
        series[of] -= np.sum((gradient[of] @ metric) * (fitted[of] @ metric), axis=1)
    mean = weights @ series
    ess = effective_sample_size(series[:, None], np.asarray(release.chain))[0]
    ess = max(ess * solved.embedding.effective_size / len(weights) - len(explained), 1.0)
    found, error = float(mean) / size, float(np.sqrt(weights @ (series - mean) ** 2 / ess)) / size
    alpha = max(found, 0.0)
    most = max(found - error * float(ndtri(_TAIL * ndtr(found / error))), alpha)  # of a normal from zero on
    changes = -explained @ solved.gram @ coefficients
    widened = []
    for row in rows:
        if row.se:
            change, estimate, upper = float(changes[at[row.name]]), row.estimate, row.upper
            assert estimate is not None
            assert upper is not None
            half = np.copysign(upper - estimate, change)
            far = change * alpha + np.copysign(np.hypot(half, change * (most - alpha)), change)
            row = replace(row, lower=float(estimate + min(-half, far)), upper=float(estimate + max(-half, far)))
        widened.append(row)
    return tuple(widened)


def _tails(
    problem: Any, gaussian: GaussianPredictor, theta: np.ndarray
) -> tuple[Float[np.ndarray, "T d"], Float[np.ndarray, " T"]]:
    """Gradient of L1 at the atoms, and the trace of its Hessian times Sigma.

    The residual of a record at an atom is `u = q + k e` with normal e: q by the change of its location, k by that of
    the scale. Its powers have closed means.
    """
    solved, (beta, scale), power = problem.solved, (list(gaussian.coefficients), gaussian.scale), gaussian.power
    assert scale is not None
    log_scale = power * (theta[:, scale] if gaussian.logarithm else np.log(theta[:, scale]))
    centre, typical = theta.mean(axis=0), log_scale.mean()
    some = slice(max(_PROBES, 4 * solved.basis.size))
    _, x, width = gaussian.design(centre[beta], {k: v[some] for k, v in solved.probes.items()})
    x = x / width[:, None]
    v = _weights_of(solved, solved.functions[some]) * problem.release.model.power
    gradient, trace = np.zeros_like(theta), np.zeros(len(theta))
    for metric, atoms in _metrics(problem, np.arange(len(theta))):
        sigma = metric @ metric.T
        stretched = v * np.sum((x @ sigma[np.ix_(np.array(beta), np.array(beta))]) * x, axis=1)
        for block in np.array_split(atoms, 1 + atoms.size * theta.shape[1] * len(v) // _NUMBERS):
            raw, precision = theta[block, scale], np.exp(-log_scale[block])[:, None]
            q = -precision * ((theta[np.ix_(block, np.array(beta))] - centre[beta]) @ x.T)
            square, q2 = np.exp(2 * (typical - log_scale[block]))[:, None], q * q  # NumPy's other powers are slow
            second, third = q2 + square, q * (q2 + 3 * square)
            fourth = q2 * (q2 + 6 * square) + 3 * square**2
            gradient[np.ix_(block, np.array(beta))] = -precision * (((third - q) * v) @ x)
            by_scale = -power * ((fourth - second) @ v)
            mixed = power * precision * (((4 * third - 2 * q) * v) @ x)
            twice = power**2 * ((4 * fourth - 2 * second) @ v)
            if not gaussian.logarithm:
                by_scale, mixed, twice = by_scale / raw, mixed / raw[:, None], (twice - by_scale) / raw**2
            gradient[block, scale] = by_scale
            trace[block] = precision[:, 0] ** 2 * ((3 * second - 1) @ stretched)
            trace[block] += 2 * mixed @ sigma[beta, scale] + sigma[scale, scale] * twice
    return gradient, trace
