"""Where the data lie, from the release alone: centre and scale of every unknown field.

A solution is independent of the generic records only if the kernel has finite rank. Even then, rounding favours records
near the data. So in each pass the generic records are moved to the moments recovered in the pass before.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import jax
import numpy as np

from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.metric_view import OneRelease
from bayesrecon.estimation.anchors import Reference, UnusableRecordsError
from bayesrecon.estimation.basis import find_basis, per_level, shows_all
from bayesrecon.estimation.decay import decays
from bayesrecon.estimation.error_laws import law_of
from bayesrecon.estimation.extent import RecordLikelihood, located_fields
from bayesrecon.estimation.predictive import responses
from bayesrecon.estimation.record_weights import (
    MOST,
    TOTAL_ERROR,
    judge_of,
    matters_on,
    nonnegative_weights,
    plausible,
    weighted_moments,
)
from bayesrecon.estimation.solve import fit
from bayesrecon.estimation.span import Span
from bayesrecon.estimation.spectrum import Spectrum
from bayesrecon.estimation.statistics import components, moments
from bayesrecon.knowledge import Knowledge
from bayesrecon.model import Records, simulated
from bayesrecon.running.draws_on_disk import as_rows

# Largest number of solves. Fewer do not reach data far from the first records; more are only used if noise keeps moving
# the moments. Twice as many without finite rank, where each pass covers only part of the distance.
PASSES = 8
# Change of centre and scale, in units of the scale, at which the search ends. A smaller one is less than another random
# pool changes; a larger one (0.3 was tried) ends the search before the pool has closed in.
_CONVERGED = 0.15
# Pool for a release of a single record: what this many others do not span of it is below the noise.
_SINGLE_RECORD_POOL = 128
# Number of features of a decaying spectrum, over the root of the number of draws. With more, estimates rely on features
# that have little noise by chance; with far fewer, features above the noise are lost.
_FEATURES_PER_ROOT_DRAW = 4.0
_SEARCH_FEATURES = 128  # features during the search: moments of the records need no more
# Records simulated from a posterior: they give centre and scale to a sixteenth of the scale, which is enough.
_PREDICTED_RECORDS = 256
# Largest number of draws in a pass. The location is only needed to a part of the scale, and the final solve uses all
# draws; fewer add noise to the moments.
_ATOMS = 2048
# Largest number of multiplications in a pass; with many features fewer atoms are used, or a pass would take minutes.
_LARGEST_WORK = 2**37
_SIZES = 10.0 ** np.arange(-12.0, 13.0)  # of values of a field in unknown units
_MATTERS = 1e-3  # information of a record that is more than none
_MOST_ENTRIES = 64  # of all such fields, whose sizes are looked for one by one
_NARROW, _TYPICAL = (1e-1, 1e3), 30.0  # sizes that values over many orders of magnitude hold well, and one of them
_FEWEST_ATOMS = 256  # with fewer, the noise of a pass exceeds the shift that it measures
# Largest information of a generic record once the data are located: in all, and relative to a typical record.
# Visibility is judged on records that can be among the data; one with more would dominate every mean square.
_MOST_INFORMATION, _MOST_RELATIVE_INFORMATION = 0.3, 2.0
# Smallest information of a generic record: above rounding, and far below the share of one record in a million.
_LEAST_INFORMATION = 1e-9
# Smallest information during the search, relative to a typical record. With a smaller limit, records without influence
# take weight and carry the moments away; with a larger one, data of unequal information are cut.
_LEAST_RELATIVE_INFORMATION = 1e-3
# Largest shift of a field's centre in one pass, in units of its present scale. A smaller limit does not reach data in
# raw units; larger shifts are quotients of rounding errors.
_LARGEST_SHIFT = 1e6
# Visibility from which a moment may move the records. The invisible part of other moments depends on the basis and
# moves them anywhere; with a limit nearer to one, rounding far from the data hides visible moments.
_TRUSTED_VISIBILITY = 0.9
# Share of the records that stays spread out. With less, a pool that closed in on the wrong place stays there; with
# more, too few records are where the data are.
_BROAD_SHARE = 0.4
# Shift, in units of the scale, below which a change is no more than another set of generic records causes.
_SIGNIFICANT_SHIFT = 0.25
# Number of solves by likelihood, each on records nearer to the data; and the shift, in units of the scale, beyond which
# other scales are tried again: data far out were lost, because steps cover only part of the distance.
_LIKELIHOOD_PASSES, _LARGE_SHIFT = 8, 0.5
# Ratio to the width of the narrowest pass beyond which that pass is taken; chance makes passes differ by less.
_WIDENED = 2.0
_EXTRA_PROBES = 256  # probes beyond the number of features: visibility of a moment needs a few hundred


def locate(embedding: OneRelease, knowledge: Knowledge, rng: np.random.Generator) -> tuple[Reference, int | None]:
    """A reference distribution centred on the private data, and the kernel's rank (None if it is not finite).

    Finite rank is judged on records spread over many orders of magnitude: over a narrow range every smooth
    kernel looks finite.
    """
    reference = Reference(knowledge.fields, knowledge.known, accept=lambda z: np.isfinite(embedding.information(z)))
    reference = replace(reference, most=max(reference.most, 2 * embedding.features))
    error_law = law_of(embedding)
    if error_law.is_single_record(knowledge.total):
        reference = replace(reference, most=_SINGLE_RECORD_POOL)
        predicted = _predictive(embedding, knowledge, rng)
        if predicted is not None:
            spectrum = find_basis(embedding, predicted, rng)[0]
            return predicted, spectrum.rank if spectrum.gap else None
    centre, scale = _standard(knowledge)
    sizes = _sizes(embedding, knowledge, centre, scale)
    far = {
        name: np.where((size < _NARROW[0]) | (size > _NARROW[1]), size / _TYPICAL, 1.0) for name, size in sizes.items()
    }
    reference = replace(reference, unit={name: unit for name, unit in far.items() if (unit != 1).any()})
    reference = error_law.initial_reference(
        reference, lambda: (centre, scale | sizes if embedding.release.spans else scale)
    )
    rank, features = rank_of(embedding, reference, knowledge, rng)
    if rank is None:
        most = max(int(_FEATURES_PER_ROOT_DRAW * np.sqrt(embedding.independent_size)), 2 * per_level(reference))
        predict = responses(embedding.release, knowledge.known)
        reference = replace(reference, most=min(reference.most, most), predict=predict)
    unknown = [spec.domain for f, spec in knowledge.fields.items() if f not in knowledge.known]
    # Levels are drawn evenly, wherever they lie.
    if not unknown or (rank is not None and all(domain.kind == "levels" for domain in unknown)):
        return reference, rank
    work = max(1, embedding.metric.shape[1] * features**2)
    count = min(embedding.release.size, int(np.clip(_LARGEST_WORK // work, _FEWEST_ATOMS, _ATOMS)))
    atoms = evenly(embedding.release.size, count)
    if rank is not None:

        def solve(distribution: Reference) -> Span:
            return fit(embedding, distribution, rng, atoms=atoms, label="locating the records", expected=rank)

        feature_solver = _feature_solver(embedding, rng, atoms) if rank == embedding.features else None
        return follow_moments(feature_solver or solve, reference, knowledge, rank), rank
    reduced = replace(reference, most=min(reference.most, max(_SEARCH_FEATURES, per_level(reference))))
    located = follow_measure(embedding, reduced, knowledge, rng, atoms)
    return replace(_most_likely(embedding, located, rng, atoms), most=reference.most), None


def rank_of(
    embedding: OneRelease, reference: Reference, knowledge: Knowledge, rng: np.random.Generator
) -> tuple[int | None, int]:
    """The kernel's rank (None if it is not finite), and the number of features that generic records show."""
    (separate_rng,) = rng.spawn(1)  # the records that follow are the same whether a line was looked at or not
    fields = {f: spec.domain for f, spec in knowledge.fields.items() if f not in knowledge.known}
    if decays(embedding, reference, fields, separate_rng):
        return None, reference.most
    if shows_all(embedding, reference, separate_rng):
        return embedding.features, embedding.features
    spectrum = find_basis(embedding, reference, rng)[0]
    return spectrum.rank if spectrum.gap else None, spectrum.rank


