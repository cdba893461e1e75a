"""Where the data lie, from the release alone: centre and scale of every unknown field.

Kernel solves are exact whatever the records they are written on only when the kernel has finite rank; and even
then rounding favours records near the data. So the generic records are moved, pass by pass, to the moments
recovered with the records of the pass before.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import jax
import numpy as np

from bayesrecon.diagnostics import evenly
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.basis import find_basis, per_level, shows_all
from bayesrecon.estimation.decay import decays
from bayesrecon.estimation.error_laws import law_of
from bayesrecon.estimation.extent import Likelihood, looked_for
from bayesrecon.estimation.predictive import responses
from bayesrecon.estimation.record_weights import (
    MOST,
    TOTAL_ERROR,
    felt,
    judge_of,
    nonnegative_weights,
    plausible,
    weighted_moments,
)
from bayesrecon.estimation.solve import fit
from bayesrecon.estimation.span import Span
from bayesrecon.estimation.spectrum import Spectrum
from bayesrecon.estimation.statistics import components, moments
from bayesrecon.kernels.one_release import OneRelease
from bayesrecon.knowledge import Knowledge
from bayesrecon.model import Records, simulated
from bayesrecon.running.draws_on_disk import as_rows

# Solves at most: fewer do not reach data far from the first records, more are spent only where noise moves the moments
# for ever. Twice as many without finite rank, where each pass closes in by a part of the way only.
_PASSES = 8
# Change of centre and scale, in units of the scale, that ends the search: a smaller one is below what another random
# pool changes, a larger one (0.3 was tried) ends it before the pool has closed in.
_SETTLED = 0.15
_ONE = 128  # pool for a release of a single record: what so many others do not span of it is below the noise
# Features of a decaying spectrum, over the root of the number of draws: of more, some happen to be quiet on these
# draws, and estimates lean on them; far fewer stand out of the noise.
_FEATURES = 4.0
_SEARCHED = 128  # of them while the data are looked for: moments of the records need no more
_PREDICTED = 256  # records simulated to see where they lie: centre and scale to a sixteenth of the scale, near enough
# Draws that a pass sums: where the data lie need not be known better than to part of their scale, and the solve that
# follows takes all draws; fewer add noise to the moments that move the records.
_ATOMS = 2048
_WORK = 2**37  # multiplications in a pass, from which fewer atoms have to do: else many features take minutes a pass
_FEWEST_ATOMS = 256  # below these the noise of a pass exceeds what it is to correct, however long it takes
# The same once the data are found, in all and over a typical record's: what is seen is judged on records that can be
# among the data, and one with more weighs in every mean square as much as all others together.
_LARGE, _LARGER = 0.3, 2.0
# And at least: above rounding, and far below a record's share among a million; those with less are not noticed.
_LEAST = 1e-9
# A record with this little of a typical record's information cannot help to find the data: with a smaller share such
# records take weight unnoticed and carry the moments away, with a larger one data of unequal weight are cut.
_BLIND = 1e-3
# Largest move of a field's centre in one pass, in units of its present scale: a smaller one does not reach data in raw
# units, and what is farther than this is a quotient of roundings.
_FARTHEST = 1e6
# Visibility from which a moment is trusted to move the records: the rest of a moment seen less is whatever the basis
# makes of it, and moves them anywhere; nearer one, rounding far from the data hides moments that are seen.
_SEEN = 0.9
# Share of the records that goes on looking everywhere: with less a pool that closed in on the wrong place stays there,
# with more too few are left where the data are.
_BROAD = 0.4
# Of the scale: a smaller move shows what no other generic records would show as well.
_SAME = 0.25
# Solves on which centre and scale are made likelier, each on records that are nearer the data; and a move, in units of
# the scale, beyond which narrower and wider laws are tried again: data were lost far out, and steps reach a part of it.
_LIKELIER, _STEPPED = 8, 0.5
# Times the width of the narrowest pass, beyond which that one is taken: passes differ by less by chance.
_WANDERED = 2.0
_FREE = 256  # probes beyond those that features need: whether a moment is seen shows on a few hundred


def locate(embedding: OneRelease, knowledge: Knowledge, rng: np.random.Generator) -> tuple[Reference, int | None]:
    """A reference law centred on the private data, and the kernel's rank, None where it is not finite.

    Finite rank is judged on records spread over many orders of magnitude: over a narrow range every smooth
    kernel looks finite.
    """
    reference = Reference(knowledge.fields, knowledge.known, accept=lambda z: np.isfinite(embedding.information(z)))
    reference = replace(reference, most=max(reference.most, 2 * embedding.features))
    law = law_of(embedding)
    if law.alone(knowledge.total):
        reference = replace(reference, most=_ONE)
        predicted = _predictive(embedding, knowledge, rng)
        if predicted is not None:
            spectrum = find_basis(embedding, predicted, rng)[0]
            return predicted, spectrum.rank if spectrum.gap else None
    reference = law.begun(reference, lambda: _standard(knowledge))
    rank, features = _rank(embedding, reference, knowledge, rng)
    if rank is None:
        most = max(int(_FEATURES * np.sqrt(embedding.independent_size)), 2 * per_level(reference))
        predict = responses(embedding.release, knowledge.known)
        reference = replace(reference, most=min(reference.most, most), predict=predict)
    if all(f in knowledge.known for f in knowledge.fields):
        return reference, rank
    work = max(1, embedding.metric.shape[1] * features**2)
    number = min(embedding.release.size, int(np.clip(_WORK // work, _FEWEST_ATOMS, _ATOMS)))
    atoms = evenly(embedding.release.size, number)
    if rank is not None:

        def solve(law: Reference) -> Span:
            return fit(embedding, law, rng, atoms=atoms, label="locating the records", expected=rank)

        seen = _features_seen(embedding, rng, atoms) if rank == embedding.features else None
        return follow_moments(seen or solve, reference, knowledge, rank), rank
    few = replace(reference, most=min(reference.most, max(_SEARCHED, per_level(reference))))
    found = _follow_measure(embedding, few, knowledge, rng, atoms)
    return replace(_likeliest(embedding, found, rng, atoms), most=reference.most), None


def _rank(
    embedding: OneRelease, reference: Reference, knowledge: Knowledge, rng: np.random.Generator
) -> tuple[int | None, int]:
    """The kernel's rank, None where it is not finite, and how many features generic records show."""
    (apart,) = rng.spawn(1)  # the records that follow are the same whether a line was looked at or not
    fields = {f: spec.domain for f, spec in knowledge.fields.items() if f not in knowledge.known}
    if decays(embedding, reference, fields, apart):
        return None, reference.most
    if shows_all(embedding, reference, apart):
        return embedding.features, embedding.features
    spectrum = find_basis(embedding, reference, rng)[0]
    return spectrum.rank if spectrum.gap else None, spectrum.rank


