"""What a release is, in the field's terms: which attacks take it depends on that alone."""

from typing import Any

DRAWS, TRAINED = "posterior draws", "a trained parameter"
APPROXIMATION = "an approximation of a posterior, whose equations are exact along some directions"
INEXACT = "estimates with errors: rounded, of an unfinished optimisation, or of an approximation that holds nearly"
LIMITS = "limits of statistics, which leave the equations of the data open"
"""Kinds of single releases."""


def kind_of_release(release: Any) -> str:
    """Which kind a `bayesrecon.types.Release` is of."""
    if release.limits is not None:
        return LIMITS
    if release.temperature:
        return DRAWS
    model = release.model
    if release.noise is not None or model.matched is not None or model.finer is not None:
        return INEXACT
    return TRAINED if release.metric is None else APPROXIMATION


def shortly(kind: str) -> str:
    """Without what explains it.

    >>> shortly(INEXACT), shortly(TRAINED)
    ('estimates with errors', 'a trained parameter')
    """
    return kind.partition(":")[0].partition(",")[0]