def _feature_solver(
    embedding: OneRelease, rng: np.random.Generator, atoms: np.ndarray
) -> Callable[[Reference], Span] | None:
    """As `fit` if the records show every feature, so that totals do not depend on them; None if these atoms do not
    distinguish the features."""
    columns = embedding.columns
    totals = embedding.totals(atoms)
    if totals is None:
        return None
    rank = len(totals)
    spectrum = Spectrum(np.ones(rank), rank, True)

    def solve(distribution: Reference) -> Span:
        probes = distribution.draw(rng, rank + rank // 4 + _EXTRA_PROBES)
        return Span(spectrum=spectrum, probes=probes, cross=columns(probes).T, target=totals)

    return solve


def _most_likely(
    embedding: OneRelease, distribution: Reference, rng: np.random.Generator, atoms: np.ndarray
) -> Reference:
    """The distribution with the centres and scales that make the release likeliest."""
    fields = located_fields(distribution)
    if not fields:
        return distribution
    (separate_rng,) = rng.spawn(1)  # where the distribution stays, what follows is the same as if nobody had looked
    judge, seed, close = judge_of(embedding), int(separate_rng.integers(2**31)), False
    previous = initial = distribution
    for _ in range(_LIKELIHOOD_PASSES):
        try:
            solved = fit(
                embedding,
                distribution,
                separate_rng,
                finite=False,
                atoms=atoms,
                label="locating the records",
                shrink=False,
            )
        except UnusableRecordsError:
            return previous  # the last step went too far
        likelihood = RecordLikelihood(embedding, atoms, solved.basis, solved.target, judge, TOTAL_ERROR, seed, fields)
        previous, distribution = distribution, likelihood.located(distribution, close)
        if _close(previous, distribution):
            break
        close = _close(previous, distribution, _LARGE_SHIFT)
    return initial if _close(initial, distribution, _SIGNIFICANT_SHIFT) else distribution


def _predictive(embedding: OneRelease, knowledge: Knowledge, rng: np.random.Generator) -> Reference | None:
    """The distribution of a single record, as the posterior predicts it; None if the model does not draw all fields."""
    model, theta = embedding.release.model, as_rows(embedding.release.theta)
    blank = {k: f.domain.draw(rng, (1, *f.shape), 0.0, 1.0).astype(f.domain.dtype) for k, f in knowledge.fields.items()}
    if knowledge.known or model.simulate is None:
        return None

    def source(rng: np.random.Generator, size: int) -> Records:
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), size)
        drawn = simulated(model, theta[rng.integers(len(theta), size=size)], blank, keys)
        return {k: np.asarray(v)[:, 0] for k, v in drawn.items()}

    if any((np.ptp(v, axis=0) == 0).any() for v in source(rng, _SINGLE_RECORD_POOL).values()):
        return None
    # Series that explode are no candidates: their information is far from one.
    distribution = Reference(
        knowledge.fields,
        accept=plausible(judge_of(embedding), _LEAST_INFORMATION),
        most=_SINGLE_RECORD_POOL,
        source=source,
    )
    sample = distribution.draw(rng, _PREDICTED_RECORDS)
    centre, scale = ({k: f(v, axis=0) for k, v in sample.items()} for f in (np.mean, np.std))
    return replace(distribution, centre=centre, scale=scale)


