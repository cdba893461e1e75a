"""From an embedding to totals: the basis, the weights, and the projection of a statistic on what is seen."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from bayesrecon.diagnostics import evenly
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.error_laws import ErrorLaw, law_of
from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.separated import independent
from bayesrecon.estimation.spectrum import Spectrum, decompose, eliminated, whole_spectrum
from bayesrecon.kernels.definite import factor, solver
from bayesrecon.kernels.embedding import (
    Basis,
    FeatureBasis,
    Featured,
    MeanEmbedding,
    Moments,
    Separable,
    coordinates,
    features_of,
    summed,
)
from bayesrecon.model import PseudoData, Records
from bayesrecon.releases import Release

_SMALLEST_POOL = 64  # generic records that are decomposed first: ten times the rank of a simple regression
_LARGER_POOL = 512  # up to which records are added that may show a feature that was seen before
_PROBES = 512  # fresh records on which visibility is judged, to a few per cent of what is unseen
_FREEDOM = 4096  # probes beyond the features at most: what is unseen of a function is known to a hundredth from them
_ROWS = 512  # records up to which every one has its own rows of the score matrix, whatever the rank
_TAILS = 8.0  # degrees of freedom of the t law that records may follow where what is seen of them fades far out
_FOUND = 0.5  # visibility of a field's mean or spread from which the search can have found where it lies
_NEARER = 0.95  # share of the records by which that is judged
_PER_LEVEL = 8  # generic records for every value of a field with finitely many
_SEPARATED = 1024  # of them, from which groups are looked at one by one first: they share hardly any features
_ALIKE = 1e-12  # basis functions that the probes do not tell apart
_STEPS = 3  # of least squares by a triangle: the first is good to what rounding leaves of squares

_ATOMS = 64  # at which a group's records are told apart: each has a few features, of one row an atom and coordinate
_STRETCHES = 20  # of the draws, for the jackknife: few enough to be longer than draws are correlated
_KEPT = 2 * 10**8  # doubles of their sums
_FELT = 0.25  # squared features per independent draw from which bias is a tenth of a standard error or more
_REST = 0.1  # share of the weight that has to be left without a stretch
# Of the noise that the values of a function at single records have. A hundredth leaves coefficients that follow the
# draws' chance (n of logistic regressions comes out low), a tenth drowns what could be seen.
_DAMPED = 0.02
_BALANCED = 10.0  # times that the mean of what is not seen weighs beside its mean square: it is what biases a total
# Noise of a function over its square, from which it is that of places that no draw of the posterior is at: of draws it
# is some tens, where a normal law stands in for a heavy tail it is past 1e20.
_NOWHERE = 1e6
_PREDICTED = 0.75  # of the probes have predicted responses; a few others are left for data that the model fits badly
_MISSED = 1e-6  # share of a fresh record's scores from which a feature of it was missed
_TAKEN_BACK = 1e-6  # what features may differ by that were taken to records and back
_FRESH = 512  # of them, before the rank is known: of so many one at least shows a feature that one in a hundred has


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
        spectrum: of the kernel on generic records.
        probes: `{field: (Q, ...)}` records that were not anchors.
        cross: `(Q, r)` the basis functions at the probes.
        target: `(r,)` the totals of the basis functions.
        ridge: `(r, r)` noise covariance of the target where the spectrum decays (the projection is then
            the linear estimator of least mean squared error), None where the spectrum ends in a gap.
        size: the scale of the data measure that noise is weighed against (an estimate of N).
        damping: `(r, r)` per record: what noise in the values of the basis functions adds to the ridge, None where the
            spectrum ends in a gap. The values are averages over the same draws as the target; coefficients that fit
            them too closely follow the chance of these draws, and estimates are biased.
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

        With a gap, least squares over the probes: exact for functions in the span. Without one, minimise
        `N^2 mean |f - e beta|^2 + beta' Cov(target) beta`: squared bias plus variance; with `limit`, least
        squares all the same, which is what infinitely many draws would allow.
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
        """By the triangle alone, which is kept: steps of what is left of the functions make up for their orthogonal
        part (Björck 1987)."""
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
        """`(r, r)` R of `e = Q R`, by Cholesky's factor where it keeps enough digits to start from."""
        found = factor(self.cross.T @ self.cross)
        return np.asarray(np.linalg.qr(self.cross, mode="r")) if found is None else found

    def variance(self, beta: np.ndarray) -> np.ndarray | None:
        """Of the totals of `beta (r, P)`, per squared number of records; None where what is seen is seen exactly."""
        if self.ridge is None:
            return None
        return np.einsum("rp,rs,sp->p", beta, self.ridge, beta, optimize=True) / self.size**2


