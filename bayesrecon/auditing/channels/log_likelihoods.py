"""Arrays with a value per draw and record, attacked: every record from its own column."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from bayesrecon.attacks.sidechannels.columns import summarise_columns
from bayesrecon.attacks.sidechannels.densities import even
from bayesrecon.attacks.sidechannels.preimage import (
    IGNORED,
    PreImages,
    invert_columns,
    linear_response,
    standard_errors,
)
from bayesrecon.attacks.sidechannels.resolution import below_arithmetic, decimal_step, resolution, round_to
from bayesrecon.auditing.attack import Attack
from bayesrecon.estimation.anchors import Reference
from bayesrecon.posteriors.contents import Contents, Variable
from bayesrecon.results.audit import Finding, Item, Remedy, Severity

_ROUNDINGS = (5, 4, 3)
_THINNINGS = (300, 100)
_TRIED = 256  # records on which a remedy is measured
_ERRORS, _REPEATS = 512, 16  # errors of which the median is taken, by thinning again and again where records are few
_MOST_RECORDS = 2000  # that are solved for, evenly spread


def attack_log_likelihoods(attack: Attack) -> tuple[list[Finding], list[str]]:
    """Pointwise log likelihoods: every record from its own column."""
    findings: list[Finding] = []
    warnings: list[str] = []
    for variable in attack.contents.group("log_likelihood"):
        theta, values = attack.wide(variable)
        columns = values.reshape(len(values), -1)
        some = even(columns.shape[1], _MOST_RECORDS)
        columns = columns[:, some].T
        if not np.isfinite(columns).all() or len(theta) < 4:
            warnings.append(f"{variable.where} holds missing or infinite values, or too few draws: it was not inverted")
            continue
        written = resolution(columns)
        noise = np.maximum(written.sd, 4 * np.spacing(np.abs(columns)))
        reference = _for_rows(attack, variable.values[0].size, some)
        found = invert_columns(attack.model, theta, columns, noise, reference, attack.rng)
        limit = attack.thresholds.misfit if written.digits else 1e4
        fits = found.misfit < limit
        if fits.mean() < 0.5:
            warnings.append(
                f"{variable.where}: {1 - fits.mean():.0%} of its columns are no log likelihoods of {attack.model.name} "
                f"(residuals of {np.median(found.misfit):.2g} times the rounding error, in the median)"
            )
            continue
        findings.append(
            _records_finding(attack, variable, found, fits, written.label, theta, columns, noise, reference)
        )
    return findings, warnings


def _records_finding(
    attack: Attack,
    variable: Variable,
    found: PreImages,
    fits: np.ndarray,
    label: str,
    theta: np.ndarray,
    columns: np.ndarray,
    noise: np.ndarray,
    reference: Reference,
) -> Finding:
    limits = attack.thresholds
    relative = _relative_errors(attack, found)
    sharp = fits & (relative < limits.record) & ~found.ambiguous
    severity: Severity = "high" if sharp.mean() >= limits.share else "medium"
    ambiguous = int((found.ambiguous & fits).sum())
    summary = (
        f"{int(sharp.sum())} of {len(found)} records{_of_all(variable, found)} "
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
        _record_items(found),
        (
            Remedy(f"drop {variable.where}: publish its sums (elpd, p_loo) instead"),
            *(_pointwise_remedies(attack, found, fits, theta, columns, noise, reference) if attack.remedies else ()),
        ),
        found.records,
        found.se,
        drop=(variable.where,),
    )


def _pointwise_remedies(
    attack: Attack,
    found: PreImages,
    fits: np.ndarray,
    theta: np.ndarray,
    columns: np.ndarray,
    noise: np.ndarray,
    reference: Reference,
) -> list[Remedy]:
    """Rounder columns and fewer draws: the error of a field over some records.

    Predicted from a linearisation about the recovered records: the response to the rounding errors that would be added,
    and the standard errors that fewer draws would leave; the size of the errors that columns carry now is that of their
    residuals. Sizes of errors are judged by their median.
    """
    rng = attack.rng
    some = np.sort(rng.permutation(np.flatnonzero(fits))[:_TRIED])
    field = next(
        (f for f, v in found.records.items() if attack.model.fields[f].domain.kind in ("real", "interval")), None
    )
    if field is None or not np.isfinite(found.se[field][some]).all():
        return []
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

    now = errors(_rows(found.se[field], some))
    before = typical_error(now)
    remedies = []

    def attacked(values: np.ndarray, noise: np.ndarray) -> np.ndarray:
        again = invert_columns(attack.model, theta, values, noise, start, attack.rng, starts=3)
        return _rows(again.records[field], np.arange(len(some)))

    def remedy(action: str, predicted: float, trials: np.ndarray) -> Remedy:
        if below_arithmetic(predicted, float(np.median(np.abs(exact)))):
            return Remedy(f"{action}: the records still come back to the last digit")
        # What the records were off before, the present ones do not show.
        measured = float(np.hypot(typical_error(trials - exact), before))
        return Remedy(action, field, before, predicted, measured, trials=trials, rows=some)

    for digits in (k for k in _ROUNDINGS if k < (written.digits or 17)):
        values = round_to(columns[some], digits)
        width = decimal_step(values, digits) / np.sqrt(12)
        moved = linear_response(attack.model, theta, found, some, values - columns[some], reference, width)
        predicted = typical_error(_rows(moved[field], np.arange(len(some))) + now)
        trials = attacked(values, width)
        remedies.append(remedy(f"round to {digits} digits", predicted, trials[None]))
    for count in (t for t in _THINNINGS if 2 * t <= len(theta)):
        expected, trials = [], []
        for _ in range(int(np.clip(_ERRORS // len(some), 1, _REPEATS))):
            kept = rng.permutation(len(theta))[:count]
            left = np.full((len(some), len(theta)), 10 * IGNORED)  # what is left out weighs nothing; shapes stay
            left[:, kept] = noise[some][:, kept]
            se = standard_errors(attack.model, theta, found, some, left, reference)[field]
            inflated = _rows(se, np.arange(len(some))) * np.maximum(1.0, found.misfit[some])[:, None]
            expected.append(errors(inflated, 20))
            trials.append(attacked(columns[some], left))
        remedies.append(remedy(f"keep {count} draws", typical_error(np.array(expected)), np.array(trials)))
    return remedies


def _of_all(variable: Variable, found: PreImages) -> str:
    count = int(np.prod(variable.shape, dtype=int))
    return f" (of {count})" if len(found) < count else ""


def _rows(values: Any, chosen: np.ndarray) -> np.ndarray:
    return np.asarray(values, float)[chosen].reshape(len(chosen), -1)


def typical_error(errors: Any) -> float:
    """Standard deviation of a normal law with the errors' median size: single records that go astray do not rule it."""
    return float(np.median(np.abs(errors)) / 0.6744898)


