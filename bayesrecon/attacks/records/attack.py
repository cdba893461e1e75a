"""Individual records from a release: the design is known, one record per unit, the response private."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Float
from scipy.optimize import isotonic_regression

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.records.candidates import (
    Around,
    CandidateValues,
    PriorPrediction,
    Readout,
    candidates_of,
    prior_predictions,
    readout,
)
from bayesrecon.attacks.records.rows import KnownRows, make_rows, make_slots
from bayesrecon.attacks.records.solution_noise import SolutionNoise, noise_of
from bayesrecon.attacks.records.system import System, make_system, units_of
from bayesrecon.diagnostics import Z95, effective_sample_size, evenly
from bayesrecon.divergence.metrics import Metric, in_coordinates, metric_factor
from bayesrecon.domains import Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.checks.check import CheckInput, failures
from bayesrecon.estimation.checks.copies import counted_once
from bayesrecon.estimation.checks.correlation import uncorrelated
from bayesrecon.estimation.checks.kinks import refuse_kinks
from bayesrecon.estimation.error_laws import PARTLY, SAMPLED
from bayesrecon.estimation.random_key import generator
from bayesrecon.estimation.scored import ScoredDraws
from bayesrecon.knowledge import Knowledge, Knows, check_knowledge
from bayesrecon.model import Progress
from bayesrecon.releases import PosteriorDraws
from bayesrecon.results.records import Column, RecordTable

if TYPE_CHECKING:
    from scipy.sparse import csc_array

_SERIES = 512  # number of series from which the autocorrelation is estimated
_STANDS_OUT = 4.0  # standard errors between an estimate and the model's prediction
_ENOUGH = 200  # number of functionals that determine a common factor of the errors to a tenth


def recover_records(
    release: PosteriorDraws,
    knowledge: Knowledge,
    metric: Metric,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> RecordTable:
    """Recover the unknown fields of every known row.

    The amplitudes s of the rows' features (`records.rows`) solve `K s = b` (`records.system`). A field that is an
    affine function of s has an estimate with a sandwich error. A field with finitely many values, or integer ones, also
    has the most probable value given the solution, its noise and the model's prediction.

    Raises:
        BayesreconError: the unit is not a known field, all fields are known, or the likelihood does not depend on the
            unknown fields.
    """
    start = time.perf_counter()
    unknown = {k: f for k, f in knowledge.fields.items() if k not in knowledge.known}
    units = knowledge.unit if isinstance(knowledge.unit, tuple) else (str(knowledge.unit),)
    if units[0] not in knowledge.known:
        raise BayesreconError(f"unit={units[0]!r} must be one of the known fields; pass known={{{units[0]!r}: values}}")
    if not unknown:
        raise BayesreconError("every field is known: there is nothing to recover")
    chosen = Metric.of(metric, release)
    release = counted_once(release)
    view = in_coordinates(release, str(chosen.coordinates))
    refuse_kinks(view)
    theta = np.asarray(view.theta)
    rows = make_rows(view, knowledge.known, unknown, rng)
    pairs = rows.pairs()
    slots = make_slots(view.model, theta, metric_factor(view, chosen.sigma), pairs)
    single_feature = rows.features == 1 and bool(rows.distinct.all())
    system = make_system(view, slots, rows.base(), pairs, progress, layers=single_feature)
    noise = noise_of(system)
    read = readout(view, rows, slots, rng)
    # Errors of a sample are estimated from their series. The others are predicted and scaled to agree with them.
    sample = evenly(read.readable.size, noise.scattered)
    series = system.influence(read.columns[:, sample].toarray(), progress)
    weights = np.asarray(view.weights)
    scatter = weights @ (series - weights @ series) ** 2
    draws = _effective(series, np.asarray(view.chain)) / len(weights) / np.sum(weights**2)
    predicted = noise.variances(read.columns)
    inflation = float(np.median(scatter / np.maximum(predicted[sample], 1e-300)))
    variance = inflation * predicted
    variance[sample] = scatter
    visibility = _visibility(system, read).reshape(rows.count, -1)
    visibility = np.where(read.readable, visibility, 0.0)
    determined = visibility >= PARTLY
    variance /= draws
    scale = draws / max(inflation, 1.0)
    per_record, overall = _error_inflation(
        system, noise, read.columns[:, determined.ravel()], variance[determined.ravel()]
    )
    scale /= max(1.0, scale * overall)
    se = np.sqrt(per_record * variance).reshape(rows.count, -1)
    floor = np.sqrt(predicted * np.sum(weights**2)).reshape(rows.count, -1)
    estimate = read.offset + (read.columns.T @ system.solution).reshape(rows.count, -1)
    discrete = all(f.domain.discrete for f in unknown.values())
    guesses = prior_predictions(view, rows, read, rng)
    options, probability, notes = None, None, list[str]()
    if discrete:
        centre, sd = expected = _expected(list(guesses.values()))
        # A row that the draws do not determine gets the values that the model expects.
        around = np.where(determined, estimate, centre), np.where(determined, se, sd)
        options = candidates_of(view, rows, slots, read, around, expected)
    if options is not None:
        if progress is not None:
            progress("weighing values", 0.0)
        probability, notes = _probabilities(system, noise, scale, rows, options, rng)
        if progress is not None:
            progress("weighing values", 1.0)
    columns = {}
    for j, (name, spec) in enumerate(unknown.items()):
        numbers = estimate[:, j], se[:, j], floor[:, j], visibility[:, j]
        columns[name] = _column(spec.domain, *numbers, guesses[name])
        if options is not None and probability is not None:
            value, stated, prior = options.most_probable(name, probability)
            columns[name] = replace(columns[name], value=value, probability=stated, prior=prior)
    return RecordTable(
        known=knowledge.known,
        unit=units,
        columns=columns,
        release=release.name,
        model=release.model.name,
        draws=release.size,
        effective_draws=draws,
        unknowns=len(system.solution),
        parameters_per_record=slots.width,
        left_out=slots.left_out,
        warnings=(*_warnings(release, columns), *notes),
        failures=_failures(view, system, draws),
        seconds=time.perf_counter() - start,
    )


def _expected(guesses: list[PriorPrediction]) -> Around:
    centre = [np.full_like(g.sd, np.nan) if g.value is None else g.value for g in guesses]
    # A count that was never simulated is rare, not impossible.
    return np.stack(centre, axis=1), np.maximum(np.stack([g.sd for g in guesses], axis=1), 1.0)


def _effective(series: np.ndarray, chain: np.ndarray) -> float:
    """Typical effective sample size of the records' series."""
    sample = evenly(series.shape[1], _SERIES)
    sizes = [effective_sample_size(series[:, block], chain) for block in np.array_split(sample, -(-len(sample) // 64))]
    return float(np.median(np.concatenate(sizes)))


def _visibility(system: System, read: Readout) -> np.ndarray:
    """Share of each functional that the draws determine, `(S,)`."""
    if system.visible is None:
        return np.ones(read.readable.size)
    scaled = read.columns / units_of(np.asarray(system.gram))[:, None]
    total = np.maximum((scaled**2).sum(axis=0), 1e-300)
    return np.clip(((scaled.T @ system.visible) ** 2).sum(axis=1) / total, 0, 1)


def _error_inflation(
    system: System, noise: SolutionNoise, columns: "csc_array", variance: np.ndarray
) -> tuple[float, float]:
    """Ratios of actual to stated squared errors, from the disagreement of the two halves of the draws.

    The first ratio is that of the functionals `columns (M, S)`. It is one if there are too few of them. The second one
    is that of the whole solution, relative to the error of a single draw. Residuals alone are not enough: extreme draws
    pull the fit towards themselves, so their residuals are smaller than their influence.
    """
    difference = system.disagreement
    if difference is None or len(variance) < _ENOUGH:
        return 1.0, 0.0
    per_record = np.mean((columns.T @ difference) ** 2 / np.maximum(variance, 1e-300))
    rank = len(difference) if system.visible is None else system.visible.shape[1]
    return max(1.0, float(per_record)), noise.length(difference) / rank


def _probabilities(
    system: System,
    noise: SolutionNoise,
    scale: float,
    rows: KnownRows,
    options: CandidateValues,
    rng: np.random.Generator,
) -> tuple[np.ndarray, list[str]]:
    """Probabilities of the candidates, `(N, C)`, calibrated on simulated tables, or a warning if they are not."""
    values = options.amplitudes, options.log_prior
    if system.disagreement is None or not repeats_affordable(rows):
        reason = (
            "half of the draws does not determine all of them"
            if repeats_affordable(rows)
            else "there are too many of them to decode twice"
        )
        note = (
            f"probabilities of values may be too high: they could not be calibrated on simulated data, because {reason}"
        )
        return noise.probabilities(scale, rows, [system.solution], *values)[0], [note]
    chosen, solutions = simulated_tables(rows, options.amplitudes, options.prior, system.disagreement, rng)
    real, *simulated = noise.probabilities(scale, rows, [system.solution, *solutions], *values)
    return calibrated(real, simulated, chosen, options.prior), []


def _column(
    domain: Domain,
    estimate: np.ndarray,
    se: np.ndarray,
    floor: np.ndarray,
    visibility: np.ndarray,
    guess: PriorPrediction,
) -> Column:
    # An error as wide as the domain, or wider than the model's own spread of the record, means that nothing was learnt,
    # unless the record stands out from the prediction.
    too_wide = se > domain.width
    if guess.value is not None and not domain.discrete:
        too_wide |= (se > guess.sd) & (np.abs(estimate - guess.value) < _STANDS_OUT * se)
    determined = (visibility >= PARTLY) & ~too_wide
    low, high = estimate - Z95 * se, estimate + Z95 * se
    return Column(
        estimate=np.where(determined, estimate, np.nan),
        se=np.where(determined, se, np.nan),
        floor=np.where(determined, floor, np.nan),
        lower=np.where(determined, np.clip(low, domain.low, domain.high), np.nan),
        upper=np.where(determined, np.clip(high, domain.low, domain.high), np.nan),
        visibility=visibility,
        verdict=np.array(
            [SAMPLED.verdict(float(v)) if s else "undetermined" for v, s in zip(visibility, determined, strict=True)]
        ),
        naive=guess.value,
        naive_sd=guess.sd if np.isfinite(guess.sd).all() else None,
    )


def _failures(view: PosteriorDraws, system: System, independent: float) -> tuple[str, ...]:
    """Failed checks of whether draws and model belong together, from the score of the reconstructed posterior."""
    theta, slots, names = np.asarray(view.theta), system.slots, view.model.coordinates
    # The directions of all coordinates are needed for the inverse. The last ones have no score.
    directions = np.concatenate([slots.directions, np.eye(theta.shape[1])[slots.shared]])
    labels = tuple(names[int(np.abs(direction / theta.std(axis=0)).argmax())] for direction in directions)
    coordinates = theta @ np.linalg.inv(directions)
    draws = ScoredDraws(coordinates, np.asarray(view.weights), np.asarray(view.chain), system.scores())

    def halves() -> list[ScoredDraws]:
        first, second = slice(system.split), slice(system.split, None)
        if system.halves is None:
            return []
        return [
            draws.part(rows, system.scores(solution)[rows])
            for rows, solution in zip((first, second), system.halves, strict=True)
        ]

    found = failures(CheckInput(labels, draws, system.moved, cache(halves), release=view, independent=independent))
    # A person who is in the known rows and not in the data has no likelihood at all, which no answers can reproduce.
    return tuple(f"{failure} (or a known row is of somebody who is not in the data)" for failure in found)


def _warnings(release: PosteriorDraws, columns: dict[str, Column]) -> tuple[str, ...]:
    result = [*release.notes, *uncorrelated(release)]
    undetermined = np.any([c.visibility < PARTLY for c in columns.values()], axis=0)
    noisy = np.any([np.isnan(c.estimate) & (c.value is None) for c in columns.values()], axis=0) & ~undetermined
    if undetermined.any():
        result.append(
            f"{undetermined.sum()} of {len(undetermined)} records are not determined individually: the draws determine "
            "only sums over them"
        )
    if noisy.any():
        result.append(
            f"{noisy.sum()} of {len(noisy)} records have errors larger than their field's domain or the model's "
            "own spread: these draws hardly determine them"
        )
    return tuple(result)


# Calibration of the probabilities of values on simulated tables.
#
# Decoding finds one table and not its rivals, and it knows the noise only by normal theory. So tables are drawn from
# the model's predictions. Their noise is the disagreement of the two halves of the draws, with either sign. They are
# decoded like the real table. The probabilities of the real table are then lowered to the share of correct values in
# the simulated ones, by isotonic regression (Zadrozny and Elkan 2002).

_ROWS = 4000  # number of simulated rows: enough to see an error rate of one in a thousand
_FEWEST, _MOST = 2, 8  # numbers of simulated tables
_LARGE, _HUGE = 5000, 20_000  # with more rows there is one simulated table, and with more than the second number none
_ABOVE = 1e-9  # smallest difference between the probabilities of the most probable value and the next one


def repeats_affordable(rows: KnownRows) -> bool:
    """Whether a table with this many rows is decoded more than once."""
    return rows.count <= _HUGE


def simulated_tables(
    rows: KnownRows, amplitudes: np.ndarray, prior: np.ndarray, noise: Float[np.ndarray, " M"], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Tables of candidates drawn from the model's probabilities, `(S, N)`, and their noisy solutions, `(S, M)`.

    Args:
        amplitudes: `(N, C, p)` amplitudes of the candidates.
        prior: `(N, C)` probabilities of the candidates.
        noise: `(M,)` a vector whose covariance is that of the solution's noise.
    """
    count = 1 if rows.count > _LARGE else int(np.clip(-(-_ROWS // rows.count), _FEWEST, _MOST))
    thresholds = np.cumsum(prior / prior.sum(axis=1, keepdims=True), axis=1)[:, :-1]
    chosen = (rng.random((count, rows.count, 1)) > thresholds).sum(axis=2)
    true = amplitudes[np.arange(rows.count), chosen][:, rows.distinct]
    sign = np.where(np.arange(count) % 2, -1.0, 1.0)
    return chosen, true + sign[:, None] * noise


def calibrated(
    probability: np.ndarray, simulated: Sequence[np.ndarray], chosen: np.ndarray, prior: Float[np.ndarray, "N C"]
) -> Float[np.ndarray, "N C"]:
    """Calibrated probabilities `(N, C)`.

    The largest probability of a row is at most the share of correct values among simulated rows with this probability.

    Args:
        probability: `(N, C)` probabilities of the real table.
        simulated: `(S, N, C)` probabilities of the simulated tables.
        chosen: `(S, N)` true candidates of the simulated tables.
        prior: `(N, C)` probabilities by which the remainder is divided among the other candidates if these have none.

    >>> stated = np.array([[0.9, 0.1]] * 100)
    >>> calibrated(stated[:1], [stated], np.array([[0] * 70 + [1] * 30]), stated[:1]).round(2).tolist()
    [[0.7, 0.3]]
    """
    stated = np.concatenate([p.max(axis=1) for p in simulated])
    correct = np.concatenate([p.argmax(axis=1) == c for p, c in zip(simulated, chosen, strict=True)])
    stated, group = np.unique(stated, return_inverse=True)
    size = np.bincount(group)
    share = isotonic_regression(np.bincount(group, correct) / size, weights=size).x
    # Half a correct and half a wrong value are added to each level: a few correct values are no certainty.
    level, group = np.unique(share, return_inverse=True)
    count = np.bincount(group, size)
    level = np.maximum.accumulate((level * count + 0.5) / (count + 1))[group]
    rows, best = np.arange(len(probability)), probability.argmax(axis=1)
    largest = probability[rows, best]
    others, prior_of_others = probability.copy(), prior + 0.0
    others[rows, best] = prior_of_others[rows, best] = 0.0
    others = np.where(others.sum(axis=1, keepdims=True) > 0, others, prior_of_others)
    total = others.sum(axis=1)
    others /= np.maximum(total, 1e-300)[:, None]
    second = others.max(axis=1)
    limit = level[np.minimum(np.searchsorted(stated, largest), len(level) - 1)]
    # The value stays the most probable one. It is certain if there is no other.
    new = np.where(total > 0, np.minimum(np.maximum(limit, second / (1 + second) + _ABOVE), largest), largest)
    result = others * (1 - new)[:, None]
    result[rows, best] = new
    return np.where((new < largest)[:, None], result, probability)


# `SingleRecords`: every record separately, where a parameter belongs to a person, a hospital or a county.


@dataclass(frozen=True)
class SingleRecords(Attack[RecordTable]):
    """Recovers the unknown fields of every row of a known design, with their errors.

    For answers, categories and counts, the result has the most probable value with its probability.

    >>> SingleRecords(unit=("person", "item")).unit
    ('person', 'item')
    """

    name: ClassVar[str] = "single-records"
    summary: ClassVar[str] = "each record separately, given its known covariates, with errors and probabilities"
    takes: ClassVar[tuple[type, ...]] = (PosteriorDraws,)

    unit: str | tuple[str, ...] | None = option(None, "Known field (or fields a,b) that identifies a record.")
    metric: Metric = option(Metric(), "Metric and coordinates.")

    def run(self, release: PosteriorDraws, knows: Knows, *, key: Key, progress: Progress) -> RecordTable:
        unit = self.unit or knows.get("unit")
        if unit is None:
            raise BayesreconError("SingleRecords needs the known field, or fields, that identify a record: unit=")
        knowledge = check_knowledge(release.model, **{**knows, "unit": unit})
        return recover_records(release, knowledge, self.metric, rng=generator(key), progress=progress)


ATTACK = SingleRecords