@dataclass(frozen=True, kw_only=True)
class Fit(Span):
    """The solved embedding.

    Attributes:
        basis: functions that span what the kernel shows.
        gram, value: `(r, r)` score kernel and value kernel of the basis.
        y: `(r,)` amplitudes of the pseudo-data measure, weights `A y` on the anchors.
        correction: `(r,)` what was added to the target for its bias of order rank / T, None where nothing was.
        errors: of the equations of a trained parameter, where it has some.
        feedback: `(r, r)` by which directions in the basis grow where the measure has a part in the draws it is fitted
            to (`estimation.imputation`), None elsewhere.
        distant: other probes and the basis functions there, with longer tails where the spectrum decays, and wider ones
            where equations span a function or do not: estimates are made for the probes, and what is left of a function
            is judged here.
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
        """`(r, r)` amplitudes for targets, where the spectrum ends in a gap."""
        values, vectors = np.linalg.eigh(self.gram)
        return np.asarray((vectors / np.maximum(values, 1e-14 * values[-1])) @ vectors.T)

    @property
    def functions(self) -> np.ndarray:
        """`(Q, r)` the basis functions at the probes."""
        return self.cross

    @property
    def law(self) -> ErrorLaw:
        """That of its equations."""
        return law_of(self.embedding)

    def influence(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Per-atom influence `(T, P)` on totals of `beta (r, P)`, and the fitted posterior scores `(T, d)`."""
        grown = beta if self.feedback is None else self.feedback @ beta
        return self.embedding.influence(self.basis, self.y, grown)

    def noise(self) -> np.ndarray:
        """Covariance of the target by sampling, `(r, r)`: zeros of what was not sampled."""
        return self.law.noise(len(self.gram), self._noise)

    def _noise(self) -> np.ndarray:
        found = self.embedding.noise(self.basis, self.y) / self.embedding.effective_size
        return found if self.feedback is None else self.feedback.T @ found @ self.feedback

    @property
    def pseudo(self) -> PseudoData:
        return PseudoData(self.basis.coefficients @ self.y, self.basis.records)


@dataclass(frozen=True, kw_only=True)
class FeatureFit(Fit):
    """The same in the features that the kernel is known to be made of, `k = F' G F`, where all of them show.

    Attributes:
        cross: `(Q, F)` the features at the probes, in which functions are written first: those of the basis are
            `F' G`, and need not be worked out.
    """

    basis: FeatureBasis

    @property
    def functions(self) -> np.ndarray:
        return self.cross @ self.gram

    def project(self, values: np.ndarray, *, limit: bool = False) -> Projection:
        found = self._least_squares(values)
        return Projection(_solve(self.gram, found), self.cross @ found)

    def refitted(self, embedding: MeanEmbedding) -> tuple[FeatureBasis, np.ndarray] | None:
        """A basis of as many features of other atoms of the same model, and its amplitudes; None where these atoms do
        not tell the features apart.

        Raises `BayesreconError` when the atoms are too few.
        """
        law_of(embedding).check(self.basis.size, embedding.equations, embedding.size)
        basis = FeatureBasis.bare(getattr(embedding, "release", None), self.basis.size)
        found = _amplitudes(embedding, basis)
        return None if found is None else (basis, found[1])


