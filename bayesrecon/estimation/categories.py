"""Statistics by category: the number of records with each value of a field, and statistics of units and groups."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesrecon.domains import Domain
from bayesrecon.estimation.statistics import (
    Component,
    Library,
    Part,
    Statistic,
    add_functions,
    components,
    count_of,
    function_part,
    moments,
    ratio_of,
    sum_of,
)
from bayesrecon.factors import Factor, factors_by_name
from bayesrecon.knowledge import Knowledge
from bayesrecon.model import Field, Records

_FEW_LEVELS = 4  # largest number of values of a field that splits groups
_MOST = 500  # largest number of values that are counted individually


def categories(c: Component, domain: Domain) -> list[Part]:
    """Indicators of a component's values; none if the values are not codes or there are too many."""
    return [_category(c, level) for level in domain.levels] if domain.codes and len(domain.levels) <= _MOST else []


def _category(c: Component, level: float) -> Part:
    def values(records: Records) -> np.ndarray:
        found = (np.asarray(records[c.field])[(slice(None), *c.index)] == level).astype(float)
        return found if c.kind is None else found * c.kind.has(records)

    return Part(f"[{c.name}={level_label(level)}]", values, (c.one,))


def level_label(level: float) -> str:
    """A level in the name of a statistic. Distinct levels have distinct labels.

    >>> level_label(2.0), level_label(0.5), level_label(1000001.0)
    ('2', '0.5', '1000001')
    """
    short = f"{level:g}"
    return short if float(short) == level else str(int(level) if level == int(level) else float(level))


def add_categories(library: Library, fields: Mapping[str, Field], unknown: Sequence[Component]) -> None:
    """The number of records in every category of fields whose values are codes.

    Means, variances and covariances of codes have little meaning. They are reported only if they are determined and the
    counts are not, as can happen for a covariate with few values.
    """
    for c in unknown:
        parts = categories(c, fields[c.field].domain)
        counts = [count_of(f"n{part.name}", part.name) for part in parts]
        names = tuple(count.name for count in counts)
        library.statistics[:] = [
            replace(s, unless=(*s.unless, *names)) if _is_of(s, c.name) else s for s in library.statistics
        ]
        library.parts.update({part.name: part for part in parts})
        library.statistics.extend(counts)


def _is_of(statistic: Statistic, component: str) -> bool:
    return any(component in part.split("*") for part in statistic.parts)


