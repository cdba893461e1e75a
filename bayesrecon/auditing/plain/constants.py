"""Values that no sampler drew: constant over all draws or in a chain, or repeating in a cycle.

Data can be in a file as transformed or generated quantities, or as statistics of the sampler, whatever their name.
"""

from collections.abc import Iterator

import numpy as np

from bayesrecon.auditing.accounts.plain_numbers import structure_of
from bayesrecon.auditing.accounts.sampler import KNOWN
from bayesrecon.auditing.look import Channel, Look, rows_of
from bayesrecon.auditing.severity import of_constants
from bayesrecon.auditing.wording import places, preview, to_drop
from bayesrecon.posteriors.contents import DATA, Variable
from bayesrecon.results.findings import Finding, NotRun

_FEWEST_DRAWS = 3  # smallest number of draws; fewer can be equal by chance
_REPEATS = 0.5  # a series with a smaller share of distinct values repeats them
_FEW_LEVELS = 3  # counters and switches have at most this many distinct values


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings on arrays that are constant or cyclic, and one on all constant scalars."""
    findings: list[Finding] = []
    singles: list[tuple[str, np.ndarray]] = []
    draws, repeated = _whole_draws(look)
    for variable in look.contents.variables:
        if variable.group in DATA:
            continue
        values = rows_of(variable)
        if values is None or len(values) < _FEWEST_DRAWS or not values.shape[1]:
            continue
        same = values.min(axis=0) == values.max(axis=0)
        if values.shape[1] == 1 and same[0]:
            singles.append((variable.where, values[0]))
            continue
        findings += _constant(look, variable, values[0], same)
        together = values.shape == (draws, 1) and len(np.unique(values)) == repeated
        parts = (_not_drawn(look, values[:, c], together) for c in np.flatnonzero(~same & _may_repeat(look, values)))
        if cycles := [part for part in parts if part is not None]:
            findings.append(_cycle(look, variable, cycles[0], len(cycles)))
        elif look.private is not None and (column := look.named(values[:, ~same], sampled=True)):
            findings.append(_among_draws(variable, column))
    findings += _constant_scalars(look, singles)
    return findings, []


def _constant(look: Look, variable: Variable, first: np.ndarray, same: np.ndarray) -> Iterator[Finding]:
    fixed = int(same.sum())
    if fixed < 3:
        return
    shaped = first.reshape(variable.shape) if variable.per_draw and same.all() and variable.shape else first[same]
    column = look.named(shaped)
    severity = of_constants(shaped, private=column is not None)
    if severity is None or (fixed < 0.9 * len(first) and _is_matrix(variable)):
        return
    title = f"{variable.where} is the same in every draw"
    summary = f"{fixed} values that no sampler drew, beginning {preview(first[same])}: "
    summary += "data, or numbers computed from them"
    yield to_drop("copy", severity, title, (variable.where,), summary, column=column)


def _is_matrix(variable: Variable) -> bool:
    """Whether an array is a square matrix. Correlation matrices and their factors have constant entries."""
    return len(variable.shape) >= 2 and variable.shape[-1] == variable.shape[-2]


def _may_repeat(look: Look, values: np.ndarray) -> np.ndarray:
    """Which columns `(T, N)` have values of which each is there twice, in the mean over the draws or over a chain's."""
    if look.private is not None:  # then chains are looked at one by one
        return np.ones(values.shape[1], bool)
    ascending = [np.sort(part, axis=0) for part in _parts(look, values)]
    return np.any([2 * (v[1:] > v[:-1]).sum(axis=0) <= len(v) for v in ascending], axis=0)


def _parts(look: Look, values: np.ndarray) -> list[np.ndarray]:
    """The values, and those of each chain."""
    count = look.contents.draws.chains if look.contents.draws is not None else 1
    return [values, *(np.split(values, count) if count > 1 and len(values) % count == 0 else [])]


