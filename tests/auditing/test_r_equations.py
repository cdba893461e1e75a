"""Counts and sums that follow from the equations of R's fits after their rows were removed."""

import csv
import math
from functools import cache

import numpy as np
import pytest
from r_written import FIXTURES

from bayesrecon.auditing.fit_findings import look_at_estimates
from bayesrecon.auditing.look import Look
from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.posteriors.r.cox import factors_of, possible_times
from bayesrecon.posteriors.r.nonlinear import derivative, text_of, value_of


def column(name):
    for file in ("patients.csv", "patients_more.csv"):
        with (FIXTURES / file).open() as lines:
            rows = list(csv.DictReader(lines))
        if name in rows[0]:
            return np.array([float(row[name]) if name not in ("clinic", "ill") else row[name] for row in rows])
    raise AssertionError(name)


@cache
def estimates(name):
    (found,) = read_contents(FIXTURES / f"{name}.rds").estimates
    return found


def told(name):
    return {row.name: row for row in estimates(name).statistics}


def holds(row, truth):
    return row.lower - 1e-9 * (1 + abs(truth)) <= truth <= row.upper + 1e-9 * (1 + abs(truth))


def in_clinics(values):
    return {k: values[column("clinic") == f"clinic{k}"] for k in range(1, 7)}


def test_modes_of_an_intercept_give_the_cases_of_every_group():
    """Without any row in the file: whole numbers that the equation of each group leaves."""
    found = told("glmer_share-rows_removed")
    with (FIXTURES / "patients_more.csv").open() as lines:
        ill = np.array([row["ill"] == "ill" for row in csv.DictReader(lines)])
    for k, own in in_clinics(ill).items():
        cell = f"clinic=level {k}"
        numbers = [found[f"n[{name}]"].estimate for name in (cell, f"{cell},ill=1", f"{cell},ill=0")]
        assert numbers == [len(own), own.sum(), len(own) - own.sum()]


def test_modes_of_an_intercept_give_the_total_of_every_group():
    found = told("glmer_count-rows_removed")
    for k, own in in_clinics(column("falls")).items():
        assert found[f"n[clinic=level {k}]"].estimate == len(own)
        assert found[f"sum(falls)[clinic=level {k}]"].estimate == own.sum()


def test_modes_beside_covariates_give_what_is_left_of_every_group():
    """And weighted sums within the last step of the fit, where the design is in the file."""
    found = told("glmer-frame_removed")
    left = [row for name, row in found.items() if name.startswith("sum(ill - fitted)[clinic=clinic")]
    assert len(left) == 6
    assert all(row.upper - row.lower < 1e-4 for row in left)
    assert not any(name.startswith("n[") for name in found)
    weighed = found["sum(variance of the response * age)"]
    assert 0 < weighed.upper - weighed.lower < 0.1 * weighed.estimate


def test_a_likelihood_without_covariates_tells_who_was_lost_when():
    found = told("coxph_lost-rows_removed")
    days, lost = column("days"), column("lost") == 1
    risk = np.sum(days[:, None] <= days[None, :], axis=1)
    for k in np.flatnonzero(~lost):  # Efron counts down within ties
        risk[k] -= np.sum((days[:k] == days[k]) & ~lost[:k])
    assert found["sum(at risk at an event)"].estimate == risk[~lost].sum()
    assert holds(found["sum(log(at risk at an event))"], np.log(risk[~lost]).sum())
    numbers = [found[f"at risk at censoring {k}"].estimate for k in (1, 2, 3)]
    assert numbers == sorted(risk[lost], reverse=True)
    assert [found[f"n[event={k}]"].estimate for k in (0, 1)] == [3, 57]
    assert holds(found["mean(age)"], column("age").mean())


@pytest.mark.parametrize("name", ["coxph_strata", "coxph_strata-stripped"])
def test_a_regression_with_strata_tells_nothing(name):
    assert "strata" in estimates(name).unsupported
    assert not estimates(name).statistics


def test_numbers_at_risk_are_those_of_a_product_and_a_sum():
    assert factors_of(60, 3, 52 * 31 * 10, 93) == [(10, 31, 52)]
    assert sorted(factors_of(12, 3, 1 * 8 * 9, 18)) == [(1, 8, 9)]
    assert factors_of(24, 3, 72, 15) == [(2, 4, 9)]
    assert factors_of(24, 3, 72, 16) == []
    assert not possible_times(60, 57, 179.0, 1737.5)
    assert not possible_times(60, 57, 300.0, 1737.0)
    assert not possible_times(10, 5, math.log(6.0), math.nan)  # less than 5 distinct numbers have