def look_at_columns(contents: Contents, key: int) -> list[Finding]:
    """Pointwise log likelihoods without a model."""
    findings = []
    for variable in contents.group("log_likelihood"):
        columns = variable.values.reshape(len(variable.values), -1)
        if columns.shape[1] < 2 or not np.isfinite(columns).all():
            continue
        found = summarise_columns(columns, key)
        parts = [f"there are {found.count} records", f"their columns show {found.rank} features of each"]
        if found.groups:
            parts.append(f"{found.identical} are equal to another one")
        if found.outliers:
            parts.append(f"{len(found.outliers)} stand out (first: number {found.outliers[0] + 1})")
        if found.clusters > 1:
            parts.append(f"they fall into {found.clusters} clusters")
        items = (
            Item("n", float(found.count), 0.0),
            Item("records equal to another", float(found.identical), 0.0),
            Item("outlying records", float(len(found.outliers))),
            Item("clusters", float(found.clusters)),
        )
        findings.append(
            Finding(
                "log-likelihood",
                "medium",
                "pointwise log likelihoods show the records' number and which are alike",
                (variable.where,),
                "; ".join(parts) + ". With the model, every record can be solved for: audit with --model",
                evidence=items,
                remedies=(Remedy(f"drop {variable.where}: publish its sums (elpd, p_loo) instead"),),
                drop=(variable.where,),
            )
        )
    return findings


