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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayesrecon.diagnostics import evenly
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.predictive import responses
from bayesrecon.estimation.problem import Problem
from bayesrecon.kernels.score import log_liks
from bayesrecon.model import Model, PseudoData, Records
from bayesrecon.results.row import Row
from bayesrecon.running.draws_on_disk import as_rows

_RECORDS = 1024  # M: many times the number of directions that a few thousand draws resolve
_DRAWS = 4096  # largest number of draws for variances, which then have an error of two per cent
_AT_ONCE = 2**22  # log likelihoods per block
_SMALLEST = 1e-12  # eigenvalues below this share of the largest are rounding


@dataclass(frozen=True, eq=False)
class TiltLaw:
    """The distribution of the tilts of one posterior.

    Attributes:
        k: size of the tilts: they hide as much as `1 / k^2` independent draws leave open.
        records: M records of the predictive distribution, `{field: (M, *shape)}`.
        multiple: `(R / M)^(1/2)`.
        theta: `(T, d)` draws from which variances are computed.
        values: `(T, M)` log likelihoods of the records at these draws, minus their means.
        own: `(M,)` s_i^2, the scatter of R ordinary records, smallest first.
        vectors: `(M, M)`, U.
    """

    model: Model
    k: float
    records: Records
    multiple: float
    theta: np.ndarray
    values: np.ndarray
    own: np.ndarray
    vectors: np.ndarray

    def at(self, k: float) -> "TiltLaw":
        """The distribution with another size k of the tilts and the same records."""
        return replace(self, k=k)

    def of(self, times: float) -> "TiltLaw":
        """The distribution whose cap is the scatter of `times` as many ordinary records."""
        return replace(self, multiple=self.multiple * times**0.5, own=self.own * times)

    @cached_property
    def variances(self) -> np.ndarray:
        """`(M,)` c_i, the variance of the tilt in each direction."""
        return self.own / (1 + self.own / self.k**2)

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
        root = self.multiple / np.sqrt(1 + self.own / self.k**2)
        return self.vectors @ (root[:, None] * (self.vectors.T @ normals))

    def drawn(self, rng: np.random.Generator) -> PseudoData:
        """One random tilt: the measure that is added to the data."""
        return PseudoData(self.weights(rng.normal(size=(len(self.own), 1)))[:, 0], self.records)

    def scatter(self, functions: np.ndarray) -> np.ndarray:
        """Standard deviations `(S,)`, over tilts, of totals `sum_m w_m f(z_m)` of functions `(M, S)` at the records."""
        root = self.multiple / np.sqrt(1 + self.own / self.k**2)
        return np.linalg.norm(root[:, None] * (self.vectors.T @ functions), axis=0)

    def shift(self, records: Records, draws: float, units: np.ndarray | None = None) -> np.ndarray:
        """How far single records shift a release, in standard deviations of the noise that hides them, `(R,)`.

        The attacker knows all other records and asks whether one more record x is among the data. In the i-th whitened
        direction f_i, x shifts the release by `a_i = Cov(l(., x), f_i)`. The noise is that of the tilt, with variance
        c_i, and that of T independent draws:

            mu^2 = sum_i a_i^2 / (c_i + 1 / T) + T rest,

        where `rest` is the part of `Var l(., x)` outside these directions, which no tilt hides. For many draws mu is at
        least `sd(l(theta, x)) / k`.

        Args:
            draws: T.
            units: `(R,)` unit of each record, numbered from 0 to U - 1. If given, all records of a unit are taken
                together, and the result is `(U,)`.
        """
        alive = self.own > _SMALLEST * self.own[-1]
        features = self.multiple * (self.values @ self.vectors[:, alive]) / np.sqrt(self.own[alive])
        noise, found = self.variances[alive] + 1 / draws, []
        for block, starts in unit_blocks(records, len(self.theta), units):
            l = _centred(self.model, self.theta, block)
            l = l if units is None else np.add.reduceat(l, starts, axis=1)
            along = features.T @ l / len(l)
            rest = np.maximum((l**2).mean(axis=0) - (along**2).sum(axis=0), 0.0)
            found.append(np.sqrt((along**2 / noise[:, None]).sum(axis=0) + draws * rest))
        return np.concatenate(found)


def count_of(rows: Sequence[Row]) -> float | None:
    """N, the number of records, if the draws determine it."""
    return next((r.estimate for r in rows if r.name == "n" and r.estimate and r.verdict != "undetermined"), None)


def tilt_law(problem: Problem, k: float, rng: np.random.Generator, count: float) -> TiltLaw:
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
    fine = np.isfinite(values).all(axis=0)
    if fine.mean() < 0.5:
        raise BayesreconError(f"{release.name}: most records that it predicts have no finite likelihood at its draws")
    records, values = {name: v[fine] for name, v in records.items()}, values[:, fine]
    multiple = float(np.sqrt(count / values.shape[1]))
    own, vectors = np.linalg.eigh(multiple**2 * (values.T @ values) / len(values))
    return TiltLaw(release.model, k, records, multiple, theta, values, np.maximum(own, 0.0), vectors)


def tilt_at(model: Model, theta: Any, tilt: PseudoData) -> np.ndarray:
    """The tilt `g = sum_m w_m l(., z_m)` at draws `(T, d)`, `(T,)`."""
    rows, found = as_rows(theta), []
    step = max(1, _AT_ONCE // len(tilt.weights))
    for start in range(0, len(rows), step):
        at = np.minimum(np.arange(start, start + step), len(rows) - 1)  # equal shapes, so that JAX compiles once
        values = np.asarray(log_liks(model, np.asarray(rows[at]), tilt.records)) @ np.asarray(tilt.weights)
        found.append(values[: len(rows) - start])
    return np.concatenate(found)


def divergences(tilts: np.ndarray) -> np.ndarray:
    """`KL(tilted || posterior)` in nats for S tilts, each averaged with the opposite tilt, `(S,)`.

    Args:
        tilts: `(T, S)` values of the tilts at the draws.
    """
    found = []
    for g in (tilts, -tilts):
        top = g.max(axis=0)
        e = np.exp(g - top)
        found.append((e * g).sum(axis=0) / e.sum(axis=0) - top - np.log(e.mean(axis=0)))
    return np.mean(found, axis=0)


def _predicted(problem: Problem, rng: np.random.Generator) -> Records:
    """Records of the predictive distribution: covariates like those of the data, and responses that the posterior
    predicts."""
    plain = replace(problem.reference, broad=0.0, tails=None, predict=None, predicted=0.0)
    records = plain.draw(rng, _RECORDS)
    predict = responses(problem.release, ())
    if predict is None:
        return records
    found = predict(rng, records)
    size = len(next(iter(found.values())))
    fine = np.all([np.isfinite(np.asarray(v, float).reshape(size, -1)).all(axis=1) for v in found.values()], axis=0)
    return {k: np.where(fine.reshape(-1, *(1,) * (v.ndim - 1)), found[k], v) for k, v in records.items()}


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
    ends, first = [*starts[1:].tolist(), count], 0
    for last, end in enumerate(ends, 1):
        if last == len(ends) or ends[last] - starts[first] > step:
            at = order[starts[first] : end]
            yield {k: np.asarray(v)[at] for k, v in records.items()}, starts[first:last] - starts[first]
            first = last
