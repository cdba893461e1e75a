"""Centre and spread of the private records, by the likelihood of the release.

Totals of N records from a distribution p are nearly normal. With basis functions e and the noise R of the target,

    target ~ Normal(N E_p[e], N Cov_p(e) + R).

Weights on single records do not distinguish a wide distribution from a narrow one if records have many fields and draws
are few. N and the centre and scale of every field are few numbers. They are found by Fisher scoring, with `d E_p[e] / d
centre = E_p[e u] / scale` and `d E_p[e] / d log(scale) = E_p[e (u^2 - 1)]` for a standardised normal u.
"""

from dataclasses import dataclass, replace

import numpy as np

from bayesrecon.divergence.mean_embedding import Basis
from bayesrecon.divergence.metric_view import OneRelease
from bayesrecon.domains import Records
from bayesrecon.estimation.anchors import Reference, UnusableRecordsError
from bayesrecon.estimation.deviation import whitener

_RECORDS = 1024  # of a distribution: the mean and covariance of a few hundred functions are known to a tenth or better
_SAMPLE = 64  # of them, of which none has a predicted field by chance
_COUNTS = np.geomspace(0.1, 10.0, 41)  # of records, in units of the count that their information stands for
_STEP = 0.5  # spread of a step, in units of the scale: derivatives hold about as far
# Factors of all scales that are tried first, since steps do not reach far. Steps from a wide distribution end beside
# data that steps from a narrow one find: if a narrower one is better, they start from the narrowest as well.
_FACTORS = (1.4, 1.0, 0.7, 0.5, 0.35)
_MOST_STEPS, _HALVINGS = 8, 1  # steps at most, and times that one which makes nothing likelier is halved
_LEAST_GAIN = 1.0  # log likelihood that a step has to gain: less is what other generic records change


@dataclass(frozen=True)
class RecordLikelihood:
    """The likelihood of a distribution of the records, given what was solved on records near it.

    Attributes:
        embedding: embedding of the release.
        atoms: positions of the atoms in use.
        basis, target: functions of a record that generic records span, and their totals `(r,)` over the private ones.
        judge: the embedding in the metric in which the information of all private records adds up to about one.
        error: standard error of the logarithm of that sum, which is treated as normal.
        seed: seed of the records of every candidate, so that candidates do not differ by chance.
        fields: the fields whose centre and scale are estimated (`located_fields`).
    """

    embedding: OneRelease
    atoms: np.ndarray
    basis: Basis
    target: np.ndarray
    judge: OneRelease
    error: float
    seed: int
    fields: tuple[str, ...]

    def located(self, reference: Reference, close: bool) -> Reference:
        """The distribution with the centres and scales that make the release likeliest.

        Args:
            close: whether its own centres and scales are close to these, so that no other scales are tried first.
        """
        size = self.embedding.effective_size * len(self.atoms) / self.embedding.size
        # The noise at the draws themselves: with the simulated one weights can stand in the tails.
        root = whitener(self.embedding.normal_noise(self.basis) / size)
        if close:
            best_candidate = self._climbed(self._at(reference, root), root)
            return reference.recentred(best_candidate.reference.centre, best_candidate.reference.scale)
        candidates = {f: self._at(self._scaled(reference, f), root) for f in _FACTORS}
        best = max(candidates, key=lambda f: candidates[f].likelihood)
        starts = {best, _FACTORS[-1]} if best < 1 else {best}
        best_candidate = max(
            (self._climbed(candidates[f], root) for f in starts), key=lambda candidate: candidate.likelihood
        )
        return reference.recentred(best_candidate.reference.centre, best_candidate.reference.scale)

    def _scaled(self, reference: Reference, factor: float) -> Reference:
        return reference.recentred(
            reference.centre, {k: v * factor if k in self.fields else v for k, v in reference.scale.items()}
        )

    def _climbed(self, current: "_Candidate", root: np.ndarray) -> "_Candidate":
        for _ in range(_MOST_STEPS if np.isfinite(current.likelihood) else 0):
            step = current.step()
            for _ in range(1 + _HALVINGS):
                proposed = self._at(current.moved(step), root)
                if proposed.likelihood > current.likelihood + _LEAST_GAIN:
                    break
                step = step / 2
            else:
                return current
            current = proposed
        return current

    def _at(self, reference: Reference, root: np.ndarray) -> "_Candidate":
        drawn = replace(reference, broad=0.0, predicted=1.0, tails=None)
        try:
            records = drawn.draw(np.random.default_rng(self.seed), _RECORDS)
        except UnusableRecordsError:
            return _Candidate.impossible(reference, self.fields, self.error)
        features = self.embedding.cross(self.basis, records, self.atoms) @ root
        information = self.judge.information(records)
        finite = np.isfinite(features).all(axis=1) & np.isfinite(information)
        records = {k: v[finite] for k, v in records.items()}
        return _Candidate.of(
            reference, self.fields, records, features[finite], information[finite], root.T @ self.target, self.error
        )