@pytest.mark.parametrize("name", ["summary_nls", "summary_nls-residuals_removed"])
def test_sums_of_a_gradient_follow_from_the_covariance_of_a_nonlinear_fit(name):
    found, age, y = told(name), column("age"), column("decline")
    k = dict(zip("abk", _parameters(name), strict=True))["k"]
    falls = np.exp(-k * age)
    assert found["n"].estimate == pytest.approx(60)
    for label, truth in (
        ("sum(D[b])", falls.sum()),
        ("sum(D[b]^2)", falls @ falls),
        ("sum(decline)", y.sum()),
        ("sum(decline * D[b])", y @ falls),
        ("sum(decline^2)", y @ y),
    ):
        assert found[label].estimate == pytest.approx(truth, rel=1e-7)
        assert found[label].lower <= truth <= found[label].upper


def _parameters(name):
    (entry,) = (
        e
        for e in read_contents(FIXTURES / f"{name}.rds").entries
        if e.where == "object/coefficients" and e.kind == "array"
    )
    return np.asarray(entry.values)[:, 0]


@pytest.mark.parametrize("name", ["summary_nls_log-residuals_removed", "nls_log"])
def test_a_formula_with_linear_parameters_is_read_as_least_squares(name):
    found = estimates(name)
    assert (found.kind, found.labels, found.response, found.unsupported) == (
        "ols",
        ("const", "log_age_"),
        "pressure",
        "",
    )
    columns = np.column_stack([np.ones(60), np.log(column("age"))])
    np.testing.assert_allclose(np.linalg.inv(found.covariance) * found.scale, columns.T @ columns, rtol=1e-7)


def test_a_penalised_poisson_model_tells_its_products_with_the_response():
    found, visits, bmi = told("gam_count-rows_removed"), column("visits"), column("bmi")
    assert found["n"].estimate == 60
    assert holds(found["sum(visits)"], visits.sum())
    assert holds(found["sum(visits * bmi)"], visits @ bmi)
    assert found["sum(visits)"].upper - found["sum(visits)"].lower < 1e-3


def test_a_penalised_fit_is_that_of_its_penalty():
    """Its score at the estimates is the penalty's slope, in the release that is attacked as well."""
    found = estimates("gam_count-rows_removed")
    whole = np.linalg.inv(found.covariance)
    assert found.penalty.shape == whole.shape == (6, 6)
    assert np.linalg.eigvalsh(whole - found.penalty).min() > 0


def test_a_forest_of_classes_tells_how_many_there_are():
    found = told("randomForest_ill-rows_removed")
    assert (found["n[class=well]"].estimate, found["n[class=ill]"].estimate) == (43, 17)
    few = told("randomForest_class")  # of ten trees, which one record was in every time
    assert all(few[f"n[class={k}]"].lower <= count <= few[f"n[class={k}]"].upper for k, count in ((0, 43), (1, 17)))


def test_small_counts_and_sums_are_findings_of_an_audit():
    contents = read_contents(FIXTURES / "glmer_share-rows_removed.rds")
    findings, _ = look_at_estimates(Look(contents))
    assert {f.kind for f in findings} == {"estimates", "small-count"}
    assert any("clinic=level 5,ill=1: 1" in f.title and f.severity == "high" for f in findings)


def test_a_fit_that_tells_nothing_more_is_not_called_tried():
    contents = read_contents(FIXTURES / "coxph_strata.rds")
    findings, untried = look_at_estimates(Look(Contents(estimates=contents.estimates, **_bare(contents))))
    assert findings == []
    assert ["strata" in n.reason for n in untried] == [True]


def _bare(contents):
    return {name: getattr(contents, name) for name in ("name", "format", "variables", "attributes", "draws", "files")}


def test_derivatives_are_those_of_differences():
    f = ("+", "a", ("*", ("/", "b", ("+", 1.0, ("exp", ("*", -1.0, "x")))), ("^", ("sqrt", "k"), ("log", "b"))))
    at = {"a": 0.3, "b": 1.7, "k": 2.2, "x": 0.4}
    for name in ("a", "b", "k"):
        up, down = (value_of(f, at | {name: at[name] + h}) for h in (1e-6, -1e-6))
        assert value_of(derivative(f, name), at) == pytest.approx((up - down) / 2e-6, rel=1e-7)
    assert text_of(("*", ("+", "a", "b"), ("^", ("-", "x", 1.0), 2.0))) == "(a + b) * (x - 1)^2"
    assert math.isnan(value_of(("log", -1.0), {}))
