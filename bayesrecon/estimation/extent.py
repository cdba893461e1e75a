"""Around which point the private records lie, and how far they spread, by the likelihood of what was released.

Totals of N records that are drawn from a law p are near normal: with basis functions e and the noise R of the target,

    target ~ Normal(N E_p[e], N Cov_p(e) + R).

Weights on single records cannot tell a wide law from a narrow one where records have many fields and draws are few.
Centre and scale of every field, and N, are few numbers; they are found by Fisher scoring, with
`d E_p[e] / d centre = E_p[e u] / scale` and `d E_p[e] / d log(scale) = E_p[e (u^2 - 1)]` for a standardised normal u.
"""

from dataclasses import dataclass, replace

import numpy as np

from bayesrecon.domains import Records
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.deviation import whitener
from bayesrecon.kernels.embedding import Basis
from bayesrecon.kernels.one_release import OneRelease

_RECORDS = 1024  # of a law, whose mean and covariance of a few hundred functions are known to a tenth or better
_FEW = 64  # of them, of which none has a predicted field by chance
_COUNTS = np.geomspace(0.1, 10.0, 41)  # of records, in units of the count that their information stands for
_STEP = 0.5  # spread of a step, in units of the scale: derivatives hold about as far
# Of all scales, that are tried first, since steps do not reach far. From a wide law they end beside the data, which a
# narrow one finds: where a narrower one is better, they start from the narrowest as well.
_FACTORS = (1.4, 1.0, 0.7, 0.5, 0.35)
_STEPS, _HALVED = 8, 1  # steps at most, and times that one which makes nothing likelier is halved
_GAIN = 1.0  # log likelihood that a step has to gain: less is what other generic records change


@dataclass(frozen=True)
class Likelihood:
    """Of a law of the records, given what was solved on records near it.

    Attributes:
        embedding: of the release.
        atoms: positions of those in use.
        basis, target: functions of a record that generic records span, and their totals `(r,)` over the private ones.
        judge: the embedding in the metric in which the information of all private records adds up to about one.
        error: of that rule, as a factor: its logarithm is taken for normal.
        seed: of the records of every law, so that laws differ by what they are and not by chance.
        fields: whose centre and scale are looked for (`looked_for`).
    """

    embedding: OneRelease
    atoms: np.ndarray
    basis: Basis
    target: np.ndarray
    judge: OneRelease
    error: float
    seed: int
    fields: tuple[str, ...]

    def located(self, law: Reference, near: bool) -> Reference:
        """The law with the centres and scales that make the release likeliest.

        Args:
            near: whether the law's own are near these, so that no others need to be tried first.
        """
        size = self.embedding.effective_size * len(self.atoms) / self.embedding.size
        # The noise at the draws themselves: with the simulated one weights can stand in the tails.
        root = whitener(self.embedding.normal_noise(self.basis) / size)
        if near:
            found = self._climbed(self._at(law, root), root)
            return law.recentred(found.law.centre, found.law.scale)
        tried = {f: self._at(self._scaled(law, f), root) for f in _FACTORS}
        best = max(tried, key=lambda f: tried[f].likelihood)
        starts = {best, _FACTORS[-1]} if best < 1 else {best}
        found = max((self._climbed(tried[f], root) for f in starts), key=lambda one: one.likelihood)
        return law.recentred(found.law.centre, found.law.scale)

    def _scaled(self, law: Reference, factor: float) -> Reference:
        return law.recentred(law.centre, {k: v * factor if k in self.fields else v for k, v in law.scale.items()})

    def _climbed(self, here: "_Law", root: np.ndarray) -> "_Law":
        for _ in range(_STEPS if np.isfinite(here.likelihood) else 0):
            step = here.step()
            for _ in range(1 + _HALVED):
                there = self._at(here.moved(step), root)
                if there.likelihood > here.likelihood + _GAIN:
                    break
                step = step / 2
            else:
                return here
            here = there
        return here

    def _at(self, law: Reference, root: np.ndarray) -> "_Law":
        drawn = replace(law, broad=0.0, predicted=1.0, tails=None)
        records = drawn.draw(np.random.default_rng(self.seed), _RECORDS)
        features = self.embedding.cross(self.basis, records, self.atoms) @ root
        information = self.judge.information(records)
        finite = np.isfinite(features).all(axis=1) & np.isfinite(information)
        records = {k: v[finite] for k, v in records.items()}
        return _Law.of(
            law, self.fields, records, features[finite], information[finite], root.T @ self.target, self.error
        )