def _features_seen(
    embedding: OneRelease, rng: np.random.Generator, atoms: np.ndarray
) -> Callable[[Reference], Span] | None:
    """As `fit` where every feature shows: their totals are the same whatever the records; None where these atoms do not
    tell the features apart."""
    columns = embedding.columns
    found = embedding.totals(atoms)
    if found is None:
        return None
    rank = len(found)
    spectrum = Spectrum(np.ones(rank), rank, True)

    def solve(law: Reference) -> Span:
        probes = law.draw(rng, rank + rank // 4 + _FREE)
        return Span(spectrum=spectrum, probes=probes, cross=columns(probes).T, target=found)

    return solve


def _likeliest(embedding: OneRelease, law: Reference, rng: np.random.Generator, atoms: np.ndarray) -> Reference:
    """The law with the centres and scales that make the release likeliest."""
    fields = looked_for(law)
    if not fields:
        return law
    (apart,) = rng.spawn(1)  # where the law stays, what follows is the same as if nobody had looked
    judge, seed, near, begun = judge_of(embedding), int(apart.integers(2**31)), False, law
    for _ in range(_LIKELIER):
        solved = fit(embedding, law, apart, finite=False, atoms=atoms, label="locating the records", shrink=False)
        likelihood = Likelihood(embedding, atoms, solved.basis, solved.target, judge, TOTAL_ERROR, seed, fields)
        before, law = law, likelihood.located(law, near)
        if _near(before, law):
            break
        near = _near(before, law, _STEPPED)
    return begun if _near(begun, law, _SAME) else law


def _predictive(embedding: OneRelease, knowledge: Knowledge, rng: np.random.Generator) -> Reference | None:
    """Where a single record lies is what the posterior predicts; None where the model does not draw all its fields."""
    model, theta = embedding.release.model, as_rows(embedding.release.theta)
    blank = {k: f.domain.draw(rng, (1, *f.shape), 0.0, 1.0).astype(f.domain.dtype) for k, f in knowledge.fields.items()}
    if knowledge.known or model.simulate is None:
        return None

    def source(rng: np.random.Generator, size: int) -> Records:
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), size)
        drawn = simulated(model, theta[rng.integers(len(theta), size=size)], blank, keys)
        return {k: np.asarray(v)[:, 0] for k, v in drawn.items()}

    if any((np.ptp(v, axis=0) == 0).any() for v in source(rng, _ONE).values()):
        return None
    # Series that explode are no candidates: their information is far from one.
    law = Reference(knowledge.fields, accept=plausible(judge_of(embedding), _LEAST), most=_ONE, source=source)
    some = law.draw(rng, _PREDICTED)
    centre, scale = ({k: f(v, axis=0) for k, v in some.items()} for f in (np.mean, np.std))
    return replace(law, centre=centre, scale=scale)


