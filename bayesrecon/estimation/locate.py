"""Where the data lie, from the release alone: centre and scale of every unknown field.

Kernel solves are exact whatever the records they are written on only when the kernel has finite rank; and even
then rounding favours records near the data. So the generic records are moved, pass by pass, to the moments
recovered with the records of the pass before.
"""

from collections.abc import Callable
from dataclasses import replace

import jax
import numpy as np

from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.solve import Fit, find_basis, fit
from bayesrecon.estimation.statistics import components, moments
from bayesrecon.kernels.dense import Embedding
from bayesrecon.kernels.metric import metric_factor
from bayesrecon.knowledge import Knowledge
from bayesrecon.types import Records, simulated

_PASSES = 8
_SETTLED = 0.15  # change of centre and scale, in units of the scale, that ends the search
_ONE = 128  # pool for a release of a single record: what so many others do not span of it is below the noise
_PREDICTED = 256  # records simulated to see where they lie
_ATOMS = 2048
_WORK = 2**37  # multiplications in a pass, from which fewer atoms have to do
_FEWEST_ATOMS = 256
_MOST, _LEAST = 3.0, 1e-9  # information of a plausible record, in units of the whole data's
_BLIND = 1e-3  # a record with this little of a typical record's information cannot help to find the data
_FARTHEST = 1e6  # largest move of a field's centre in one pass, in units of its present scale
_SEEN = 0.9  # visibility from which a moment is trusted to move the records
_BROAD = 0.4  # share of the records that goes on looking everywhere
_TAIL = 0.05  # of the measure, drawn in on either side: a few far records must not carry centre and spread away
_TAIL_SD = 0.888  # of a normal law so drawn in
_TOTAL_ERROR = 0.3  # of the rule that the private records' information adds up to one


