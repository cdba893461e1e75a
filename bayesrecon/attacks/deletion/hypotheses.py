"""What happened between two sets of posterior draws: the premise that one candidate was deleted, and its rivals.

The log ratio of the two posteriors is the log likelihood of the records that were removed, minus that of the records
that were added, plus a constant (`tilt`). Each hypothesis is a set of such tilts, with z any other record:

    premise      l(x_i)                     one candidate was deleted
    absent       l(z)                       a record was deleted that is none of the candidates
    two          l(x_i) + l(x_j)            two candidates were deleted
    replaced     l(x_i) - l(z)              a candidate was replaced by another record
    added        -l(z)                      a record was added
    exchanged    -l(x_i)                    before and after are exchanged: a candidate was added
    none         0                          nothing was deleted

The evidence of a hypothesis is the mean likelihood of its tilts, its Bayes factor the ratio to that of the premise. The
records z have the recovered law of the private records, with responses that the posterior predicts. To second order in
the tilt, the likelihood of draws with the side s, weights w and the share pi of those before is

    L(f) = a'f - f'B f / 2,    a = sum w (s - pi) f,    B = pi (1 - pi) W Cov(f),

and so all pairs of records are evaluated from one factor of B. The likeliest tilts are evaluated exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from bayesrecon.attacks.deletion.tilt import pooled, profile
from bayesrecon.divergence.score import log_liks
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.predictive import responses
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.model import Model, Records
from bayesrecon.pairs import Deletion
from bayesrecon.results.row import Row

PREMISE, ABSENT, TWO, REPLACED, ADDED, EXCHANGED, NONE = (
    "premise", "absent", "two", "replaced", "added", "exchanged", "none",
)  # fmt: skip

_OTHERS, _PAIRED = 4096, 512  # records z, and how many of them replace candidates
_VALUES = 2**23  # log likelihoods held at once
_SAMPLE = 96  # tilts that span the others
_EXACT = 32  # tilts of a hypothesis that are evaluated exactly
_RANK = 1e-9  # variances of tilts below this share of the largest are rounding
_FEW = 5.0  # effective number of records z behind an evidence, below which it is uncertain
_AT_ONCE = 2**20  # pairs of records at a time
_CLOSE = 5.0  # difference of log evidences, up to which a hypothesis is not ruled out
_MOST_PAIRS = 1000  # candidates of which all pairs are evaluated


@dataclass(frozen=True, eq=False)
class Weighed:
    """The hypotheses, weighed.

    Attributes:
        log_likelihood: `(N,)`, of every candidate under the premise.
        probability: `(N,)`, probability that the candidate was deleted, under any hypothesis.
        hypotheses: `{name: posterior probability}`.
        bayes_factors: `{name: logarithm of the evidence relative to the premise}`.
        deleted: the change of n.
        effective: effective number of draws.
        warnings: one line each.
    """

    log_likelihood: Float[np.ndarray, " N"]
    probability: Float[np.ndarray, " N"]
    hypotheses: dict[str, float]
    bayes_factors: dict[str, float]
    deleted: tuple[Row, ...]
    effective: float
    warnings: tuple[str, ...]


def weighed(pair: Deletion, candidates: Records, premise: float) -> Weighed:
    """Weigh the hypotheses about a pair of sets of draws.

    Args:
        candidates: `{field: (N, *shape)}`.
        premise: prior probability of the premise. The other hypotheses share the rest.
    """
    theta, side, weights = pooled(pair)
    size, count = len(theta), len(next(iter(candidates.values())))
    others, warnings = _others(pair, candidates, max(1, min(_OTHERS, _VALUES // size)))
    values = np.concatenate([_log_liks(pair.before.model, theta, table) for table in (candidates, others)], axis=1)
    tilts = _Tilts(values, side, weights)
    i, z = np.arange(count), np.arange(count, values.shape[1])
    pairs = np.triu_indices(min(count, _MOST_PAIRS), 1)
    sets = {
        PREMISE: ((i, 1.0),),
        ABSENT: ((z, 1.0),),
        TWO: ((pairs[0], 1.0), (pairs[1], 1.0)),
        REPLACED: ((np.repeat(i, len(z[:_PAIRED])), 1.0), (np.tile(z[:_PAIRED], count), -1.0)),
        ADDED: ((z, -1.0),),
        EXCHANGED: ((i, -1.0),),
    }
    logs = {
        name: tilts.likelihoods(parts, count if name == PREMISE else _EXACT)
        for name, parts in sets.items()
        if len(parts[0][0])
    }
    evidence = {name: float(np.logaddexp.reduce(v) - np.log(len(v))) for name, v in logs.items()} | {NONE: 0.0}
    shares = {name: np.exp(v - np.logaddexp.reduce(v)) for name, v in logs.items()}
    best = max(evidence.values())
    if any(evidence[k] > best - _CLOSE and 1 / (shares[k] ** 2).sum() < _FEW for k in (ABSENT, ADDED, REPLACED)):
        warnings.append(
            "few of the records that were simulated explain the change: how probable it is that a record other than "
            "the candidates was deleted or added is uncertain"
        )
    if count > _MOST_PAIRS:
        warnings.append(f"pairs of deleted candidates are weighed among the first {_MOST_PAIRS:,} only")
    prior = {name: premise if name == PREMISE else (1 - premise) / (len(evidence) - 1) for name in evidence}
    with np.errstate(divide="ignore"):
        joint = {name: float(np.log(prior[name])) + value for name, value in evidence.items()}
    total = float(np.logaddexp.reduce(list(joint.values())))
    posterior = {name: float(np.exp(value - total)) for name, value in joint.items()}
    probability = posterior[PREMISE] * shares[PREMISE]
    probability = probability + posterior[REPLACED] * shares[REPLACED].reshape(count, -1).sum(axis=1)
    if TWO in shares:
        for members in pairs:
            probability += posterior[TWO] * np.bincount(members, shares[TWO], minlength=count)
    factors = {name: evidence[name] - evidence[PREMISE] for name in posterior}
    row = tilts.change_of_n()
    return Weighed(logs[PREMISE], probability, posterior, factors, (row,), float(weights.sum()), tuple(warnings))


class _Tilts:
    """Log likelihoods of combinations of tilts, from the log likelihoods `values (T, M)` of records."""

    def __init__(self, values: np.ndarray, side: np.ndarray, weights: np.ndarray):
        self._values, self._side, self._weights = values, side, weights
        total = weights.sum()
        self._share = float((weights * side).sum() / total)
        self._offset = np.log(self._share / (1 - self._share))
        scale = self._share * (1 - self._share)
        root = np.sqrt(weights * scale)[:, None]
        centred = root * (values - weights @ values / total)
        # An orthonormal basis of the tilts from a sample of them: they have few degrees of freedom.
        sample = centred[:, :: -(-centred.shape[1] // _SAMPLE)]
        size, vectors = np.linalg.eigh(sample.T @ sample)
        kept = size > _RANK * size[-1]
        basis = sample @ (vectors[:, kept] / np.sqrt(size[kept]))
        self._factor = basis.T @ centred  # B = F'F
        self._gain = basis.T @ ((side - self._share) * np.sqrt(weights / scale))
        self._single, self._own = self._gain @ self._factor, (self._factor**2).sum(axis=0)
        self._without = float((weights * side).sum() * np.log(self._share))
        self._without += float((weights * (1 - side)).sum() * np.log(1 - self._share))

    def likelihoods(self, parts: Sequence[tuple[np.ndarray, float]], exact: int) -> np.ndarray:
        """Of sums of tilts, each with its sign, `(k,)`; those of the `exact` likeliest ones without approximation."""
        each = [sign * self._single[records] - 0.5 * self._own[records] for records, sign in parts]
        result = np.sum(each, axis=0)
        if len(parts) == 2:
            (first, one), (second, two) = parts
            for start in range(0, len(first), _AT_ONCE):
                rows = slice(start, start + _AT_ONCE)
                between = np.einsum("rk,rk->k", self._factor[:, first[rows]], self._factor[:, second[rows]])
                result[rows] -= one * two * between
        best = np.argsort(-result)[:exact]
        tilt = np.sum([sign * self._values[:, records[best]] for records, sign in parts], axis=0)
        padded = np.zeros((len(tilt), -(-len(best) // _EXACT) * _EXACT))
        padded[:, : len(best)] = tilt
        found = [
            np.asarray(profile(padded[:, k : k + _EXACT] + self._offset, self._side, self._weights)[0])
            for k in range(0, padded.shape[1], _EXACT)
        ]
        refined = np.concatenate(found)[: len(best)] - self._without
        result += np.median(refined - result[best])
        result[best] = refined
        return result

    def change_of_n(self) -> Row:
        """The number of deleted records: the function of tilts that is one for every record."""
        along = np.linalg.lstsq(self._factor.T, np.ones(self._factor.shape[1]), rcond=1e-6)[0]
        visibility = float(np.clip(1 - np.mean((along @ self._factor - 1) ** 2), 0, 1))
        if visibility < 0.99:
            return Row("n", visibility=visibility)
        estimate, se = float(along @ self._gain), float(np.linalg.norm(along))
        low, high = estimate - 1.96 * se, estimate + 1.96 * se
        return Row("n", estimate, se, low, high, None, visibility, "determined")


def _log_liks(model: Model, theta: np.ndarray, table: Records) -> np.ndarray:
    values = np.asarray(log_liks(model, theta, table))
    if np.isfinite(values).all():
        return values
    return np.where(np.isfinite(values), values, np.nanmin(np.where(np.isfinite(values), values, np.nan)))


def _others(pair: Deletion, candidates: Records, count: int) -> tuple[Records, list[str]]:
    """Records with the law of the private ones, as far as the release before determines it."""
    rng = np.random.default_rng(0)
    try:
        problem = solve_release(pair.before, key=0)
        records = problem.reference.draw(problem.rng, count)
        predict = responses(problem.release, ())
        return (records if predict is None else predict(rng, records)), []
    except BayesreconError:
        size = len(next(iter(candidates.values())))
        rows = {k: v[rng.integers(size, size=count)] for k, v in candidates.items()}
        return rows, [
            "other records are drawn field by field from the candidates, since the draws do not show their law"
        ]
