"""The functions of a record whose totals a release determines, those totals, and the solved embedding."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from bayesrecon.divergence.definite import factor, solution
from bayesrecon.divergence.mean_embedding import Basis, FeatureBasis, MeanEmbedding
from bayesrecon.domains import Records
from bayesrecon.estimation.error_laws import ErrorLaw, law_of
from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.spectrum import Spectrum
from bayesrecon.model import PseudoData

_ALIKE = 1e-12  # relative size from which basis functions count as linearly dependent at the probes
_STEPS = 3  # refinements of least squares by a triangle; one alone has the accuracy of the normal equations
_BALANCED = 10.0  # weight of the mean residual relative to the mean square residual: the mean biases a total


@dataclass(frozen=True)
class Projection:
    """Functions of a record written in the basis: `f ~ e @ beta`.

    Attributes:
        beta: `(r, P)` coefficients.
        fitted: `(Q, P)` the functions' projections at the probes.
    """

    beta: np.ndarray
    fitted: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Span:
    """The functions of a record that a release determines, and their totals over the private data.

    Attributes:
        spectrum: spectrum of the kernel on generic records.
        probes: `{field: (Q, ...)}` records that were not anchors.
        cross: `(Q, r)` the basis functions at the probes.
        target: `(r,)` the totals of the basis functions.
        ridge: `(r, r)` noise covariance of the target if the spectrum decays (the projection is then
            the linear estimator of least mean squared error); None if the spectrum ends in a gap.
        size: an estimate of N, the number of records, relative to which noise is weighted.
        damping: `(r, r)` addition to the ridge per record, by noise in the values of the basis functions; None if the
            spectrum ends in a gap. The values are averages over the same draws as the target. Coefficients that fit
            them too closely overfit these draws, which biases the estimates.
    """

    spectrum: Spectrum
    probes: Records
    cross: np.ndarray
    target: np.ndarray
    ridge: np.ndarray | None = None
    size: float = 1.0
    damping: np.ndarray | None = None

    def project(self, values: np.ndarray, *, limit: bool = False) -> Projection:
        """Coefficients of functions given by their values `(Q, P)` at the probes.

        With a gap, least squares over the probes, which is exact for functions in the span. Without one, the minimiser
        of squared bias plus variance, `N^2 mean |f - e beta|^2 + beta' Cov(target) beta`. With `limit`, least squares
        in both cases, as for infinitely many draws.
        """
        e = self.cross
        if self.ridge is None or limit:
            beta = self._least_squares(values)
        else:
            weight = self.size / np.sqrt(len(e))
            penalty = self.ridge if self.damping is None else self.ridge + self.size * self.damping
            # Equilibrated: far records make some functions noisier than others by many orders of magnitude.
            noise = np.sqrt(np.maximum(np.diag(penalty), 1e-300))
            values_, vectors = np.linalg.eigh(penalty / noise / noise[:, None])
            root = np.sqrt(np.maximum(values_, 0.0))[:, None] * vectors.T * noise
            rows, aims = [weight * e], [weight * values]
            if self.damping is not None:
                once = self.size * np.sqrt(_BALANCED)
                rows.append(once * e.mean(axis=0, keepdims=True))
                aims.append(once * values.mean(axis=0, keepdims=True))
            stacked = np.concatenate([*rows, root])
            target = np.concatenate([*aims, np.zeros((len(root), values.shape[1]))])
            beta = np.linalg.lstsq(stacked, target, rcond=1e-14)[0]
        return Projection(beta, e @ beta)

    def _least_squares(self, values: np.ndarray) -> np.ndarray:
        """Corrected seminormal equations (Björck 1987): least squares by the cached triangle R alone, with refinement
        steps on the residual."""
        e, r = self.cross, self._triangle
        size = np.abs(np.diag(r))
        if not size.min(initial=1.0) > _ALIKE * size.max(initial=1.0):
            return np.asarray(np.linalg.lstsq(e, values, rcond=_ALIKE)[0])
        beta = np.zeros((e.shape[1], values.shape[1]))
        for _ in range(_STEPS):
            inner = scipy.linalg.solve_triangular(r, e.T @ (values - e @ beta), trans=1, check_finite=False)
            beta += scipy.linalg.solve_triangular(r, inner, check_finite=False)
        return beta

    @cached_property
    def _triangle(self) -> np.ndarray:
        """`(r, r)` R of `e = Q R`, by Cholesky's factor if that is accurate enough."""
        found = factor(self.cross.T @ self.cross)
        return np.asarray(np.linalg.qr(self.cross, mode="r")) if found is None else found

    def variance(self, beta: np.ndarray) -> np.ndarray | None:
        """Variance of the totals of `beta (r, P)`, per squared number of records; None if the spectrum ends in a
        gap."""
        if self.ridge is None:
            return None
        return np.einsum("rp,rs,sp->p", beta, self.ridge, beta, optimize=True) / self.size**2