def locate(embedding: Embedding, attacker: Knowledge, rng: np.random.Generator) -> tuple[Reference, int | None]:
    """A reference law centred on the private data, and the kernel's rank, None where it is not finite.

    Finite rank is judged on records spread over many orders of magnitude: over a narrow range every smooth
    kernel looks finite.
    """
    reference = Reference(attacker.fields, attacker.known, accept=lambda z: np.isfinite(embedding.information(z)))
    if attacker.total == 1 and embedding.temperature:
        reference = replace(reference, most=_ONE)
        predicted = _predictive(embedding, attacker, rng)
        if predicted is not None:
            spectrum = find_basis(embedding, predicted, rng)[0]
            return predicted, spectrum.rank if spectrum.gap else None
    if not embedding.temperature:
        # Over many orders of magnitude a network saturates, and its features look fewer than they are.
        reference = reference.recentred(*_standard(attacker))
    spectrum = find_basis(embedding, reference, rng)[0]
    rank = spectrum.rank if spectrum.gap else None
    if all(f in attacker.known for f in attacker.fields):
        return reference, rank
    work = max(1, embedding.metric.shape[1] * spectrum.rank**2)
    number = min(embedding.release.size, int(np.clip(_WORK // work, _FEWEST_ATOMS, _ATOMS)))
    atoms = np.linspace(0, embedding.release.size - 1, number).astype(int)
    if rank is not None:

        def solve(law: Reference) -> Fit:
            return fit(embedding, law, rng, atoms=atoms, label="locating", expected=rank)

        return follow_moments(solve, reference, attacker), rank
    return _follow_measure(embedding, reference, attacker, rng, atoms), None


def _predictive(embedding: Embedding, attacker: Knowledge, rng: np.random.Generator) -> Reference | None:
    """Where a single record lies is what the posterior predicts; None where the model does not draw all its fields."""
    model, theta = embedding.release.model, np.asarray(embedding.release.theta)
    blank = {k: f.domain.draw(rng, (1, *f.shape), 0.0, 1.0).astype(f.domain.dtype) for k, f in attacker.fields.items()}
    if attacker.known or model.simulate is None:
        return None

    def source(rng: np.random.Generator, size: int) -> Records:
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), size)
        drawn = simulated(model, theta[rng.integers(len(theta), size=size)], blank, keys)
        return {k: np.asarray(v)[:, 0] for k, v in drawn.items()}

    if any((np.ptp(v, axis=0) == 0).any() for v in source(rng, _ONE).values()):
        return None
    # Series that explode are no candidates: their information is far from one.
    law = Reference(attacker.fields, accept=_plausible(_judge(embedding), _LEAST), most=_ONE, source=source)
    some = law.draw(rng, _PREDICTED)
    centre, scale = ({k: f(v, axis=0) for k, v in some.items()} for f in (np.mean, np.std))
    return replace(law, centre=centre, scale=scale)


def _standard(attacker: Knowledge) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Centre and scale before anything is recovered: an interval's own, elsewhere those of standardised values."""
    centre, scale = {}, {}
    for name, spec in attacker.fields.items():
        if name not in attacker.aside:
            low, high = spec.domain.low, spec.domain.high
            finite = bool(np.isfinite(high - low))
            centre[name] = np.full(spec.shape, (low + high) / 2 if finite else 0.0)
            scale[name] = np.full(spec.shape, (high - low) / np.sqrt(12) if finite else 1.0)
    return centre, scale


def follow_moments(solve: Callable[[Reference], Fit], reference: Reference, attacker: Knowledge) -> Reference:
    """Finite rank: means and variances are exact functions of the embedding wherever the records lie.

    Args:
        solve: the embedding solved on generic records of a law.
    """
    unknown = [f for f in attacker.fields if f not in attacker.aside]
    mean = {f: np.array(reference.centre.get(f, np.zeros(attacker.fields[f].shape))) for f in unknown}
    sd = {f: np.array(reference.scale.get(f, np.ones(attacker.fields[f].shape))) for f in unknown}
    reference = reference.recentred(mean, sd)
    for _ in range(_PASSES):
        found = components(attacker.fields, attacker.aside, mean, sd)
        library = moments(found)
        solved = solve(reference)
        values = library.evaluate(solved.probes)
        projection = solved.project(values)
        totals = dict(zip(library.parts, solved.moments.target @ projection.beta, strict=True))
        seen = dict(
            zip(library.parts, library.visibility(values, projection.fitted, solved.basis.size) >= _SEEN, strict=True)
        )
        if not seen["1"]:
            break
        if totals["1"] <= 0:  # far from the data a feature can drown in rounding: look again with other records
            continue
        moved = 0.0
        for c in found:
            square = f"{c.name}*{c.name}"
            # Without the mean, the second moment about the present centre still tells the scale.
            shift = totals[c.name] / totals["1"] if seen[c.name] else 0.0
            spread = totals[square] / totals["1"] - shift**2 if seen[square] else 1.0
            if not (np.isfinite(shift) and np.isfinite(spread) and abs(shift) < _FARTHEST):
                continue
            ratio = float(np.clip(np.sqrt(spread), 0.03, _FARTHEST)) if spread > 0 else 1.0
            mean[c.field][c.index] = c.centre + c.scale * shift
            sd[c.field][c.index] = c.scale * ratio
            if attacker.fields[c.field].domain.kind != "levels":  # those are drawn evenly, wherever they lie
                moved = max(moved, abs(shift) / max(ratio, 1.0), abs(np.log(ratio)))
        reference = reference.recentred(mean, sd)
        if moved < 0.3:
            break
    return reference


def _follow_measure(
    embedding: Embedding,
    reference: Reference,
    attacker: Knowledge,
    rng: np.random.Generator,
    atoms: np.ndarray,
) -> Reference:
    """No finite rank: the non-negative measure that matches the target within its noise, on a pool that
    closes in on it and never stops looking elsewhere."""
    judge = _judge(embedding)
    sd: dict[str, np.ndarray] = {}
    reference = replace(reference, broad=_BROAD, accept=_plausible(judge, _LEAST))
    for _ in range(2 * _PASSES):
        solved = fit(embedding, reference, rng, finite=False, atoms=atoms, label="locating", shrink=False)
        information = judge.information(solved.probes)
        weights = _nonnegative_weights(solved, information)
        if not weights.sum() > 0:
            break
        typical = float(weights @ information**2 / (weights @ information))
        mean, sd = _weighted_moments(solved.probes, weights, attacker)
        # Wider than the measure itself: the next pool should hold all of the data.
        wider = {f: 1.5 * s + 1e-3 * np.abs(mean[f]) + 1e-9 for f, s in sd.items()}
        old, reference = reference, reference.recentred(mean, wider)
        reference = replace(reference, accept=_plausible(judge, max(_LEAST, _BLIND * typical)))
        if old.centre and all(
            (np.abs(mean[f] - old.centre[f]) < _SETTLED * wider[f]).all()
            and (np.abs(np.log(wider[f] / old.scale[f])) < _SETTLED).all()
            for f in mean
        ):
            break
    return replace(reference.recentred(reference.centre, sd), broad=0.0) if sd else reference


def _judge(embedding: Embedding) -> Embedding:
    """In the metric in which the private records' information adds up to about one, whatever the solve uses."""
    return replace(embedding, metric=metric_factor(embedding.release, "covariance"), folds=None, progress=None)


def _plausible(judge: Embedding, least: float) -> Callable[[Records], np.ndarray]:
    """Which records can be part of the data?

    The private records' information adds up to about one: no record carries much more, and records that
    carry next to none could stand there in any number without being noticed.
    """

    def accept(records: Records) -> np.ndarray:
        information = judge.information(records)
        return (information < _MOST) & (information > least)

    return accept


def _nonnegative_weights(solved: Fit, information: np.ndarray) -> np.ndarray:
    """The most even weights `w >= 0` on the probes that match the target within its noise, `(Q,)`.

    `|Cov^(-1/2) (e' w - target)|^2 + |w / scale|^2`, with the largest ridge at which the first term is what
    noise makes of it (the discrepancy principle): what noise leaves open is settled by spreading the weights.
    """
    import scipy.optimize  # costs a third of a second

    embedding = solved.embedding
    # At the draws themselves: with the simulated noise weights can stand in the tails, and the data are lost.
    ridge = embedding.normal_noise(solved.basis) / embedding.effective_size
    size = np.sqrt(np.maximum(np.diag(ridge), 1e-300))
    values, vectors = np.linalg.eigh(ridge / size / size[:, None])
    root = vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1])) / size[:, None]
    matrix = np.concatenate([root.T @ solved.cross.T, information[None] / _TOTAL_ERROR])
    target = np.append(root.T @ solved.moments.target, 1 / _TOTAL_ERROR)
    rows, count = matrix.shape
    scale, best, weights = 3 / information.sum(), np.inf, np.zeros(count)
    for _ in range(8):
        stacked = np.concatenate([matrix, np.eye(count) / scale])
        wanted = np.concatenate([target, np.zeros(count)])
        length = np.linalg.norm(stacked, axis=0)
        try:
            found = scipy.optimize.nnls(stacked / length, wanted, maxiter=20 * count)[0] / length
        except RuntimeError:  # no convergence: a smoother problem has been solved before, or will do
            break
        misfit = float(np.sum((matrix @ found - target) ** 2))
        if misfit < best:
            best, weights = misfit, found
        if misfit < rows + 2 * np.sqrt(2 * rows):
            break
        scale *= 4
    return weights


def _weighted_moments(
    records: Records, weights: np.ndarray, attacker: Knowledge
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Mean and spread of the unknown fields under the weights, their tails drawn in."""
    share = weights / weights.sum()
    mean, sd = {}, {}
    for f, spec in attacker.fields.items():
        if f not in attacker.known:
            values = np.asarray(records[f], float).reshape(len(share), -1)
            order = np.argsort(values, axis=0)
            below = np.cumsum(share[order], axis=0)
            ends = [
                np.take_along_axis(values, order, 0)[np.argmax(below >= p, axis=0), np.arange(values.shape[1])]
                for p in (_TAIL, 1 - _TAIL)
            ]
            values = np.clip(values, *ends)
            centre = share @ values
            mean[f] = centre.reshape(spec.shape)
            sd[f] = (np.sqrt(share @ (values - centre) ** 2) / _TAIL_SD).reshape(spec.shape)
    return mean, sd
