"""Cases of a test that run by default, where a few of them show the property."""

from collections.abc import Hashable, Iterable

import pytest


def quick(cases: Iterable[Hashable], few: Iterable[Hashable]) -> list:
    """All cases; those beyond the few are run with the slow tests."""
    every, kept = list(cases), set(few)
    assert kept <= set(every)
    return [case if case in kept else pytest.param(case, marks=pytest.mark.slow) for case in every]