@dataclass(frozen=True, kw_only=True)
class Fit(Span):
    """The solved embedding.

    Attributes:
        basis: functions that span the features of the kernel.
        gram, value: `(r, r)` score kernel and value kernel of the basis.
        y: `(r,)` amplitudes of the pseudo-data measure, weights `A y` on the anchors.
        correction: `(r,)` correction of the target for its bias of order rank / T; None if there is none.
        errors: errors of the equations of a trained parameter; None if it has none.
        feedback: `(r, r)` growth of the basis directions if the draws were imputed from the measure that is fitted to
            them (`estimation.imputation`); else None.
        distant: further probes, and the basis functions there. They have longer tails if the spectrum decays, and a
            wider spread if equations either span a function or not at all. Estimates use the probes; visibility is
            computed at the distant ones.
    """

    embedding: MeanEmbedding
    basis: Basis
    gram: np.ndarray
    value: np.ndarray
    y: np.ndarray
    correction: np.ndarray | None = None
    errors: EquationErrors | None = None
    feedback: np.ndarray | None = None
    distant: tuple[Records, np.ndarray] | None = None

    @property
    def response(self) -> np.ndarray:
        """`(r, r)` map from targets to amplitudes, if the spectrum ends in a gap."""
        values, vectors = np.linalg.eigh(self.gram)
        return np.asarray((vectors / np.maximum(values, 1e-14 * values[-1])) @ vectors.T)

    @property
    def functions(self) -> np.ndarray:
        """`(Q, r)` the basis functions at the probes."""
        return self.cross

    @property
    def law(self) -> ErrorLaw:
        """The error distribution of its equations."""
        return law_of(self.embedding)

    def influence(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Per-atom influence `(T, P)` on totals of `beta (r, P)`, and the fitted posterior scores `(T, d)`."""
        grown = beta if self.feedback is None else self.feedback @ beta
        return self.embedding.influence(self.basis, self.y, grown)

    def noise(self) -> np.ndarray:
        """Sampling covariance of the target, `(r, r)`; zero for equations that were not sampled."""
        return self.law.noise(len(self.gram), self._noise)

    def _noise(self) -> np.ndarray:
        found = self.embedding.noise(self.basis, self.y) / self.embedding.effective_size
        return found if self.feedback is None else self.feedback.T @ found @ self.feedback

    @property
    def pseudo(self) -> PseudoData:
        return PseudoData(self.basis.coefficients @ self.y, self.basis.records)


@dataclass(frozen=True, kw_only=True)
class FeatureFit(Fit):
    """The same in the known features of the kernel, `k = F' G F`, if the records show all of them.

    Attributes:
        cross: `(Q, F)` the features at the probes. Functions are expanded in them, so the basis functions `F' G` need
            not be computed.
    """

    basis: FeatureBasis

    @property
    def functions(self) -> np.ndarray:
        return self.cross @ self.gram

    def project(self, values: np.ndarray, *, limit: bool = False) -> Projection:
        found = self._least_squares(values)
        return Projection(solution(self.gram, found), self.cross @ found)


def shrunk(plain: Fit, ridge: np.ndarray) -> Fit:
    """The fit with the errors `ridge (r, r)` of its target weighed against the invisible part of functions."""
    found = replace(plain, ridge=ridge)
    for _ in range(2):
        ones = found.project(np.ones((len(found.cross), 1)))
        found = replace(found, size=max(1.0, float(abs(found.target @ ones.beta[:, 0]))))
    return found