@dataclass(frozen=True)
class _Candidate:
    """A candidate distribution of the records, and the totals that its records would have.

    Attributes:
        reference: the distribution of generic records.
        fields: fields whose centre and scale are estimated.
        units: `(Q, P)` standardised values of these fields.
        features: `(Q, r)` whitened features, in directions in which records scatter independently.
        target: `(r,)` target in these directions.
        scatter: `(r,)` variance of the features of one record.
        information: `(Q,)` information of each record.
        count: the most likely number of records.
        likelihood: log likelihood at that number.
        error: standard error of the logarithm of the total information.
    """

    reference: Reference
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
    def impossible(cls, reference: Reference, fields: tuple[str, ...], error: float) -> "_Candidate":
        """A distribution most of whose records are impossible."""
        none, empty = np.zeros(0), np.zeros((0, 0))
        return cls(reference, fields, empty, empty, none, none, none, 0.0, -np.inf, error)

    @classmethod
    def of(
        cls,
        reference: Reference,
        fields: tuple[str, ...],
        records: Records,
        features: np.ndarray,
        information: np.ndarray,
        target: np.ndarray,
        error: float,
    ) -> "_Candidate":
        if len(features) <= len(target):
            return cls.impossible(reference, fields, error)
        values = [np.asarray(records[f], float).reshape(len(features), -1) for f in fields]
        units = np.concatenate([np.zeros((len(features), 0)), *values], axis=1)
        units = (units - units.mean(axis=0)) / np.maximum(units.std(axis=0), 1e-300)
        scatter, vectors = np.linalg.eigh(np.atleast_2d(np.cov(features.T)))
        scatter, features, target = np.maximum(scatter, 0.0), features @ vectors, vectors.T @ target
        candidate = cls(reference, fields, units, features, target, scatter, information, 0.0, -np.inf, error)
        mean_information = float(information.mean())
        counts = [
            (candidate.likelihood_of(share / mean_information, np.log(share)), share / mean_information)
            for share in _COUNTS
        ]
        likelihood, count = max(counts)
        return replace(candidate, count=count, likelihood=likelihood)

    def variance(self, count: float) -> np.ndarray:
        """Variance of the target `(r,)`: that of the records, and that of the mean over the generic records."""
        return 1.0 + count * (1 + count / len(self.features)) * self.scatter

    def likelihood_of(self, count: float, rule: float) -> float:
        variance, residual = self.variance(count), self.target - count * self.features.mean(axis=0)
        return float(-0.5 * (np.sum(residual**2 / variance) + np.sum(np.log(variance)) + (rule / self.error) ** 2))

    def step(self) -> np.ndarray:
        """The step of the centres, in units of the scale, and of the logarithms of the scales, `(2 P,)`: least squares
        weighted by the current variance."""
        count, error = self.count, self.error
        slopes = np.concatenate([self.units, self.units**2 - 1], axis=1) / len(self.units)
        mean, weight = self.features.mean(axis=0), 1 / np.sqrt(self.variance(count))
        # The first column is the derivative in the logarithm of the count.
        derivatives = count * weight[:, None] * np.column_stack([mean, self.features.T @ slopes])
        mean_information = self.information.mean()
        rule = np.r_[1.0, self.information / mean_information @ slopes] / error
        rows = np.concatenate([derivatives, rule[None], np.eye(derivatives.shape[1]) / _STEP])
        residual = weight * (self.target - count * mean)
        targets = np.r_[residual, -np.log(count * mean_information) / error, np.zeros(derivatives.shape[1])]
        return np.asarray(np.linalg.lstsq(rows, targets, rcond=None)[0][1:])

    def moved(self, step: np.ndarray) -> Reference:
        """The distribution after a step."""
        centre, scale, start = dict(self.reference.centre), dict(self.reference.scale), 0
        half = len(step) // 2
        for f in self.fields:
            size = np.size(centre[f])
            shift, stretch = (step[k + start : k + start + size].reshape(np.shape(centre[f])) for k in (0, half))
            centre[f] = centre[f] + scale[f] * shift
            scale[f] = scale[f] * np.exp(np.clip(stretch, -1.0, 1.0))
            start += size
        return self.reference.recentred(centre, scale)


def located_fields(reference: Reference) -> tuple[str, ...]:
    """Fields that are drawn around a centre, not from the posterior predictive distribution."""
    around = [
        f
        for f in reference.centre
        if reference.fields[f].domain.kind != "levels" and reference.fields[f].domain.total is None
    ]
    if reference.predict is None or not around:
        return tuple(around)
    rng = np.random.default_rng(0)
    records = replace(reference, predicted=0.0).draw(rng, _SAMPLE)
    predicted = reference.predict(rng, records)
    return tuple(f for f in around if np.array_equal(predicted[f], records[f]))
