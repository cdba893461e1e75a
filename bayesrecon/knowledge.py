"""What the attacker knows in advance. It is checked once at the start of every verb."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

import numpy as np

from bayesrecon.domains import Domain, Field, Records
from bayesrecon.errors import BayesreconError, near
from bayesrecon.factors import Factor, stated_factors
from bayesrecon.stated_domains import parse, whole_numbers

if TYPE_CHECKING:
    from bayesrecon.model import Model


class Knows(TypedDict, total=False):
    """What an attacker knows in advance: the keywords that all verbs share.

    Attributes:
        known: `{field: (N, *shape)}`, fields whose values are known for every record, row by row.
        unit: the known field, or fields together, that identify a record, if every unit has one record. Or a field that
            is not known and has finitely many values: the group that a record belongs to.
        total: the number of records.
        domain: `{field: domain}`, the possible values. `(low, high)` narrows the model's own domain. A list of values,
            or a name ("real", "positive", "unit", "binary", "count", "integer"), replaces it.
        factors: `{name: columns}`, fields that together code the levels of one variable: exclusive dummies without the
            baseline, or a `Factor` for another contrast. Columns may have wildcards.
        fit_weights: for the table of a regression, how its fit weighted the records: "frequency" (how often each
            occurs), "analytic" (precision or sampling weights, as in WLS, aweights or survey weights) or "none".
        offset: for the table of a regression, whether its fit had an offset.
    """

    known: Mapping[str, Any] | None
    unit: str | Sequence[str] | None
    total: float | None
    domain: Mapping[str, Any] | None
    factors: Mapping[str, Factor | str | Sequence[str]] | None
    fit_weights: str | None
    offset: bool | None


_DECIMALS = 12  # to which the values of contrasts are rounded, as square roots are inexact

_LISTED = 4  # words in a message

_CODES = 32  # a range of fewer whole numbers is a list of levels, as for bounds in a program

KNOWS = tuple(Knows.__annotations__)
OF_FITS = ("fit_weights", "offset")
"""Keywords about the fit behind a table, not about its records."""
OF_RECORDS = tuple(name for name in KNOWS if name not in OF_FITS)
FIT_WEIGHTS = ("frequency", "analytic", "none")
_REGRESSIONS = ("ols", "logit", "poisson")  # whose tables do not say how records were weighed


def check_keywords(given: Mapping[str, object], verb: str, uses: Sequence[str] = KNOWS, why: str = "") -> None:
    """Raise an error for keywords that a verb or an attack does not use.

    Raises `BayesreconError`. The message lists the keywords that it uses.
    """
    for name, value in given.items():
        if name not in KNOWS:
            hint = "; they belong to metric=Metric(coordinates=...)" if name == "coordinates" else why
            raise BayesreconError(f"{verb} has no option {name}={near(name, KNOWS)}{hint}")
        if value is not None and name not in uses:
            accepted = f"it takes {', '.join(uses)}" if uses else "it takes nothing that an attacker knows"
            raise BayesreconError(f"{verb} has no use for {name}=: {accepted}")


@dataclass(frozen=True)
class Knowledge:
    """Checked knowledge of the attacker.

    Attributes:
        fields: the fields of a record, with their domains narrowed.
        known: `{field: (N, *shape)}`, values known row by row.
        unit: the known field, or fields together, that identify a record, if every unit has one record. Or a field that
            is not known and has finitely many values: the group that a record belongs to.
        total: the number of records, if known.
        identities: totals that the model's program fixes, `{name: (f, total)}`.
        factors: the factors whose levels the fields code, as stated.
        fit_weights: how the fit behind a table weighted the records, one of `FIT_WEIGHTS`, if known. With analytic
            weights totals are sums of weights, so that `total` stays open.
        offset: whether that fit had an offset, if known.
        records: the number of records, if known and different from `total`.
    """

    fields: dict[str, Field]
    known: dict[str, np.ndarray] = field(default_factory=dict)
    unit: str | tuple[str, ...] | None = None
    total: float | None = None
    identities: Mapping[str, tuple[Callable[[Records], Any], float]] = field(default_factory=dict)
    factors: tuple[Factor, ...] = ()
    fit_weights: str | None = None
    offset: bool | None = None
    records: float | None = None

    @property
    def presumed(self) -> str:
        """Presumed ranges of unknown fields, in words."""
        unknown = {k: f.domain for k, f in self.fields.items() if k not in self.known}
        return " and ".join(f"{k} is {d.words} (presumed)" for k, d in unknown.items() if d.presumed)

    @property
    def aside(self) -> list[str]:
        """Fields that are not unknown: the known fields, and the group."""
        group = [self.unit] if isinstance(self.unit, str) and self.unit not in self.known else []
        return [*self.known, *group]

    @property
    def levels(self) -> list[float]:
        """The values of the unit: those in the known field, or all possible groups."""
        if self.unit is None:
            return []
        assert isinstance(self.unit, str)
        known = self.known.get(self.unit)
        return list(self.fields[self.unit].domain.levels) if known is None else np.unique(known).tolist()


def check_knowledge(model: "Model", **knows: Unpack[Knows]) -> Knowledge:
    """Validate the keywords that every verb shares.

    Raises `BayesreconError` naming the field and the remedy.
    """
    known, unit, total = knows.get("known"), knows.get("unit"), knows.get("total")
    domain, factors = knows.get("domain"), knows.get("factors")
    weights, offset = _of_fit(model, knows)
    fields = dict(model.fields)
    for source, given in (("domain", domain), ("known", known)):
        for name in given or {}:
            if name not in fields:
                raise BayesreconError(
                    f"{source}: {name!r} is not a field of a record of {model.name} "
                    f"(fields: {', '.join(fields)}){near(name, fields)}"
                )
    coded = stated_factors(factors, _coded(fields)) if factors else ()
    for factor in coded:
        for name, at_levels in zip(factor.columns, factor.matrix.T, strict=True):
            fields[name] = replace(fields[name], domain=parse(sorted(set(at_levels.round(_DECIMALS).tolist())), name))
    for name, spec in (domain or {}).items():
        new = parse(spec, name)
        narrower = _narrowed(fields[name].domain, new, name) if isinstance(spec, tuple) else new
        fields[name] = replace(fields[name], domain=narrower)
    columns = {name: _values(fields[name], name, values) for name, values in (known or {}).items()}
    counts = {name: len(v) for name, v in columns.items()}
    if len(set(counts.values())) > 1:
        raise BayesreconError(f"known fields differ in length: {', '.join(f'{k} {n}' for k, n in counts.items())}")
    unit = _unit(unit, columns, fields)
    rows = next(iter(counts.values()), None)
    if total is not None:
        if not (np.isfinite(total) and total > 0):
            raise BayesreconError(f"total={total:g}: the number of records is a number above 0")
        if rows is not None and total != rows:
            raise BayesreconError(f"total={total} contradicts the {rows} rows of the known fields")
    count = float(rows) if rows is not None else total
    knowledge = Knowledge(fields, columns, unit, count, model.identities, coded, weights, offset)
    return replace(knowledge, total=None, records=count) if weights == "analytic" else knowledge


def _of_fit(model: "Model", knows: Mapping[str, object]) -> tuple[str | None, bool | None]:
    """How the fit weighed records, and whether it had an offset."""
    weights, offset = (knows.get(name) for name in OF_FITS)
    if weights is None and offset is None:
        return None, None
    if model.name.partition(",")[0] not in _REGRESSIONS:
        raise BayesreconError(
            f"fit_weights= and offset= are of the table of a regression ({', '.join(_REGRESSIONS)}), not of "
            f"{model.name}"
        )
    if weights is not None and weights not in FIT_WEIGHTS:
        raise BayesreconError(
            f"fit_weights={weights!r} is not one of {', '.join(FIT_WEIGHTS)}{near(str(weights), FIT_WEIGHTS)}"
        )
    if offset is not None and not isinstance(offset, bool | np.bool_):
        raise BayesreconError(f"offset={offset!r}: say True or False, whether the fit had an offset")
    if weights == "analytic" and knows.get("known"):
        raise BayesreconError('known= has no effect with fit_weights="analytic": the weights of its rows are not known')
    return weights, None if offset is None else bool(offset)


def _coding(values: Any) -> str:
    """A hint for a message that says how words are coded; empty if the values are not words.

    >>> _coding(["yes", "no", "yes"])
    ": words are coded as the fit coded them (scikit-learn counts its sorted classes_ from 0: 'no' 0, 'yes' 1)"
    """
    try:
        words = sorted(set(values))
    except TypeError:
        return ""
    if not words or not all(isinstance(word, str) for word in words):
        return ""
    listed = ", ".join(f"{str(word)!r} {i}" for i, word in enumerate(words[:_LISTED]))
    more = ", ..." if len(words) > _LISTED else ""
    return f": words are coded as the fit coded them (scikit-learn counts its sorted classes_ from 0: {listed}{more})"


def _coded(fields: Mapping[str, Field]) -> list[str]:
    """Fields that can be columns of a factor: single numbers."""
    return [name for name, one in fields.items() if not one.shape]


def _unit(
    unit: str | Sequence[str] | None, known: dict[str, np.ndarray], fields: dict[str, Field]
) -> str | tuple[str, ...] | None:
    """The unit, checked: known fields that tell the records apart, or one field that is a group."""
    if unit is None:
        return None
    names = (unit,) if isinstance(unit, str) else tuple(unit)
    quoted = repr(names[0] if len(names) == 1 else names)
    is_group = len(names) == 1 and names[0] in fields and fields[names[0]].domain.kind == "levels"
    if len(names) == 1 and is_group and names[0] not in known:
        return names[0]
    missing = [name for name in names if name not in known]
    if missing or not names:
        remedy = f"; pass known={{{missing[0]!r}: values}}" if missing else ""
        raise BayesreconError(f"unit={quoted} must be one of the known fields{remedy}")
    if any(known[name].ndim != 1 for name in names):
        raise BayesreconError(f"unit={quoted}: a unit is named by fields of one number each")
    if len(np.unique(np.stack([known[name] for name in names]), axis=1).T) != len(known[names[0]]):
        raise BayesreconError(
            f"unit={quoted}: every unit has one record, but its known values repeat; name more fields"
        )
    return names[0] if len(names) == 1 else names


def _narrowed(old: Domain, new: Domain, name: str) -> Domain:
    """The intersection of a domain and an interval, of the same kind as the domain; a presumed domain is replaced."""
    if old.presumed:
        integers = whole_numbers(new.low, new.high, name)
        if integers.width >= _CODES:
            return integers
        return Domain("levels", levels=tuple(np.arange(integers.low, integers.high + 1).tolist()))
    if old.kind == "levels":
        levels = tuple(v for v in old.levels if new.low <= v <= new.high)
        if not levels:
            raise BayesreconError(
                f"domain of field {name!r}: none of its values {old.levels} lies in {(new.low, new.high)}"
            )
        return replace(old, levels=levels)
    low, high = max(old.low, new.low), min(old.high, new.high)
    if not (np.ceil(low) <= np.floor(high) if old.kind == "integer" else low < high):
        raise BayesreconError(
            f"domain of field {name!r}: {(new.low, new.high)} leaves nothing of the model's, {old.words}"
        )
    if old.kind == "integer":
        return whole_numbers(low, high, name)
    return Domain("interval", low, high, closed=old.closed or old.kind == "real")


def _values(spec: Field, name: str, values: Any) -> np.ndarray:
    try:
        if np.iscomplexobj(values):
            raise TypeError
        array = np.asarray(values, float)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError(f"known field {name!r} holds values that are not numbers{_coding(values)}") from None
    if array.shape[1:] != spec.shape or array.ndim == 0 or not len(array):
        raise BayesreconError(f"known field {name!r} has shape {array.shape}, expected (N,{str(spec.shape)[1:-1]})")
    if not np.isfinite(array).all():
        raise BayesreconError(
            f"known field {name!r} holds missing or infinite values; leave these rows out or fill them in"
        )
    outside = array[~spec.domain.contains(array)]
    if outside.size:
        remedy = ", which was presumed: state another with domain=" if spec.domain.presumed else ""
        raise BayesreconError(
            f"known field {name!r} holds {outside.flat[0]:g}; its domain is {spec.domain.words}{remedy}"
        )
    return array.astype(spec.domain.dtype)


def with_factors_of(model: "Model", knows: Mapping[str, Any]) -> dict[str, Any]:
    """The knowledge with further factors from the model's formula, whose columns are in no stated factor."""
    of_formula, stated = model.settings.get("factors") or {}, knows.get("factors") or {}
    factors = stated_factors(stated, _coded(model.fields)) if of_formula and stated else ()
    taken = {column for factor in factors for column in factor.columns}
    more = {name: columns for name, columns in of_formula.items() if not taken & set(columns)}
    return {**knows, "factors": {**more, **stated}} if more else dict(knows)


def of_model(knows: Mapping[str, object], model: "Model") -> Knows:
    """The knowledge restricted to the fields of this model, if there are several releases.

    >>> from bayesrecon.models.estimators import ols
    >>> of_model({"total": 15, "domain": {"x": "binary", "z": "binary"}}, ols(["x"]))
    {'total': 15, 'domain': {'x': 'binary'}}
    """

    def restricted(name: str, value: object) -> Any:
        if name == "factors" and isinstance(value, Mapping):
            return {k: v for k, v in value.items() if _has(v, model)}
        return {k: v for k, v in value.items() if k in model.fields} if isinstance(value, Mapping) else value

    knowledge = {name: restricted(name, value) for name, value in knows.items() if value is not None}
    return cast(Knows, {name: value for name, value in knowledge.items() if not isinstance(value, Mapping) or value})


def _has(factor: object, model: "Model") -> bool:
    try:
        return bool(stated_factors({"": factor}, _coded(model.fields)))
    except BayesreconError:
        return False
