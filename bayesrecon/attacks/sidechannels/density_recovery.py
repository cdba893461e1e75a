"""Statistics that log densities determine, and the errors that would remain if draws were thinned or values rounded."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.attacks.sidechannels.regression import Regression, fit_totals
from bayesrecon.attacks.sidechannels.resolution import ARITHMETIC, Resolution
from bayesrecon.diagnostics import Z95
from bayesrecon.digits import decimal_step, round_to
from bayesrecon.results.recovery import Row

_TRIALS, _EQUATIONS = 200, 400_000  # of a remedy, predicted and measured: at most, and as the draws allow
_FEWEST = 80  # trials from which an error is known to a twelfth
_DITHER = 2.0  # how far the totals are moved for a new trial, as seen in the log densities, in steps of the rounding
_STORED = 1.0  # of the `ARITHMETIC` units, the one that storing the value takes


@dataclass(frozen=True, eq=False)
class Trials:
    """A remedy tried many times.

    Attributes:
        predicted: `(S,)` root mean squared error that should remain, from theory.
        estimates: `(R, S)` what the attack gave in each trial.
    """

    predicted: Float[np.ndarray, " S"]
    estimates: Float[np.ndarray, "R S"]

    def measured(self, now: np.ndarray, errors: np.ndarray) -> Float[np.ndarray, " S"]:
        """Root mean squared error `(S,)`: how far the estimates move, and the `errors` that they have `now`."""
        return np.sqrt(np.nanmean((self.estimates - now) ** 2, axis=0) + errors**2)


@dataclass(frozen=True, eq=False)
class DensityRecovery:
    """Statistics of the private data from log densities.

    Attributes:
        rows: one `Row` per statistic; `se` is due to rounding (and to kinetic noise, for energies).
        rank: features of a record that log densities determine.
        gap: whether there are finitely many.
        resolution: how the log densities were written.
        misfit: root mean squared residual in units of the rounding error. Much above one: the values are not this
            model's log density at these draws.
        bounded: whether the estimates lie between the rounding intervals (else least squares).
        draws: how many log densities were used.
        step: `(T,)` unit in which errors of the log densities are measured: of the last digit that was printed.
        given, values, design, regression: `given` less the prior is `values = c + design @ totals`, solved for totals.
        read: from a solution to the determined statistics `(S,)`.
    """

    rows: tuple[Row, ...]
    rank: int
    gap: bool
    resolution: Resolution
    misfit: float
    bounded: bool
    draws: int
    step: Float[np.ndarray, " T"]
    given: np.ndarray
    design: np.ndarray
    values: np.ndarray
    regression: Regression
    read: Callable[[Regression], np.ndarray]

    def __getitem__(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        """The statistics that are determined, in the order of `read`."""
        return tuple(row.name for row in self.rows if row.estimate is not None)

    @property
    def errors(self) -> Float[np.ndarray, " S"]:
        """Their errors `(S,)`: standard errors, and what the log densities do not show of them."""
        rows = [row for row in self.rows if row.estimate is not None]
        ends = np.array([(row.upper or 0.0) - (row.lower or 0.0) for row in rows])
        se = np.array([row.se or 0.0 for row in rows])
        return np.hypot(se, np.maximum(0.5 * ends - Z95 * se, 0.0))

    def tried(
        self,
        count: int | None,
        digits: int | None,
        rng: np.random.Generator,
        enough: Callable[[int, float], bool] | None = None,
    ) -> Trials:
        """Errors that would remain if draws were thinned, or values rounded.

        Both sides run the attack anew, many times. Predicted: on values that are simulated from the design, the fitted
        totals and the errors that the file's numbers carry now. Measured: on the released values. A trial of
        thinning takes draws at random. A trial of rounding moves the totals by a known amount, less than the log
        density itself varies, before the numbers are cut: the rounding errors are then new ones, and the amount is
        taken off again. (A shift of the constant alone would renew one number only, for all draws.)

        Args:
            count: draws to keep, all by default.
            digits: significant digits to keep, as they are by default.
            enough: whether to end after so many trials, of which the last took so many seconds.
        """
        totals, rank = self.regression.coefficients, len(self.regression.coefficients)
        trials = int(np.clip(_EQUATIONS // (count or len(self.given)), _FEWEST, _TRIALS if self.gap else _FEWEST))
        base = self.given - self.values
        fitted, all_draws = self.values.mean() + self.design @ totals, np.arange(len(self.given))
        r = np.linalg.qr(self.design, mode="r")
        step = self.step if digits is None else decimal_step(self.given, digits)
        far = min(_DITHER * float(np.median(step)), 0.5 * float(self.given.std())) * np.sqrt(len(all_draws) / rank)
        simulated, real = [], []
        for done in range(1, trials + 1):
            began = time.process_time()
            kept = np.sort(rng.permutation(len(all_draws))[:count]) if count else all_draws
            design, moved = self.design[kept], np.zeros(rank)
            if digits is not None:
                moved = scipy.linalg.solve_triangular(r, far * rng.normal(size=rank))
            for results, values in ((simulated, fitted + self._noise(rng)), (real, self.values)):
                seen = (values + base + self.design @ moved)[kept]
                seen, width = (seen, step[kept]) if digits is None else _rounded_to(seen, digits)
                bounded = self.gap and (digits is not None or self.bounded)
                refit = fit_totals(design, seen - base[kept], width, bounded, start=totals + moved)
                results.append(self.read(replace(refit, coefficients=refit.coefficients - moved)))
            if enough is not None and enough(done, time.process_time() - began):
                break
        centre = self.read(self.regression)
        hidden = self.errors**2 - np.array([row.se or 0.0 for row in self.rows if row.estimate is not None]) ** 2
        predicted = np.sqrt(np.nanmean((np.array(simulated) - centre) ** 2, axis=0) + hidden)
        return Trials(predicted, np.array(real))

    def _noise(self, rng: np.random.Generator) -> np.ndarray:
        """Errors `(T,)` as the numbers carry them: of rounding, or of arithmetic, whose size the residuals tell."""
        if self.resolution.digits:
            return rng.uniform(-0.5, 0.5, len(self.step)) * self.step
        return max(self.misfit, _STORED / ARITHMETIC) * self.step / np.sqrt(12) * rng.normal(size=len(self.step))


def _rounded_to(values: np.ndarray, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """The values as printed with so many digits, and the unit of the last one."""
    cut = round_to(values, digits)
    return cut, decimal_step(cut, digits)
