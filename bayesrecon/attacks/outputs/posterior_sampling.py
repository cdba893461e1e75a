"""`PosteriorSampling`: draws of a model's input from `p(x | z)`, with a prior fitted to public records."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import numpy as np

from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.outputs.calibration import calibrated, interval, split, spread_of
from bayesrecon.attacks.outputs.public_law import PriorLaw, fitted_distribution, log_likelihood, log_prior
from bayesrecon.diagnostics import split_r_hat
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.estimator import generator
from bayesrecon.kernels.output_embedding import Answer, Outputs
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.precision import in_float64
from bayesrecon.results.input_estimate import InputEstimate

_CHAINS = 2  # of the private record, which tell whether they mix
_MIXED = 1.05  # R-hat of the fields that are told most, above which they did not
_LEAST = 20  # held-out records: fewer give no 95 % interval


@dataclass(frozen=True)
class PosteriorSampling(Attack[InputEstimate]):
    """Posterior draws of the input by NUTS, in the principal components of public records.

    The prior (`attacks.outputs.public_law`) is simple, so the intervals are calibrated. The same sampler runs for
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

    def run(self, release: Outputs, knows: Knows, *, key: Any, progress: Progress) -> InputEstimate:
        began, rng = time.perf_counter(), generator(key)
        at = split(len(release.public), rng)
        rest = np.concatenate([at.calibrate, at.check])
        if len(rest) < self.calibration + self.checked:
            raise BayesreconError(
                f"{len(release.public)} public records leave {len(rest)} to calibrate and check: supply "
                f"{2 * (self.calibration + self.checked)}, or lower calibration= and checked="
            )
        held = rest[: self.calibration + self.checked]
        law = fitted_distribution(release, at.fit, self.components, self.clusters, self.scale, int(rng.integers(2**31)))
        progress("sampling", 0.1)
        answers = np.concatenate(
            [np.repeat(release.z[None], _CHAINS, axis=0), release.noisy(release.answers[held], rng)]
        )
        c, diverged = self.sample(release, law, answers, rng)
        progress("sampling", 0.9)
        return self._result(release, law, c, diverged, held, began)

    @in_float64
    def sample(
        self, release: Outputs, law: PriorLaw, asked: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws `(n, D, q)` of the component scores behind n answers `(n, K)`, and the divergences of each chain."""
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), len(asked))
        start = law.start(asked)
        start = start + 0.1 * rng.normal(size=start.shape)
        c, diverged = _chains(keys, asked, start, law.arrays, release.answer, release.widths, self.warmup, self.draws)
        return np.asarray(c), np.asarray(diverged)

    def _result(
        self, release: Outputs, law: PriorLaw, c: np.ndarray, diverged: np.ndarray, held: np.ndarray, began: float
    ) -> InputEstimate:
        spread, values = spread_of(release), release.values
        both = c[:_CHAINS].reshape(-1, c.shape[2])
        means, sds = zip(*(moments(law, one, values) for one in (both, *c[_CHAINS:])), strict=True)
        guess, scale = np.stack(means), np.stack(sds)
        calibration = calibrated(release.public[held], guess[1:], scale[1:], spread, self.checked, values)
        lower, upper = interval(guess[:1], scale[:1], calibration.factor, values)
        chains = np.repeat(np.arange(_CHAINS), self.draws)
        r_hat = float(np.max(split_r_hat(both, chains)))
        factor = float(calibration.factor.max())
        warnings = list(release.notes)
        if not r_hat <= _MIXED:
            warnings.append(f"the chains did not mix (R-hat {r_hat:.2f}): more warmup=, or fewer components=")
        if lost := int(diverged[:_CHAINS].sum()):
            warnings.append(f"{lost} divergent transitions: raise scale=, or lower components=")
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
            draws=np.clip(law.records(both), *values),
            settings={
                "view": release.answer.view,
                "noise": release.noise,
                "components": c.shape[2],
                "clusters": self.clusters,
                "variance of the components": law.share,
                "error of an answer outside them": law.error,
                "least error": self.scale,
                "factor": factor,
                "R-hat": r_hat,
                "calibrated on": self.calibration,
            },
            warnings=tuple(warnings),
            seconds=time.perf_counter() - began,
        )


ATTACK = PosteriorSampling


def moments(law: PriorLaw, c: np.ndarray, values: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and standard deviation of every field, `(p,)` each, from draws `(D, q)`.

    The variance outside the principal components is added.
    """
    x = law.records(c)
    return np.clip(x.mean(axis=0), *values), np.sqrt(x.var(axis=0) + law.rest)


@partial(jax.jit, static_argnames=("answer", "widths", "warmup", "draws"))
def _chains(
    keys: Any, z: Any, start: Any, arrays: Any, answer: Answer, widths: tuple[int, ...], warmup: int, draws: int
) -> Any:
    """One chain for every row of z."""
    from numpyro.infer import MCMC, NUTS

    def one(key: Any, z: Any, start: Any) -> Any:
        def potential(c: Any) -> Any:
            return -(log_prior(c, arrays) + log_likelihood(c, z, answer, widths, arrays))

        kernel = NUTS(potential_fn=potential, max_tree_depth=7)
        run = MCMC(kernel, num_warmup=warmup, num_samples=draws, progress_bar=False)
        run.run(key, init_params=start, extra_fields=("diverging",))
        return run.get_samples(), run.get_extra_fields()["diverging"].sum()

    return jax.vmap(one)(keys, z, start)
