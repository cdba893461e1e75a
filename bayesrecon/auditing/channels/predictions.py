"""Attack on posterior predictive draws: the covariates of each record's column, and moments of the design."""

import math

import numpy as np

from bayesrecon.attacks.sidechannels.preimage import PreImages, invert_columns
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.opened import Opened
from bayesrecon.auditing.pointwise_arrays import MOST_RECORDS, counts_by_category, for_rows, relative_errors
from bayesrecon.auditing.severity import of_share
from bayesrecon.auditing.wording import to_drop
from bayesrecon.diagnostics import evenly
from bayesrecon.posteriors.contents import Variable
from bayesrecon.results.findings import Finding, Item, NotRun

_NAME = "predictions"
_FEWEST = 30  # smallest number of draws


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Attack posterior predictive draws: the covariates of each record's column, and moments of the design."""
    opened: Opened = look.opened
    findings: list[Finding] = []
    untried: list[NotRun] = []
    for variable in opened.contents.group("posterior_predictive", "predictions"):
        field = _simulated_field(opened, variable.name)
        if reason := _unfit(variable, field, opened.model.name):
            untried.append(NotRun(_NAME, f"{variable.where} {reason}", f"drop {variable.where}", (variable.where,)))
        if reason or field is None:
            continue
        theta, values = opened.wide(variable)
        shape = opened.model.fields[field].shape
        columns = values.reshape(len(values), -1, *shape)
        chosen = evenly(columns.shape[1], MOST_RECORDS)
        columns = np.moveaxis(columns[:, chosen], 0, 1)  # (N, K, *shape)
        mean = columns.mean(axis=1)
        unknown = [f for f in opened.model.fields if f != field and f not in opened.known]
        if not unknown:
            continue
        reference = for_rows(opened, variable.values[0].size // math.prod(shape), chosen)
        inverted = invert_columns(
            opened.model.untempered,
            theta,
            {field: columns},
            np.ones(columns.shape[:2]),
            reference,
            opened.rng,
            likelihood=True,
            starts=3,
        )
        findings.append(_predictive_finding(opened, variable, field, inverted, mean))
    return findings, untried


def _unfit(variable: Variable, field: str | None, model: str) -> str:
    """The reason why columns are not attacked, or "" if they are."""
    if field is None:
        return f"has the name of no field that {model} simulates (name it like one, or FIELD_rep)"
    if not variable.shape or not variable.per_draw:
        return "has no column of the file's draws for each record"
    if len(variable.values) < _FEWEST or not np.isfinite(variable.values).all():
        return f"holds missing or infinite values, or fewer than {_FEWEST} draws"
    return ""


def _predictive_finding(
    opened: Opened, variable: Variable, field: str, inverted: PreImages, mean: np.ndarray
) -> Finding:
    limits, count = opened.thresholds, math.prod(variable.shape)
    relative = relative_errors(opened, inverted)
    sharp, vague = relative < limits.record, relative < limits.vague
    severity = of_share(sharp.mean(), vague.mean(), limits.share)
    items = [Item("n", float(len(inverted)), 0.0)]
    for name, values in inverted.records.items():
        se = np.ravel(inverted.se[name])
        flat = np.ravel(np.asarray(values, float))
        usable = np.isfinite(se) & np.isfinite(flat)
        if not usable.any() or np.asarray(values).ndim > 1:
            continue
        flat, se = flat[usable], se[usable]
        domain = opened.model.fields[name].domain
        if domain.codes:
            items += counts_by_category(name, domain.levels, flat, inverted.ambiguous[usable])
            continue
        size = len(flat)
        noise = float(np.mean(se**2))
        variance = max(0.0, float(flat.var()) - noise)
        items.append(Item(f"mean({name})", float(flat.mean()), float(np.sqrt(noise / size))))
        items.append(Item(f"var({name})", variance, float(np.sqrt(2 * noise**2 / size + 4 * noise * variance / size))))
    grand = float(mean.mean())
    items.append(Item(f"mean of {field} over records and draws", grand))
    fields = ", ".join(f"{f} to ±{np.median(np.ravel(se)):.2g}" for f, se in inverted.se.items())
    return to_drop(
        "predictive",
        severity,
        "predictive draws give the design" + " record by record" * (severity != "low"),
        (variable.where,),
        f"{len(inverted)} columns of predictive draws{f' (of {count})' * (len(inverted) < count)}, one per record: "
        f"{int(vague.sum())} records' covariates are recovered better than by a guess ({fields} in the median), "
        "and the design's moments",
        "the model",
        evidence=tuple(items),
        records=inverted.records,
        errors=inverted.se,
    )


def _simulated_field(opened: Opened, name: str) -> str | None:
    """The field of a record that a predictive variable simulates."""
    observed = _observed_fields(opened)
    stem = name.lower()
    for suffix in ("_rep", "_pred", "_ppc", "_sim", "_tilde", "_new", "_hat"):
        stem = stem.removesuffix(suffix)
    exact = [f for f in observed if f.lower() in (stem, name.lower())]
    # A program may have its own name for the response ("y_rep"). It is then the only field that the model observes.
    return exact[0] if exact else observed[0] if len(observed) == 1 else None


def _observed_fields(opened: Opened) -> list[str]:
    """The fields that the model simulates, which are those that a simulation changes."""
    model = opened.model
    if model.simulate is None:
        return []
    import jax

    batch = {k: np.asarray(v) for k, v in opened.reference.draw(opened.rng, 16).items()}
    params = model.constrain(np.asarray(opened.release.theta)[0])
    simulated = model.simulate(params, batch, jax.random.key(opened.key))
    return [f for f in model.fields if not np.array_equal(np.asarray(simulated[f]), batch[f])]


CHANNEL = Channel(_NAME, find, 140, "model")
