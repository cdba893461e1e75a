"""The distribution of the tilts of a posterior: how data are randomly altered, what that costs, and what it hides.

Posteriors of other data form an exponential family around the released posterior pi,

    log pi_w = sum_m w_m l(., z_m) + log pi0.

Add a signed measure `sum_m w_m delta_{z_m}` to the data. Their posterior is then proportional to `pi exp(g)` with the
tilt `g = sum_m w_m l(., z_m)`. To second order its divergence from pi is `Var(g) / 2` nats. With the value kernel V,

    V(z, z') = Cov(l(theta, z), l(theta, z')),    Var(g) = w' V w.

In the whitened directions of V the tilts are independent and normal, `Delta_i ~ N(0, c_i)`, with

    1 / c_i = 1 / k^2 + 1 / s_i^2.

* k^2 is the variance of an unbiased attacker who has `1 / k^2` independent draws, since one draw has a Fisher
  information of one in every direction.
* s_i^2 are the eigenvalues of V over R records of the predictive distribution: the scatter of R ordinary records. It
  caps c_i. Without a cap, infinitely many directions would cost infinitely much.
* R is N, the number of private records, or a multiple of N if the theory still holds (`supported`). The larger R, the
  closer a statistic is to what `1 / k^2` draws reveal.

Let Z be M records of the predictive distribution, `R / M V(Z, Z) = U diag(s_i^2) U'`, and eta standard normal. Then the
measure

    w = (R / M)^(1/2) U diag(1 + s_i^2 / k^2)^(-1/2) U' eta

has exactly this distribution at all ranks. No direction has to be truncated.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.score import log_liks
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.predictive import responses
from bayesrecon.estimation.problem import Problem
from bayesrecon.model import Model, PseudoData, Records
from bayesrecon.results.row import Row
from bayesrecon.running.draws_on_disk import Stored, as_rows

_RECORDS = 1024  # M: many times the number of directions that a few thousand draws resolve
_DRAWS = 4096  # largest number of draws for variances, which then have an error of two per cent
_AT_ONCE = 2**22  # log likelihoods per block
_RESPONSES = 32  # predicted responses per record: enough for the covariance to 25 % and the bits to 10 %
_SMALLEST, _SMALLEST_CARRIED = 1e-12, 1e-9  # eigenvalues below this share of the largest are rounding

Predict = Callable[[np.random.Generator, Records], Records]


@dataclass(frozen=True, eq=False)
class TiltDistribution:
    """The distribution of the tilts of one posterior.

    Attributes:
        k: size of the tilts: they hide as much as `1 / k^2` independent draws leave open.
        records: M records of the predictive distribution, `{field: (M, *shape)}`.
        multiple: `(R / M)^(1/2)`.
        theta: `(T, d)` draws from which variances are computed.
        values: `(T, M)` log likelihoods of the records at these draws, minus their means.
        scatters: `(M,)` s_i^2, the scatter of R ordinary records, smallest first.
        vectors: `(M, M)`, U.
    """

    model: Model
    k: float
    records: Records
    multiple: float
    theta: np.ndarray
    values: np.ndarray
    scatters: np.ndarray
    vectors: np.ndarray

    def with_size(self, k: float) -> "TiltDistribution":
        """The distribution with another size k of the tilts and the same records."""
        return replace(self, k=k)

    def with_cap(self, times: float) -> "TiltDistribution":
        """The distribution whose cap is the scatter of `times` as many ordinary records."""
        return replace(self, multiple=self.multiple * times**0.5, scatters=self.scatters * times)

    @cached_property
    def variances(self) -> np.ndarray:
        """`(M,)` c_i, the variance of the tilt in each direction."""
        return self.scatters / (1 + self.scatters / self.k**2)

    @property
    def effective_rank(self) -> float:
        """`sum_i s_i^2 / (s_i^2 + k^2)`, the number of directions with tilts of size k."""
        return float(self.variances.sum() / self.k**2)

    @property
    def cost(self) -> float:
        """Average divergence of the tilted posterior in nats, to second order: `k^2 / 2` times the effective rank."""
        return float(self.variances.sum() / 2)

    def weights(self, normals: np.ndarray) -> np.ndarray:
        """Weights of the records for S tilts, `(M, S)`, from standard normal numbers `(M, S)`."""
        root = self.multiple / np.sqrt(1 + self.scatters / self.k**2)
        return self.vectors @ (root[:, None] * (self.vectors.T @ normals))

    def drawn(self, rng: np.random.Generator) -> PseudoData:
        """One random tilt: the measure that is added to the data."""
        return PseudoData(self.weights(rng.normal(size=(len(self.scatters), 1)))[:, 0], self.records)

    def scatter(self, functions: np.ndarray) -> np.ndarray:
        """Standard deviations `(S,)`, over tilts, of totals `sum_m w_m f(z_m)` of functions `(M, S)` at the records."""
        root = self.multiple / np.sqrt(1 + self.scatters / self.k**2)
        return np.linalg.norm(root[:, None] * (self.vectors.T @ functions), axis=0)

    def shift(self, records: Records, draws: float, units: np.ndarray | None = None) -> np.ndarray:
        """How far single records shift a release, in standard deviations of the noise that hides them, `(R,)`.

        The attacker knows all other records and asks whether one more record x is among the data. In the i-th whitened
        direction f_i, x shifts the release by `a_i = Cov(l(., x), f_i)`. The noise is that of the tilt, with variance
        c_i, and that of T independent draws:

            mu^2 = sum_i a_i^2 / (c_i + 1 / T) + T v,

        where v is the part of `Var l(., x)` outside these directions, which no tilt hides. For many draws mu is at
        least `sd(l(theta, x)) / k`.

        Args:
            draws: T.
            units: `(R,)` unit of each record, numbered from 0 to U - 1. If given, all records of a unit are taken
                together, and the result is `(U,)`.
        """
        features, variances = self._directions(_SMALLEST)
        noise, shifts = variances + 1 / draws, []
        for block, starts in unit_blocks(records, len(self.theta), units):
            values = _centred(self.model, self.theta, block)
            values = values if units is None else np.add.reduceat(values, starts, axis=1)
            signals = features.T @ values / len(values)
            outside = np.maximum((values**2).mean(axis=0) - (signals**2).sum(axis=0), 0.0)
            shifts.append(np.sqrt((signals**2 / noise[:, None]).sum(axis=0) + draws * outside))
        return np.concatenate(shifts)

    def bits(
        self, records: Records, predict: Predict, draws: float, original_draws: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Upper limits on the bits of each record's response in T tilted draws and in the original ones, each `(R,)`.

        The attacker knows all other records, and all fields of this record except its response y, which has the
        posterior predictive distribution. Of `l(., (x, y))`, the attacker sees what `shift` says. Let S be the
        covariance of this signal and C that of the noise. No signal of covariance S carries more bits than a normal
        one, so `log2 det(1 + S^(1/2) C^-1 S^(1/2)) / 2` is an upper limit, as far as the noise is normal.

        Args:
            draws: T.
            original_draws: effective number of original draws.
        """
        rng = np.random.default_rng(0)
        features, variances = self._directions(_SMALLEST_CARRIED)
        tilted, original = variances + 1 / draws, np.full(len(variances), 1 / original_draws)
        rows = []
        for i in range(len(next(iter(records.values())))):
            copies = {k: np.repeat(np.asarray(v)[i : i + 1], _RESPONSES, axis=0) for k, v in records.items()}
            values = _centred(self.model, self.theta, predict(rng, copies))
            # The expected value carries no information about the response.
            values = values - values.mean(axis=1, keepdims=True)
            signals = features.T @ values / len(values)
            outside = values.T @ values / len(values) - signals.T @ signals
            noises = (tilted, draws), (original, original_draws)
            rows.append([_carried(signals, outside, noise, size) for noise, size in noises])
        bits = np.array(rows).reshape(-1, 2)
        return bits[:, 0], bits[:, 1]

    def _directions(self, smallest: float) -> tuple[np.ndarray, np.ndarray]:
        """The whitened directions f_i `(T, p)` of at least this share of the largest scatter, and their c_i `(p,)`."""
        nonzero = self.scatters > smallest * self.scatters[-1]
        features = self.multiple * (self.values @ self.vectors[:, nonzero]) / np.sqrt(self.scatters[nonzero])
        return features, self.variances[nonzero]