def add_units(
    library: Library,
    unit: str,
    levels: Sequence[float],
    found: Sequence[Component],
    *,
    group: bool = False,
    within: Mapping[str, Sequence[float]] | None = None,
    codes: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Add statistics for each value of the unit field: the number of records, and values of the unknown fields.

    For groups, sums and means replace values.

    Args:
        library: the statistics.
        unit: name of the unit field.
        levels: its values.
        found: components of the unknown fields.
        group: whether a unit has several records.
        within: fields with few values. If a group's count is not determined, the counts within it may be.
        codes: components whose values are codes, by which a group's records are counted.
    """
    for level in levels:
        label = f"{unit}={level_label(level)}"
        indicator = f"[{label}]"

        def inside(records: Records, level: float = level) -> np.ndarray:
            return (np.asarray(records[unit]) == level).astype(float)

        library.parts[indicator] = Part(indicator, inside)
        library.statistics.append(count_of(f"n[{label}]", indicator))
        for c in found:

            def values(records: Records, c: Component = c, inside: Any = inside) -> np.ndarray:
                return inside(records) * c.values(records)

            part = f"{c.name}[{label}]"
            library.parts[part] = Part(part, values, (indicator,))
            counts = _count_within(library, inside, label, c, (codes or {}).get(c.name, ())) if group else ()
            if group:
                total = sum_of(f"sum({c.name})[{label}]", part, indicator, c.centre, c.scale)
                library.statistics.append(replace(total, unless=counts))
            name = f"mean({c.name})[{label}]" if group else part
            library.statistics.append(replace(ratio_of(name, part, indicator, c.centre, c.scale), unless=counts))
        for name, values_ in (within or {}).items():
            for value in values_:
                _add_subgroup(library, inside, label, name, value, found)


def _count_within(
    library: Library,
    group: Callable[[Records], np.ndarray],
    label: str,
    c: Component,
    levels: Sequence[float],
) -> tuple[str, ...]:
    """The numbers of a group's records by the categories of a component; their names."""
    names = []
    for level in levels:
        part = _category(c, level)

        def values(records: Records, part: Part = part) -> np.ndarray:
            return group(records) * part.values(records)

        both = f"[{label},{part.name[1:-1]}]"
        library.parts[both] = Part(both, values, (f"[{label}]",))
        library.statistics.append(count_of(f"n{both}", both))
        names.append(f"n{both}")
    return tuple(names)


def _add_subgroup(
    library: Library,
    group: Callable[[Records], np.ndarray],
    label: str,
    name: str,
    value: float,
    found: Sequence[Component],
) -> None:
    """Count and sums of the records of a group that have one value of a field, in place of the whole group's."""

    def inside(records: Records) -> np.ndarray:
        return group(records) * (np.asarray(records[name]) == value)

    both = f"{label},{name}={level_label(value)}"
    indicator = f"[{both}]"
    if indicator not in library.parts:
        library.parts[indicator] = Part(indicator, inside)
        library.statistics.append(replace(count_of(f"n[{both}]", indicator), substitute_for=f"n[{label}]"))
    for c in found:
        if c.field == name:
            continue

        def values(records: Records, c: Component = c) -> np.ndarray:
            return inside(records) * c.values(records)

        part = f"{c.name}[{both}]"
        library.parts[part] = Part(part, values, (indicator,))
        total = sum_of(f"sum({c.name})[{both}]", part, indicator, c.centre, c.scale)
        library.statistics.append(replace(total, substitute_for=f"sum({c.name})[{label}]"))


def library_of(
    knowledge: Knowledge,
    centre: Mapping[str, np.ndarray],
    scale: Mapping[str, np.ndarray],
    functions: Mapping[str, Callable[..., Any]] | None,
    example: Records,
) -> Library:
    """The default statistics over the fields that are not known, per-unit ones, and the user's."""
    unit = knowledge.unit
    group = unit is not None and unit not in knowledge.known
    parts = components(knowledge.fields, knowledge.aside, centre, scale)
    # With one record per unit, the units' own values say more than their moments.
    library = moments(parts, order=1 if unit is not None and not group else 2)
    add_categories(library, knowledge.fields, parts)
    if unit is not None:
        few = {c.field: knowledge.fields[c.field].domain.levels for c in parts if not knowledge.fields[c.field].shape}
        within = {k: v for k, v in few.items() if group and 0 < len(v) <= _FEW_LEVELS}
        most = _MOST // max(1, len(knowledge.levels))
        coded = {c.name: knowledge.fields[c.field].domain for c in parts}
        codes = {name: d.levels for name, d in coded.items() if group and d.codes and len(d.levels) <= most}
        add_units(library, str(unit), knowledge.levels, parts, group=group, within=within, codes=codes)
    stated = {column for factor in knowledge.factors for column in factor.columns}
    named = [f for f in factors_by_name([c.field for c in parts]) if not stated & set(f.columns)]
    add_levels(library, (*knowledge.factors, *named), {c.name for c in parts})
    if functions:
        add_functions(library, functions, example)
    return library


def add_levels(library: Library, factors: Sequence[Factor], unknown: Collection[str]) -> None:
    """The number of records at each level of factors whose columns are all unknown.

    With 1 and the columns at every level in the rows of a matrix C, whether a record has level k is row k of `C^-T`
    times 1 and its columns: linear in them, so that the count follows from n and their totals.
    """
    for factor in factors:
        if not set(factor.columns) <= set(unknown):
            continue
        coded = np.column_stack([np.ones(len(factor.levels)), factor.matrix])
        for level, weights in zip(factor.levels, np.linalg.inv(coded).T, strict=True):

            def values(records: Records, weights: np.ndarray = weights, columns: Any = factor.columns) -> np.ndarray:
                every = [np.asarray(records[column], float) for column in columns]
                return weights[0] + np.stack(every, axis=1) @ weights[1:]

            part = f"[{factor.name}={level}]"
            library.parts[part] = Part(part, values, ("1",))
            library.statistics.append(count_of(f"n{part}", part))


def known_totals(knowledge: Knowledge) -> tuple[Library, np.ndarray]:
    """Functions of a record whose totals are known exactly, and those totals."""
    library, exact = Library(), np.zeros(0)
    if knowledge.known:
        table = knowledge.known
        centre = {k: v.mean(axis=0) for k, v in table.items()}
        scale = {k: np.where(v.std(axis=0) > 0, v.std(axis=0), 1.0) for k, v in table.items()}
        fields = {k: knowledge.fields[k] for k in table if k != knowledge.unit}
        library = moments(components(fields, (), centre, scale))
        if knowledge.unit in table:
            add_units(library, str(knowledge.unit), knowledge.levels, ())
        exact = library.evaluate(table).sum(axis=0)
    elif knowledge.total is not None:
        library, exact = moments(()), np.array([knowledge.total])
    for name, (f, total) in knowledge.identities.items():
        library.parts[f"identity:{name}"] = function_part(f"identity:{name}", f)
        exact = np.append(exact, total)
    return library, exact
