"""Starts from the measure that the gradients determine, instead of random ones.

Placing n records is a problem with many local minima. Weighing many generic records, `min_w |sum_p w_p grad l(theta,
z_p) + grad log pi0|` over non-negative weights of the known sum, is a convex one, and its optimum lies close to
the private records where the kernel at theta tells records apart. The pool is drawn anew around the records with weight
some rounds long, each time closer (sliding, as in Denoyelle et al. 2020), and the measure is dealt out as records of
equal weight. A descent does the rest.
"""

import numpy as np
import scipy.linalg
import scipy.optimize
from scipy.spatial.distance import cdist

from bayesrecon.attacks.matching.equations import Equations
from bayesrecon.kernels.score import gradients
from bayesrecon.model import Records

# Records in the pool: fewer per unknown leave private records without a neighbour, more cost time and solve the
# equations by themselves in many ways.
_PER_UNKNOWN, _FEWEST, _MOST = 15, 400, 2000
# Entries of a record that are placed: in more dimensions no pool is near the private records, and starts cost several
# times as much for the same ends.
_ENTRIES = 16
_WORK = 4e10  # products for which the gradients of a pool may be compressed
_ROUNDS = 8
# Spread of the records around those with weight, in units of the fields' own, and how it shrinks.
_SPREAD, _SHRINKS = 0.5, 0.6
_SOLVED = 1e-10  # what is left when more rounds cannot tell measures apart
_NOTHING = 1e-6  # weight of a record that is none
_SEEN = 1e-6  # singular value, relative to the largest, of an equation that a descent resolves by several digits
_SUM = 10.0  # rows of the known sum, in units of the largest entry: a smaller one lets weights stray from it
# Records are dealt as tokens, so many each and so many in all: fewer round the weights, more cost time.
_TOKENS, _ALL_TOKENS = 20, 1000
_DEALS, _LLOYD = 4, 15


def pool_size(equations: Equations, n: int) -> int:
    """Records in the pool of a start; none without a known sum, or where a record has too many entries or none, or the
    model too many parameters."""
    entries = sum(int(np.prod(equations.knowledge.fields[k].shape)) for k in equations.variable_fields)
    if not 0 < entries <= _ENTRIES or not (equations.unit_multipliers or equations.knowledge.total):
        return 0
    size = int(min(_MOST, max(_FEWEST, _PER_UNKNOWN * n * entries), (_WORK / len(equations.base)) ** 0.5))
    return size if size >= _FEWEST else 0


def independent_equations(equations: Equations, rng: np.random.Generator, n: int) -> int:
    """How many independent equations generic records see, as far as a pool tells; none without a pool.

    Starts from a measure may all go to one of several solutions. Where there are more equations than unknowns, almost
    no data set has a second one that solves them; where there are as many, several solutions are the rule.
    """
    if not (size := pool_size(equations, n)):
        return 0
    records = equations.records(*equations.start(rng, size))
    columns = equations.in_metric(np.asarray(gradients(equations.model, equations.theta, records)).T)
    singular = scipy.linalg.svdvals(columns)
    return int((singular > _SEEN * singular[0]).sum())


def start(equations: Equations, rng: np.random.Generator, n: int, moved: float = 0.0) -> tuple[Records, Records]:
    """n records close to the measure that the gradients determine, and the fields that stay.

    Args:
        moved: how far records are moved from it at random, in units of their fields' spread.
    """
    total = float(equations.knowledge.total or n)
    moving, fixed = equations.start(rng, pool_size(equations, n))
    pool = {k: moving[k] for k in equations.variable_fields}
    spread, scale = _SPREAD, equations.spread(moving)
    for turn in range(_ROUNDS):
        weights, strength, residual = weigh(equations, pool, fixed, total)
        kept = np.flatnonzero(weights > _NOTHING * total / n)
        if residual < _SOLVED or turn == _ROUNDS - 1 or not len(kept):
            break
        around = np.concatenate([kept, rng.choice(kept, max(0, len(weights) - len(kept)))])
        fixed = {k: v[around] for k, v in fixed.items()}
        for k, v in pool.items():
            near, domain = v[around], equations.knowledge.fields[k].domain
            near[len(kept) :] += spread * scale[k] * rng.normal(size=near[len(kept) :].shape)
            pool[k] = np.clip(near, domain.low, domain.high)
        spread *= _SHRINKS
    flat = np.concatenate([pool[k].reshape(len(weights), -1) / scale[k] for k in pool], axis=1)
    labels = [np.asarray(v).reshape(len(weights), -1) for v in fixed.values()] or [np.zeros((len(weights), 1))]
    chosen, places = deal(rng, flat, np.concatenate(labels, axis=1), weights, n)
    x: Records = {}
    at = 0
    for k, v in pool.items():
        size = int(np.prod(v.shape[1:]))
        near = places[:, at : at + size] + moved * rng.normal(size=(n, size))
        domain = equations.knowledge.fields[k].domain
        x[k] = np.clip(near.reshape(n, *v.shape[1:]) * scale[k], domain.low, domain.high)
        at += size
    if not equations.unit_multipliers:
        x["weights"] = np.full(n, total / n)
    if not equations.strength_known:
        x["strength"] = np.asarray(strength)
    return x, {k: v[chosen] for k, v in fixed.items()}


