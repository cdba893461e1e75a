"""Programs that are written of fits of rstanarm."""

import pytest
from quick import quick

from bayesrecon.models.stan import from_stan
from bayesrecon.posteriors.r.samples import LIKELIHOODS, ProgramParts, RandomIntercepts, program_text, record_fields


@pytest.mark.parametrize("family", quick(LIKELIHOODS, list(LIKELIHOODS)[:1]))
def test_every_family_has_a_program_that_is_read(family):
    group = RandomIntercepts("clinic", 3, 1.0, family[0] == "gaussian", 1.0)
    design = ProgramParts(family, False, "y", ("age", "bmi"), True, group, 0.0)
    model = from_stan(
        program_text(design, ["target += normal_lpdf(alpha[1] + dot_product(xbar, beta) | 0.0, 2.5);"]),
        constants={"xbar": [1.0, 2.0]},
    )
    assert set(model.fields) == {"y", "age", "bmi", "clinic"}


def test_names_that_a_program_cannot_have_are_replaced():
    assert record_fields(["real", "age", "age", "poly_age__2__1", "N", "x__"]) == [
        "y", "age", "x2", "poly_age__2__1", "x4", "x5",
    ]  # fmt: skip
