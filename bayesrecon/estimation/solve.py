"""From an embedding to totals: the amplitudes of a basis, and the functions that are visible in it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bayesrecon.divergence.definite import solution, solver
from bayesrecon.divergence.mean_embedding import (
    Basis,
    FeatureBasis,
    Featured,
    MeanEmbedding,
    Moments,
    features_of,
    moderate,
)
from bayesrecon.domains import Records
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference, require_usable
from bayesrecon.estimation.basis import LARGER_POOL, find_basis, first_pool, per_level
from bayesrecon.estimation.error_laws import law_of
from bayesrecon.estimation.jackknife import jackknifed, stretches_of
from bayesrecon.estimation.span import FeatureFit, Fit
from bayesrecon.estimation.spectrum import Spectrum, eliminated, whole_spectrum
from bayesrecon.releases import Release

_PROBES = 512  # fresh records on which visibility is judged, to a few per cent of what is unseen
# Probes beyond the features at most: what is unseen of a function is known to a hundredth from them.
_MOST_EXTRA_PROBES = 4096
_FEWER_EXTRA_PROBES = 256  # the same where totals alone are wanted
_TAILS = 8.0  # degrees of freedom of the t distribution of generic records, where features fade far out
_LOCATED = 0.5  # visibility of a field's mean or spread from which the search can have found where it lies
_CENTRAL_SHARE = 0.95  # share of the records by which that is judged
# Of the noise that the values of a function at single records have. A hundredth leaves coefficients that follow the
# draws' chance (n of logistic regressions comes out low), a tenth drowns what could be seen.
_DAMPING = 0.02
# Noise of a function over its square, from which it is that of places that no draw of the posterior is at: of draws it
# is some tens, where a normal distribution stands in for a heavy tail it is past 1e20.
_LARGEST_NOISE = 1e6
_PREDICTED = 0.75  # of the probes have predicted responses; a few others are left for data that the model fits badly
_ROUND_TRIP_ERROR = 1e-6  # what features may differ by that were taken to records and back


def spans(release: Release | None) -> bool:
    """Whether equations either span a function exactly or not at all, as for approximations and linear predictors.

    Densities have one equation per point, and their spectrum decays. For networks, visibility depends on the location
    of the data.
    """
    return release is not None and release.spans


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
    """Solve for the measure that the release determines, on generic records of the reference distribution.

    Args:
        finite: False when the kernel is known not to have finite rank, whatever these records show.
        atoms: indices of the atoms to use; all by default.
        expected: the rank found before, if any.
        shrink: False does not shrink the measure if the spectrum decays, for a search that has its own regularisation.
    """
    if finite and atoms is None:
        feature_fit = _feature_fit(embedding, reference, rng, expected)
        if feature_fit is not None:
            return feature_fit
    spectrum, basis, subset = find_basis(embedding, reference, rng, finite, expected)
    # A search needs no more records than stand out of the noise, which are far fewer than the features.
    if not spectrum.gap:  # like the data: what is seen of records that no data have says little of these
        reference = replace(reference, predicted=_PREDICTED)
    count = _count_of_probes(basis.size, atoms is None) if shrink or spectrum.gap else _PROBES
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
            _finite_everywhere(reference, embedding),
            rng,
            finite=finite,
            atoms=atoms,
            label=label,
            expected=expected,
            shrink=shrink,
        )
    y, correction = solution(gram, target), None
    if stretches > 1:
        y = jackknifed(moments, y)
        target = gram @ y
        correction = target - moments.target

    compared, at = basis, atoms
    if spectrum.gap and not features_of(embedding):
        # Functions in the span are fixed by their inner products with the basis, so a few atoms will do.
        compared, at = replace(basis, coefficients=basis.coefficients @ gram), subset

    def probed(records: Records) -> tuple[Records, np.ndarray]:
        return _finite_rows(records, embedding.cross(compared, records, at))

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
    shrunk_fit = _shrunk(plain)
    if atoms is not None:
        return shrunk_fit
    heavy_tailed = replace(reference, tails=_TAILS)
    distant = probed(heavy_tailed.draw(rng, len(cross)))
    unlocated = _unlocated_fields(shrunk_fit, heavy_tailed, *distant)
    if unlocated:
        centre = {k: v for k, v in heavy_tailed.centre.items() if k not in unlocated}
        distant = probed(replace(heavy_tailed, centre=centre).draw(rng, len(cross)))
    return replace(shrunk_fit, distant=distant)


def _count_of_probes(rank: int, errors: bool = True) -> int:
    """The number of probes; fewer if errors of undetermined parts are not needed."""
    return max(_PROBES, rank + min(3 * rank, _MOST_EXTRA_PROBES if errors else max(_FEWER_EXTRA_PROBES, rank // 4)))


def _unlocated_fields(solved: Fit, reference: Reference, records: Records, cross: np.ndarray) -> list[str]:
    """Fields whose mean and spread are both invisible, so that their location is not known."""
    unlocated = []
    for name in reference.centre:
        if reference.fields[name].domain.kind == "levels":
            continue

        def powers(at: Records, name: str = name) -> np.ndarray:
            value = (at[name] - reference.centre[name]) / np.maximum(reference.scale[name], 1e-300)
            value = value.reshape(len(at[name]), -1)
            return np.concatenate([value, value**2], axis=1)

        far = powers(records)
        squared_residual = (far - cross @ solved.project(powers(solved.probes)).beta) ** 2
        # Without the few records far out, where the residual exceeds the function itself.
        central = squared_residual <= np.quantile(squared_residual, _CENTRAL_SHARE, axis=0)
        size = (far - (far * central).sum(axis=0) / central.sum(axis=0)) ** 2
        if ((squared_residual * central).sum(axis=0) > (1 - _LOCATED) * (size * central).sum(axis=0)).all():
            unlocated.append(name)
    return unlocated


def _wide(reference: Reference) -> Reference:
    """The reference with spreads at least as large as the distance from zero. In a narrower range, a function that the
    equations do not span seems to be spanned."""
    scale = {k: np.maximum(v, np.abs(reference.centre[k])) for k, v in reference.scale.items()}
    return replace(reference, scale=scale)


def _finite_rows(records: Records, cross: np.ndarray) -> tuple[Records, np.ndarray]:
    """The records whose scores and their squares do not overflow at any atom, and their rows of `cross`.

    Raises `UnusableRecordsError` when there are hardly any.
    """
    finite = moderate(cross).all(axis=1)
    if finite.all():  # without another copy
        return records, cross
    require_usable(int(finite.sum()), len(cross))
    return {k: v[finite] for k, v in records.items()}, cross[finite]


def _finite_everywhere(reference: Reference, embedding: MeanEmbedding) -> Reference:
    """The reference without records whose scores overflow at any draw.

    Raises `BayesreconError` if these records were already excluded.
    """
    before = reference.accept
    if isinstance(before, _Everywhere):
        raise BayesreconError("scores of random records overflow at some of the draws; narrow the fields with domain=")
    return replace(reference, accept=_Everywhere(embedding, before))


@dataclass(frozen=True)
class _Everywhere:
    """A rule that accepts records with finite scores at all atoms, if another rule accepts them."""

    embedding: MeanEmbedding
    before: Callable[[Records], np.ndarray] | None

    def __call__(self, records: Records) -> np.ndarray:
        kept = np.ones(len(next(iter(records.values()))), bool) if self.before is None else self.before(records)
        some = {k: v[kept] for k, v in records.items()}
        if kept.any():
            kept[kept] = self.embedding.tame(some, everywhere=True)
        return kept


def _shrunk(plain: Fit) -> Fit:
    """The fit shrunk according to the noise. Otherwise it would grow without bound in the tails."""
    cross, target, embedding = plain.cross, plain.target, plain.embedding
    spread = cross.T @ cross / len(cross)
    size = max(1.0, float(np.linalg.norm(target) / np.linalg.norm(cross.mean(axis=0))))
    noise = embedding.normal_noise(plain.basis, simulated=True)
    # A scale and its effects are never large at once.
    if not (np.diag(noise) <= _LARGEST_NOISE * np.diag(plain.gram)).all():
        noise = embedding.normal_noise(plain.basis)
    ridge = noise / embedding.effective_size
    damping = _DAMPING * plain.gram / embedding.effective_size
    for _ in range(2):
        # The scale from a regularised count: unregularised, it would drown in noise.
        ones = replace(plain, ridge=ridge, size=size, damping=damping).project(np.ones((len(cross), 1)))
        size = max(1.0, float(abs(target @ ones.beta[:, 0])))
    signal = size**2 * spread
    shrunk_target = signal @ np.linalg.lstsq(signal + ridge + size * damping, target, rcond=1e-14)[0]
    return replace(plain, y=solution(plain.gram, shrunk_target), ridge=ridge, size=size, damping=damping)


def _feature_fit(
    embedding: MeanEmbedding, reference: Reference, rng: np.random.Generator, expected: int
) -> FeatureFit | None:
    """`fit` in the known features of the kernel. This is faster if there are many.

    None if the features are not known, or if it is uncertain that the records show all of them.
    """
    known, release, law = features_of(embedding), getattr(embedding, "release", None), law_of(embedding)
    if known != expected or known < LARGER_POOL or law.ends or spans(release) or not isinstance(embedding, Featured):
        return None
    law.check_equations(known, embedding.equations, embedding.size)
    subset, count = embedding.thinned(known), first_pool(known, per_level(reference))
    # The last are those on which another basis would be looked at: here all that there is shows, but statistics that
    # are not seen shall be judged on the same probes.
    records, _ = reference.draw(rng, count), reference.draw(rng, law.validation_records(count))
    spectrum, chosen = _spectrum_of(embedding, records, subset), _spanning_features(embedding.columns(records))
    if spectrum is None or chosen is None:
        return None
    basis = FeatureBasis({k: v[chosen[0]] for k, v in records.items()}, chosen[1], atoms=release)
    sums = _amplitudes(embedding, basis)
    if sums is None:
        return None
    moments, y, correction = sums
    probes = reference.draw(rng, _count_of_probes(known))
    probes, columns = _finite_rows(probes, embedding.columns(probes).T)
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


def refitted(solved: FeatureFit, embedding: MeanEmbedding) -> tuple[FeatureBasis, np.ndarray] | None:
    """A basis of the same number of features for other atoms of the same model, and its amplitudes.

    None if these atoms do not determine every feature.

    Raises `BayesreconError` when the atoms are too few.
    """
    law_of(embedding).check_equations(solved.basis.size, embedding.equations, embedding.size)
    basis = FeatureBasis.bare(getattr(embedding, "release", None), solved.basis.size)
    sums = _amplitudes(embedding, basis)
    return None if sums is None else (basis, sums[1])


def _amplitudes(embedding: MeanEmbedding, basis: Basis) -> tuple[Moments, np.ndarray, np.ndarray | None] | None:
    """Sums over the atoms, amplitudes, and the correction of the target for its bias, if any; None if the kernel is
    numerically singular."""
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


def _spectrum_of(embedding: Featured, records: Records, atoms: np.ndarray) -> Spectrum | None:
    """The spectrum of records that show every feature; None if that is uncertain."""
    columns_of = embedding.coordinates(atoms)
    return None if columns_of is None else whole_spectrum(columns_of(records))


def _spanning_features(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Records that span the features `(F, M)`, and the inverse of their columns; None if digits are lost."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(columns, axis=0)
    nonzero = np.flatnonzero((length > 0) & np.isfinite(length))
    if len(nonzero) < len(columns):
        return None
    pivots, inverse = eliminated(columns[:, nonzero] / length[nonzero])
    pivots = nonzero[pivots]
    inverse /= length[pivots][:, None]
    # A sum of features that was taken to records and back.
    ones = np.ones(len(columns))
    with np.errstate(over="ignore", invalid="ignore"):
        lost = np.abs(columns[:, pivots] @ (inverse @ ones) - ones).max(initial=0.0)
    return (pivots, inverse) if lost < _ROUND_TRIP_ERROR else None