def _not_drawn(look: Look, series: np.ndarray, together: bool) -> np.ndarray | None:
    """The series, or one of its chains, if no sampler drew it: it is cyclic, or a chain apart with private values."""
    whole, *chains = _parts(look, series)
    if cyclic := [part for part in (whole, *chains) if _is_cyclic(part, together)]:
        return cyclic[0]
    if look.private is None:
        return None
    middle, spread = np.median(series), min((float(np.std(chain)) for chain in chains), default=0.0)
    apart = [c for c in chains if abs(c.mean() - middle) > spread or c.std() > 2 * spread]
    return next((chain for chain in apart if look.named(chain) is not None), None)


def _cycle(look: Look, variable: Variable, series: np.ndarray, count: int) -> Finding:
    moved = series[np.append(True, np.diff(series) != 0)]
    levels = list(dict.fromkeys(moved.tolist()))
    summary = f"{len(levels)} different values in {len(series)} draws" + f", in {count} such columns" * (count > 1)
    column, repeats = look.named(np.array(levels)), len(levels) < len(moved)
    summary += f", beginning {preview(levels)}" + ": a sampler does not repeat its values" * repeats
    title = f"{variable.where} {'repeats a cycle of values' if repeats else 'has a chain that is no sample'}"
    return to_drop("copy", "high", title, (variable.where,), summary, column=column)


def _among_draws(variable: Variable, column: str) -> Finding:
    title = f"{variable.where} holds values of the private column {column} among its draws"
    summary = "no sampler draws values that equal those of records in all their digits"
    return to_drop("copy", "high", title, (variable.where,), summary)


def _whole_draws(look: Look) -> tuple[int, int]:
    """The number of draws, and of different ones, of all scalars together; 0 if there is but one scalar.

    Draws that were resampled repeat as a whole.
    """
    posterior = look.contents.group("posterior")
    scalars = [v.values for v in posterior if v.per_draw and v.shape == () and v.values.dtype.kind == "f"]
    rows = np.column_stack(scalars) if len(scalars) > 1 else np.zeros((0, 1))
    return len(rows), len({row.tobytes() for row in rows})


def _is_cyclic(series: np.ndarray, together: bool = False) -> bool:
    """Whether a series repeats its values as no sampler does: with a period, or with repeated real numbers.

    Args:
        together: whether all scalars repeat together, as after resampling.
    """
    finite = series[np.isfinite(series)]
    moved = finite[np.append(True, np.diff(finite) != 0)] if len(finite) else finite
    levels = np.unique(moved)
    if len(levels) < _FEW_LEVELS or len(moved) < 2 * len(levels) or len(moved) < 12:
        return False
    if _has_period(finite):
        return True
    integers = np.all(levels == np.round(levels))
    # Rounded draws also repeat, but their values are neighbours on a grid.
    steps = np.diff(levels)
    on_grid = steps.min() > 0 and np.allclose(steps / steps.min(), np.round(steps / steps.min()), atol=1e-3)
    return not together and not integers and not on_grid and len(levels) <= _REPEATS * len(moved)


def _has_period(series: np.ndarray) -> bool:
    """Whether a series has a period that is repeated at least twice and has at least four distinct values."""
    starts = np.flatnonzero(series[1:] == series[0]) + 1
    for period in starts[(starts >= 4) & (starts <= len(series) // 2)][:200]:
        if np.array_equal(series[period:], series[:-period]) and len(np.unique(series[:period])) >= 4:
            return True
    return False


def _constant_scalars(look: Look, singles: list[tuple[str, np.ndarray]]) -> list[Finding]:
    """Scalars that are the same in all draws: one is a constant, many are a table."""
    odd = [(where, value) for where, value in singles if where.rpartition("/")[2].rstrip("_").lower() not in KNOWN]
    values = np.array([v[0] for _, v in odd])
    if len(odd) < 5 or structure_of(values) in ("positions", "a grid", "one number"):
        return []
    where, column = tuple(w for w, _ in odd), look.named(values)
    severity = of_constants(values, private=column is not None) or "medium"
    title = f"{len(odd)} arrays are one number each, the same in every draw"
    summary = f"{places(where)} hold {preview(values)}, which no sampler drew"
    return [to_drop("copy", severity, title, where, summary, column=column, instead="drop them")]


CHANNEL = Channel("constants", find, 20)
