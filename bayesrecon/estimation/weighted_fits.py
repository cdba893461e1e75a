"""Tables of regressions with weights or an offset, which no table shows.

With frequency weights, the numbers are those of a table in which every record is repeated as often as its weight. With
analytic weights `w_n` (WLS, survey weights), totals are weighted: the sum of weights replaces n, and moments are
weighted. The scale `sum w r^2 / (n - p)` is uninformative unless n is known. An offset is an unknown field of the
record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from bayesrecon.errors import BayesreconError, Note
from bayesrecon.knowledge import Knowledge
from bayesrecon.models.estimators import ESTIMATORS, fitted_with
from bayesrecon.posteriors.approximated.normal import laplace
from bayesrecon.releases import Derived, Release
from bayesrecon.results.row import Row

WEIGHED = "sum(weights)"
"""The statistic that replaces n and counts if the fit had analytic weights."""

_NOTE = Note("the fit has weights: totals are sums of weights, and means and variances are weighted")


def restated(release: Release, knows: Mapping[str, Any]) -> tuple[Release, dict[str, Any]]:
    """The release of a weighted regression with the equations of its fit, and knowledge completed from the fit.

    Raises:
        BayesreconError: the knowledge contradicts the fit, or the number of records leaves no degrees of freedom.
    """
    about, knows = release.about, dict(knows)
    own = about.settings if about.name in ESTIMATORS else {}
    if own.get("fit_weights") is not None:
        if knows.get("fit_weights") not in (None, own["fit_weights"]):
            raise BayesreconError(f"{release.name} has {own['fit_weights']} weights, not {knows['fit_weights']!r}")
        knows["fit_weights"] = own["fit_weights"]
    if own.get("offset"):
        if knows.get("offset") is False:
            raise BayesreconError(f"{release.name} has an offset")
        knows["offset"] = True
    if own.get("records") is not None:
        if knows.get("total") not in (None, own["records"]):
            raise BayesreconError(f"total={knows['total']:g}: {release.name} is of {own['records']:g} records")
        knows["total"] = own["records"]
    analytic, offset = knows.get("fit_weights") == "analytic", bool(knows.get("offset"))
    if not (analytic or offset) or not own:
        return release, knows
    if release.model.name != laplace(about, False).name:
        raise BayesreconError(f"fit_weights= and offset= need a table with correlations, and this is {release.what}")
    records = knows.get("total") if analytic else None
    width = about.dimension - (about.name == "ols")
    if records is not None and records <= width:
        raise BayesreconError(f"total={records:g}: {width} coefficients need more records than that")
    model = fitted_with(
        about, weights=knows.get("fit_weights"), records=records, offset=offset
    ).in_constrained_coordinates
    directions = np.asarray(release.own_metric())
    if analytic and records is None and about.name == "ols":
        directions = directions[:, ~_of_the_scale(directions, about.dimension)]
    notes = (*release.notes, *([_NOTE] if analytic and _NOTE not in release.notes else []))
    of_model = replace(cast("Derived", release), of=model, model=laplace(model, False), directions=directions)
    return replace(of_model, notes=notes), knows


def _of_the_scale(directions: np.ndarray, dimension: int) -> np.ndarray:
    """Which directions move only the scale, the last coordinate."""
    moved = np.abs(directions) > 0
    return moved[dimension - 1] & (moved.sum(axis=0) == 1)


def presumed(model: str, knowledge: Knowledge) -> str:
    """The assumptions behind a regression's table, in words; empty for other models."""
    if model.partition(",")[0] not in ESTIMATORS:
        return ""
    open_ = [
        *(["no weights"] if knowledge.fit_weights is None else []),
        *(["no offset"] if knowledge.offset is None else []),
        "no robust errors",
    ]
    listed = " and ".join(filter(None, (", ".join(open_[:-1]), open_[-1])))
    how = {"frequency": "with each record repeated as often as its weight, ", "analytic": "weighted as the fit was, "}
    offset = "with an offset, " if knowledge.offset else ""
    return f"{how.get(knowledge.fit_weights or '', '')}{offset}if the fit used {listed}"


def with_weighted_names(rows: Sequence[Row], knowledge: Knowledge) -> tuple[Row, ...]:
    """Rows with names for sums of weights, and the number of records if it is known."""
    if knowledge.fit_weights != "analytic":
        return tuple(rows)
    n = knowledge.records
    number = Row("n") if n is None else Row("n", n, lower=n, upper=n, visibility=1.0, verdict="determined")
    named = (
        replace(row, name=WEIGHED + row.name[1:]) if row.name == "n" or row.name.startswith("n[") else row
        for row in rows
    )
    return (number, *named)
