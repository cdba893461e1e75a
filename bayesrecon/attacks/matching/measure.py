"""Starts near the measure that the gradients determine, instead of random ones.

Placing n records is a problem with many local minima. Weighting many generic records is a convex one:
`min_w |sum_p w_p grad l(theta, z_p) + grad log pi0|` over non-negative weights with the known sum. Its optimum is close
to the private records if the kernel at theta separates records. In each round, a new pool is drawn around the records
with weight, each time closer (sliding, as in Denoyelle et al. 2020). At last, the measure is converted to records of
equal weight, from which a descent starts.
"""

import numpy as np
import scipy.linalg
import scipy.optimize
from scipy.spatial.distance import cdist

from bayesrecon.attacks.matching.equations import Equations
from bayesrecon.divergence.score import gradients
from bayesrecon.model import Records

# Records in the pool, per unknown, at least and at most. With fewer, private records have no neighbour. With more, many
# measures solve the equations.
_PER_UNKNOWN, _FEWEST, _MOST = 15, 400, 2000
_ENTRIES = 16  # records with more free entries get random starts: in many dimensions no pool is near the private ones
_WORK = 4e10  # largest number of products for the QR decomposition of a pool's gradients
_ROUNDS = 8  # largest number of rounds
_SPREAD, _SHRINKS = 0.5, 0.6  # first spread of a new pool, in units of the fields' own, and its factor per round
_SOLVED = 1e-10  # residual at which the rounds end
_NOTHING = 1e-6  # relative weight below which a record has none
_SEEN = 1e-6  # smallest relative singular value of an equation that a descent resolves by several digits
_SUM = 10.0  # weight of the equation of the known sum, relative to the largest entry
_TOKENS, _ALL_TOKENS = 20, 1000  # tokens per record, and in total; with fewer, weights are rounded
_DEALS, _LLOYD = 4, 15  # restarts of the clustering, and steps of each


def pool_size(equations: Equations, n: int) -> int:
    """Number of records in the pool.

    It is zero if the sum of the weights is unknown, a record has too many free entries or none, or the model has too
    many parameters.
    """
    entries = sum(int(np.prod(equations.knowledge.fields[k].shape)) for k in equations.variable_fields)
    if not 0 < entries <= _ENTRIES or not (equations.unit_multipliers or equations.knowledge.total):
        return 0
    size = int(min(_MOST, max(_FEWEST, _PER_UNKNOWN * n * entries), (_WORK / len(equations.base)) ** 0.5))
    return size if size >= _FEWEST else 0


def independent_equations(equations: Equations, rng: np.random.Generator, n: int) -> int:
    """Number of independent equations on the records of a pool; zero without a pool.

    Starts near a measure may all find the same one of several solutions. With more equations than unknowns, almost no
    data set has a second solution. With equally many, several solutions are the rule.
    """
    if not (size := pool_size(equations, n)):
        return 0
    records = equations.records(*equations.start(rng, size))
    columns = equations.in_metric(np.asarray(gradients(equations.model, equations.theta, records)).T)
    singular = scipy.linalg.svdvals(columns)
    return int((singular > _SEEN * singular[0]).sum())


def start(equations: Equations, rng: np.random.Generator, n: int, displacement: float = 0.0) -> tuple[Records, Records]:
    """Variables of n records near the measure that the gradients determine, and the fixed fields.

    Args:
        displacement: standard deviation of random displacements, in units of the fields' spread.
    """
    total = float(equations.knowledge.total or n)
    variables, fixed = equations.start(rng, pool_size(equations, n))
    pool = {k: variables[k] for k in equations.variable_fields}
    spread, scale = _SPREAD, equations.spread(variables)
    turn = 0
    while True:
        weights, strength, residual = weigh(equations, pool, fixed, total)
        heavy = np.flatnonzero(weights > _NOTHING * total / n)
        if residual < _SOLVED or turn == _ROUNDS - 1 or not len(heavy):
            break
        neighbours = np.concatenate([heavy, rng.choice(heavy, max(0, len(weights) - len(heavy)))])
        fixed = {k: v[neighbours] for k, v in fixed.items()}
        for k, v in pool.items():
            places_near, domain = v[neighbours], equations.knowledge.fields[k].domain
            places_near[len(heavy) :] += spread * scale[k] * rng.normal(size=places_near[len(heavy) :].shape)
            pool[k] = np.clip(places_near, domain.low, domain.high)
        spread *= _SHRINKS
        turn += 1
    points = np.concatenate([pool[k].reshape(len(weights), -1) / scale[k] for k in pool], axis=1)
    labels = [np.asarray(v).reshape(len(weights), -1) for v in fixed.values()] or [np.zeros((len(weights), 1))]
    rows, places = as_records(rng, points, np.concatenate(labels, axis=1), weights, n)
    x: Records = {}
    position = 0
    for k, v in pool.items():
        size = int(np.prod(v.shape[1:]))
        places_near = places[:, position : position + size] + displacement * rng.normal(size=(n, size))
        domain = equations.knowledge.fields[k].domain
        x[k] = np.clip(places_near.reshape(n, *v.shape[1:]) * scale[k], domain.low, domain.high)
        position += size
    if not equations.unit_multipliers:
        x["weights"] = np.full(n, total / n)
    if not equations.strength_known:
        x["strength"] = np.asarray(strength)
    return x, {k: v[rows] for k, v in fixed.items()}


