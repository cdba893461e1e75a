"""Statistics of the private data from released log densities, through the value kernel.

A sampler's log density is the model's log joint at the draw, up to a constant:

    lp_t - log pi0(theta_t) - log |det|(theta_t) = sum_n l(theta_t, x_n) + c

In a basis of value functions, `l(theta, z) = sum_k e_k(z) g_k(theta) + const(z)`. The left-hand side is then a linear
regression on the `g_k`. Its coefficients are the totals `sum_n e_k(x_n)`, and its noise is the rounding of the printed
numbers. There is no sampling error, so rank plus two exact values determine the totals exactly. Stan's `lp__`, PyMC's
`lp` and minus NumPyro's `potential_energy` all include the Jacobian of the constraining map. Constants that they drop
are part of c.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.arrays import Array, Key
from bayesrecon.attacks.sidechannels.density_recovery import DensityRecovery
from bayesrecon.attacks.sidechannels.regression import Regression, fit_totals
from bayesrecon.attacks.sidechannels.resolution import ARITHMETIC, Resolution, resolution
from bayesrecon.diagnostics import Z95, evenly
from bayesrecon.divergence.adaptive import AdaptiveEmbedding
from bayesrecon.divergence.dense import log_likelihoods
from bayesrecon.divergence.mean_embedding import Basis
from bayesrecon.divergence.metrics import metric_factor
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.basis import find_basis
from bayesrecon.estimation.categories import library_of
from bayesrecon.estimation.locate import follow_moments, locate
from bayesrecon.estimation.random_key import generator
from bayesrecon.estimation.span import Span
from bayesrecon.estimation.statistics import Library
from bayesrecon.estimation.totals import Totals, slopes_of
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Model, Progress, Records
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release
from bayesrecon.results.recovery import Row

_POINTS = 512  # parameter vectors from which the basis is built
_PROBES = 512  # new records on which statistics are expressed in the basis
_DECAYING = 200  # largest number of features of a decaying spectrum: exact values determine more of them than draws do
_FEW = 64  # smallest number of draws for a decaying spectrum
_MOST = 20_000  # largest number of draws, which are evenly spaced


@dataclass(frozen=True, kw_only=True)
class _Fitted(Span):
    """A span in a basis whose totals come from a regression, with the covariance `(r, r)` of their errors."""

    basis: Basis
    covariance: np.ndarray


@in_float64
def recover_from_log_density(
    release: Release,
    *,
    log_density: Array | None = None,
    written: Resolution | None = None,
    kinetic: bool = False,
    known: Mapping[str, object] | None = None,
    domain: Mapping[str, object] | None = None,
    statistics: Mapping[str, Callable[[Records], ArrayLike]] | None = None,
    key: Key = 0,
    progress: Progress | None = None,
) -> DensityRecovery:
    """Recover statistics of the private data from draws that carry their log densities.

    Args:
        release: the draws.
        log_density: `(T,)` log densities in the sampler's unconstrained coordinates, up to a constant. By default
            `release.log_density`.
        written: precision of the log densities, by default inferred from them.
        kinetic: whether the values are minus the energies of a Hamiltonian sampler. Their kinetic energy is noise of
            variance d / 2, which the regression estimates from its residuals.
        known, domain, statistics, progress: as in `recover`.
        key: an integer or a JAX key. It only seeds the generic records.
    """
    given = release.log_density if log_density is None else log_density
    if given is None:
        raise BayesreconError(f"{release.name} has no log densities (lp__, lp or potential_energy)")
    given = np.asarray(given, float)
    if given.shape != (release.size,):
        raise BayesreconError(f"log densities of shape {given.shape} for {release.size} draws")
    if not np.isfinite(given).all():
        raise BayesreconError(f"{int((~np.isfinite(given)).sum())} log densities are missing or infinite")
    knowledge = check_knowledge(release.model, known=known, domain=domain)
    rng = generator(key)
    rows_used = evenly(release.size, _MOST)
    given, theta = given[rows_used], np.asarray(release.theta)[rows_used]
    values = given - np.asarray(_base(release.model, theta))
    embedding = AdaptiveEmbedding(_points(release, rng), np.eye(release.model.dimension), progress)
    embedding = replace(embedding, metric=metric_factor(embedding.release, "covariance"))
    written = resolution(given) if written is None else replace(written, step=written.step[rows_used])
    step = written.step if written.digits else ARITHMETIC * written.step
    if kinetic:
        step = np.maximum(step, np.sqrt(12 * release.model.dimension / 2))
    bounded = written.digits is not None and not kinetic

    def solve(reference: Reference, finite: bool = True, last: bool = False) -> tuple[_Fitted, np.ndarray, Regression]:
        return _solve(embedding, reference, rng, theta, values, step, finite, bounded and last)

    broad = Reference(knowledge.fields, knowledge.known, accept=lambda z: np.isfinite(embedding.information(z)))
    spectrum = find_basis(embedding, broad, rng)[0]
    if spectrum.gap:
        if len(values) < spectrum.rank + 2:
            raise BayesreconError(
                f"{len(values)} log densities do not determine {spectrum.rank} features and a constant; "
                f"{spectrum.rank + 2} are needed"
            )
        reference = follow_moments(lambda reference: solve(reference)[0], broad, knowledge)
    else:
        if len(values) < _FEW:
            raise BayesreconError(f"{len(values)} log densities are too few for a model whose spectrum has no gap")
        located = AdaptiveEmbedding(release, metric_factor(release, "covariance"), progress)
        # Values without noise determine more features than draws do.
        reference = replace(locate(located, knowledge, rng)[0], most=broad.most)
    solved, design, regression = solve(reference, spectrum.gap, spectrum.gap)
    library = library_of(knowledge, reference.centre, reference.scale, statistics, solved.probes)
    parts = library.evaluate(solved.probes)
    rows, beta = _rows(solved, library, parts)
    names = [row.name for row in rows if row.estimate is not None]
    by_name = {s.name: s for s in library.statistics}

    def read(other: Regression) -> np.ndarray:
        if not solved.spectrum.gap:
            # The regularisation of the coefficients depends on their errors.
            again = {row.name: row.estimate for row in _rows(_with_unseen_error(solved, other), library, parts)[0]}
            return np.array([again.get(name) for name in names], float)
        totals = dict(zip(library.parts, other.coefficients @ beta, strict=True))
        return np.array([by_name[name].value(totals) for name in names])

    return DensityRecovery(
        rows=rows,
        rank=solved.spectrum.rank,
        gap=solved.spectrum.gap,
        resolution=written,
        misfit=regression.misfit,
        bounded=regression.bounded,
        draws=len(values),
        step=step,
        given=given,
        design=design,
        values=values,
        regression=regression,
        read=read,
    )


def _rows(solved: _Fitted, library: Library, parts: np.ndarray) -> tuple[tuple[Row, ...], np.ndarray]:
    """Statistics with their errors, and coefficients `(r, P)` in the basis of the parts `(Q, P)` at the probes."""
    projection = solved.project(parts)
    beta = projection.beta
    totals = solved.target @ beta
    visibility = library.visibility(parts, projection.fitted, solved.basis.size, solved.variance(beta))
    unseen = abs(totals[library.index(["1"])]) * (parts - projection.fitted)
    statistics, slopes = slopes_of(library, Totals(totals=totals, visibility=visibility))
    directions = beta @ slopes
    errors = np.sqrt(np.maximum(np.einsum("rs,rq,qs->s", directions, solved.covariance, directions), 0.0))
    undetermined = np.sqrt(np.mean((unseen @ slopes) ** 2, axis=0))
    rows: dict[str, Row] = {}
    for row, se, undetermined_error in zip(statistics, errors, undetermined, strict=True):
        assert row.estimate is not None
        half = Z95 * se + undetermined_error
        bounds = {"lower": float(row.estimate - half), "upper": float(row.estimate + half)}
        rows[row.name] = replace(row, se=float(se), **bounds)
    listed = [s.name for s in library.statistics if s.name in rows or not (s.substitute_for or s.unless)]
    return tuple(rows.get(name) or Row(name) for name in listed), beta


def _solve(
    embedding: AdaptiveEmbedding,
    reference: Reference,
    rng: np.random.Generator,
    theta: np.ndarray,
    values: np.ndarray,
    step: np.ndarray,
    finite: bool,
    bounded: bool,
) -> tuple[_Fitted, np.ndarray, Regression]:
    """The basis on generic records, the values of its functions at the draws, and the regression on them."""
    spectrum, basis, few = find_basis(embedding, reference, rng, finite, 0 if finite else _DECAYING)
    if not spectrum.gap:
        # At most half as many coefficients as equations. The records are in order of importance.
        size = min(basis.size, max(1, (len(values) - 2) // 2))
        anchors = {k: v[:size] for k, v in basis.records.items()}
        basis = replace(basis, records=anchors, coefficients=basis.coefficients[:size, :size])
    probes = reference.draw(rng, max(_PROBES, 4 * basis.size))
    cross = embedding.cross(basis, probes, few)
    design = log_likelihoods(embedding.release.model, theta, basis)
    design = design - design.mean(axis=0)
    regression = fit_totals(design, values, step, bounded, rng)
    fitted = _Fitted(
        spectrum=spectrum,
        basis=basis,
        probes=probes,
        cross=cross,
        target=regression.coefficients,
        covariance=regression.covariance,
    )
    return _with_unseen_error(fitted, regression), design, regression


def _with_unseen_error(fitted: _Fitted, regression: Regression) -> _Fitted:
    """The fit with these totals and, without a spectral gap, with errors that include the undetermined part."""
    totals, covariance = regression.coefficients, regression.covariance
    fitted = replace(fitted, target=totals, covariance=covariance, ridge=None, size=1.0)
    if fitted.spectrum.gap:
        return fitted
    for _ in range(2):
        fitted = replace(fitted, ridge=covariance)
        ones = fitted.project(np.ones((len(fitted.cross), 1)))
        fitted = replace(fitted, size=max(1.0, float(abs(totals @ ones.beta[:, 0]))))
    return fitted


def _points(release: Release, rng: np.random.Generator) -> Release:
    """Parameter vectors like the draws: the draws, or normal vectors around them if there are few."""
    theta = np.asarray(release.theta)
    if len(theta) >= _POINTS:
        points = theta[evenly(len(theta), _POINTS)]
    else:
        spread = theta.std(axis=0)
        if not np.all(spread > 0):
            raise BayesreconError(f"{release.name}: a parameter has the same value in all draws")
        factor = spread * np.eye(theta.shape[1])
        if len(theta) > 4 * theta.shape[1]:
            factor = metric_factor(release, "covariance").T
        points = theta.mean(axis=0) + rng.normal(size=(_POINTS, theta.shape[1])) @ factor
    weights = np.full(len(points), 1 / len(points))
    return replace(release, theta=points, weights=weights, chain=np.ones(len(points), int), log_density=None)


@partial(jax.jit, static_argnames="model")
def _base(model: Model, theta: Array) -> jax.Array:
    return jax.vmap(lambda t: model.log_prior(t) + model.log_det(t))(theta)