def _carried(signals: np.ndarray, outside: np.ndarray, noise: np.ndarray, draws: float) -> float:
    """Bits about one record's response, from the signals `(p, J)` of its J possible values in the whitened directions,
    and the covariance `(J, J)` of the signals outside them."""
    gram = signals.T @ (signals / noise[:, None]) + draws * outside
    return float(0.5 * np.log2(1 + np.maximum(np.linalg.eigvalsh(gram), 0.0) / signals.shape[1]).sum())


def count_of(rows: Sequence[Row]) -> float | None:
    """N, the number of records, if the draws determine it."""
    return next((r.estimate for r in rows if r.name == "n" and r.estimate and r.verdict != "undetermined"), None)


def tilt_distribution(problem: Problem, k: float, rng: np.random.Generator, count: float) -> TiltDistribution:
    """The distribution of the tilts of a solved release.

    Args:
        k: size of the tilts: they hide as much as `1 / k^2` independent draws leave open.
        rng: random numbers for the records of the predictive distribution.
        count: N, the number of private records.

    Raises:
        BayesreconError: most predicted records have no finite likelihood at the draws, or there are too many
            coordinates for the number of directions.
    """
    release = problem.release
    if 4 * release.theta.shape[1] > _RECORDS:
        raise BayesreconError(
            f"{release.name} has {release.theta.shape[1]} coordinates, and tilts are supported up to {_RECORDS // 4}; "
            "publish fewer of its parameters"
        )
    rows = as_rows(release.theta)
    theta = np.asarray(rows[evenly(len(rows), _DRAWS)])
    records = _predicted(problem, rng)
    values = _centred(release.model, theta, records)
    finite = np.isfinite(values).all(axis=0)
    if finite.mean() < 0.5:
        raise BayesreconError(f"{release.name}: most records that it predicts have no finite likelihood at its draws")
    records, values = {name: v[finite] for name, v in records.items()}, values[:, finite]
    multiple = float(np.sqrt(count / values.shape[1]))
    scatters, vectors = np.linalg.eigh(multiple**2 * (values.T @ values) / len(values))
    return TiltDistribution(release.model, k, records, multiple, theta, values, np.maximum(scatters, 0.0), vectors)


