"""The difference of totals of releases, and what explains it: records that are in one of them and not in others."""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from scipy.special import chdtrc, ndtri

LEVEL = 0.05
"""Share of persons outside of the first interval, all fields together."""
REJECTED = 1e-3
"""p value of the residual, below which a difference is not one record."""
_SAMPLES = 1000  # pairs w, u of each correction
_EXCHANGED = 250  # records w that were exchanged, with solutions u and v
_LARGEST = 3.0  # correction, in standard deviations; they are drawn decade by decade, down to what makes no difference
_HOPELESS = 3e3  # first approximation of a misfit, above which it is not computed
_FAR = 10.0  # largest mean of two records at which a search begins, in standard deviations
_STEPS = 3  # of Gauss and Newton's method


class TotalsDifference:
    """A difference of totals in standardised units.

    Args:
        difference: `(q,)`, sums of the K fields, and of their products.
        errors: `(q, q)`, covariance of its errors.
        fields: K.
        correlation: `(K, K)`, of the fields.
    """

    def __init__(self, difference: np.ndarray, errors: np.ndarray, fields: int, correlation: np.ndarray) -> None:
        self.difference, self.errors, self.correlation = difference, errors, correlation
        self.products = np.triu_indices(fields)
        self.factor = np.linalg.cholesky(correlation + 1e-9 * np.eye(fields))
        size = np.sqrt(np.maximum(np.diag(errors), 1e-300))
        own, vectors = np.linalg.eigh(errors / np.outer(size, size))
        own = np.maximum(own, 1e-10 * own[-1])
        self.whiten = (vectors / np.sqrt(own)).T / size  # (q, q)
        self.log_scale = float(np.log(size).sum() + 0.5 * np.log(own).sum())

    def features(self, z: np.ndarray) -> np.ndarray:
        """`(..., q)` entries of `(1, z) (1, z)'` but the first, for `z (..., K)`."""
        i, j = self.products
        return np.concatenate([z, z[..., i] * z[..., j]], axis=-1)

    def record(self, others: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The record v that explains the difference less `others (..., q)`, its covariance and the misfit."""
        rest = self.difference - others
        found, covariance, misfit = self._explained(rest, rest[..., None, : len(self.correlation)])
        return found[..., 0, :], covariance, misfit

    def exchange(self, others: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Records v and u `(S, 2, K)` whose difference explains the same, as far as that is likely.

        Sums and products of `v v' - u u'` are a and `a m' + m a'`, with `a = v - u` and `m = (v + u) / 2`. A normal
        distribution of u is part of the misfit.

        Returns:
            Positions of the `others (N, q)` that are likely, the records, their covariances and misfits.
        """
        rest, k, (i, j) = self.difference - others, len(self.correlation), self.products
        a, products = rest[:, :k], np.zeros((len(rest), k, k))
        products[:, i, j] = products[:, j, i] = rest[:, k:]
        size = np.linalg.norm(a, axis=1, keepdims=True) + 1e-6
        unit = a / size
        along = (products @ unit[:, :, None])[..., 0]
        twice = along - unit * (unit * along).sum(axis=1, keepdims=True) / 2
        left = products - twice[:, :, None] * unit[:, None] - unit[:, :, None] * twice[:, None]  # whatever m is
        likely = np.flatnonzero((left**2).sum(axis=(1, 2)) < _HOPELESS * np.trace(self.errors))
        a, m = a[likely], (twice / size)[likely]
        m *= np.minimum(1.0, _FAR / (np.linalg.norm(m, axis=1, keepdims=True) + 1e-300))
        return likely, *self._explained(rest[likely], np.stack([m + a / 2, m - a / 2], axis=1))

    @property
    def agrees(self) -> bool:
        """Whether there is no difference but for errors."""
        misfit = float(((self.whiten @ self.difference) ** 2).sum())
        return float(chdtrc(len(self.difference), misfit)) >= REJECTED

    def signed(self, sign: float) -> "TotalsDifference":
        return TotalsDifference(sign * self.difference, self.errors, len(self.correlation), self.correlation)

    def evidence_of_exchange(self, sign: float) -> float:
        """Logarithm of the evidence that v was exchanged for u; v has a Cauchy distribution, u a normal one."""
        one = self.signed(sign)
        likely, pairs, covariance, misfit = one.exchange(np.zeros((1, len(self.difference))))
        if not len(likely):
            return -math.inf
        log_factor = np.log(np.diag(self.factor)).sum()
        return one.evidence(pairs[0, 0], covariance[0], misfit[0]) - float(log_factor)

    def exchanged(
        self, excluded: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]] | None:
        """Records v and u, half intervals, the ends of those with a correction beside, all `(2, K)`, and names of
        alternatives; None if the difference is not one of two records."""
        k, q = len(self.correlation), len(self.difference)
        try:
            _, (start,), (spread,), (misfit,) = self.exchange(np.zeros((1, q)))
            pair, covariance, rest = self._explained(self.difference, start, normal=False)
        except (ValueError, np.linalg.LinAlgError):  # there are no such records
            return None
        if (q > 2 * k and chdtrc(q - 2 * k, rest) < REJECTED) or not np.isfinite(pair).all():
            return None
        tail = LEVEL / 4 / k
        half = (-ndtri(tail) * np.sqrt(np.diag(covariance))).reshape(2, k)
        others = self._corrected_beside(misfit, float(half.min()), rng)
        lower, upper, open_ = self._covered(pair.ravel(), half.ravel(), spread, others, tail, excluded)
        return pair, half, lower.reshape(2, k), upper.reshape(2, k), open_

    def _corrected_beside(
        self, misfit: float, least: float, rng: np.random.Generator
    ) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
        """As `_others`: an exchange, and a value of another record that was corrected."""
        for others in self._corrections(least, rng):
            likely, pairs, spread, misfits = self.exchange(others)
            if len(likely):
                yield "corrected", *self._weighed(pairs.reshape(len(pairs), -1), spread, misfits, misfit)

    def _explained(
        self, rest: np.ndarray, z: np.ndarray, normal: bool = True
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Records near z `(..., 1 or 2, K)` that explain `rest (..., q)`, the second one with a negative sign.

        Args:
            normal: whether a normal distribution of the second one is part of the misfit.
        """
        k, (i, j), signs = len(self.correlation), self.products, np.array([1.0, -1.0])[: z.shape[-2]]
        size, eye, leading = k * len(signs), np.eye(k), rest.shape[:-1]
        prior = normal * np.kron(np.eye(len(signs))[1:], np.linalg.inv(self.factor))

        def residual(z: np.ndarray) -> np.ndarray:
            own = (rest - (signs[:, None] * self.features(z)).sum(axis=-2)) @ self.whiten.T
            return np.concatenate([own, -z.reshape(*leading, size) @ prior.T], axis=-1)

        covariance = np.zeros((*leading, size, size))
        for _ in range(_STEPS):
            sums = np.broadcast_to(eye, (*z.shape[:-1], k, k))
            slopes = np.concatenate([sums, z[..., i, None] * eye[j] + z[..., j, None] * eye[i]], axis=-2)
            slopes = np.concatenate([sign * slopes[..., n, :, :] for n, sign in enumerate(signs)], axis=-1)
            slopes = np.concatenate([self.whiten @ slopes, np.broadcast_to(prior, (*leading, *prior.shape))], axis=-2)
            transposed = np.swapaxes(slopes, -1, -2)
            covariance = np.linalg.inv(transposed @ slopes)
            z = z + (covariance @ (transposed @ residual(z)[..., None]))[..., 0].reshape(z.shape)
        return z, covariance, np.asarray((residual(z) ** 2).sum(axis=-1))

    def evidence(self, v: np.ndarray, covariance: np.ndarray, misfit: np.ndarray) -> float:
        """Logarithm of the evidence for one record, which has a Cauchy distribution in every field."""
        q, k = len(self.difference), len(v)
        volume = 0.5 * np.linalg.slogdet(covariance)[1] + 0.5 * (k - q) * math.log(2 * math.pi)
        return float(_log_cauchy(v) + volume - self.log_scale - 0.5 * misfit)

    def evidence_of_many(self, records: float, count: int) -> float:
        """The same for the difference of sums over `records` people, if their normal distributions agree."""
        r, (i, j), k = self.correlation, self.products, len(self.correlation)
        own = np.zeros_like(self.errors)
        own[:k, :k] = r
        own[k:, k:] = r[i][:, i] * r[j][:, j] + r[i][:, j] * r[j][:, i]
        covariance = records * own + self.errors
        rest = self.difference - count * np.concatenate([np.zeros(k), r[i, j]])
        size = np.sqrt(np.diag(covariance))
        eigen, vectors = np.linalg.eigh(covariance / np.outer(size, size))
        eigen = np.maximum(eigen, 1e-12)
        whitened = vectors.T @ (rest / size) / np.sqrt(eigen)
        log_determinant = np.log(eigen).sum() + 2 * np.log(size).sum()
        return float(-0.5 * (log_determinant + whitened @ whitened + len(rest) * math.log(2 * math.pi)))

    def possible(self, count: int) -> bool:
        """Whether sums of squares around the mean of `count` records are not negative."""
        k = len(self.correlation)
        sums, (i, j) = self.difference[:k], self.products
        squares = np.zeros((k, k))
        squares[i, j] = squares[j, i] = self.difference[k:] - sums[i] * sums[j] / count
        error = math.sqrt(float(np.trace(self.errors[k:, k:])))
        return bool(np.linalg.eigvalsh(squares)[0] > -4 * error)

    def alternatives(
        self,
        v: np.ndarray,
        covariance: np.ndarray,
        misfit: np.ndarray,
        half: np.ndarray,
        excluded: float,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
        """Ends `(K,)` of the interval of v with a second record exchanged or corrected, and names of these cases."""
        others = self._others(v, misfit, float(half.min()), rng)
        return self._covered(v, half, covariance, others, LEVEL / 2 / len(v), excluded)

    def _covered(
        self,
        v: np.ndarray,
        half: np.ndarray,
        covariance: np.ndarray,
        others: "Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]",
        tail: float,
        excluded: float,
    ) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
        lower, upper, open_ = v - half, v + half, []
        volume = 0.5 * np.linalg.slogdet(covariance)[1]
        for name, moved, sd, logs in others:
            with np.errstate(over="ignore", under="ignore"):
                weights = np.exp(np.minimum(logs - volume, 50.0))
            if not weights.sum() > excluded * (_EXCHANGED if name == "exchanged" else _SAMPLES):
                continue
            open_.append(name)
            error = -ndtri(tail) * sd
            low, high = (_quantile(x, weights, q) for x, q in ((moved - error, tail), (moved + error, 1 - tail)))
            lower, upper = np.minimum(lower, low), np.maximum(upper, high)
        return lower, upper, tuple(dict.fromkeys(open_))

    def _others(
        self, v: np.ndarray, misfit: np.ndarray, least: float, rng: np.random.Generator
    ) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
        """Alternatives: name, records `(S, K)`, their standard errors `(S, K)`, and logarithms of weights `(S,)`."""
        k = len(v)
        w = rng.normal(size=(_EXCHANGED, k)) @ self.factor.T
        likely, pairs, spread, misfits = self.exchange(self.features(w))
        (pairs, sd, logs), w = self._weighed(pairs, spread, misfits, misfit), w[likely]
        one = pairs[:, 0]
        # Who was exchanged and who left is the same question: either may be far out, and each may be either.
        far = np.logaddexp(_log_cauchy(one), self._log_normal(one) + _log_cauchy(w) - self._log_normal(w))
        logs = logs + far - _log_cauchy(v) - np.log(np.diag(self.factor)).sum() - 2 * math.log(2)
        yield "exchanged", np.concatenate([one, w]), np.concatenate([sd[:, :k], 0 * w]), np.tile(logs, 2)
        # The misfit, nearly: that of products computed from the sums.
        (i, j), eye = self.products, np.eye(k)
        change = np.concatenate([-(v[i, None] * eye[j] + v[j, None] * eye[i]), np.eye(len(i))], axis=1)
        screen = np.linalg.pinv(change @ self.errors @ change.T, hermitian=True)
        for others in self._corrections(least, rng):
            rest = self.difference - others
            products = (rest - self.features(rest[:, :k]))[:, k:]
            likely = ((products @ screen) * products).sum(axis=1) < misfit + _HOPELESS
            if likely.any():
                yield "corrected", *self._weighed(*self.record(others[likely]), misfit)

    def _corrections(self, least: float, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Differences `(S, q)` by a value of a record that was corrected, by `least` at least, decade by decade."""
        k, least = len(self.correlation), min(max(least, 1e-6), 0.1 * _LARGEST)
        ends = [*np.geomspace(least, _LARGEST, max(math.ceil(math.log10(_LARGEST / least)), 1) + 1)]
        for band in pairwise(ends):
            w = rng.normal(size=(_SAMPLES, k)) @ self.factor.T
            u, size = w.copy(), np.exp(rng.uniform(math.log(band[0]), math.log(band[1]), _SAMPLES))
            u[np.arange(_SAMPLES), rng.integers(k, size=_SAMPLES)] += size * rng.choice([-1.0, 1.0], _SAMPLES)
            yield self.features(w) - self.features(u)

    def _weighed(
        self, moved: np.ndarray, spread: np.ndarray, misfits: np.ndarray, misfit: np.ndarray | float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Records, their standard errors, and logarithms of weights."""
        logs = 0.5 * (np.linalg.slogdet(spread)[1] - misfits + misfit)
        return moved, np.sqrt(np.diagonal(spread, axis1=1, axis2=2)), logs

    def _log_normal(self, z: np.ndarray) -> np.ndarray:
        """Logarithm of the density of records `(..., K)`."""
        whitened = np.linalg.solve(self.factor, z[..., None])[..., 0]
        size = 0.5 * z.shape[-1] * math.log(2 * math.pi) + np.log(np.diag(self.factor)).sum()
        return -0.5 * (whitened**2).sum(axis=-1) - size


def _log_cauchy(v: np.ndarray) -> np.ndarray:
    return -np.log(np.pi * (1 + v**2)).sum(axis=-1)


def _quantile(values: np.ndarray, weights: np.ndarray, share: float) -> np.ndarray:
    """Weighted quantiles of the columns of `values (S, K)`."""
    order = np.argsort(values, axis=0)
    total = np.cumsum(weights[order], axis=0) / weights.sum()
    at = np.minimum((total < share).sum(axis=0), len(values) - 1)
    return np.take_along_axis(values, np.take_along_axis(order, at[None], 0), 0)[0]
