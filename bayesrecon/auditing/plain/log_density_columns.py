"""Columns with a peak at the centre of the other draws: log densities, found without a model, name or sign."""

import numpy as np

from bayesrecon.attacks.sidechannels.combinations import standardised, unexplained
from bayesrecon.auditing.look import Channel, Look, rows_of
from bayesrecon.auditing.sensitive_values import PASS_A_MODEL
from bayesrecon.diagnostics import evenly
from bayesrecon.posteriors.contents import Variable
from bayesrecon.results.findings import Finding, NotRun, Remedy

_PEAKED, _STRAIGHT = 0.75, 0.5  # shares of variance: at least by a paraboloid, and at most by a plane
_FEW = 6  # numbers of columns up to which cubic terms matter
_MOST_COLUMNS, _MOST_DRAWS = 30, 2000  # largest size of a fit, whose number of terms is quadratic in the columns


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings on scalars that are nearly a paraboloid in the other draws, like a normal log density, and no plane."""
    contents = look.contents
    if look.model is not None or contents.draws is None:
        return [], []
    total = contents.draws.chains * contents.draws.length
    sample = evenly(total, _MOST_DRAWS)
    scalars = [v for v in contents.variables if v.per_draw and not v.shape and len(v.values) == total]
    candidates = [v for v in scalars if v.where not in look.reported and v.group in ("posterior", "sample_stats")]
    columns = _columns(look, total, sample)
    findings = []
    for variable in _suspects(candidates, columns, sample):
        values = np.asarray(variable.values, float)[sample]
        others = np.column_stack([c for where, c in columns if where != variable.where] or [np.zeros(len(sample))])
        if np.isfinite(values).all() and np.ptp(values) > 0 and _peaks(others[:, :_MOST_COLUMNS], values, look.rng):
            findings.append(_finding(variable))
    untried = [NotRun("log densities", "no model was given", PASS_A_MODEL, f.where) for f in findings]
    return findings, untried


def _suspects(candidates: list[Variable], columns: list[tuple[str, np.ndarray]], sample: np.ndarray) -> list[Variable]:
    """Scalars of which the other draws' squares and products explain much, by one regression for all of them."""
    if len(columns) <= _FEW:
        return candidates
    first, of = columns[: _MOST_COLUMNS + 1], [v for v in candidates if np.isfinite(np.asarray(v.values, float)).all()]
    if not of:
        return []
    linear = standardised(np.column_stack([column for _, column in first]))
    one, other = np.triu_indices(len(first))
    if 2 * (len(one) + len(first)) > len(sample):
        one = other = np.arange(len(first))
    parents = np.column_stack([np.append(np.arange(len(first)), one), np.append(np.arange(len(first)), other)])
    targets = standardised(np.column_stack([np.asarray(v.values, float)[sample] for v in of]))
    places = {where: k for k, (where, _) in enumerate(first)}
    own = [places.get(v.where, -1) for v in of]
    left = unexplained(np.column_stack([linear, linear[:, one] * linear[:, other]]), parents, targets, own)
    return [v for v, share in zip(of, left, strict=True) if share < 1 - _STRAIGHT]


def _columns(look: Look, total: int, sample: np.ndarray) -> list[tuple[str, np.ndarray]]:
    columns = []
    for variable in look.contents.variables:
        values = rows_of(variable) if look.is_parameter(variable) and variable.where not in look.reported else None
        if values is None or len(values) != total:
            continue
        for column in values[sample].T:
            if np.isfinite(column).all() and np.ptp(column) > 0:
                positive = bool((column > 0).all())
                columns.append((variable.where, np.log(column) if positive else column))
    return columns


def _peaks(others: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> bool:
    count, size = others.shape
    spread = others.std(axis=0)
    scaled = (others - others.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    first, second = np.triu_indices(size)
    pairs = scaled[:, first] * scaled[:, second] if 4 * (len(first) + size) < count else scaled**2
    if 4 * (size + pairs.shape[1] * (1 + size)) < count:  # cubic terms, because scale parameters bend a paraboloid
        pairs = np.column_stack([pairs, *(pairs * column[:, None] for column in scaled.T)])
    if 4 * (size + pairs.shape[1]) > count:
        return False
    plane, paraboloid = (_explained(f, values, rng) for f in (scaled, np.column_stack([scaled, pairs])))
    return paraboloid > _PEAKED and plane < _STRAIGHT


def _explained(features: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> float:
    """Explained share of the variance, for the draws that were not fitted."""
    order = rng.permutation(len(values))
    fit, test = order[: len(order) // 2], order[len(order) // 2 :]
    design = np.column_stack([np.ones(len(values)), features])
    slopes = np.linalg.lstsq(design[fit], values[fit], rcond=1e-10)[0]
    return 1 - float(np.mean((values[test] - design[test] @ slopes) ** 2) / np.var(values[test]))


def _finding(variable: Variable) -> Finding:
    return Finding(
        "log-density",
        "medium",
        f"{variable.where} follows the other draws as a log density does",
        (variable.where,),
        "it is nearly quadratic in the other draws: with the model, it gives the number of records and their moments",
        "the model and its prior",
        remedies=(Remedy(f"drop {variable.where}"),),
        drop=(variable.where,),
    )


CHANNEL = Channel("log densities by their shape", find, 35)
