"""What a model would open is seen without one."""

import numpy as np
import pytest
from kidscore import DRAWS, MODEL

import bayesrecon
from bayesrecon.auditing.sensitive_values import sensitive_values
from bayesrecon.posteriors.contents import Contents, Variable

PER_DRAW = np.random.default_rng(0).normal(size=(20, 3))


def kinds(group, name, shape=(), model=None):
    values = PER_DRAW if shape else PER_DRAW[:, 0]
    return [
        (f.kind, f.severity)
        for f in sensitive_values(Contents("a", "b", (), (Variable(group, name, shape, True, values),)), model)
    ]


@pytest.mark.parametrize(
    ("group", "name", "shape", "expected"),
    [
        ("sample_stats", "lp", (), ("log-density", "medium")),
        ("sample_stats", "logp", (), ("log-density", "medium")),
        ("sample_stats", "potential_energy", (), ("log-density", "medium")),
        ("posterior", "lp__", (), ("log-density", "medium")),
        ("sample_stats", "energy__", (), ("energy", "low")),
        ("sample_stats", "gradient", (3,), ("gradient", "medium")),
        ("sample_stats", "unconstrained_draw", (3,), ("draws", "low")),
        ("unconstrained_posterior", "mu", (), ("draws", "low")),
        ("posterior", "mu", (), ("draws", "low")),
        ("log_likelihood", "y", (3,), ("log-likelihood", "high")),
        ("posterior_predictive", "y", (3,), ("predictive", "medium")),
        ("prior_predictive", "y", (3,), ("prior predictive", "medium")),
        ("warmup_sample_stats", "lp", (), ("warm-up values", "medium")),
    ],
)
def test_every_kind_is_a_finding(group, name, shape, expected):
    assert kinds(group, name, shape) == [expected]


@pytest.mark.parametrize(
    ("group", "name"),
    [("sample_stats", "diverging"), ("prior", "mu"), ("observed_data", "y"), ("warmup_posterior", "mu")],
)
def test_what_no_model_opens_is_none(group, name):
    assert kinds(group, name) == []


def test_with_a_model_the_posterior_is_told_apart():
    assert kinds("posterior", "sigma", (), MODEL) == [("draws", "low")]
    assert kinds("posterior", "fitted", (3,), MODEL) == []


@pytest.mark.slow
def test_a_linear_predictor_beside_the_draws_is_not_cleared():
    """One regression of it on the coefficients gives the covariate of every record."""
    x = np.array([80.0, 100.0, 131.0])
    fitted = DRAWS["beta"][..., :1] + DRAWS["beta"][..., 1:] * x
    found = bayesrecon.audit({**DRAWS, "fitted": fitted}, MODEL, remedies=False)
    finding = found.findings[0]
    assert (finding.kind, finding.severity, finding.where) == ("combination", "medium", ("posterior/fitted",))
    np.testing.assert_allclose(finding.records["beta[1]"], x)
