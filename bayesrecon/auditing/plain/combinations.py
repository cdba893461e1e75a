"""Arrays that are exact linear combinations of others, such as linear predictors, fitted means and residuals."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from bayesrecon.attacks.sidechannels.combinations import (
    Combinations,
    Pool,
    find_combinations,
    may_be_combinations,
    pool_of,
    standardised,
)
from bayesrecon.attacks.sidechannels.exactness import exact_in
from bayesrecon.auditing.accounts.loadings import Judged, judge
from bayesrecon.auditing.accounts.texts import kind_of_labels
from bayesrecon.auditing.look import Channel, Look, rows_of
from bayesrecon.auditing.severity import of_rows
from bayesrecon.auditing.wording import SHOW, places, to_drop
from bayesrecon.diagnostics import evenly
from bayesrecon.posteriors.contents import WIDE, Variable
from bayesrecon.results.findings import Finding, NotRun
from bayesrecon.results.told import values_in

NAME = "exact combinations"
_MOST_DRAWS, _MOST_COLUMNS = 4000, 2000  # largest size of a regression, which takes seconds
_MANY = 10  # arrays with at least this many columns are compared with their own columns
_FIRST = 16  # columns that are tried first


@dataclass(frozen=True, eq=False)
class Related:
    """An array with columns that are combinations of others, all with the same link function.

    Attributes:
        where: place of the array.
        combinations: the combinations.
        judged: how many of them are data.
        complete: whether every column of the array is a combination, with this or another link function.
    """

    where: str
    combinations: Combinations
    judged: Judged
    complete: bool

    @property
    def structural(self) -> bool:
        """Whether all combinations are levels, contrasts or a grid."""
        return self.complete and not self.judged.data


def survey(look: Look) -> tuple[list[Related], list[NotRun]]:
    """Compare every array with parameters of the model, or without a model, with earlier arrays that are not
    combinations."""
    arrays = arrays_of(look)
    parameters = [(v, values) for v, values in arrays if look.is_parameter(v)]
    others = [(v, values) for v, values in arrays if not look.is_parameter(v)]
    pool: list[tuple[str, np.ndarray]] = []
    related: list[Related] = []
    untried: list[NotRun] = []
    if look.model is not None and look.model.prepare is None:
        pool = [(v.name, _shaped(v, values)) for v, values in parameters]
    else:
        ordered = sorted(parameters, key=lambda pair: pair[1].shape[1])
        suspects = _suspects(look, ordered)
        for variable, values in ordered:
            if variable.where in suspects:
                combinations = _relate(look, pool_of(pool, look.key), variable, values, related, untried)
                if combinations is not None and combinations.exact.all():
                    continue
            if _of_itself(look, variable, values, related):
                continue
            pool.append((variable.name, _shaped(variable, values)))
        explained = {r.where for r in related}
        for variable, values in parameters:  # the mean of all predictions may come before the predictions
            if variable.shape or variable.where in explained or variable.where not in suspects:
                continue
            other_pool = [pair for pair in pool if pair[0] != variable.name]
            if len(other_pool) < len(pool):
                _relate(look, pool_of(other_pool, look.key), variable, values, related, [])
    whole = pool_of(pool if others else [], look.key)
    for variable, values in sorted(others, key=lambda pair: pair[1].shape[1]):
        _relate(look, whole, variable, values, related, untried)
    return related, untried


def _suspects(look: Look, parameters: Sequence[tuple[Variable, np.ndarray]]) -> set[str]:
    """Places of arrays that may be combinations of others, by one regression for all of them."""
    if len(parameters) < 2:
        return set()
    columns = [values[:, evenly(values.shape[1], _MOST_COLUMNS)] for _, values in parameters]
    owners = np.repeat(np.arange(len(columns)), [part.shape[1] for part in columns])
    pool = pool_of([(v.name, values) for (v, _), values in zip(parameters, columns, strict=True)], look.key)
    return {parameters[k][0].where for k in np.unique(owners[may_be_combinations(pool)])}


def arrays_of(look: Look) -> list[tuple[Variable, np.ndarray]]:
    """Arrays at their common draws, except arrays that earlier findings explain."""
    contents = look.contents
    if contents.draws is None:
        return []
    total = contents.draws.chains * contents.draws.length
    wide = any(v.group in WIDE and v.per_draw for v in contents.variables)
    rows = contents.rows if wide and len(contents.rows) else np.arange(total)
    sample = evenly(len(rows), _MOST_DRAWS)
    arrays = []
    for variable in contents.variables:
        values = rows_of(variable) if variable.per_draw else None
        if (
            values is None
            or not values.shape[1]
            or variable.where in look.reported
            or variable.group.startswith("warmup_")
        ):
            continue
        if variable.group in WIDE:
            if len(values) != len(contents.rows):
                continue
            at = sample
        elif len(values) == total:
            at = rows[sample]
        else:
            continue
        values = values if np.array_equal(at, np.arange(len(values))) else values[at]  # no copy of a large array
        low, high = (values.min(axis=0), values.max(axis=0)) if len(values) else np.zeros((2, 0))
        moving = np.isfinite(low) & np.isfinite(high) & (high > low)
        if moving.any():
            arrays.append((variable, values if moving.all() else values[:, moving]))
    return arrays


def _shaped(variable: Variable, values: np.ndarray) -> np.ndarray:
    complete = values.shape[1] == int(np.prod(variable.shape, dtype=int))
    return values.reshape(len(values), *variable.shape) if complete else values


def _relate(
    look: Look,
    pool: Pool,
    variable: Variable,
    values: np.ndarray,
    related: list[Related],
    untried: list[NotRun],
) -> Combinations | None:
    if not len(pool.names):
        return None
    columns = values[:, evenly(values.shape[1], _MOST_COLUMNS)]
    first = evenly(columns.shape[1], _FIRST)
    combinations = find_combinations(pool, columns[:, first])
    if combinations is None:
        reason = f"{len(columns)} draws are too few to find combinations among {len(pool.names)} columns"
        drop = f"supply more draws, or drop {variable.where}"
        if not look.is_parameter(variable):
            untried.append(NotRun(NAME, reason, drop, (variable.where,)))
        return None
    if not combinations.exact.any():
        return combinations
    if len(first) < columns.shape[1]:
        combinations = find_combinations(pool, columns) or combinations
    parts, unexplained = [combinations], ~combinations.exact
    while unexplained.any():  # other columns may have another link function, such as the logarithm of a scale
        more = find_combinations(pool, columns[:, unexplained])
        if more is None or not more.exact.any():
            break
        parts.append(more)
        unexplained[unexplained] = ~more.exact
    for part in parts:
        judged = judge(part.loadings[part.exact], part.constant[part.exact], are_labelled(look, variable))
        related.append(Related(variable.where, part, judged, not unexplained.any()))
    return combinations


def _of_itself(look: Look, variable: Variable, values: np.ndarray, related: list[Related]) -> bool:
    """Whether most columns of an array are combinations of a few of its columns, like terms of a likelihood."""
    at = evenly(values.shape[1], _MOST_COLUMNS)
    if len(at) < _MANY:
        return False
    sample = standardised(values[np.ix_(evenly(len(values), 800), at)])
    import scipy.linalg  # which takes long to load

    _, pivots = scipy.linalg.qr(sample, mode="r", pivoting=True)  # type: ignore[misc]
    for size in (4, 8, 16, 32):
        if 2 * size > len(at) or len(values) < 2 * (size + 1) + 4:
            return False
        basis, dependent = np.sort(pivots[:size]), np.sort(pivots[size:])
        few = dependent[evenly(len(dependent), _FIRST)]
        for some in (few, dependent):
            result = exact_in(values[:, at[basis]], values[:, at[some]], look.rng)
            if result is None or not result.exact.all():
                break
        else:
            assert result is not None
            names = tuple(f"{variable.name}[{k}]" for k in at[basis])
            combinations = Combinations(result.exact, "", names, result.loadings, result.constant)
            judged = judge(combinations.loadings, combinations.constant, are_labelled(look, variable))
            related.append(Related(variable.where, combinations, judged, True))
            return True
    return False


def are_labelled(look: Look, variable: Variable) -> bool:
    """Whether the last axis has labels of points that are neither numbers nor identifiers of records."""
    for dimension in variable.dimensions:
        labels = look.contents.coordinates.get(f"{variable.group}/{dimension}")
        if labels is not None and dimension not in look.record_axes and kind_of_labels(labels) in ("words", "levels"):
            return True
    return False


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """One finding for each array with rows of a design, and one for all scalars together."""
    related, untried = survey(look)
    several = Counter(r.where for r in related)
    findings = [_finding(look, [r]) for r in related if len(r.combinations.exact) > 1 or several[r.where] > 1]
    scalars = [r for r in related if len(r.combinations.exact) == 1 and several[r.where] == 1]
    if scalars:
        findings += _of_scalars(look, scalars)
    once = {(f.title, f.severity): f for f in reversed(findings) if f is not None}
    return list(reversed(once.values())), untried


def _of_scalars(look: Look, scalars: list[Related]) -> list[Finding | None]:
    """Findings on scalars. Scalars with the same link function and terms are rows of one design."""
    terms = list(dict.fromkeys(t for r in scalars for t in r.combinations.terms))
    rows = np.zeros((len(scalars), len(terms)))
    for i, r in enumerate(scalars):
        for term, value in zip(r.combinations.terms, r.combinations.loadings[0], strict=True):
            rows[i, terms.index(term)] = value
    judged = judge(rows, np.array([r.combinations.constant[0] for r in scalars]))
    if judged.data >= len(scalars) > 1:
        return [_finding(look, scalars, judged.data)]
    return [_finding(look, [r]) for r in scalars]


def _finding(look: Look, related: list[Related], data: int | None = None) -> Finding | None:
    count = sum(r.judged.data for r in related) if data is None else data
    severity = of_rows(count)
    where = tuple(r.where for r in related)
    if severity is None:
        return _structure(related) if all(r.structural for r in related) else None
    verb = "is an exact combination" if len(where) == 1 else "are exact combinations"
    exact = ((r.combinations, int(n)) for r in related for n in np.flatnonzero(r.combinations.exact))
    rows = [values_in(combinations.row(n)) for combinations, n in islice(exact, SHOW)]
    first = related[0].combinations
    columns = {t: first.loadings[first.exact][:, k] for k, t in enumerate(first.terms)} if len(related) == 1 else {}
    names = {t: look.named(v) for t, v in columns.items() if len(v) > 2}
    private = [f"{t}: the private column {name}" for t, name in names.items() if name]
    few = dict(list(columns.items())[:6])
    return to_drop(
        "combination",
        severity,
        f"{places(where, 3)} {verb} of other draws",
        where,
        f"one regression recovers {count} rows of the design, {related[0].judged.why}: "
        + "; ".join(rows)
        + (f". Loadings of {', '.join(private)}" if private else ""),
        "the draws of the parameters",
        records=few,
        errors={t: np.zeros(len(v)) for t, v in few.items()},
    )


def _structure(related: list[Related]) -> Finding:
    where = tuple(r.where for r in related)
    title = f"{places(where, 3)} follow{'s' if len(where) == 1 else ''} from other draws"
    summary = f"{related[0].judged.why}, which reveal nothing about a record: {related[0].combinations.row(0)}"
    return Finding("combination", "info", title, where, summary)


CHANNEL = Channel(NAME, find, 30)