def _standard(knowledge: Knowledge) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Centre and scale before anything is recovered: those of an interval, or else of standardised values."""
    centre, scale = {}, {}
    for name, spec in knowledge.fields.items():
        if name not in knowledge.aside:
            low, high = spec.domain.low, spec.domain.high
            finite = bool(np.isfinite(high - low))
            centre[name] = np.full(spec.shape, (low + high) / 2 if finite else 0.0)
            scale[name] = np.full(spec.shape, (high - low) / np.sqrt(12) if finite else 1.0)
    return centre, scale


def _sizes(
    embedding: OneRelease, knowledge: Knowledge, centre: Mapping[str, np.ndarray], scale: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The sizes `{field: shape}` at which values of unbounded fields begin to matter, the others being drawn once from
    their domains. One where no value matters."""
    if knowledge.known or knowledge.aside:
        return {}
    fields = knowledge.fields
    unbounded = {
        name: np.ones(f.shape)
        for name, f in fields.items()
        if f.domain.kind == "real" and np.isinf([f.domain.low, f.domain.high]).all()
    }
    entries = [(name, index) for name, size in unbounded.items() for index in np.ndindex(size.shape)]
    if not 0 < len(entries) <= _MOST_ENTRIES:
        return {}
    tried, rng = np.concatenate([[0.0], _SIZES, -_SIZES]), np.random.default_rng(0)
    one = {k: f.domain.draw(rng, (1, *f.shape), centre[k], scale[k]) for k, f in fields.items()}
    one |= {name: np.zeros((1, *size.shape)) for name, size in unbounded.items()}
    records = {k: np.repeat(v, len(tried) * len(entries), axis=0) for k, v in one.items()}
    for i, (name, index) in enumerate(entries):
        records[name][(slice(i * len(tried), (i + 1) * len(tried)), *index)] = tried
    information = np.nan_to_num(np.asarray(embedding.information(records)), nan=np.inf).reshape(len(entries), -1)
    for (name, index), (at_zero, *elsewhere) in zip(entries, information, strict=True):
        matters = np.max(np.reshape(elsewhere, (2, -1)), axis=0) > 2 * at_zero + _MATTERS
        if matters.any():
            unbounded[name][index] = _SIZES[int(matters.argmax())]
    return unbounded