def weigh(equations: Equations, pool: Records, fixed: Records, total: float) -> tuple[np.ndarray, float, float]:
    """Non-negative weights `(P,)` of the given sum whose gradients cancel best, the regulariser's strength, and what
    they leave."""
    records = equations.records(pool, fixed)
    columns = equations.in_metric(np.asarray(gradients(equations.model, equations.theta, records)).T)
    base = equations.in_metric(equations.base)[:, None]
    both = np.hstack([columns, base])
    if len(both) > both.shape[1]:
        both = np.asarray(np.linalg.qr(both, mode="r"))
    sums = np.full((1, both.shape[1]), _SUM * np.abs(both).max())
    sums[0, -1] = 0.0
    if equations.strength_known:
        matrix, wanted = np.vstack([both[:, :-1], sums[:, :-1]]), np.append(-both[:, -1], sums[0, 0] * total)
    else:
        matrix, wanted = np.vstack([both, sums]), np.append(np.zeros(len(both)), sums[0, 0] * total)
    found, residual = scipy.optimize.nnls(matrix, wanted, maxiter=20 * len(wanted) + 20 * both.shape[1])
    strength = 1.0 if equations.strength_known else float(found[-1])
    return found[: columns.shape[1]], strength, float(residual)


def deal(
    rng: np.random.Generator, places: np.ndarray, labels: np.ndarray, weights: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Turn a measure into n records of equal weight: shares of each label by the largest remainder, places by k-means
    with clusters of one size.

    Returns:
        a row of each record's label `(n,)`, and its place `(n, D)`.
    """
    _, first, which = np.unique(labels, axis=0, return_index=True, return_inverse=True)
    mass = np.bincount(which.ravel(), weights, len(first))
    share = mass * n / mass.sum() if mass.sum() > 0 else np.full(len(first), n / len(first))
    counts = np.floor(share).astype(int)
    counts[np.argsort(counts - share)[: n - counts.sum()]] += 1
    rows, found = [], []
    for label in np.flatnonzero(counts):
        own = which.ravel() == label
        rows.append(np.full(counts[label], first[label]))
        found.append(_clusters(rng, places[own], weights[own], counts[label]))
    return np.concatenate(rows), np.concatenate(found)


def _clusters(rng: np.random.Generator, places: np.ndarray, weights: np.ndarray, count: int) -> np.ndarray:
    """Centres of `count` clusters of the same weight."""
    each = int(np.clip(_ALL_TOKENS // count, 2, _TOKENS))
    chance = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))
    steps = (np.arange(each * count) + rng.uniform()) / (each * count)
    tokens = places[np.searchsorted(np.cumsum(chance), steps).clip(max=len(places) - 1)]
    best, least = tokens[:count], np.inf
    for _ in range(_DEALS):
        centres = _apart(rng, tokens, count)
        cost = np.inf
        for _ in range(_LLOYD):
            far = np.repeat(cdist(tokens, centres, "sqeuclidean"), each, axis=1)
            rows, columns = scipy.optimize.linear_sum_assignment(far)
            before, cost = cost, float(far[rows, columns].sum())
            if not cost < before:
                break
            order = rows[np.argsort(columns)].reshape(count, each)
            centres = tokens[order].mean(axis=1)
        if cost < least:
            best, least = centres, cost
    return best


def _apart(rng: np.random.Generator, tokens: np.ndarray, count: int) -> np.ndarray:
    """Centres to begin with, each far from those before it (k-means++, Arthur and Vassilvitskii 2007)."""
    centres = tokens[[rng.integers(len(tokens))]]
    while len(centres) < count:
        near = cdist(tokens, centres, "sqeuclidean").min(axis=1)
        chance = near / near.sum() if near.sum() > 0 else None
        centres = np.vstack([centres, tokens[rng.choice(len(tokens), p=chance)]])
    return centres
