"""Which part of the suite the cases of a parametrised test belong to."""

import pytest


def slow_then_large(*cases, slow=1):
    """All are slow; those after the first, or after so many, are large as well."""
    marks = [[pytest.mark.slow]] * slow + [[pytest.mark.slow, pytest.mark.large]] * (len(cases) - slow)
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark)
        for case, mark in zip(cases, marks, strict=True)
    ]