@dataclass(frozen=True)
class _Law:
    """A law, and what the totals of its records would be.

    Attributes:
        law: of generic records.
        fields: whose centre and scale are looked for.
        units: `(Q, P)` their values, free of units.
        features: `(Q, r)` whitened, in the directions in which records scatter independently.
        target: `(r,)` in these.
        scatter: `(r,)` variance of a record.
        information: `(Q,)`.
        count: of records, the likeliest.
        likelihood: logarithm.
        error: of the rule of the information.
    """

    law: Reference
    fields: tuple[str, ...]
    units: np.ndarray
    features: np.ndarray
    target: np.ndarray
    scatter: np.ndarray
    information: np.ndarray
    count: float
    likelihood: float
    error: float

    @classmethod
    def of(
        cls,
        law: Reference,
        fields: tuple[str, ...],
        records: Records,
        features: np.ndarray,
        information: np.ndarray,
        target: np.ndarray,
        error: float,
    ) -> "_Law":
        if len(features) <= len(target):  # most records of this law are impossible
            return cls(law, fields, features[:, :0], features, target, target, information, 0.0, -np.inf, error)
        values = [np.asarray(records[f], float).reshape(len(features), -1) for f in fields]
        units = np.concatenate([np.zeros((len(features), 0)), *values], axis=1)
        units = (units - units.mean(axis=0)) / np.maximum(units.std(axis=0), 1e-300)
        scatter, vectors = np.linalg.eigh(np.atleast_2d(np.cov(features.T)))
        scatter, features, target = np.maximum(scatter, 0.0), features @ vectors, vectors.T @ target
        one = cls(law, fields, units, features, target, scatter, information, 0.0, -np.inf, error)
        each = float(information.mean())
        found = [(one.likelihood_of(share / each, np.log(share)), share / each) for share in _COUNTS]
        likelihood, count = max(found)
        return replace(one, count=count, likelihood=likelihood)

    def variance(self, count: float) -> np.ndarray:
        """Of the target `(r,)`: records scatter, and so does their mean over as many generic ones as there are."""
        return 1.0 + count * (1 + count / len(self.features)) * self.scatter

    def likelihood_of(self, count: float, rule: float) -> float:
        variance, rest = self.variance(count), self.target - count * self.features.mean(axis=0)
        return float(-0.5 * (np.sum(rest**2 / variance) + np.sum(np.log(variance)) + (rule / self.error) ** 2))

    def step(self) -> np.ndarray:
        """Of centres, in units of the scale, and of logarithms of scales, `(2 P,)`: least squares weighed by the
        present variance."""
        count, error = self.count, self.error
        slopes = np.concatenate([self.units, self.units**2 - 1], axis=1) / len(self.units)
        mean, weight = self.features.mean(axis=0), 1 / np.sqrt(self.variance(count))
        # By the logarithm of the count first.
        moved = count * weight[:, None] * np.column_stack([mean, self.features.T @ slopes])
        each = self.information.mean()
        rule = np.r_[1.0, self.information / each @ slopes] / error
        rows = np.concatenate([moved, rule[None], np.eye(moved.shape[1]) / _STEP])
        rest = weight * (self.target - count * mean)
        aims = np.r_[rest, -np.log(count * each) / error, np.zeros(moved.shape[1])]
        return np.asarray(np.linalg.lstsq(rows, aims, rcond=None)[0][1:])

    def moved(self, step: np.ndarray) -> Reference:
        """The law after a step."""
        centre, scale, at = dict(self.law.centre), dict(self.law.scale), 0
        half = len(step) // 2
        for f in self.fields:
            size = np.size(centre[f])
            shift, stretch = (step[k + at : k + at + size].reshape(np.shape(centre[f])) for k in (0, half))
            centre[f] = centre[f] + scale[f] * shift
            scale[f] = scale[f] * np.exp(np.clip(stretch, -1.0, 1.0))
            at += size
        return self.law.recentred(centre, scale)


def looked_for(law: Reference) -> tuple[str, ...]:
    """Fields that are drawn around a centre, and not as the posterior predicts them."""
    around = [f for f in law.centre if law.fields[f].domain.kind != "levels" and law.fields[f].domain.total is None]
    if law.predict is None or not around:
        return tuple(around)
    rng = np.random.default_rng(0)
    records = replace(law, predicted=0.0).draw(rng, _FEW)
    predicted = law.predict(rng, records)
    return tuple(f for f in around if np.array_equal(predicted[f], records[f]))