def _standard(knowledge: Knowledge) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Centre and scale before anything is recovered: an interval's own, elsewhere those of standardised values."""
    centre, scale = {}, {}
    for name, spec in knowledge.fields.items():
        if name not in knowledge.aside:
            low, high = spec.domain.low, spec.domain.high
            finite = bool(np.isfinite(high - low))
            centre[name] = np.full(spec.shape, (low + high) / 2 if finite else 0.0)
            scale[name] = np.full(spec.shape, (high - low) / np.sqrt(12) if finite else 1.0)
    return centre, scale


def follow_moments(
    solve: Callable[[Reference], Span], reference: Reference, knowledge: Knowledge, rank: int = 0
) -> Reference:
    """Finite rank: means and variances are exact functions of the embedding wherever the records lie.

    Args:
        solve: the embedding solved on generic records of a law.
        rank: of the kernel, where it is known; records that show less of it are not where the data lie.
    """
    unknown = [f for f in knowledge.fields if f not in knowledge.aside]
    mean = {f: np.array(reference.centre.get(f, np.zeros(knowledge.fields[f].shape))) for f in unknown}
    sd = {f: np.array(reference.scale.get(f, np.ones(knowledge.fields[f].shape))) for f in unknown}
    reference = reference.recentred(mean, sd)
    lost = False
    for _ in range(_PASSES):
        found = components(knowledge.fields, knowledge.aside, mean, sd)
        library = moments(found)
        # Far from the data, or next to one value of a field in other units, features drown in rounding; over many
        # orders of magnitude none does.
        solved = solve(replace(reference, broad=1.0) if lost else reference)
        values = library.evaluate(solved.probes)
        projection = solved.project(values)
        totals = dict(zip(library.parts, solved.target @ projection.beta, strict=True))
        seen = dict(
            zip(
                library.parts, library.visibility(values, projection.fitted, solved.spectrum.rank) >= _SEEN, strict=True
            )
        )
        if not seen["1"] or totals["1"] <= 0 or solved.spectrum.rank < rank:
            if lost and not seen["1"]:
                break
            lost = True
            continue
        lost, moved = False, 0.0
        for c in found:
            square = f"{c.name}*{c.name}"
            # Without the mean, the second moment about the present centre still tells the scale.
            shift = totals[c.name] / totals["1"] if seen[c.name] else 0.0
            spread = totals[square] / totals["1"] - shift**2 if seen[square] else 1.0
            if not (np.isfinite(shift) and np.isfinite(spread) and abs(shift) < _FARTHEST):
                continue
            # Shrunk no further in one pass: a field nearly constant in the data would leave no spread to look with.
            ratio = float(np.clip(np.sqrt(spread), 0.03, _FARTHEST)) if spread > 0 else 1.0
            mean[c.field][c.index] = c.centre + c.scale * shift
            sd[c.field][c.index] = c.scale * ratio
            if knowledge.fields[c.field].domain.kind != "levels":  # those are drawn evenly, wherever they lie
                moved = max(moved, abs(shift) / max(ratio, 1.0), abs(np.log(ratio)))
        reference = reference.recentred(mean, sd)
        if moved < 0.3:  # exact wherever the records lie: only rounding asks for nearness, a third of the scale does
            break
    return reference


