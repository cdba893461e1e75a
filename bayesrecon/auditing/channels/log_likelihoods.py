"""Pointwise log likelihoods, attacked: every record from its own column."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bayesrecon.attacks.sidechannels.preimage import (
    IGNORED,
    PreImages,
    invert_columns,
    linear_response,
    standard_errors,
)
from bayesrecon.attacks.sidechannels.resolution import below_arithmetic, resolution
from bayesrecon.auditing.channel import Channel
from bayesrecon.auditing.columns import MOST_RECORDS, counts_by_category, for_rows, of_all, relative_errors
from bayesrecon.auditing.effort import Budget, Open
from bayesrecon.auditing.evidence import typical_error
from bayesrecon.auditing.opened import Opened
from bayesrecon.diagnostics import evenly
from bayesrecon.digits import decimal_step, round_to
from bayesrecon.estimation.anchors import Reference
from bayesrecon.posteriors.contents import Variable
from bayesrecon.results.audit import Finding, Item, NotRun, Remedy, Severity

_NAME = "log likelihoods"
# Remedies that are tried; a record is the pre-image of few draws, so that thinning further would leave no file.
_ROUNDINGS = (5, 4, 3)
_THINNINGS = (300, 100)
_TRIED = 256  # records on which a remedy is measured
_ERRORS, _REPEATS = 512, 16  # errors of which the median is taken, by thinning again and again where records are few


def attack_log_likelihoods(opened: Opened) -> tuple[list[Open], list[NotRun]]:
    """Pointwise log likelihoods: every record from its own column."""
    findings: list[Open] = []
    untried: list[NotRun] = []

    def leave(variable: Variable, reason: str, remedy: str) -> None:
        untried.append(NotRun(_NAME, f"{variable.where}{reason}", remedy, (variable.where,)))

    for variable in opened.contents.group("log_likelihood"):
        if not variable.per_draw:
            leave(variable, " is not of the file's draws: it was not inverted", f"drop {variable.where}")
            continue
        theta, values = opened.wide(variable)
        columns = values.reshape(len(values), -1)
        some = evenly(columns.shape[1], MOST_RECORDS)
        columns = columns[:, some].T
        if not np.isfinite(columns).all() or len(theta) < 4:
            reason = " holds missing or infinite values, or too few draws: it was not inverted"
            leave(variable, reason, f"drop {variable.where}")
            continue
        written = resolution(columns)
        noise = np.maximum(written.sd, 4 * np.spacing(np.abs(columns)))
        reference = for_rows(opened, variable.values[0].size, some)
        found = invert_columns(opened.model.untempered, theta, columns, noise, reference, opened.rng)
        limit = opened.thresholds.misfit if written.digits else 1e4
        fits = found.misfit < limit
        if fits.mean() < 0.5:
            reason = (
                f": {1 - fits.mean():.0%} of its columns are no log likelihoods of {opened.model.name} "
                f"(residuals of {np.median(found.misfit):.2g} times the rounding error, in the median)"
            )
            leave(variable, reason, f"pass the model that made them, or drop {variable.where}")
            continue
        finding = _records_finding(opened, variable, found, fits, written.label)
        trials = partial(_pointwise_remedies, opened, found, fits, theta, columns, noise, reference)
        findings.append(Open(finding, trials))
    return findings, untried


def _records_finding(
    opened: Opened,
    variable: Variable,
    found: PreImages,
    fits: np.ndarray,
    label: str,
) -> Finding:
    limits = opened.thresholds
    relative = relative_errors(opened, found)
    sharp = fits & (relative < limits.record) & ~found.ambiguous
    severity: Severity = "high" if sharp.mean() >= limits.share else "medium"
    ambiguous = int((found.ambiguous & fits).sum())
    summary = (
        f"{int(sharp.sum())} of {len(found)} records{of_all(variable, found)} "
        f"can be solved for from their columns at {label} ("
        + ", ".join(f"{f} to ±{np.median(np.ravel(se)):.2g}" for f, se in found.se.items())
        + " in the median)"
        + (f"; {ambiguous} have more than one solution" if ambiguous else "")
        + (f"; {int((~fits).sum())} did not fit" if not fits.all() else "")
    )
    return Finding(
        "log-likelihood",
        severity,
        "pointwise log likelihoods give the records"
        if severity == "high"
        else "pointwise log likelihoods can be inverted",
        (variable.where,),
        summary,
        "the model",
        _record_items(opened, found),
        (Remedy(f"drop {variable.where}: publish its sums (elpd, p_loo) instead"),),
        found.records,
        found.se,
        drop=(variable.where,),
    )


def _pointwise_remedies(
    opened: Opened,
    found: PreImages,
    fits: np.ndarray,
    theta: np.ndarray,
    columns: np.ndarray,
    noise: np.ndarray,
    reference: Reference,
    budget: Budget,
) -> tuple[Remedy, ...]:
    """Rounder columns and fewer draws: the error of a field over some records.

    Predicted from a linearisation about the recovered records: the response to the rounding errors that would be added,
    and the standard errors that fewer draws would leave; the size of the errors that columns carry now is that of their
    residuals. Sizes of errors are judged by their median.
    """
    rng = opened.rng
    some = np.sort(rng.permutation(np.flatnonzero(fits))[:_TRIED])
    field = next(
        (f for f, v in found.records.items() if opened.model.fields[f].domain.kind in ("real", "interval")), None
    )
    if field is None or not np.isfinite(found.se[field][some]).all():
        return ()
    start = replace(reference, known={k: np.asarray(v)[some] for k, v in reference.known.items()})
    exact = _rows(found.records[field], some)
    written = resolution(columns)
    # Standard errors never shrink with the residuals; arithmetic in a binary format is often better than assumed.
    size = found.misfit[some] / np.maximum(1.0, found.misfit[some]) if written.digits is None else np.ones(len(some))
    # A sampler that computed in single precision held its data so: the record before that cannot be known better.
    held = np.spacing(exact.astype(np.float32)).astype(float) if written.label == "single precision" else 0.0

    def errors(se: np.ndarray, repeats: int = 200) -> np.ndarray:
        shape = (repeats, *exact.shape)
        return size[:, None] * se * rng.normal(size=shape) + held * rng.uniform(-0.5, 0.5, shape)

    seconds = 0.0
    now = errors(_rows(found.se[field], some))
    before = typical_error(now)
    remedies = []

    def attacked(values: np.ndarray, noise: np.ndarray) -> np.ndarray:
        again = invert_columns(opened.model.untempered, theta, values, noise, start, opened.rng, starts=3)
        return _rows(again.records[field], np.arange(len(some)))

    def remedy(action: str, predicted: float, trials: np.ndarray | None) -> Remedy:
        if below_arithmetic(predicted, float(np.median(np.abs(exact)))):
            return Remedy(f"{action}: the records still come back to the last digit")
        if trials is None:
            return Remedy(action, field, before, predicted)
        # What the records were off before, the present ones do not show.
        measured = float(np.hypot(typical_error(trials - exact), before))
        return Remedy(action, field, before, predicted, measured, trials=trials, rows=some)

    for digits in (k for k in _ROUNDINGS if k < (written.digits or 17)):
        values = round_to(columns[some], digits)
        width = decimal_step(values, digits) / np.sqrt(12)
        moved = linear_response(opened.model.untempered, theta, found, some, values - columns[some], reference, width)
        predicted = typical_error(_rows(moved[field], np.arange(len(some))) + now)
        trials = None
        if budget.allows(seconds):
            trials, seconds = budget.timed(partial(attacked, values, width))
        remedies.append(remedy(f"round to {digits} digits", predicted, None if trials is None else trials[None]))
    for count in (t for t in _THINNINGS if 2 * t <= len(theta)):
        expected, trials = [], []
        for _ in range(int(np.clip(_ERRORS // len(some), 1, _REPEATS))):
            kept = rng.permutation(len(theta))[:count]
            left = np.full((len(some), len(theta)), 10 * IGNORED)  # what is left out weighs nothing; shapes stay
            left[:, kept] = noise[some][:, kept]
            se = standard_errors(opened.model.untempered, theta, found, some, left, reference)[field]
            inflated = _rows(se, np.arange(len(some))) * np.maximum(1.0, found.misfit[some])[:, None]
            expected.append(errors(inflated, 20))
            if budget.allows(seconds):
                again, seconds = budget.timed(partial(attacked, columns[some], left))
                trials.append(again)
        predicted = typical_error(np.array(expected))
        remedies.append(remedy(f"keep {count} draws", predicted, np.array(trials) if trials else None))
    return tuple(remedies)


def _rows(values: Any, chosen: np.ndarray) -> np.ndarray:
    return np.asarray(values, float)[chosen].reshape(len(chosen), -1)


def _record_items(opened: Opened, found: PreImages) -> tuple[Item, ...]:
    items = [Item("n", float(len(found)), 0.0)]
    for name, values in found.records.items():
        values, se = np.asarray(values, float), np.asarray(found.se[name], float)
        if values.ndim == 1 and np.isfinite(se).any():
            good, domain = np.isfinite(se), opened.model.fields[name].domain
            if domain.codes:
                items += counts_by_category(name, domain.levels, values[good], found.ambiguous[good])
                continue
            items.append(
                Item(f"mean({name})", float(values[good].mean()), float(np.sqrt(np.mean(se[good] ** 2) / good.sum())))
            )
    return tuple(items)


CHANNEL = Channel(name=_NAME, attack=attack_log_likelihoods, rank=30)