def weigh(equations: Equations, pool: Records, fixed: Records, total: float) -> tuple[np.ndarray, float, float]:
    """Non-negative weights with the given sum whose gradients cancel best.

    Returns:
        The weights `(P,)`, the strength of the regulariser, and the residual. That of an empty pool is infinite,
        because no weights have the sum.
    """
    records = equations.records(pool, fixed)
    columns = equations.in_metric(np.asarray(gradients(equations.model, equations.theta, records)).T)
    if not columns.shape[1]:
        return np.zeros(0), 1.0, np.inf
    base = equations.in_metric(equations.base)[:, None]
    system = np.hstack([columns, base])
    if len(system) > system.shape[1]:
        system = np.asarray(np.linalg.qr(system, mode="r"))
    sums = np.full((1, system.shape[1]), _SUM * np.abs(system).max())
    sums[0, -1] = 0.0
    if equations.strength_known:
        matrix, target = np.vstack([system[:, :-1], sums[:, :-1]]), np.append(-system[:, -1], sums[0, 0] * total)
    else:
        matrix, target = np.vstack([system, sums]), np.append(np.zeros(len(system)), sums[0, 0] * total)
    solution, residual = scipy.optimize.nnls(matrix, target, maxiter=20 * len(target) + 20 * system.shape[1])
    strength = 1.0 if equations.strength_known else float(solution[-1])
    return solution[: columns.shape[1]], strength, float(residual)


def as_records(
    rng: np.random.Generator, places: np.ndarray, labels: np.ndarray, weights: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Convert a measure to n records of equal weight.

    Numbers of records per label are rounded by largest remainders. Places are centres of k-means clusters of equal
    size.

    Returns:
        For each record, a row with its label `(n,)`, and its place `(n, D)`.
    """
    _, first, group = np.unique(labels, axis=0, return_index=True, return_inverse=True)
    weight = np.bincount(group.ravel(), weights, len(first))
    share = weight * n / weight.sum() if weight.sum() > 0 else np.full(len(first), n / len(first))
    counts = np.floor(share).astype(int)
    counts[np.argsort(counts - share)[: n - counts.sum()]] += 1
    rows, centres = [], []
    for label in np.flatnonzero(counts):
        members = group.ravel() == label
        rows.append(np.full(counts[label], first[label]))
        centres.append(_clusters(rng, places[members], weights[members], counts[label]))
    return np.concatenate(rows), np.concatenate(centres)


def _clusters(rng: np.random.Generator, places: np.ndarray, weights: np.ndarray, count: int) -> np.ndarray:
    """Centres of `count` clusters of equal weight."""
    per_cluster = int(np.clip(_ALL_TOKENS // count, 2, _TOKENS))
    probability = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))
    quantiles = (np.arange(per_cluster * count) + rng.uniform()) / (per_cluster * count)
    tokens = places[np.searchsorted(np.cumsum(probability), quantiles).clip(max=len(places) - 1)]
    best, lowest = tokens[:count], np.inf
    for _ in range(_DEALS):
        centres = _first_centres(rng, tokens, count)
        cost = np.inf
        for _ in range(_LLOYD):
            distances = np.repeat(cdist(tokens, centres, "sqeuclidean"), per_cluster, axis=1)
            rows, columns = scipy.optimize.linear_sum_assignment(distances)
            previous, cost = cost, float(distances[rows, columns].sum())
            if not cost < previous:
                break
            order = rows[np.argsort(columns)].reshape(count, per_cluster)
            centres = tokens[order].mean(axis=1)
        if cost < lowest:
            best, lowest = centres, cost
    return best


def _first_centres(rng: np.random.Generator, tokens: np.ndarray, count: int) -> np.ndarray:
    """First centres, each far from the previous ones (k-means++, Arthur and Vassilvitskii 2007)."""
    centres = tokens[[rng.integers(len(tokens))]]
    while len(centres) < count:
        squared = cdist(tokens, centres, "sqeuclidean").min(axis=1)
        probability = squared / squared.sum() if squared.sum() > 0 else None
        centres = np.vstack([centres, tokens[rng.choice(len(tokens), p=probability)]])
    return centres