def _follow_measure(
    embedding: OneRelease,
    reference: Reference,
    knowledge: Knowledge,
    rng: np.random.Generator,
    atoms: np.ndarray,
) -> Reference:
    """No finite rank: the non-negative measure that matches the target within its noise, on a pool that
    closes in on it and never stops looking elsewhere."""
    judge = judge_of(embedding)
    passes: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = []  # centres and scales
    typical = 1.0
    reference = replace(reference, broad=_BROAD, accept=plausible(judge, _LEAST))
    for _ in range(2 * _PASSES):
        solved = fit(embedding, reference, rng, finite=False, atoms=atoms, label="locating the records", shrink=False)
        information = judge.information(solved.probes)
        weights = nonnegative_weights(embedding, solved, information)
        if not weights.sum() > 0:
            break
        typical = float(weights @ information**2 / (weights @ information))
        mean, sd = weighted_moments(solved.probes, weights, knowledge, felt(judge, solved.probes, knowledge, rng))
        passes.append((mean, sd))
        # Wider than the measure itself: the next pool should hold all of the data. Much wider never closes in; and a
        # constant field keeps a thousandth of its size to move in.
        wider = {f: 1.5 * s + 1e-3 * np.abs(mean[f]) + 1e-9 for f, s in sd.items()}
        old, reference = reference, reference.recentred(mean, wider)
        reference = replace(reference, accept=plausible(judge, max(_LEAST, _BLIND * typical)))
        if old.centre and _near(old, reference):
            break
    # The data have records that tell next to nothing as well: how much is seen of statistics is judged with them.
    reference = replace(reference, accept=plausible(judge, _LEAST, min(MOST, max(_LARGE, _LARGER * typical))))
    if not passes:
        return reference
    narrowest, last = min(passes, key=_width), passes[-1]
    # Passes that see little wander off, ever wider.
    wandered = _width(last) > _width(narrowest) + np.log(_WANDERED)
    return replace(reference.recentred(*(narrowest if wandered else last)), broad=0.0)


def _width(one: tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]) -> float:
    """Mean logarithm of the scales of a pass."""
    return float(np.mean(np.log(np.concatenate([np.ravel(s) + 1e-300 for s in one[1].values()]))))


def _near(old: Reference, new: Reference, settled: float = _SETTLED) -> bool:
    """Whether nothing moved that another random pool would not move as well."""
    return all(
        (np.abs(new.centre[f] - old.centre[f]) < settled * new.scale[f]).all()
        and (np.abs(np.log(new.scale[f] / old.scale[f])) < settled).all()
        for f in new.centre
    )
