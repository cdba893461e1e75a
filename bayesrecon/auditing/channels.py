"""Side channels, run as attacks: what a file's numbers determine about the data, given the model.

Nothing here sees private data. Each function runs one attack and turns its result into findings, with remedies whose
effect is predicted and then measured by applying them and attacking again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesrecon.anchors import Reference
from bayesrecon.auditing.findings import Finding, Item, Remedy, Severity, Thresholds
from bayesrecon.columns import summarise_columns
from bayesrecon.densities import DensityRecovery, even, recover_from_log_density
from bayesrecon.embedding import Progress
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.contents import Contents, Variable
from bayesrecon.posteriors.sources import from_draws
from bayesrecon.preimage import IGNORED, PreImages, invert_columns, linear_response, standard_errors
from bayesrecon.resolution import decimal_step, resolution, round_to
from bayesrecon.result import Recovery
from bayesrecon.types import Model, Release

_ROUNDINGS = (6, 5, 4, 3)
_THINNINGS = (1000, 300, 100, 30)
_TRIED = 256  # records on which a remedy is measured
_MOST_RECORDS = 2000  # that are solved for, evenly spread
_LISTED = 2  # statistics a remedy is reported for


@dataclass(frozen=True)
class Attack:
    """What every channel needs.

    Attributes:
        release: the draws of the file as a release of the model; its log densities where the file has them.
        kept: `(T,)` positions of the release's draws among the file's.
        reference: where the records lie, as the draws tell.
        recovery: what the draws alone give.
        remedies: whether to try what rounding and thinning leave.
    """

    contents: Contents
    model: Model
    release: Release
    kept: np.ndarray
    reference: Reference
    recovery: Recovery | None
    known: Mapping[str, Any]
    thresholds: Thresholds
    remedies: bool
    key: int
    progress: Progress | None = None

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.key)

    def wide(self, variable: Variable) -> tuple[np.ndarray, np.ndarray]:
        """Draws `(K, d)` and values `(K, ...)` of a wide variable, where both exist."""
        position = {int(k): i for i, k in enumerate(self.kept)}
        at = [(position[int(r)], i) for i, r in enumerate(self.contents.rows) if int(r) in position]
        mine, theirs = (np.array(part, int) for part in zip(*at, strict=True))
        return np.asarray(self.release.theta)[mine], variable.values[theirs]

    def spread(self, field: str) -> np.ndarray:
        """How far a field's values lie apart, as far as is known."""
        if field in self.reference.scale:
            return np.asarray(self.reference.scale[field], float)
        domain = self.model.fields[field].domain
        return np.asarray(np.std(domain.levels) if domain.levels else 1.0)


def open_release(contents: Contents, model: Model) -> tuple[Release, np.ndarray]:
    """The draws as a release of the model, and which of the file's draws they are."""
    draws = contents.draws
    if draws is None:
        raise BayesreconError(f"{contents.name}: there are no draws to attack (no group 'posterior')")
    count = draws.chains * draws.length
    numbered = replace(draws, log_density=np.arange(count, dtype=float).reshape(draws.chains, draws.length))
    release = from_draws(numbered, model, ignore_unknown=True)
    kept = np.asarray(release.log_density, int)
    density = None if draws.log_density is None else draws.log_density.reshape(-1)[kept]
    return replace(release, log_density=density), kept


