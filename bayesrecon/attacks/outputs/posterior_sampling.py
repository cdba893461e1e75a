"""`PosteriorSampling`: draws of a model's input from `p(x | z)`, with a prior fitted to public records."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import numpy as np

from bayesrecon.arrays import Array, Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.outputs.calibration import calibrated, interval, split, spread_of
from bayesrecon.attacks.outputs.record_prior import RecordPrior, fitted_prior, log_likelihood, log_prior
from bayesrecon.diagnostics import split_r_hat
from bayesrecon.divergence.output_embedding import Answer, Outputs
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.random_key import generator
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.precision import in_float64
from bayesrecon.results.input_estimate import InputEstimate

_CHAINS = 2  # number of chains for the private record
_MIXED = 1.05  # largest R-hat of chains that have mixed
_LEAST = 20  # smallest number of held-out records for a 95 % interval


@dataclass(frozen=True)
class PosteriorSampling(Attack[InputEstimate]):
    """Posterior draws of the input by NUTS, in the principal components of public records.

    The prior (`attacks.outputs.record_prior`) is simple, so the intervals are calibrated. The same sampler runs for
    public records that were not used to fit the prior. Posterior standard deviations are then multiplied by the factor
    at which the 95 % intervals cover 95 % of the fields of these records.

    >>> PosteriorSampling(components=20).clusters
    1
    """

    name: ClassVar[str] = "posterior-sampling"
    summary: ClassVar[str] = "an input from a model's outputs, by draws of its posterior given public records"
    takes: ClassVar[tuple[type, ...]] = (Outputs,)
    uses: ClassVar[tuple[str, ...]] = ()

    components: int = option(40, "Principal components of the public records.")
    clusters: int = option(1, "Normal components of the public distribution.")
    draws: int = option(200, "Draws of each chain.")
    warmup: int = option(200, "Warm-up steps of each chain.")
    calibration: int = option(40, "Public records that calibrate the intervals.")
    checked: int = option(20, "Further public records that check their coverage.")
    scale: float = option(
        0.01, "Smallest error of an output, in standard deviations of the outputs; used if there is no noise."
    )

    def __post_init__(self) -> None:
        if min(self.components, self.clusters, self.draws - 3, self.warmup) < 1 or self.checked < 0:
            raise BayesreconError("components, clusters and warmup are at least 1, draws at least 4, checked 0 or more")
        if self.calibration < _LEAST:
            raise BayesreconError(
                f"calibration={self.calibration}: 95 % intervals need {_LEAST} held-out records or more"
            )
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise BayesreconError(f"scale={self.scale}: expected a number above 0")

    def run(self, release: Outputs, knows: Knows, *, key: Key, progress: Progress) -> InputEstimate:
        start, rng = time.perf_counter(), generator(key)
        parts = split(len(release.public), rng)
        not_fitted = np.concatenate([parts.calibrate, parts.check])
        if len(not_fitted) < self.calibration + self.checked:
            raise BayesreconError(
                f"{len(release.public)} public records leave {len(not_fitted)} to calibrate and check: supply "
                f"{2 * (self.calibration + self.checked)} or more, or lower calibration= and checked="
            )
        held = not_fitted[: self.calibration + self.checked]
        prior = fitted_prior(release, parts.fit, self.components, self.clusters, self.scale, int(rng.integers(2**31)))
        progress("sampling", 0.1)
        answers = np.concatenate(
            [np.repeat(release.z[None], _CHAINS, axis=0), release.noisy(release.answers[held], rng)]
        )
        c, diverged = self.sample(release, prior, answers, rng)
        progress("sampling", 0.9)
        return self._result(release, prior, c, diverged, held, start)

    @in_float64
    def sample(
        self, release: Outputs, prior: RecordPrior, answers: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws `(n, D, q)` of the component scores behind n answers `(n, K)`, and the divergences of each chain."""
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), len(answers))
        start = prior.start(answers)
        start = start + 0.1 * rng.normal(size=start.shape)
        c, diverged = _chains(
            keys, answers, start, prior.arrays, release.answer, release.widths, self.warmup, self.draws
        )
        return np.asarray(c), np.asarray(diverged)

    def _result(
        self, release: Outputs, prior: RecordPrior, c: np.ndarray, diverged: np.ndarray, held: np.ndarray, start: float
    ) -> InputEstimate:
        spread, values = spread_of(release), release.values
        components = c[:_CHAINS].reshape(-1, c.shape[2])
        means, sds = zip(*(moments(prior, draws, values) for draws in (components, *c[_CHAINS:])), strict=True)
        guess, scale = np.stack(means), np.stack(sds)
        calibration = calibrated(release.public[held], guess[1:], scale[1:], spread, self.checked, values)
        lower, upper = interval(guess[:1], scale[:1], calibration.factor, values)
        chains = np.repeat(np.arange(_CHAINS), self.draws)
        r_hat = float(np.max(split_r_hat(components, chains)))
        factor = float(calibration.factor.max())
        warnings = list(release.notes)
        if not r_hat <= _MIXED:
            warnings.append(f"the chains did not mix (R-hat {r_hat:.2f}): more warmup=, or fewer components=")
        if divergences := int(diverged[:_CHAINS].sum()):
            warnings.append(f"{divergences} divergent transitions: raise scale=, or lower components=")
        return InputEstimate(
            release=release.name,
            method=self.name,
            shape=release.answer.shape,
            estimate=guess[0],
            se=scale[0] * factor / 1.96,
            lower=lower[0],
            upper=upper[0],
            visibility=calibration.visibility(spread),
            spread=spread,
            coverage=calibration.coverage,
            coverage_records=self.checked,
            draws=np.clip(prior.records(components), *values),
            settings={
                "view": release.answer.view,
                "noise": release.noise,
                "components": c.shape[2],
                "clusters": self.clusters,
                "variance of the components": prior.share,
                "error of an answer outside them": prior.error,
                "least error": self.scale,
                "factor": factor,
                "R-hat": r_hat,
                "calibrated on": self.calibration,
            },
            warnings=tuple(warnings),
            seconds=time.perf_counter() - start,
        )


ATTACK = PosteriorSampling


def moments(prior: RecordPrior, c: np.ndarray, values: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and standard deviation of every field, `(p,)` each, from draws `(D, q)`.

    The variance outside the principal components is added.
    """
    x = prior.records(c)
    return np.clip(x.mean(axis=0), *values), np.sqrt(x.var(axis=0) + prior.rest)


@partial(jax.jit, static_argnames=("answer", "widths", "warmup", "draws"))
def _chains(
    keys: Array,
    z: Array,
    start: Array,
    arrays: Mapping[str, Array],
    answer: Answer,
    widths: tuple[int, ...],
    warmup: int,
    draws: int,
) -> tuple[Array, Array]:
    """One chain for each row of z: draws `(n, D, q)`, and numbers of divergences `(n,)`."""
    from numpyro.infer import MCMC, NUTS

    def chain(key: Array, z: Array, start: Array) -> tuple[Array, Array]:
        def potential(c: Array) -> Array:
            return -(log_prior(c, arrays) + log_likelihood(c, z, answer, widths, arrays))

        kernel = NUTS(potential_fn=potential, max_tree_depth=7)
        run = MCMC(kernel, num_warmup=warmup, num_samples=draws, progress_bar=False)
        run.run(key, init_params=start, extra_fields=("diverging",))
        return run.get_samples(), run.get_extra_fields()["diverging"].sum()

    return jax.vmap(chain)(keys, z, start)
