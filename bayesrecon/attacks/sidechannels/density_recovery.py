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

_TRIALS, _EQUATIONS = 200, 400_000  # largest numbers of trials of a remedy, and of equations in all trials
_FEWEST = 80  # smallest number of trials: their error is known to a twelfth
_DITHER = 2.0  # effect of the shift of the totals in a trial on the log densities, in steps of the rounding
_STORED = 1.0  # rounding error of storing a value, in the same units as `ARITHMETIC`


@dataclass(frozen=True, eq=False)
class Trials:
    """Repeated trials of a remedy.

    Attributes:
        predicted: `(S,)` predicted root mean squared error.
        estimates: `(R, S)` estimates in each trial.
    """

    predicted: Float[np.ndarray, " S"]
    estimates: Float[np.ndarray, "R S"]

    def measured(self, now: np.ndarray, errors: np.ndarray) -> Float[np.ndarray, " S"]:
        """Root mean squared error `(S,)`: deviations from the estimates `now`, and the `errors` of these."""
        return np.sqrt(np.nanmean((self.estimates - now) ** 2, axis=0) + errors**2)


@dataclass(frozen=True, eq=False)
class DensityRecovery:
    """Statistics of the private data from log densities.

    Attributes:
        rows: one `Row` per statistic. Standard errors are due to rounding, and to kinetic noise for energies.
        rank: number of features of a record that log densities determine.
        gap: whether there are finitely many features.
        resolution: precision of the log densities.
        misfit: root mean squared residual, in units of the rounding error. If it is much larger than one, the values
            are not this model's log density at these draws.
        bounded: whether all residuals are inside the rounding intervals. Otherwise least squares were used.
        draws: number of log densities that were used.
        step: `(T,)` unit of the last printed digit of each log density.
        given: `(T,)` the log densities.
        design: `(T, r)` values of the basis functions at the draws.
        values: `(T,)` log densities minus the log prior, which are `c + design @ totals`.
        regression: solution for the totals.
        read: computes the determined statistics `(S,)` from a solution.
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
        """Errors `(S,)` of the determined statistics: standard errors and errors of the undetermined part."""
        rows = [row for row in self.rows if row.estimate is not None]
        widths = np.array([(row.upper or 0.0) - (row.lower or 0.0) for row in rows])
        se = np.array([row.se or 0.0 for row in rows])
        return np.hypot(se, np.maximum(0.5 * widths - Z95 * se, 0.0))

    def tried(
        self,
        count: int | None,
        digits: int | None,
        rng: np.random.Generator,
        enough: Callable[[int, float], bool] | None = None,
    ) -> Trials:
        """Errors that would remain if draws were thinned, or values rounded.

        The attack is repeated many times: for predicted errors on values simulated from the design, the fitted totals
        and the current rounding errors, and for measured errors on the released values. A trial of thinning takes
        random draws. A trial of rounding shifts the totals by a known amount before the numbers are rounded, and
        subtracts it from the estimates. So each trial has new rounding errors. The shift is smaller than the variation
        of the log density.

        Args:
            count: number of draws to keep; by default all.
            digits: number of significant digits to keep; by default all.
            rng: random numbers of the trials.
            enough: function of the number of trials and the seconds of the last one, which returns whether to stop.
        """
        totals, rank = self.regression.coefficients, len(self.regression.coefficients)
        trials = int(np.clip(_EQUATIONS // (count or len(self.given)), _FEWEST, _TRIALS if self.gap else _FEWEST))
        base = self.given - self.values
        fitted, all_draws = self.values.mean() + self.design @ totals, np.arange(len(self.given))
        r = np.linalg.qr(self.design, mode="r")
        step = self.step if digits is None else decimal_step(self.given, digits)
        size = min(_DITHER * float(np.median(step)), 0.5 * float(self.given.std())) * np.sqrt(len(all_draws) / rank)
        simulated, released = [], []
        for trial in range(1, trials + 1):
            start = time.process_time()
            rows = np.sort(rng.permutation(len(all_draws))[:count]) if count else all_draws
            design, shift = self.design[rows], np.zeros(rank)
            if digits is not None:
                shift = scipy.linalg.solve_triangular(r, size * rng.normal(size=rank))
            for results, values in ((simulated, fitted + self._noise(rng)), (released, self.values)):
                log_density = (values + base + self.design @ shift)[rows]
                log_density, unit = (log_density, step[rows]) if digits is None else _rounded_to(log_density, digits)
                bounded = self.gap and (digits is not None or self.bounded)
                refit = fit_totals(design, log_density - base[rows], unit, bounded, start=totals + shift)
                results.append(self.read(replace(refit, coefficients=refit.coefficients - shift)))
            if enough is not None and enough(trial, time.process_time() - start):
                break
        centre = self.read(self.regression)
        undetermined = self.errors**2 - np.array([row.se or 0.0 for row in self.rows if row.estimate is not None]) ** 2
        predicted = np.sqrt(np.nanmean((np.array(simulated) - centre) ** 2, axis=0) + undetermined)
        return Trials(predicted, np.array(released))

    def _noise(self, rng: np.random.Generator) -> np.ndarray:
        """Simulated errors `(T,)` of the log densities, from rounding or from arithmetic."""
        if self.resolution.digits:
            return rng.uniform(-0.5, 0.5, len(self.step)) * self.step
        return max(self.misfit, _STORED / ARITHMETIC) * self.step / np.sqrt(12) * rng.normal(size=len(self.step))


def _rounded_to(values: np.ndarray, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """The values rounded to significant digits, and the units of their last digits."""
    cut = round_to(values, digits)
    return cut, decimal_step(cut, digits)