def attack_log_densities(attack: Attack) -> tuple[list[Finding], list[str]]:
    """`lp__`, `lp` or minus `potential_energy`: exact statistics."""
    release = attack.release
    if release.log_density is None:
        return [], []
    given = np.asarray(release.log_density)
    if not np.isfinite(given).all() or np.ptp(given) == 0:
        return [], ["the log densities hold missing values, or one value only: they were not attacked"]
    found = recover_from_log_density(release, known=attack.known, key=attack.key, progress=attack.progress)
    where = _where(attack.contents, ("lp__", "lp", "potential_energy"))
    limit = attack.thresholds.misfit
    written = found.resolution.label
    # Arithmetic in single precision leaves errors of its own, which the residuals show.
    if found.misfit > (limit if found.resolution.digits else 1e3 * limit):
        return [], [
            f"{', '.join(where)}: not the log density of {attack.model.name} at these draws (residuals of "
            f"{found.misfit:.2g} times the rounding error); another prior, other data terms, or another model"
        ]
    exact = any(r.name == "n" and r.se is not None and r.se < attack.thresholds.exact_count for r in found.rows)
    severity: Severity = "medium" if exact or _sharper(found, attack.recovery) > 10 else "low"
    count = f"{found.rank} features of the data" if found.gap else "statistics of the data"
    summary = (
        f"{found.draws} log densities at {written} determine {count}"
        + (f": n = {_value(found, 'n')}" if exact else "")
        + (
            f", {_sharper(found, attack.recovery):.0f} times sharper than the draws alone"
            if _sharper(found, attack.recovery) > 1.5
            else ""
        )
    )
    finding = Finding(
        "log-density",
        severity,
        "log densities give statistics of the data" + (" exactly" if exact else ""),
        where,
        summary,
        "the model and its prior",
        _items(found.rows),
        (Remedy(f"drop {', '.join(where)}"), *(_density_remedies(found, attack.rng) if attack.remedies else ())),
        drop=where,
    )
    return [finding], []


def _density_remedies(found: DensityRecovery, rng: np.random.Generator) -> list[Remedy]:
    """Rounder log densities, and fewer draws of them."""
    remedies = []
    now = {row.name: row.se for row in found.rows}
    names = [name for name in found.names if now[name]][:_LISTED]
    at = [found.names.index(name) for name in names]
    digits = found.resolution.digits or 17
    plans = [(f"round the log density to {k} digits", None, k) for k in _ROUNDINGS if k < digits]
    if found.resolution.digits:
        few = [t for t in _THINNINGS if found.rank + 12 <= t and 4 * t <= found.draws]
        plans += [(f"keep {t} draws", t, digits) for t in few]
    for action, count, k in plans:
        step = decimal_step(found.given, k)
        # Where a step swallows the whole variation nothing is left to attack.
        if np.median(step) > 4 * found.given.std():
            remedies.append(Remedy(f"{action}: nothing is left of them"))
            continue
        predicted, measured = found.tried(count, k, rng)
        for i, name in zip(at, names, strict=True):
            remedies.append(Remedy(action, name, now[name], float(predicted[i]), float(measured[i])))
    return remedies


def _sharper(found: DensityRecovery, recovery: Recovery | None) -> float:
    """How much smaller the errors are than those of the draws alone, in the middle."""
    if recovery is None:
        return 1.0
    draws = {row.name: row.se for row in recovery if row.se}
    ratios = [draws[r.name] / r.se for r in found.rows if r.se and draws.get(r.name)]
    return float(np.median(ratios)) if ratios else 1.0


def attack_energies(attack: Attack) -> tuple[list[Finding], list[str]]:
    """`energy`: minus the log density plus kinetic noise, a regression with errors."""
    if attack.release.log_density is not None:
        return [], []  # it says the same, less well
    for variable in attack.contents.group("sample_stats"):
        if variable.name not in ("energy", "energy__") or variable.shape:
            continue
        energy = variable.values[attack.kept]
        if not np.isfinite(energy).all() or len(energy) < 200:
            return [], []
        found = recover_from_log_density(
            attack.release, log_density=-energy, kinetic=True, known=attack.known, key=attack.key
        )
        useful = [r for r in found.rows if r.se and r.estimate is not None and r.se < 0.5 * abs(r.estimate)]
        if not useful:
            return [], []
        finding = Finding(
            "energy",
            "low",
            "energies carry the log density under kinetic noise",
            (variable.where,),
            f"{len(energy)} energies determine statistics of the data as a regression with errors",
            "the model and its prior",
            _items(found.rows),
            (Remedy(f"drop {variable.where}"),),
            drop=(variable.where,),
        )
        return [finding], []
    return [], []


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
                f"(residuals of {np.median(found.misfit):.2g} times the rounding error, in the middle)"
            )
            continue
        findings.append(_records_finding(attack, variable, found, fits, written.label, theta, columns, reference))
    return findings, warnings


