"""Presumptions of an attacker about the covariates of a regression: levels of a factor, or values 0 and 1.

A presumption is tried as if the user had stated it, and findings mention it. If no data could have the printed standard
errors under a presumption, it is contradicted, and the audit says so.
"""

from dataclasses import dataclass

import numpy as np

from bayesrecon.factors import Factor, families
from bayesrecon.inexact import Limit
from bayesrecon.knowledge import Knows, check_knowledge
from bayesrecon.models.estimators import ESTIMATORS
from bayesrecon.posteriors.printed.coded_tables import Coded
from bayesrecon.releases import Release

_PLAIN = ("real", "interval", "integer")  # kinds of domains for which more is presumed
_BEYOND = 1.5  # multiple of the smallest number of records that is used to see what knowing n would reveal


@dataclass(frozen=True)
class Presumption:
    """A presumption about the data.

    Attributes:
        words: the presumption in words.
        knows: keywords of a verb, including what the user stated.
    """

    words: str
    knows: Knows


def presumptions(release: Release, knows: Knows, counted: bool) -> list[Presumption]:
    """Presumptions about a regression's covariates beyond what the user stated, the most likely first.

    Args:
        release: the regression.
        knows: what the user stated.
        counted: whether n is determined without presumptions. A release with equations then needs none.
    """
    model = release.about
    if counted and getattr(release, "limits", None) is None:
        return []
    if model.name not in ESTIMATORS or knows.get("known") or not model.settings["intercept"]:
        return []
    stated = set(knows.get("domain") or {})
    coded = {column for f in _coded_factors(release) for column in f.columns}
    free = [
        str(c)
        for c in model.settings["covariates"]
        if c not in stated | coded and model.fields[c].domain.kind in _PLAIN and not knows.get("factors")
    ]
    groups = families(free)
    grouped = {column for factor in groups for column in factor.columns}
    ungrouped = [name for name in free if name not in grouped]
    presumed = []
    if groups:
        words = " and ".join(f"{', '.join(f.columns)} are levels of one factor" for f in groups)
        presumed.append(Presumption(words, {**knows, "factors": {f.name: f for f in groups}}))
    for names in ([ungrouped] if ungrouped and not groups else []) + ([free] if groups else []):
        domain = {**(knows.get("domain") or {}), **dict.fromkeys(names, "binary")}
        verb = "is" if len(names) == 1 else "are"
        presumed.append(Presumption(f"{', '.join(names)} {verb} 0 or 1", {**knows, "domain": domain}))
    return presumed


def _coded_factors(release: Release) -> tuple[Factor, ...]:
    limits = getattr(release, "limits", None)
    return limits.factors if isinstance(limits, Coded) else ()


def with_the_number(release: Release, knows: Knows) -> tuple[str, ...]:
    """Further statistics of a table without correlations that are determined if the number of records is known."""
    limits = getattr(release, "limits", None)
    if limits is None or knows.get("total") is not None:
        return ()
    knowledge = check_knowledge(release.model, **knows)
    unknown_n = limits(knowledge.fields, None, knowledge.factors)
    smallest = unknown_n.get("n", Limit(1.0)).lower
    if not np.isfinite(smallest):
        return ()
    known_n = limits(
        knowledge.fields, float(round(max(_BEYOND * smallest, len(limits.coefficients) + 2))), knowledge.factors
    )
    if known_n.failures:
        return ()
    return tuple(
        name
        for name, limit in known_n.items()
        if name != "n" and limit.estimate is not None and unknown_n.get(name, Limit()).estimate is None
    )