def follow_moments(
    solve: Callable[[Reference], Span], reference: Reference, knowledge: Knowledge, rank: int = 0
) -> Reference:
    """Finite rank: means and variances are exact functions of the embedding, for any generic records.

    Args:
        solve: function that solves the embedding on generic records of a distribution.
        rank: rank of the kernel, if known. Records that show fewer features are not near the data.
    """
    unknown = [f for f in knowledge.fields if f not in knowledge.aside]
    mean = {f: np.array(reference.centre.get(f, np.zeros(knowledge.fields[f].shape))) for f in unknown}
    sd = {
        f: np.array(reference.scale.get(f, reference.unit.get(f, np.ones(knowledge.fields[f].shape)))) for f in unknown
    }
    reference = reference.recentred(mean, sd)
    out_of_range = False
    for _ in range(PASSES):
        entries = components(knowledge.fields, knowledge.aside, mean, sd)
        library = moments(entries)
        # Far from the data, or next to one value of a field in other units, features drown in rounding; over many
        # orders of magnitude none does.
        solved = solve(replace(reference, broad=1.0) if out_of_range else reference)
        values = library.evaluate(solved.probes)
        projection = solved.project(values)
        totals = dict(zip(library.parts, solved.target @ projection.beta, strict=True))
        visible = dict(
            zip(
                library.parts,
                library.visibility(values, projection.fitted, solved.spectrum.rank) >= _TRUSTED_VISIBILITY,
                strict=True,
            )
        )
        if not visible["1"] or totals["1"] <= 0 or solved.spectrum.rank < rank:
            if out_of_range and not visible["1"]:
                break
            out_of_range = True
            continue
        out_of_range, shifted = False, 0.0
        for c in entries:
            square, count = f"{c.name}*{c.name}", totals[c.one]
            if not visible[c.one] or count <= 0:
                continue
            # Without the mean, the second moment about the present centre still tells the scale.
            shift = totals[c.name] / count if visible[c.name] else 0.0
            spread = totals[square] / count - shift**2 if visible[square] else 1.0
            if not (np.isfinite(shift) and np.isfinite(spread) and abs(shift) < _LARGEST_SHIFT):
                continue
            # Shrunk no further in one pass: a field nearly constant in the data would leave no spread to look with.
            ratio = float(np.clip(np.sqrt(spread), 0.03, _LARGEST_SHIFT)) if spread > 0 else 1.0
            mean[c.field][c.index] = c.centre + c.scale * shift
            sd[c.field][c.index] = c.scale * ratio
            if knowledge.fields[c.field].domain.kind != "levels":  # those are drawn evenly, wherever they lie
                shifted = max(shifted, abs(shift) / max(ratio, 1.0), abs(np.log(ratio)))
        reference = reference.recentred(mean, sd)
        if shifted < 0.3:  # exact wherever the records lie: only rounding asks for nearness, a third of the scale does
            break
    return reference