def _records_finding(
    attack: Attack,
    variable: Variable,
    found: PreImages,
    fits: np.ndarray,
    label: str,
    theta: np.ndarray,
    columns: np.ndarray,
    reference: Reference,
) -> Finding:
    limits = attack.thresholds
    relative = _relative_errors(attack, found)
    sharp = fits & (relative < limits.record) & ~found.ambiguous
    severity: Severity = "high" if sharp.mean() >= limits.share else "medium"
    ambiguous = int((found.ambiguous & fits).sum())
    summary = (
        f"{int(sharp.sum())} of {len(found)} records{_of_all(variable, found)} come back from their column at {label} ("
        + ", ".join(f"{f} to ±{np.median(np.ravel(se)):.2g}" for f, se in found.se.items())
        + " in the middle)"
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
            *(_pointwise_remedies(attack, found, fits, theta, columns, reference) if attack.remedies else ()),
        ),
        found.records,
        found.se,
        drop=(variable.where,),
    )


def _pointwise_remedies(
    attack: Attack, found: PreImages, fits: np.ndarray, theta: np.ndarray, columns: np.ndarray, reference: Reference
) -> list[Remedy]:
    """Rounder columns and fewer draws: the error of a field over some records.

    Predicted from a linearisation about the recovered records: the response to the rounding errors that would be added,
    and the standard errors that fewer draws would leave. Sizes of errors are judged by their median.
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
    before = _typical(_rows(found.se[field], some) * rng.normal(size=exact.shape))
    written = resolution(columns)
    remedies = []

    def attacked(values: np.ndarray, noise: np.ndarray) -> float:
        again = invert_columns(attack.model, theta, values, noise, start, attack.rng, starts=3)
        return _typical(_rows(again.records[field], np.arange(len(some))) - exact)

    for digits in (k for k in _ROUNDINGS[1:] if k < (written.digits or 17)):
        values = round_to(columns[some], digits)
        moved = linear_response(attack.model, theta, found, some, values - columns[some], reference)
        measured = attacked(values, decimal_step(values, digits) / np.sqrt(12))
        remedies.append(Remedy(f"round to {digits} digits", field, before, _typical(moved[field]), measured))
    for count in (t for t in (300, 100) if 2 * t <= len(theta)):
        kept = even(len(theta), count)
        noise = np.full((len(some), len(theta)), 10 * IGNORED)  # draws left out weigh nothing; shapes stay as they are
        noise[:, kept] = written.step[some][:, kept] / np.sqrt(12)
        se = standard_errors(attack.model, theta, found, some, noise, reference)[field]
        errors = _rows(se, np.arange(len(some)))[None] * rng.normal(size=(200, *exact.shape))
        # The kept draws are part of all draws: their distance misses the error of the latter.
        measured = float(np.hypot(attacked(columns[some], noise), before))
        remedies.append(Remedy(f"keep {count} draws", field, before, _typical(errors), measured))
    return remedies


def _of_all(variable: Variable, found: PreImages) -> str:
    count = int(np.prod(variable.shape, dtype=int))
    return f" tried, of {count}," if len(found) < count else ""


def _rows(values: Any, chosen: np.ndarray) -> np.ndarray:
    return np.asarray(values, float)[chosen].reshape(len(chosen), -1)


def _typical(errors: Any) -> float:
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
        f"{int(vague.sum())} records' covariates come back better than a guess ({fields} in the middle), "
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


def _items(rows: Any) -> tuple[Item, ...]:
    return tuple(Item(r.name, r.estimate, r.se) for r in rows if r.estimate is not None)


def _value(found: DensityRecovery, name: str) -> str:
    row = found[name]
    return f"{row.estimate:.8g} ± {row.se:.2g}"


def _where(contents: Contents, names: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(v.where for v in contents.group("sample_stats") if v.name in names)
    return found or ("log density",)
