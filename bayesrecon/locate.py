"""Where the data lie, from the release alone: centre and scale of every unknown field.

Kernel solves are exact whatever the records they are written on only when the kernel has finite rank; and even
then rounding favours records near the data. So the generic records are moved, pass by pass, to the moments
recovered with the records of the pass before.
"""

from dataclasses import replace

import numpy as np
import scipy.optimize

from bayesrecon.anchors import Reference
from bayesrecon.coordinates import metric_factor
from bayesrecon.embedding import Embedding
from bayesrecon.knowledge import Knowledge
from bayesrecon.solve import Fit, find_basis, fit
from bayesrecon.statistics import components, moments
from bayesrecon.types import Records

_PASSES = 8
_ATOMS = 2048
_MOST, _LEAST = 3.0, 1e-9  # information of a plausible record, in units of the whole data's
_FARTHEST = 1e6  # largest move of a field's centre in one pass, in units of its present scale
_SEEN = 0.9  # visibility from which a moment is trusted to move the records


def locate(embedding: Embedding, attacker: Knowledge, rng: np.random.Generator) -> tuple[Reference, int | None]:
    """A reference law centred on the private data, and the kernel's rank, None where it is not finite.

    Finite rank is judged on records spread over many orders of magnitude: over a narrow range every smooth
    kernel looks finite.
    """
    atoms = np.linspace(0, embedding.release.size - 1, min(embedding.release.size, _ATOMS)).astype(int)
    reference = Reference(attacker.fields, attacker.known, accept=lambda z: np.isfinite(embedding.information(z)))
    spectrum = find_basis(embedding, reference, rng)[0]
    rank = spectrum.rank if spectrum.gap else None
    if all(f in attacker.known for f in attacker.fields):
        return reference, rank
    if rank is not None:
        return _follow_moments(embedding, reference, attacker, rng, atoms, rank), rank
    judge = _in_posterior_metric(embedding)
    reference = replace(reference, accept=lambda z: _plausible(judge.information(z)))
    return _follow_measure(embedding, judge, reference, attacker, rng, atoms), None


def _in_posterior_metric(embedding: Embedding) -> Embedding:
    """The embedding whose information has a scale of its own, whatever metric the solve uses."""
    return replace(embedding, metric=metric_factor(embedding.release, "covariance"), progress=None)


def _plausible(information: np.ndarray) -> np.ndarray:
    """Can a record with this information be part of the data?

    The private records' information adds up to about one: no record carries much more, and records that
    carry next to none could only stand there in absurd numbers.
    """
    return (information < _MOST) & (information > _LEAST)


def _follow_moments(
    embedding: Embedding,
    reference: Reference,
    attacker: Knowledge,
    rng: np.random.Generator,
    atoms: np.ndarray,
    rank: int,
) -> Reference:
    """Finite rank: means and variances are exact functions of the embedding wherever the records lie."""
    unknown = [f for f in attacker.fields if f not in attacker.known]
    mean = {f: np.zeros(attacker.fields[f].shape) for f in unknown}
    sd = {f: np.ones(attacker.fields[f].shape) for f in unknown}
    reference = reference.recentred(mean, sd)
    for _ in range(_PASSES):
        found = components(attacker.fields, list(attacker.known), mean, sd)
        library = moments(found)
        solved = fit(embedding, reference, rng, atoms=atoms, label="locating", expected=rank)
        values = library.evaluate(solved.probes)
        projection = solved.project(values)
        totals = dict(zip(library.parts, solved.moments.target @ projection.beta, strict=True))
        seen = dict(
            zip(library.parts, library.visibility(values, projection.fitted, solved.basis.size) >= _SEEN, strict=True)
        )
        if not (seen["1"] and totals["1"] > 0):
            break
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
            moved = max(moved, abs(shift) / max(ratio, 1.0), abs(np.log(ratio)))
        reference = reference.recentred(mean, sd)
        if moved < 0.3:
            break
    return reference


def _follow_measure(
    embedding: Embedding,
    judge: Embedding,
    reference: Reference,
    attacker: Knowledge,
    rng: np.random.Generator,
    atoms: np.ndarray,
) -> Reference:
    """No finite rank: the non-negative measure that matches the target within its noise, on a pool that
    closes in on it."""
    sd: dict[str, np.ndarray] = {}
    for _ in range(_PASSES):
        solved = fit(embedding, reference, rng, finite=False, atoms=atoms, label="locating")
        size = 1 / np.median(judge.information(solved.probes))
        weights = _nonnegative_weights(solved, size)
        if not weights.sum() > 0:
            break
        mean, sd = _weighted_moments(solved.probes, weights, attacker)
        # Wider than the measure itself, or a pool that missed part of the data could never find it.
        wider = {f: 1.5 * s + 1e-3 * np.abs(mean[f]) + 1e-9 for f, s in sd.items()}
        old, reference = reference, reference.recentred(mean, wider)
        if old.centre and all(
            (np.abs(mean[f] - old.centre[f]) < 0.3 * wider[f]).all()
            and (np.abs(np.log(wider[f] / old.scale[f])) < 0.3).all()
            for f in mean
        ):
            break
    return reference.recentred(reference.centre, sd) if sd else reference


def _nonnegative_weights(solved: Fit, size: float) -> np.ndarray:
    """Weights `w >= 0` on the probes that match the target within its noise, `(Q,)`.

    `|Cov^(-1/2) (e' w - target)|^2 + |w / (3 size / Q)|^2`: what noise leaves open is settled by spreading
    the weights, `size` being a guess of the number of records.
    """
    assert solved.ridge is not None
    values, vectors = np.linalg.eigh(solved.ridge)
    root = vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))
    matrix, target = root.T @ solved.cross.T, root.T @ solved.moments.target
    count = matrix.shape[1]
    for _ in range(2):
        ridge = np.eye(count) * count / (3 * max(size, 1.0))
        stacked, wanted = np.concatenate([matrix, ridge]), np.concatenate([target, np.zeros(count)])
        length = np.linalg.norm(stacked, axis=0)
        try:
            weights = scipy.optimize.nnls(stacked / length, wanted, maxiter=20 * count)[0] / length
        except RuntimeError:  # no convergence: least squares without the sign, cut at zero
            weights = np.maximum(np.linalg.lstsq(stacked, wanted, rcond=None)[0], 0)
        size = float(weights.sum())
    return weights


def _weighted_moments(
    records: Records, weights: np.ndarray, attacker: Knowledge
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    share = weights / weights.sum()
    mean, sd = {}, {}
    for f in attacker.fields:
        if f not in attacker.known:
            values = np.asarray(records[f], float)
            mean[f] = np.tensordot(share, values, axes=1)
            sd[f] = np.sqrt(np.tensordot(share, (values - mean[f]) ** 2, axes=1))
    return mean, sd
