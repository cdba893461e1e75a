"""The basis: linearly independent functions of generic records. Records are added until the spectrum ends."""

import numpy as np
import scipy.linalg

from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.definite import factor
from bayesrecon.divergence.mean_embedding import Basis, Featured, MeanEmbedding, Separable, coordinates, features_of
from bayesrecon.domains import Records
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.error_laws import law_of
from bayesrecon.estimation.separated import independent
from bayesrecon.estimation.spectrum import Spectrum, decompose

LARGER_POOL = 512
"""Size of the pool up to which generic records are added if an earlier feature is missing. Kernels with fewer features
are decomposed in any case."""

_SMALLEST_POOL = 64  # generic records that are decomposed first: ten times the rank of a simple regression
_ROWS_PER_RECORD_LIMIT = 512  # records up to which every one has its own rows of the score matrix, whatever the rank
_PER_LEVEL = 8  # generic records for every value of a field with finitely many
_FEW_COMBINATIONS = 4  # combinations of values for each such record, up to which all are decomposed at once
_REPEATED = 16  # records beyond all combinations, which show that their spectrum ends
MANY_GROUPS = 1024  # of them, from which groups are looked at one by one first: they share hardly any features
_ATOMS = 64  # at which a group's records are told apart: each has a few features, of one row an atom and coordinate
_MISSED_SHARE = 1e-6  # share of a fresh record's scores from which a feature of it was missed
_FRESH = 512  # of them, before the rank is known: of so many one at least shows a feature that one in a hundred has


def per_level(reference: Reference) -> int:
    """The number of generic records that gives every group enough records for its own features.

    With fewer, groups are missing, and the spectrum seems to end too early.
    """
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
    """Add generic records until their spectrum ends, and keep linearly independent ones.

    `expected` is the rank found before, if any. Returns the spectrum, the basis, and the atoms on which the
    basis is orthonormal.

    Raises `BayesreconError` if there are too few draws for the rank.
    """
    available, known = embedding.equations, features_of(embedding)
    law = law_of(embedding)
    groups = per_level(reference)
    pool = first_pool(expected, groups)
    largest_pool = law.largest_pool(max(reference.most, groups), available)
    every = reference.combinations + _REPEATED if reference.combinations else 2 * largest_pool + 1
    if every <= min(2 * largest_pool, max(pool, _FEW_COMBINATIONS * groups)):  # all there are: none is missed
        pool = every
    if finite and groups > MANY_GROUPS:
        separated = separated_basis(embedding, reference.draw(rng, 2 * groups), expected)
        if separated is not None:
            law.check_equations(separated[0].rank, available, embedding.size)
            return separated
    subset = embedding.thinned(known or (max(expected, min(pool, _ROWS_PER_RECORD_LIMIT)) if expected else pool))
    columns_of = coordinates(embedding, subset)
    while True:
        records = reference.draw(rng, pool)
        columns = columns_of(records)
        spectrum, pivots, coefficients = decompose(columns, finite, law)
        law.check_equations(spectrum.rank, available, embedding.size)
        # Records over many orders of magnitude blur the end of a long spectrum: look again with more of them.
        incomplete = spectrum.full or (finite and not spectrum.gap and 4 * spectrum.rank > pool)
        incomplete = incomplete or law.needs_larger_pool(pool, spectrum.rank)
        # A record that shows one feature alone, as a rare count does, may not be among so few.
        incomplete = incomplete or (pool < max(groups, LARGER_POOL) and spectrum.rank < expected)
        pool_is_largest = pool >= largest_pool
        if pool_is_largest or not incomplete:
            count = 0 if pool >= every else law.validation_records(pool if expected else max(pool, _FRESH))
            fresh = reference.draw(rng, count) if spectrum.gap and count else {}
            if not fresh or spectrum.rank == len(columns) or _span(columns[:, pivots], columns_of(fresh)):
                break
            if pool_is_largest:  # no more records than these may be drawn, and their spectrum did not end
                spectrum, pivots, coefficients = decompose(columns, False, law)
                break
        # With known features small pools only show whether there are few; if not, one shows all.
        pool = max(2 * pool, known + known // 4 + 16 if pool >= LARGER_POOL else 0)
        if not known:
            subset = embedding.thinned(max(expected, min(pool, _ROWS_PER_RECORD_LIMIT)) if expected else pool)
            columns_of = coordinates(embedding, subset)
    return spectrum, Basis({k: v[pivots] for k, v in records.items()}, coefficients, decays=not spectrum.gap), subset


def first_pool(expected: int, groups: int) -> int:
    """The number of generic records that are decomposed first."""
    # Once the rank is known, fewer will do as long as they show all of it, in every group.
    spare = expected if groups else expected // 4
    return max(_SMALLEST_POOL, expected + spare + 16 if expected else groups)


def separated_basis(
    embedding: MeanEmbedding, records: Records, expected: int = 0
) -> tuple[Spectrum, Basis, np.ndarray] | None:
    """The result of `find_basis` for these records, several of every group.

    The spectrum is that of the independent records, and zero for the others. The result is None if the records have no
    groups, if there is no clear gap after their features, or if there are fewer features than `expected`.
    """
    if not isinstance(embedding, Separable):
        return None
    pieces = embedding.pieces(records, evenly(embedding.size, _ATOMS))
    if pieces is None:
        return None
    length = np.sqrt((pieces[1] ** 2).sum(axis=(0, 1)))
    nonzero = np.flatnonzero((length > 0) & np.isfinite(length))
    chosen = independent(pieces[0][:, nonzero], pieces[1][:, :, nonzero] / length[nonzero])
    if chosen is None or not chosen.size or chosen.size < expected:
        return None
    pivots = nonzero[chosen]
    subset, records_of_basis = embedding.thinned(len(pivots)), {k: v[pivots] for k, v in records.items()}
    gram = embedding.moments(Basis(records_of_basis, np.diag(1 / length[pivots])), subset, "looking at groups").gram
    root = factor(gram)
    if root is None:  # too alike for a kernel to tell them apart
        return None
    coefficients = scipy.linalg.solve_triangular(root, np.eye(len(root)), check_finite=False)
    size = np.sqrt(np.diag(gram))
    values = scipy.linalg.eigvalsh(gram / size / size[:, None], check_finite=False)[::-1]
    values = np.pad(values / values[0], (0, len(length) - len(values)))
    return Spectrum(values, len(pivots), True), Basis(records_of_basis, coefficients / length[pivots][:, None]), subset


def shows_all(embedding: MeanEmbedding, reference: Reference, rng: np.random.Generator) -> bool:
    """Whether generic records certainly show all known features of the kernel; False is inconclusive.

    It is tested only for many features, whose spectrum would take long.
    """
    known = features_of(embedding)
    if known < LARGER_POOL or not isinstance(embedding, Featured):
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
    residual = scores - basis @ (basis.T @ scores)
    return bool((np.linalg.norm(residual, axis=0) <= _MISSED_SHARE * np.linalg.norm(scores, axis=0)).all())
