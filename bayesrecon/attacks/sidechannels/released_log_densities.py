"""Statistics of the private data from released log densities, through the value kernel.

A sampler's log density is the model's log joint at the draw, up to a constant:

    lp_t - log pi0(theta_t) - log |det|(theta_t) = sum_n l(theta_t, x_n) + c

Written in a basis of value functions, `l(theta, z) = sum_k e_k(z) g_k(theta) + const(z)`, this is a linear regression
of the left-hand side on the `g_k`: its coefficients are the totals `sum_n e_k(x_n)`, its noise is the rounding of the
printed numbers. No sampling error enters, so that rank plus two exact values already give the totals exactly. The
same value kernel bounds what draws alone can tell (`MeanEmbedding`). Stan's `lp__`, PyMC's `lp` and minus
NumPyro's `potential_energy` all include the Jacobian of the constraining map; constants they drop fall into c.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.arrays import Array, Key
from bayesrecon.attacks.sidechannels.regression import Regression, least_squares, rounded
from bayesrecon.attacks.sidechannels.resolution import Resolution, resolution
from bayesrecon.diagnostics import Z95, evenly
from bayesrecon.digits import decimal_step, round_to
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.basis import find_basis
from bayesrecon.estimation.categories import library_of
from bayesrecon.estimation.estimator import generator
from bayesrecon.estimation.locate import follow_moments, locate
from bayesrecon.estimation.span import Span
from bayesrecon.estimation.statistics import Library
from bayesrecon.estimation.totals import Totals, slopes_of
from bayesrecon.kernels.adaptive import AdaptiveEmbedding
from bayesrecon.kernels.dense import log_likelihoods
from bayesrecon.kernels.embedding import Basis
from bayesrecon.kernels.metric import metric_factor
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Model, Progress
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release
from bayesrecon.results.recovery import Row

_POINTS = 512  # parameter vectors on which the basis is built
_PROBES = 512  # fresh records on which statistics are written in the basis, never those it was built from
_DECAYING = 200  # features of a decaying spectrum to be ready for: exact values show more of them than draws do
_FEW = 64  # draws below which a decaying spectrum is not attacked
_TRIALS, _EQUATIONS = 200, 400_000  # of a remedy, predicted and measured: at most, and as the draws allow
_FEWEST = 80  # trials from which an error is known to a twelfth
_DITHER = 2.0  # how far the totals are moved for a new trial, as seen in the log densities, in steps of the rounding
_MOST = 20_000  # draws at even distances that are used
_ARITHMETIC = 10.0  # rounding errors of a sum of log densities in a binary format, in units of its spacing
_STORED = 1.0  # of them the last one, which storing the value takes


@dataclass(frozen=True, eq=False)
class Trials:
    """A remedy tried many times.

    Attributes:
        predicted: `(S,)` root mean squared error that should remain, from theory.
        estimates: `(R, S)` what the attack gave in each trial.
    """

    predicted: Float[np.ndarray, " S"]
    estimates: Float[np.ndarray, "R S"]

    def measured(self, now: np.ndarray, errors: np.ndarray) -> Float[np.ndarray, " S"]:
        """Root mean squared error `(S,)`: how far the estimates move, and the `errors` that they have `now`."""
        return np.sqrt(np.nanmean((self.estimates - now) ** 2, axis=0) + errors**2)


@dataclass(frozen=True, eq=False)
class DensityRecovery:
    """Statistics of the private data from log densities.

    Attributes:
        rows: one `Row` per statistic; `se` is due to rounding (and to kinetic noise, for energies).
        rank: features of a record that log densities determine.
        gap: whether there are finitely many.
        resolution: how the log densities were written.
        misfit: root mean squared residual in units of the rounding error. Much above one: the values are not this
            model's log density at these draws.
        bounded: whether the estimates lie between the rounding intervals (else least squares).
        draws: how many log densities were used.
        step: `(T,)` unit in which errors of the log densities are measured: of the last digit that was printed.
        given, values, design, regression: `given` less the prior is `values = c + design @ totals`, solved for totals.
        read: from a solution to the determined statistics `(S,)`.
    """

    rows: tuple[Row, ...]
    rank: int
    gap: bool
    resolution: Resolution
    misfit: float
    bounded: bool
    draws: int
    step: Float[np.ndarray, " T"]
    given: np.ndarray
    design: np.ndarray
    values: np.ndarray
    regression: Regression
    read: Callable[[Regression], np.ndarray]

    def __getitem__(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        """The statistics that are determined, in the order of `read`."""
        return tuple(row.name for row in self.rows if row.estimate is not None)

    @property
    def errors(self) -> Float[np.ndarray, " S"]:
        """Their errors `(S,)`: standard errors, and what the log densities do not show of them."""
        rows = [row for row in self.rows if row.estimate is not None]
        ends = np.array([(row.upper or 0.0) - (row.lower or 0.0) for row in rows])
        se = np.array([row.se or 0.0 for row in rows])
        return np.hypot(se, np.maximum(0.5 * ends - Z95 * se, 0.0))

    def tried(
        self,
        count: int | None,
        digits: int | None,
        rng: np.random.Generator,
        enough: Callable[[int, float], bool] | None = None,
    ) -> Trials:
        """Errors that would remain if draws were thinned, or values rounded.

        Both sides run the attack anew, many times. Predicted: on values that are simulated from the design, the fitted
        totals and the errors that the file's numbers carry now. Measured: on the released values. A trial of
        thinning takes draws at random. A trial of rounding moves the totals by a known amount, less than the log
        density itself varies, before the numbers are cut: the rounding errors are then new ones, and the amount is
        taken off again. (A shift of the constant alone would renew one number only, for all draws.)

        Args:
            count: draws to keep, all by default.
            digits: significant digits to keep, as they are by default.
            enough: whether to end after so many trials, of which the last took so many seconds.
        """
        totals, rank = self.regression.coefficients, len(self.regression.coefficients)
        trials = int(np.clip(_EQUATIONS // (count or len(self.given)), _FEWEST, _TRIALS if self.gap else _FEWEST))
        base = self.given - self.values
        fitted, all_draws = self.values.mean() + self.design @ totals, np.arange(len(self.given))
        r = np.linalg.qr(self.design, mode="r")
        step = self.step if digits is None else decimal_step(self.given, digits)
        far = min(_DITHER * float(np.median(step)), 0.5 * float(self.given.std())) * np.sqrt(len(all_draws) / rank)
        simulated, real = [], []
        for done in range(1, trials + 1):
            began = time.process_time()
            kept = np.sort(rng.permutation(len(all_draws))[:count]) if count else all_draws
            design, moved = self.design[kept], np.zeros(rank)
            if digits is not None:
                moved = scipy.linalg.solve_triangular(r, far * rng.normal(size=rank))
            for results, values in ((simulated, fitted + self._noise(rng)), (real, self.values)):
                seen = (values + base + self.design @ moved)[kept]
                seen, width = (seen, step[kept]) if digits is None else _rounded_to(seen, digits)
                bounded = self.gap and (digits is not None or self.bounded)
                refit = _fit_totals(design, seen - base[kept], width, bounded, start=totals + moved)
                results.append(self.read(replace(refit, coefficients=refit.coefficients - moved)))
            if enough is not None and enough(done, time.process_time() - began):
                break
        centre = self.read(self.regression)
        hidden = self.errors**2 - np.array([row.se or 0.0 for row in self.rows if row.estimate is not None]) ** 2
        predicted = np.sqrt(np.nanmean((np.array(simulated) - centre) ** 2, axis=0) + hidden)
        return Trials(predicted, np.array(real))

    def _noise(self, rng: np.random.Generator) -> np.ndarray:
        """Errors `(T,)` as the numbers carry them: of rounding, or of arithmetic, whose size the residuals tell."""
        if self.resolution.digits:
            return rng.uniform(-0.5, 0.5, len(self.step)) * self.step
        return max(self.misfit, _STORED / _ARITHMETIC) * self.step / np.sqrt(12) * rng.normal(size=len(self.step))


@dataclass(frozen=True, kw_only=True)
class _Fitted(Span):
    """A span in a basis whose totals come from a regression, with the covariance `(r, r)` of their errors."""

    basis: Basis
    covariance: np.ndarray


def _rounded_to(values: np.ndarray, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """The values as printed with so many digits, and the unit of the last one."""
    cut = round_to(values, digits)
    return cut, decimal_step(cut, digits)


@in_float64
def recover_from_log_density(
    release: Release,
    *,
    log_density: Array | None = None,
    written: Resolution | None = None,
    kinetic: bool = False,
    known: Mapping[str, object] | None = None,
    domain: Mapping[str, object] | None = None,
    statistics: Mapping[str, Any] | None = None,
    key: Key = 0,
    progress: Progress | None = None,
) -> DensityRecovery:
    """Recover statistics of the private data from draws that carry their log densities.

    Args:
        release: draws; their log densities are `release.log_density` unless given.
        log_density: `(T,)` log densities in the sampler's unconstrained coordinates, up to a constant.
        written: how the log densities were written; found from them unless given.
        kinetic: the values are minus the energies of a Hamiltonian sampler, which carry kinetic energy: noise of
            variance d / 2 that the regression estimates from its residuals.
        known, domain, statistics: as in `recover`.
        key: seeds generic records only.

    Raises:
        BayesreconError: no log densities, values that are not numbers, or fewer draws than rank plus two.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)
    >>> x, y = rng.normal(size=(2, 40))  # the private records
    >>> terms = -0.5 * (y - values["coef"][..., 0] * x - values["intercept"]) ** 2
    >>> round(recover_from_log_density(release, log_density=terms.sum(axis=-1).ravel())["n"].estimate, 6)
    40.0
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
    kept = evenly(release.size, _MOST)
    given, theta = given[kept], np.asarray(release.theta)[kept]
    values = given - np.asarray(_base(release.model, theta))
    embedding = AdaptiveEmbedding(_points(release, rng), np.eye(release.model.dimension), progress)
    embedding = replace(embedding, metric=metric_factor(embedding.release, "covariance"))
    written = resolution(given) if written is None else replace(written, step=written.step[kept])
    step = written.step if written.digits else _ARITHMETIC * written.step
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
        reference = follow_moments(lambda law: solve(law)[0], broad, knowledge)
    else:
        if len(values) < _FEW:
            raise BayesreconError(f"{len(values)} log densities are too few for a model whose spectrum has no gap")
        located = AdaptiveEmbedding(release, metric_factor(release, "covariance"), progress)
        # Values without noise show more features than draws do.
        reference = replace(locate(located, knowledge, rng)[0], most=broad.most)
    solved, design, regression = solve(reference, spectrum.gap, spectrum.gap)
    library = library_of(knowledge, reference.centre, reference.scale, statistics, solved.probes)
    parts = library.evaluate(solved.probes)
    rows, beta = _rows(solved, library, parts)
    names = [row.name for row in rows if row.estimate is not None]
    by_name = {s.name: s for s in library.statistics}

    def read(other: Regression) -> np.ndarray:
        if not solved.spectrum.gap:
            # How far coefficients are trusted depends on their errors.
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
    """Statistics with their errors, and the coefficients in the basis `(r, P)` of their parts `(Q, P)` at probes."""
    projection = solved.project(parts)
    beta = projection.beta
    totals = solved.target @ beta
    visibility = library.visibility(parts, projection.fitted, solved.basis.size, solved.variance(beta))
    unseen = abs(totals[library.index(["1"])]) * (parts - projection.fitted)
    statistics, slopes = slopes_of(library, Totals(totals=totals, visibility=visibility))
    directions = beta @ slopes
    errors = np.sqrt(np.maximum(np.einsum("rs,rq,qs->s", directions, solved.covariance, directions), 0.0))
    hidden = np.sqrt(np.mean((unseen @ slopes) ** 2, axis=0))
    rows: dict[str, Row] = {}
    for row, se, gone in zip(statistics, errors, hidden, strict=True):
        assert row.estimate is not None
        half = Z95 * se + gone
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
        # Half of the equations at most go into coefficients: the pivots come in order of what they add.
        size = min(basis.size, max(1, (len(values) - 2) // 2))
        anchors = {k: v[:size] for k, v in basis.records.items()}
        basis = replace(basis, records=anchors, coefficients=basis.coefficients[:size, :size])
    probes = reference.draw(rng, max(_PROBES, 4 * basis.size))
    cross = embedding.cross(basis, probes, few)
    design = log_likelihoods(embedding.release.model, theta, basis)
    design = design - design.mean(axis=0)
    regression = _fit_totals(design, values, step, bounded, rng)
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


def _fit_totals(
    design: np.ndarray,
    values: np.ndarray,
    step: np.ndarray,
    bounded: bool,
    rng: np.random.Generator | None = None,
    start: np.ndarray | None = None,
) -> Regression:
    """The totals from the values: between the rounding intervals where rounding is all there is."""
    if bounded:
        return rounded(design, values, step, rng, start)
    return least_squares(design, values, step / np.sqrt(12), relative=True)


def _points(release: Release, rng: np.random.Generator) -> Release:
    """Parameter vectors where the draws lie: the draws, or a normal distribution around them where they are few."""
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
    share = np.full(len(points), 1 / len(points))
    return replace(release, theta=points, weights=share, chain=np.ones(len(points), int), log_density=None)


@partial(jax.jit, static_argnames="model")
def _base(model: Model, theta: Array) -> jax.Array:
    return jax.vmap(lambda t: model.log_prior(t) + model.log_det(t))(theta)