def attack_predictions(attack: Attack) -> tuple[list[Finding], list[str]]:
    """Posterior predictive draws: the covariates behind each record's column, and moments of the design."""
    findings: list[Finding] = []
    for variable in attack.contents.group("posterior_predictive", "predictions"):
        field = _simulated_field(attack, variable.name)
        if field is None or not variable.shape:
            continue
        theta, values = attack.wide(variable)
        if len(theta) < 30 or not np.isfinite(values).all():
            continue
        shape = attack.model.fields[field].shape
        columns = values.reshape(len(values), -1, *shape)
        some = even(columns.shape[1], _MOST_RECORDS)
        columns = np.moveaxis(columns[:, some], 0, 1)  # (N, K, *shape)
        mean = columns.mean(axis=1)
        unknown = [f for f in attack.model.fields if f != field and f not in attack.known]
        if not unknown:
            continue
        reference = _for_rows(attack, variable.values[0].size // math.prod(shape), some)
        found = invert_columns(
            attack.model,
            theta,
            {field: columns},
            np.ones(columns.shape[:2]),
            reference,
            attack.rng,
            likelihood=True,
            starts=3,
        )
        findings.append(_predictive_finding(attack, variable, field, found, mean))
    return findings, []


def _predictive_finding(attack: Attack, variable: Variable, field: str, found: PreImages, mean: np.ndarray) -> Finding:
    limits = attack.thresholds
    relative = _relative_errors(attack, found)
    sharp, vague = relative < limits.record, relative < limits.vague
    if sharp.mean() >= limits.share:
        severity: Severity = "high"
    else:
        severity = "medium" if vague.mean() >= limits.share else "low"
    items = [Item("n", float(len(found)), 0.0)]
    for name, values in found.records.items():
        se = np.ravel(found.se[name])
        flat = np.ravel(np.asarray(values, float))
        usable = np.isfinite(se) & np.isfinite(flat)
        if not usable.any() or np.asarray(values).ndim > 1:
            continue
        flat, se = flat[usable], se[usable]
        size = len(flat)
        noise = float(np.mean(se**2))
        variance = max(0.0, float(flat.var()) - noise)
        items.append(Item(f"mean({name})", float(flat.mean()), float(np.sqrt(noise / size))))
        items.append(Item(f"var({name})", variance, float(np.sqrt(2 * noise**2 / size + 4 * noise * variance / size))))
    grand = float(mean.mean())
    items.append(Item(f"mean of {field} over records and draws", grand))
    fields = ", ".join(f"{f} to ±{np.median(np.ravel(se)):.2g}" for f, se in found.se.items())
    return Finding(
        "predictive",
        severity,
        "predictive draws give the design" + (" record by record" if severity != "low" else ""),
        (variable.where,),
        f"{len(found)} columns of predictive draws{_of_all(variable, found)}, one per record: "
        f"{int(vague.sum())} records' covariates come back better than a guess ({fields} in the median), "
        "and the design's moments",
        "the model",
        tuple(items),
        (Remedy(f"drop {variable.where}: publish summaries of predictive checks"),),
        found.records,
        found.se,
        drop=(variable.where,),
    )


def _simulated_field(attack: Attack, name: str) -> str | None:
    """Which field of a record a predictive variable simulates."""
    observed = observed_fields(attack)
    stem = name.lower()
    for suffix in ("_rep", "_pred", "_ppc", "_sim", "_tilde", "_new", "_hat"):
        stem = stem.removesuffix(suffix)
    exact = [f for f in observed if f.lower() in (stem, name.lower())]
    # A program's own name for its response ("y_rep"): the one field that the model observes.
    return exact[0] if exact else observed[0] if len(observed) == 1 else None


def observed_fields(attack: Attack) -> list[str]:
    """The fields that the model simulates: those that change when it does."""
    model = attack.model
    if model.simulate is None:
        return []
    import jax

    batch = {k: np.asarray(v) for k, v in attack.reference.draw(attack.rng, 16).items()}
    params = model.constrain(np.asarray(attack.release.theta)[0])
    simulated = model.simulate(params, batch, jax.random.key(attack.key))
    return [f for f in model.fields if not np.array_equal(np.asarray(simulated[f]), batch[f])]


def _for_rows(attack: Attack, count: int, chosen: np.ndarray) -> Reference:
    """Known fields belong to the columns row by row, where there are as many of them."""
    known = {k: np.asarray(v) for k, v in attack.known.items()}
    return replace(attack.reference, known={k: v[chosen] for k, v in known.items() if len(v) == count})


def _relative_errors(attack: Attack, found: PreImages) -> np.ndarray:
    """Per record the worst field's standard error in units of the field's spread, `(N,)`."""
    worst = np.zeros(len(found))
    for field, se in found.se.items():
        relative = np.asarray(se, float) / attack.spread(field)
        worst = np.maximum(worst, relative.reshape(len(worst), -1).max(axis=1))
    return worst


def _record_items(found: PreImages) -> tuple[Item, ...]:
    items = [Item("n", float(len(found)), 0.0)]
    for name, values in found.records.items():
        values, se = np.asarray(values, float), np.asarray(found.se[name], float)
        if values.ndim == 1 and np.isfinite(se).any():
            good = np.isfinite(se)
            items.append(
                Item(f"mean({name})", float(values[good].mean()), float(np.sqrt(np.mean(se[good] ** 2) / good.sum())))
            )
    return tuple(items)