def tilt_at(model: Model, theta: Array | Stored, tilt: PseudoData) -> np.ndarray:
    """The tilt `g = sum_m w_m l(., z_m)` at draws `(T, d)`, `(T,)`."""
    rows, blocks = as_rows(theta), []
    step = max(1, _AT_ONCE // len(tilt.weights))
    for start in range(0, len(rows), step):
        positions = np.minimum(np.arange(start, start + step), len(rows) - 1)  # equal shapes, so that JAX compiles once
        values = np.asarray(log_liks(model, np.asarray(rows[positions]), tilt.records)) @ np.asarray(tilt.weights)
        blocks.append(values[: len(rows) - start])
    return np.concatenate(blocks)


def divergences(tilts: np.ndarray) -> np.ndarray:
    """`KL(tilted || posterior)` in nats for S tilts, each averaged with the opposite tilt, `(S,)`.

    Args:
        tilts: `(T, S)` values of the tilts at the draws.
    """
    values = []
    for g in (tilts, -tilts):
        largest = g.max(axis=0)
        density = np.exp(g - largest)
        values.append((density * g).sum(axis=0) / density.sum(axis=0) - largest - np.log(density.mean(axis=0)))
    return np.mean(values, axis=0)


def _predicted(problem: Problem, rng: np.random.Generator) -> Records:
    """Records with covariates like those of the data, and responses predicted by the posterior."""
    plain = replace(problem.reference, broad=0.0, tails=None, predict=None, predicted=0.0)
    records = plain.draw(rng, _RECORDS)
    predict = responses(problem.release, ())
    if predict is None:
        return records
    predicted = predict(rng, records)
    size = len(next(iter(predicted.values())))
    finite = np.all(
        [np.isfinite(np.asarray(values, float).reshape(size, -1)).all(axis=1) for values in predicted.values()], axis=0
    )
    return {
        name: np.where(finite.reshape(-1, *(1,) * (values.ndim - 1)), predicted[name], values)
        for name, values in records.items()
    }


def _centred(model: Model, theta: np.ndarray, records: Records) -> np.ndarray:
    values = np.asarray(log_liks(model, theta, records))
    with np.errstate(invalid="ignore"):
        return values - values.mean(axis=0)


def unit_blocks(records: Records, draws: int, units: np.ndarray | None) -> Iterator[tuple[Records, np.ndarray]]:
    """Blocks of records whose log likelihoods at `draws` draws fit into memory, and the start of each unit in a block.

    Units are in the order of their numbers. No unit is in two blocks.
    """
    count, step = len(next(iter(records.values()))), max(1, _AT_ONCE // draws)
    if units is None:
        for i in range(0, count, step):
            yield {k: v[i : i + step] for k, v in records.items()}, np.zeros(0, int)
        return
    order = np.argsort(units, kind="stable")
    starts = np.searchsorted(units[order], np.arange(units.max() + 1))
    stops, unit = [*starts[1:].tolist(), count], 0
    for next_unit, end in enumerate(stops, 1):
        if next_unit == len(stops) or stops[next_unit] - starts[unit] > step:
            positions = order[starts[unit] : end]
            yield {k: np.asarray(v)[positions] for k, v in records.items()}, starts[unit:next_unit] - starts[unit]
            unit = next_unit