def follow_measure(
    embedding: OneRelease,
    reference: Reference,
    knowledge: Knowledge,
    rng: np.random.Generator,
    atoms: np.ndarray,
) -> Reference:
    """No finite rank: the non-negative measure that matches the target within its noise. The pool concentrates on it
    from pass to pass, and keeps some records elsewhere."""
    judge = judge_of(embedding)
    passes: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = []  # centres and scales
    typical = 1.0
    previous = reference = replace(reference, broad=_BROAD_SHARE, accept=plausible(judge, _LEAST_INFORMATION))
    for _ in range(2 * PASSES):
        try:
            solved = fit(
                embedding, reference, rng, finite=False, atoms=atoms, label="locating the records", shrink=False
            )
        except UnusableRecordsError:
            if not passes:
                raise
            reference = previous  # the last pass went too far
            passes.pop()
            break
        information = judge.information(solved.probes)
        weights = nonnegative_weights(embedding, solved, information)
        if not weights.sum() > 0:
            break
        typical = float(weights @ information**2 / (weights @ information))
        mean, sd = weighted_moments(solved.probes, weights, knowledge, matters_on(judge, solved.probes, knowledge, rng))
        passes.append((mean, sd))
        # Wider than the measure itself: the next pool should hold all of the data. Much wider never closes in; and a
        # constant field keeps a thousandth of its size to move in.
        wider = {f: 1.5 * s + 1e-3 * np.abs(mean[f]) + 1e-9 for f, s in sd.items()}
        previous, reference = reference, reference.recentred(mean, wider)
        reference = replace(
            reference, accept=plausible(judge, max(_LEAST_INFORMATION, _LEAST_RELATIVE_INFORMATION * typical))
        )
        if previous.centre and _close(previous, reference):
            break
    # The data have records that tell next to nothing as well: how much is seen of statistics is judged with them.
    reference = replace(
        reference,
        accept=plausible(
            judge, _LEAST_INFORMATION, min(MOST, max(_MOST_INFORMATION, _MOST_RELATIVE_INFORMATION * typical))
        ),
    )
    if not passes:
        return reference
    narrowest, last = min(passes, key=_log_width), passes[-1]
    # Passes that see little wander off, ever wider.
    wandered = _log_width(last) > _log_width(narrowest) + np.log(_WIDENED)
    return replace(reference.recentred(*(narrowest if wandered else last)), broad=0.0)


def _log_width(moments_of_pass: tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]) -> float:
    """Mean logarithm of the scales of a pass."""
    return float(np.mean(np.log(np.concatenate([np.ravel(s) + 1e-300 for s in moments_of_pass[1].values()]))))


def _close(before: Reference, after: Reference, tolerance: float = _CONVERGED) -> bool:
    """Whether the changes are no larger than those by another random pool."""
    return all(
        (np.abs(after.centre[f] - before.centre[f]) < tolerance * after.scale[f]).all()
        and (np.abs(np.log(after.scale[f] / before.scale[f])) < tolerance).all()
        for f in after.centre
    )