def spans(release: Release | None) -> bool:
    """Whether equations span a function exactly or do not: those of approximations and of linear predictors. Of
    densities there is one at every point, and they decay; what networks see of a function depends on where data lie."""
    return release is not None and release.spans


def per_level(reference: Reference) -> int:
    """Generic records from which every group has enough for its own features, or a spectrum of missing groups looks
    like an end."""
    choices = {k: f.domain.levels for k, f in reference.fields.items() if f.domain.kind == "levels"}
    levels = [len(np.unique(reference.known.get(k, values))) for k, values in choices.items()]
    return _PER_LEVEL * max(levels, default=0)


def find_basis(
    embedding: MeanEmbedding,
    reference: Reference,
    rng: np.random.Generator,
    finite: bool = True,
    expected: int = 0,
) -> tuple[Spectrum, Basis, np.ndarray]:
    """Grow a pool of generic records until the spectrum shows its end, and keep independent ones.

    `expected` is the rank found before, if any. Returns the spectrum, the basis, and the atoms on which the
    basis is orthonormal.

    Raises `BayesreconError` when the draws run out before the spectrum does.
    """
    available, known = embedding.equations, features_of(embedding)
    law = law_of(embedding)
    groups = per_level(reference)
    pool = _first_pool(expected, groups)
    largest = law.most(max(reference.most, groups), available)
    if finite and groups > _SEPARATED:
        separated = separated_basis(embedding, reference.draw(rng, 2 * groups), expected)
        if separated is not None:
            law.check(separated[0].rank, available, embedding.size)
            return separated
    few = embedding.thinned(known or (max(expected, min(pool, _ROWS)) if expected else pool))
    columns_of = coordinates(embedding, few)
    while True:
        records = reference.draw(rng, pool)
        columns = columns_of(records)
        spectrum, pivots, coefficients = decompose(columns, finite, law)
        law.check(spectrum.rank, available, embedding.size)
        # Records over many orders of magnitude blur the end of a long spectrum: look again with more of them.
        unclear = spectrum.full or (finite and not spectrum.gap and 4 * spectrum.rank > pool)
        unclear = unclear or law.unclear(pool, spectrum.rank)
        # A record that shows one feature alone, as a rare count does, may not be among so few.
        unclear = unclear or (pool < max(groups, _LARGER_POOL) and spectrum.rank < expected)
        last = pool >= largest
        if last or not unclear:
            count = law.fresh(pool if expected else max(pool, _FRESH))
            fresh = reference.draw(rng, count) if spectrum.gap and count else {}
            if not fresh or spectrum.rank == len(columns) or _span(columns[:, pivots], columns_of(fresh)):
                break
            if last:  # no more records than these may be drawn, and their spectrum did not end
                spectrum, pivots, coefficients = decompose(columns, False, law)
                break
        # With known features small pools only show whether there are few; if not, one shows all.
        pool = max(2 * pool, known + known // 4 + 16 if pool >= _LARGER_POOL else 0)
        if not known:
            few = embedding.thinned(max(expected, min(pool, _ROWS)) if expected else pool)
            columns_of = coordinates(embedding, few)
    return spectrum, Basis({k: v[pivots] for k, v in records.items()}, coefficients, decays=not spectrum.gap), few


def _first_pool(expected: int, groups: int) -> int:
    """Generic records that are decomposed first."""
    # Once the rank is known, fewer will do as long as they show all of it, in every group.
    spare = expected if groups else expected // 4
    return max(_SMALLEST_POOL, expected + spare + 16 if expected else groups)


def _count_of_probes(rank: int) -> int:
    return max(_PROBES, rank + min(3 * rank, _FREEDOM))


def separated_basis(
    embedding: MeanEmbedding, records: Records, expected: int = 0
) -> tuple[Spectrum, Basis, np.ndarray] | None:
    """As `find_basis` on these records, several of every group: spectrum, basis, and the atoms on which it is
    orthonormal. The spectrum is that of the independent records, and zero for the others.

    Returns:
        None where the records have no groups, where it is not clear where their features end, or where fewer show than
        were `expected`.
    """
    if not isinstance(embedding, Separable):
        return None
    found = embedding.pieces(records, evenly(embedding.size, _ATOMS))
    if found is None:
        return None
    length = np.sqrt((found[1] ** 2).sum(axis=(0, 1)))
    alive = np.flatnonzero((length > 0) & np.isfinite(length))
    chosen = independent(found[0][:, alive], found[1][:, :, alive] / length[alive])
    if chosen is None or not chosen.size or chosen.size < expected:
        return None
    pivots = alive[chosen]
    few, some = embedding.thinned(len(pivots)), {k: v[pivots] for k, v in records.items()}
    gram = embedding.moments(Basis(some, np.diag(1 / length[pivots])), few, "looking at groups").gram
    root = factor(gram)
    if root is None:  # too alike for a kernel to tell them apart
        return None
    coefficients = scipy.linalg.solve_triangular(root, np.eye(len(root)), check_finite=False)
    size = np.sqrt(np.diag(gram))
    values = scipy.linalg.eigvalsh(gram / size / size[:, None], check_finite=False)[::-1]
    values = np.pad(values / values[0], (0, len(length) - len(values)))
    return Spectrum(values, len(pivots), True), Basis(some, coefficients / length[pivots][:, None]), few


def shows_all(embedding: MeanEmbedding, reference: Reference, rng: np.random.Generator) -> bool:
    """Whether generic records show beyond doubt every feature that the kernel is known to be made of, where these are
    so many that their spectrum takes long; False says nothing."""
    known = features_of(embedding)
    if known < _LARGER_POOL or not isinstance(embedding, Featured):
        return False
    columns_of = embedding.coordinates(embedding.thinned(known))
    if columns_of is None:
        return False
    columns = columns_of(reference.draw(rng, known + known // 4 + 16))
    with np.errstate(over="ignore", invalid="ignore"):
        columns /= np.linalg.norm(columns, axis=0)
        columns = columns[:, np.isfinite(columns).all(axis=0)]
        return factor(columns @ columns.T) is not None


def _span(columns: np.ndarray, scores: np.ndarray) -> bool:
    """Whether the columns span the scores of other records as well: no feature was missed."""
    basis = np.linalg.qr(columns / np.linalg.norm(columns, axis=0))[0]
    rest = scores - basis @ (basis.T @ scores)
    return bool((np.linalg.norm(rest, axis=0) <= _MISSED * np.linalg.norm(scores, axis=0)).all())


def fit(
    embedding: MeanEmbedding,
    reference: Reference,
    rng: np.random.Generator,
    *,
    finite: bool = True,
    atoms: np.ndarray | None = None,
    label: str = "summing over the draws",
    expected: int = 0,
    shrink: bool = True,
) -> Fit:
    """Solve for the measure that the release determines, on generic records of the reference law.

    Args:
        finite: False when the kernel is known not to have finite rank, whatever these records show.
        atoms: indices of the atoms to use; all by default.
        expected: the rank found before, if any.
        shrink: False leaves the measure as it is where the spectrum decays, for a search that regularises itself.
    """
    if finite and atoms is None:
        written = _feature_fit(embedding, reference, rng, expected)
        if written is not None:
            return written
    spectrum, basis, few = find_basis(embedding, reference, rng, finite, expected)
    # A search needs no more records than stand out of the noise, which are far fewer than the features.
    if not spectrum.gap:  # like the data: what is seen of records that no data have says little of these
        reference = replace(reference, predicted=_PREDICTED)
    count = _count_of_probes(basis.size) if shrink or spectrum.gap else _PROBES
    sample = reference.draw(rng, count)
    if not spectrum.gap and shrink:  # coefficients must not run away in the data's tails
        tails = replace(reference, tails=_TAILS).draw(rng, count)
        sample = {k: np.concatenate([v[::2], tails[k][::2]]) for k, v in sample.items()}
    stretches = stretches_of(embedding, basis) if spectrum.gap and atoms is None else 1
    moments = embedding.moments(basis, atoms, label, stretches)
    gram, target = moments.gram, moments.target
    # Where the spectrum decays, records that are impossible at some draws are no loss.
    sums = (gram, target) if spectrum.gap else (gram, target, moments.value)
    if not all(np.isfinite(one).all() for one in sums):
        return fit(
            embedding,
            _tamed(reference, embedding),
            rng,
            finite=finite,
            atoms=atoms,
            label=label,
            expected=expected,
            shrink=shrink,
        )
    y, correction = _solve(gram, target), None
    if stretches > 1:
        y = jackknifed(moments, y)
        target = gram @ y
        correction = target - moments.target

    def probed(records: Records) -> tuple[Records, np.ndarray]:
        # With a gap functions in the span are fixed by their inner products with the basis, so a few atoms will do.
        if spectrum.gap and not features_of(embedding):
            return _told(records, embedding.cross(basis, records, few) @ gram)
        return _told(records, embedding.cross(basis, records, atoms))

    sample, cross = probed(sample)
    plain = Fit(
        embedding=embedding,
        spectrum=spectrum,
        basis=basis,
        probes=sample,
        cross=cross,
        target=target,
        gram=gram,
        value=moments.value,
        y=y,
        correction=correction,
    )
    if spectrum.gap and atoms is None and spans(getattr(embedding, "release", None)):
        return replace(plain, distant=probed(_wide(reference).draw(rng, len(cross))))
    if spectrum.gap or not shrink:
        return plain
    solved = _shrunk(plain)
    if atoms is not None:
        return solved
    law = replace(reference, tails=_TAILS)
    distant = probed(law.draw(rng, len(cross)))
    lost = _lost(solved, law, *distant)
    if lost:
        law = replace(law, centre={k: v for k, v in law.centre.items() if k not in lost})
        distant = probed(law.draw(rng, len(cross)))
    return replace(solved, distant=distant)


def _feature_fit(
    embedding: MeanEmbedding, reference: Reference, rng: np.random.Generator, expected: int
) -> FeatureFit | None:
    """As `fit` in the features that the kernel is made of, where these are so many that another basis takes long; None
    where they are not known or do not all show beyond doubt."""
    known, release, law = features_of(embedding), getattr(embedding, "release", None), law_of(embedding)
    if known != expected or known < _LARGER_POOL or law.ends or spans(release) or not isinstance(embedding, Featured):
        return None
    law.check(known, embedding.equations, embedding.size)
    few, count = embedding.thinned(known), _first_pool(known, per_level(reference))
    # The last are those on which another basis would be looked at: here all that there is shows, but statistics that
    # are not seen shall be judged on the same probes.
    records, _ = reference.draw(rng, count), reference.draw(rng, law.fresh(count))
    spectrum, chosen = _spectrum_of(embedding, records, few), _spanning_features(embedding.columns(records))
    if spectrum is None or chosen is None:
        return None
    basis = FeatureBasis({k: v[chosen[0]] for k, v in records.items()}, chosen[1], atoms=release)
    found = _amplitudes(embedding, basis)
    if found is None:
        return None
    moments, y, correction = found
    probes = reference.draw(rng, _count_of_probes(known))
    probes, columns = _told(probes, embedding.columns(probes).T)
    return FeatureFit(
        embedding=embedding,
        spectrum=spectrum,
        basis=basis,
        probes=probes,
        cross=columns,
        target=moments.target if correction is None else moments.target + correction,
        gram=moments.gram,
        value=moments.value,
        y=y,
        correction=correction,
    )


def _spectrum_of(embedding: Featured, records: Records, atoms: np.ndarray) -> Spectrum | None:
    """Of records that show every feature; None where one does not show beyond doubt."""
    columns_of = embedding.coordinates(atoms)
    return None if columns_of is None else whole_spectrum(columns_of(records))


def _spanning_features(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Of features `(F, M)`: records that span them, and the inverse of theirs; None where digits are lost."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(columns, axis=0)
    alive = np.flatnonzero((length > 0) & np.isfinite(length))
    if len(alive) < len(columns):
        return None
    pivots, inverse = eliminated(columns[:, alive] / length[alive])
    pivots = alive[pivots]
    inverse /= length[pivots][:, None]
    # A sum of features that was taken to records and back.
    once = np.ones(len(columns))
    with np.errstate(over="ignore", invalid="ignore"):
        lost = np.abs(columns[:, pivots] @ (inverse @ once) - once).max(initial=0.0)
    return (pivots, inverse) if lost < _TAKEN_BACK else None


def _amplitudes(embedding: MeanEmbedding, basis: Basis) -> tuple[Moments, np.ndarray, np.ndarray | None] | None:
    """Sums over the atoms, amplitudes, and the target's correction for its bias where one was made; None where a
    kernel does not keep its digits."""
    stretches = stretches_of(embedding, basis)
    moments = embedding.moments(basis, stretches=stretches)
    if not (np.isfinite(moments.gram).all() and np.isfinite(moments.target).all()):
        return None
    solve = solver(moments.gram)
    if solve is None:
        return None
    y = solve(moments.target)
    if stretches == 1:
        return moments, y, None
    y = jackknifed(moments, y)
    return moments, y, moments.gram @ y - moments.target


def _lost(solved: Fit, law: Reference, records: Records, cross: np.ndarray) -> list[str]:
    """Fields of which neither mean nor spread is seen: where the probes have them says nothing of where they lie."""
    lost = []
    for name in law.centre:
        if law.fields[name].domain.kind == "levels":
            continue

        def powers(at: Records, name: str = name) -> np.ndarray:
            value = ((at[name] - law.centre[name]) / np.maximum(law.scale[name], 1e-300)).reshape(len(at[name]), -1)
            return np.concatenate([value, value**2], axis=1)

        far = powers(records)
        rest = (far - cross @ solved.project(powers(solved.probes)).beta) ** 2
        # Without the few records far out of which less is seen than nothing.
        kept = rest <= np.quantile(rest, _NEARER, axis=0)
        size = (far - far.mean(axis=0)) ** 2
        if ((rest * kept).sum(axis=0) > (1 - _FOUND) * (size * kept).sum(axis=0)).all():
            lost.append(name)
    return lost


def _wide(reference: Reference) -> Reference:
    """Records that spread at least as far as they lie from zero: in a narrower range a function that equations do not
    span looks like one that they do."""
    scale = {k: np.maximum(v, np.abs(reference.centre[k])) for k, v in reference.scale.items()}
    return replace(reference, scale=scale)


def _told(records: Records, cross: np.ndarray) -> tuple[Records, np.ndarray]:
    """Without those far from the data whose scores overflow at some atoms."""
    told = np.isfinite(cross).all(axis=1)
    if told.all():  # without another copy
        return records, cross
    return {k: v[told] for k, v in records.items()}, cross[told]


def _tamed(reference: Reference, embedding: MeanEmbedding) -> Reference:
    """Without records whose scores overflow at any draw at all.

    Raises `BayesreconError` where that was seen to already.
    """
    before = reference.accept
    if isinstance(before, _Everywhere):
        raise BayesreconError("scores of generic records overflow at some of the draws; narrow the fields with domain=")
    return replace(reference, accept=_Everywhere(embedding, before))


@dataclass(frozen=True)
class _Everywhere:
    """Which records have scores that are finite at all atoms, of those that another rule accepts."""

    embedding: MeanEmbedding
    before: Callable[[Records], np.ndarray] | None

    def __call__(self, records: Records) -> np.ndarray:
        kept = np.ones(len(next(iter(records.values()))), bool) if self.before is None else self.before(records)
        some = {k: v[kept] for k, v in records.items()}
        if kept.any():
            kept[kept] = self.embedding.tame(some, everywhere=True)
        return kept


def _shrunk(plain: Fit) -> Fit:
    """The measure shrunk towards what noise leaves standing, or it would blow up in the tails."""
    cross, target, embedding = plain.cross, plain.target, plain.embedding
    spread = cross.T @ cross / len(cross)
    size = max(1.0, float(np.linalg.norm(target) / np.linalg.norm(cross.mean(axis=0))))
    noise = embedding.normal_noise(plain.basis, simulated=True)
    if not (np.diag(noise) <= _NOWHERE * np.diag(plain.gram)).all():  # a scale and its effects are never large at once
        noise = embedding.normal_noise(plain.basis)
    ridge = noise / embedding.effective_size
    damping = _DAMPED * plain.gram / embedding.effective_size
    for _ in range(2):
        # The scale from a regularised count: unregularised, it would drown in noise.
        ones = replace(plain, ridge=ridge, size=size, damping=damping).project(np.ones((len(cross), 1)))
        size = max(1.0, float(abs(target @ ones.beta[:, 0])))
    signal = size**2 * spread
    kept = signal @ np.linalg.lstsq(signal + ridge + size * damping, target, rcond=1e-14)[0]
    return replace(plain, y=_solve(plain.gram, kept), ridge=ridge, size=size, damping=damping)


def shrunk(plain: Fit, ridge: np.ndarray) -> Fit:
    """The same with the errors `ridge (r, r)` of its target weighed against what is left unseen."""
    solved = replace(plain, ridge=ridge)
    for _ in range(2):
        ones = solved.project(np.ones((len(solved.cross), 1)))
        solved = replace(solved, size=max(1.0, float(abs(solved.target @ ones.beta[:, 0]))))
    return solved


def stretches_of(embedding: MeanEmbedding, basis: Basis) -> int:
    """Stretches of the draws whose sums are kept apart: one where the bias is not felt next to the noise."""
    if basis.size**2 < _FELT * embedding.independent_size:
        return 1
    return law_of(embedding).stretches(_STRETCHES) if _STRETCHES * basis.size**2 <= _KEPT else 1


def jackknifed(moments: Moments, plain: np.ndarray) -> np.ndarray:
    """The `plain` solution less bias of order rank / T: gram and target come from the same draws.

    The delete-a-group jackknife (Busing, Meijer and van der Leeden 1999) sees it in correlated draws too. About half
    of it stays: what a stretch adds through the metrics of other folds, which are not made again.
    """
    whole = summed(moments.stretches)
    functions = whole.functions
    # Where the basis is another one of what it is written in, equations are solved in that, without a product each.
    as_written = functions is not None and len(functions) == functions.shape[1]
    less = np.zeros_like(plain)
    for one in moments.stretches:
        rest = 1 - one.share / whole.share
        if rest < _REST:
            return plain
        if as_written:
            gram, target = whole.own - one.own, whole.aim - one.aim
        else:
            gram, target = moments.gram - one.gram, moments.target - one.target
        try:
            less += rest * scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram, check_finite=False), target)
        except np.linalg.LinAlgError:  # this stretch alone shows some feature
            return plain
    if functions is not None and as_written:
        less = np.linalg.solve(functions, less)
    return len(moments.stretches) * plain - less


def _solve(gram: np.ndarray, target: np.ndarray) -> np.ndarray:
    solve = solver(gram)
    if solve is not None:
        return solve(target)
    values, vectors = np.linalg.eigh(gram)
    return vectors @ ((vectors.T @ target) / np.maximum(values, 1e-14 * values[-1]))
