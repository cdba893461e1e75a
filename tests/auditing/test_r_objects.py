"""What fits that R saved hold of their records, before and after the usual removal."""

import csv
import re
from functools import cache

import jax
import numpy as np
import pytest
import r_written
from r_written import FIXTURES

import bayesrecon
from bayesrecon.auditing.channel import examine
from bayesrecon.auditing.input import stored_model_of
from bayesrecon.auditing.look import Look
from bayesrecon.evaluate.column_matches import Matching
from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.posteriors.sources import accepted_draws
from bayesrecon.results.told import with_values

_COLUMNS = ("age", "bmi", "pressure", "days", "died", "visits")
with (FIXTURES / "patients.csv").open() as _file:
    ROWS = list(csv.DictReader(_file))
PATIENTS = {name: np.array([float(row[name]) for row in ROWS]) for name in _COLUMNS}
IDS = np.array([row["id"] for row in ROWS])
NAMED = Matching({**PATIENTS, "id": IDS})


@cache
def held(name):
    return read_contents(FIXTURES / name)


@cache
def looked(name):
    return examine(Look(held(name), named=NAMED)).findings


def high(name):
    return {where for f in looked(name) if f.severity == "high" for where in f.where}


def column(name, field):
    """The values that come back as a field, by whichever finding."""
    return next(np.asarray(f.records[field]) for f in looked(name) if field in f.records)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("lm.rds", ["object/model/age", "object/residuals", "object/qr/qr", "object/terms@.Environment/d/<value>/id"]),
        ("lm-do_call.rds", ["object/call/<2>/id"]),
        ("lm-row_names.rds", ["object/residuals@names", "object/model@row.names"]),
        ("glm_logit.rds", ["object/data/id", "object/linear.predictors"]),
        ("nls-model_false.rds", ["object/m/resid/<environment>/env/age"]),
        ("lmer-frame_removed.rds", ["object@pp@.xData/.->X", "object@resp@.xData/.->y"]),
        ("coxph.rds", ["object/x", "object/y"]),
        ("gam-stripped.rds", ["object/smooth/[[1]]/Xu"]),
        ("randomForest.rds", ["object/y"]),
        ("function.rds", ["object/<environment>/table/id"]),
        ("draws_array-with_data.rds", ["object@patients/id"]),
        ("two_fits.RData", ["linear/model/age", "counts/data/id"]),
        ("list-with_data.rds", ["object/table/age"]),
    ],
)
def test_rows_are_found_where_they_are(name, places):
    assert set(places) <= high(name)


@pytest.mark.slow
def test_the_design_and_the_response_come_back_from_factors_and_effects():
    """After what butcher takes away."""
    np.testing.assert_allclose(column("lm-axed.rds", "age"), PATIENTS["age"], atol=1e-9)
    np.testing.assert_allclose(column("lm-axed.rds", "bmi"), PATIENTS["bmi"], atol=1e-9)
    np.testing.assert_allclose(column("lm-axed.rds", "the response"), PATIENTS["pressure"], atol=1e-9)


@pytest.mark.slow
def test_a_single_covariate_comes_back_from_predictors():
    np.testing.assert_allclose(column("glm_logit.rds", "age"), PATIENTS["age"], atol=1e-8)


def test_the_response_is_the_sum_of_fitted_values_and_residuals():
    np.testing.assert_allclose(column("lm-model_false.rds", "pressure"), PATIENTS["pressure"], atol=1e-9)


@pytest.mark.slow
def test_a_smooth_keeps_every_value_of_its_covariate():
    np.testing.assert_allclose(
        np.sort(column("gam-stripped.rds", "covariate 1")), np.unique(PATIENTS["age"]), atol=1e-9
    )


def test_a_survival_curve_tells_everybodys_time():
    """Rows of the private table, one to one."""
    times, events = (column("survfit-call_removed.rds", field) for field in ("time", "event"))
    truth = zip(PATIENTS["days"], PATIENTS["died"], strict=True)
    assert sorted(zip(times, events, strict=True)) == sorted(truth)


def test_the_number_of_records_is_left_in_a_stripped_fit():
    (told,) = (f for f in looked("lm-stripped.rds") if f.evidence)
    assert [(i.name, i.estimate) for i in told.evidence] == [("n", 60.0)]
    assert "n = 60 by the beginning of a factor" in told.summary


@pytest.mark.slow
def test_estimates_are_attacked_as_the_table_that_they_are():
    found = bayesrecon.audit(FIXTURES / "summary_lm-stripped.rds", data=str(FIXTURES / "patients.csv"), remedies=False)
    assert found.verdict == "findings"
    (table,) = found.findings
    rows = {i.name: (i.estimate, i.truth) for i in table.evidence}
    for name in ("n", "mean(age)", "mean(bmi)", "mean(pressure)"):
        assert rows[name][0] == pytest.approx(rows[name][1], rel=1e-9)


def test_coefficients_without_a_covariance_are_said_not_to_be_attacked():
    found = bayesrecon.audit(FIXTURES / "lm-stripped.rds", remedies=False)
    (untried,) = found.not_run
    assert untried.attack == "estimates"
    assert "residual variance" in untried.reason
    assert found.verdict == "incomplete"


@pytest.mark.parametrize(
    ("name", "why"), [("lm-weights", "weights"), ("glm_logit-trials", "trials"), ("lm-do_call", "")]
)
def test_estimates_with_weights_are_said_not_to_be_attacked(name, why):
    (found,) = held(f"{name}.rds").estimates
    assert (why in found.unsupported) if why else found.unsupported == ""


def products():
    """Sums over clinics of `R' V^-1 R`, R the columns of ones, age and pressure, by the table and the fitted ratio."""
    (theta,) = (e.values[0] for e in held("lmer.rds").entries if e.where == "object@theta" and e.role)
    clinics, total = np.array([row["clinic"] for row in ROWS]), np.zeros((3, 3))
    for clinic in np.unique(clinics):
        own = clinics == clinic
        rows = np.column_stack([np.ones(own.sum()), PATIENTS["age"][own], PATIENTS["pressure"][own]])
        total += rows.T @ np.linalg.solve(np.eye(len(rows)) + theta**2, rows)
    return total


@pytest.mark.parametrize("name", ["lmer.rds", "lmer-frame_removed.rds", "summary_lmer.rds"])
def test_a_mixed_model_is_read_as_its_table(name):
    """What lme4 keeps for itself and what its summary prints give the equations of generalised least squares."""
    (found,) = held(name).estimates
    assert (found.kind, found.labels, found.groups, found.rows, found.unsupported) == (
        "mixed",
        ("const", "age"),
        6,
        60,
        "",
    )
    whole = products()
    np.testing.assert_allclose(np.linalg.inv(found.covariance) * found.scale, whole[:2, :2], rtol=1e-6)
    np.testing.assert_allclose(found.values, np.linalg.solve(whole[:2, :2], whole[:2, 2]), rtol=1e-6)
    across = np.append(-found.values, 1.0)
    assert found.scale == pytest.approx(across @ whole @ across / 60, rel=1e-6)


@pytest.mark.parametrize("name", ["gam.rds", "gam-stripped.rds"])
def test_an_additive_model_is_read_as_the_table_of_its_fit_without_a_penalty(name):
    """Its smooth is penalised until it is a line; what is left of its design gives all sums of products."""
    (found,) = held(name).estimates
    assert (found.kind, found.unsupported, found.labels[:3]) == ("ols", "", ("const", "bmi", "s_age__1"))
    products = np.linalg.inv(found.covariance) * found.scale
    columns = np.column_stack([np.ones(60), PATIENTS["bmi"]])
    np.testing.assert_allclose(products[:2, :2], columns.T @ columns, rtol=1e-10)
    np.testing.assert_allclose((products @ found.values)[:2], columns.T @ PATIENTS["pressure"], rtol=1e-9)
    squares = (60 - 11) * found.scale + found.values @ products @ found.values
    assert squares == pytest.approx(PATIENTS["pressure"] @ PATIENTS["pressure"], rel=1e-9)


@pytest.mark.slow
def test_counts_of_an_additive_model_are_those_of_its_records():
    """Its residual degrees of freedom and its rank do not add up to them."""
    told = [i.estimate for f in looked("gam-stripped.rds") for i in f.evidence if i.name == "n"]
    assert told == [60.0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("summary_glmer", "an integral over the effects of groups"),
        ("coxph_strata", "it has strata"),
        ("nls_log-environments_emptied", "an environment that is empty"),
        ("randomForest", "a random part of the records"),
        pytest.param("stanreg-stripped", "summaries of draws", marks=pytest.mark.slow),
    ],
)
def test_estimates_that_follow_from_no_sum_over_records_say_why(name, why):
    (found,) = held(f"{name}.rds").estimates
    assert why in found.unsupported
    assert found.covariance is None


@pytest.mark.slow
def test_estimates_of_a_mixed_model_give_its_sums_of_products():
    found = bayesrecon.audit(FIXTURES / "summary_lmer.rds", remedies=False)
    (table,) = (f for f in found if f.kind == "estimates")
    told = {i.name: i.estimate for i in table.evidence}
    assert told["n"] == pytest.approx(6)
    assert 6 * told["mean(rows)"] == pytest.approx(60)
    lower = products()[np.tril_indices(3)]
    for k in (1, 2, 3):
        assert 6 * told[f"mean(products[{k}])"] == pytest.approx(lower[k - 1], rel=1e-6)


@pytest.mark.parametrize("name", ["mcmc_list", "draws_array", "draws_df", "draws_rvars"])
def test_draws_of_every_package_are_the_same(name):
    draws, one = read_draws(FIXTURES / f"{name}.rds"), read_draws(FIXTURES / "mcmc_list.rds")
    assert (draws.chains, draws.length) == (2, 150)
    np.testing.assert_array_equal(draws.values["beta"], one.values["beta"])
    np.testing.assert_array_equal(draws.values["sigma"], one.values["sigma"])


def test_draws_of_stan_come_with_their_warm_up_and_their_program():
    found = held("brms.rds")
    assert (found.draws.chains, found.draws.length) == (2, 200)
    assert found.draws.log_density.shape == (2, 200)
    assert "data {" in found.program.text
    assert found.program.names["b_age"] == "b[1]"
    assert found.program.names["r_clinic[clinic6,Intercept]"] == "r_1_1[6]"
    assert found.program.sizes["z_1"] == (1, 6)
    assert {"acceptance_rate", "energy", "lp"} <= {v.name for v in found.group("sample_stats")}
    assert any(v.group == "warmup_posterior" for v in found.variables)
    assert found.coordinates["posterior/r_clinic"].tolist() == [f"clinic{k + 1}" for k in range(6)]


def test_the_program_beside_draws_is_taken_as_their_model():
    model, why = stored_model_of(held("stanfit-own_program.rds"))
    assert why == ""
    assert (model.coordinates, tuple(model.fields)) == (("alpha", "beta", "sigma"), ("age", "pressure"))


@pytest.mark.slow
def test_a_fit_of_rstanarm_gives_its_model_and_the_means_of_its_covariates():
    """Its own program includes files that lie in the package; what it is of stands in the object."""
    contents = held("stanreg-stripped.rds")
    model, why = stored_model_of(contents)
    assert (why, tuple(model.fields)) == ("", ("pressure", "age"))
    np.testing.assert_allclose(contents.program.constants["xbar"], PATIENTS["age"].mean(), rtol=1e-12)
    release, _ = accepted_draws(contents.draws, model, ignore_unknown=True)
    assert np.ptp(beside_lp(model, release, {name: PATIENTS[name] for name in model.fields})) < 1e-9


@pytest.mark.slow
def test_effects_of_a_fit_of_rstanarm_come_back():
    """Of a Poisson regression with an effect of each clinic, one of a new clinic among them."""
    contents = held("stanreg_glmer-stripped.rds")
    model, why = stored_model_of(contents)
    assert (why, tuple(model.fields)) == ("", ("visits", "z", "clinic"))
    release, _ = accepted_draws(contents.draws, model, ignore_unknown=True)
    clinics = np.array([float(row["clinic"][-1]) for row in ROWS])
    data = {"visits": PATIENTS["visits"], "z": (PATIENTS["age"] - 55) / 12, "clinic": clinics}
    assert np.ptp(beside_lp(model, release, data)) < 1e-9


@pytest.mark.slow
def test_initial_values_of_chains_give_the_means_of_covariates():
    (told,) = (f for f in looked("stanreg-stripped.rds") if "initial values" in f.title)
    assert [(i.name, i.estimate) for i in told.evidence] == [
        ("mean(age)", pytest.approx(PATIENTS["age"].mean(), rel=1e-12))
    ]


def test_a_baseline_hazard_tells_relative_hazards_of_single_records():
    """Exponentials of the covariate, times the coefficient, which nobody gave."""
    (told,) = (f for f in looked("basehaz.rds") if "relative hazard" in f.records)
    times, hazards = (np.asarray(told.records[name]) for name in ("time", "relative hazard"))
    assert len(times) > 25
    alone = [int(np.flatnonzero(PATIENTS["days"] == t).item()) for t in times]
    line = np.polynomial.Polynomial.fit(PATIENTS["age"][alone], np.log(hazards), 1)
    np.testing.assert_allclose(line(PATIENTS["age"][alone]), np.log(hazards), atol=1e-9)
    assert set(PATIENTS["died"][alone]) == {1.0}


@pytest.mark.parametrize("name", ["survfit", "survfit_groups", "basehaz-rounded"])
def test_a_curve_without_covariates_or_with_few_digits_tells_none(name):
    assert not any("relative hazard" in f.records for f in looked(f"{name}.rds"))


def test_leaves_of_a_tree_of_classes_tell_the_class_of_their_records():
    (told,) = (f for f in looked("rpart_class-stripped.rds") if "response" in f.records)
    assert sorted(told.records["response"]) == sorted(float(row["ill"]) for row in ROWS)
    assert {i.name: i.estimate for i in told.evidence} == {"n[response=0]": 43.0, "n[response=1]": 17.0}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["brms.rds", "brms-data_removed.rds"])
def test_a_fit_of_brms_gives_its_model_and_what_its_draws_leave_out(name):
    """Log densities of the file are those of the model at its draws, the private data in place."""
    contents = held(name)
    model, why = stored_model_of(contents)
    assert why == ""
    assert tuple(model.fields) == ("Y", "J_1", "Z_1_1", "Xc")
    assert model.fields["Z_1_1"].domain.levels == (1.0,)
    assert any("the draws lack Intercept, z_1: computed from" in note for note in model.notes)
    release, _ = accepted_draws(contents.draws, model, ignore_unknown=True)
    centred = PATIENTS["age"] - PATIENTS["age"].mean()
    clinics = np.array([int(row["clinic"][-1]) for row in ROWS])
    data = {"Y": PATIENTS["pressure"], "J_1": clinics, "Z_1_1": np.ones(60), "Xc": centred[:, None]}
    assert np.ptp(beside_lp(model, release, data)) < 1e-9


def beside_lp(model, release, data):
    """What the log density that Stan kept has beside the model's, at a few draws: a constant."""
    with jax.enable_x64(True):
        terms = jax.jit(lambda t: jax.vmap(model.log_lik, (None, 0))(t, data).sum() + model.log_prior(t))
        return [b - terms(t) - model.log_det(t) for t, b in zip(release.theta[:9], release.log_density, strict=False)]


@pytest.mark.slow
def test_correlated_effects_and_their_centres_come_back_of_what_brms_saves():
    """The prior of the correlations is a term of `lprior` beside that of the intercept."""
    contents = held("brms-correlated.rds")
    model, why = stored_model_of(contents)
    assert why == ""
    assert any("the draws lack Intercept, L_1, z_1: computed from" in note for note in model.notes)
    release, _ = accepted_draws(contents.draws, model, ignore_unknown=True)
    z, clinics = (PATIENTS["age"] - 55) / 12, np.array([int(row["clinic"][-1]) for row in ROWS])
    visits = np.array([float(row["visits"]) for row in ROWS])
    data = {"Y": visits, "J_1": clinics, "Z_1_1": np.ones(60), "Z_1_2": z, "Xc": (z - z.mean())[:, None]}
    assert np.ptp(beside_lp(model, release, data)) < 1e-9


@pytest.mark.slow
def test_a_fit_of_brms_is_attacked_with_no_other_argument():
    found = bayesrecon.audit(FIXTURES / "brms-data_removed.rds", data=str(FIXTURES / "patients.csv"), remedies=False)
    assert any("the private column 'age'" in f.summary for f in found)  # whose names are not those of the program
    (told,) = (f for f in found if f.kind == "log-density")
    values = {i.name: i.estimate for i in told.evidence}
    assert values["n"] == pytest.approx(60, abs=1e-9)
    assert values["mean(Y)"] == pytest.approx(PATIENTS["pressure"].mean(), rel=1e-10)
    clinics = [row["clinic"] for row in ROWS]
    for k in range(6):
        assert values[f"n[J_1={k + 1}]"] == pytest.approx(clinics.count(f"clinic{k + 1}"), abs=1e-9)


@pytest.mark.slow
@pytest.mark.large
def test_draws_with_correlated_effects_give_statistics():
    """A column of ones has no units, and normal laws have scales and effects that are large together."""
    found = bayesrecon.audit(FIXTURES / "brms-correlated.rds", remedies=False)
    (told,) = (f for f in found if f.kind == "draws")
    (count,) = (i for i in told.evidence if i.name == "n")
    assert count.lower <= 60 <= count.upper
    assert count.upper - count.lower < 40
    (closed,) = (n for n in found.not_run if n.attack == "log densities")
    assert "400 of them do not determine" in closed.reason


@pytest.mark.slow
def test_a_stanfit_is_attacked_as_what_it_is_with_no_other_argument():
    found = bayesrecon.audit(FIXTURES / "stanfit-own_program.rds", remedies=False)
    (told,) = (f for f in found if f.kind == "log-density")
    values = {i.name: i.estimate for i in told.evidence}
    assert values["n"] == pytest.approx(60, abs=1e-6)
    assert values["mean(pressure)"] == pytest.approx(PATIENTS["pressure"].mean(), rel=1e-9)


@pytest.mark.slow
def test_default_priors_show_the_median_of_the_response():
    (told,) = (f for f in looked("brms-data_removed.rds") if f.kind == "prior" and not f.evidence)
    shown = float(re.search(r"\((\d+\.\d)\)", with_values(told.title))[1])
    assert abs(shown - np.median(PATIENTS["pressure"])) <= 0.05 + 1e-9  # half of its last digit


def test_the_values_of_a_default_prior_give_the_means_of_covariates():
    """After the data were removed."""
    (told,) = (f for f in looked("brms-data_removed.rds") if f.kind == "prior" and f.evidence)
    ((name, value),) = ((i.name, i.estimate) for i in told.evidence)
    assert name == "mean(age)"
    assert value == pytest.approx(PATIENTS["age"].mean(), rel=1e-10)


@pytest.mark.slow  # its file holds the definitions of hundreds of classes
def test_the_scale_of_a_default_prior_is_the_standard_deviation():
    """rstanarm's, of the intercept: two and a half times that of the response."""
    entry, *_ = (
        e
        for e in held("stanreg-stripped.rds").entries
        if e.where.endswith("prior_intercept/adjusted_scale") and e.kind == "array"
    )
    assert float(entry.values[0]) / 2.5 == pytest.approx(np.std(PATIENTS["pressure"], ddof=1), rel=1e-12)
    (told,) = (f for f in looked("stanreg-stripped.rds") if f.kind == "prior" and "default" in f.title)
    assert entry.where in told.where
    assert {i.name: i.estimate for i in told.evidence} == {
        "mean(response)": pytest.approx(np.mean(PATIENTS["pressure"]), rel=1e-12),
        "sd(response)": pytest.approx(np.std(PATIENTS["pressure"], ddof=1), rel=1e-12),
        "sd(age)": pytest.approx(np.std(PATIENTS["age"], ddof=1), rel=1e-12),
    }


@pytest.mark.parametrize("name", ["pivot", "assign", "permutation", "order", "coefficients", "class", "dim", "qr"])
def test_a_name_clears_nothing(tmp_path, name):
    """Rows that somebody calls by the name of a harmless thing are still rows."""
    path = tmp_path / "a.rds"
    names = r_written.whole(r_written.PAIRS | r_written.HAS_TAG) + r_written.symbol("names")
    names += r_written.whole(r_written.TEXT, 1) + r_written.chars(name) + r_written.whole(r_written.NULL)
    values = r_written.doubles(*np.round(PATIENTS["age"]))
    path.write_bytes(r_written.head() + r_written.whole(r_written.LIST | r_written.HAS_ATTRIBUTES, 1) + values + names)
    findings = examine(Look(read_contents(path))).findings
    assert [(f.severity, f.where) for f in findings] == [("medium", (f"object/{name}",))]


def test_a_removed_table_is_still_in_the_environment_of_its_terms():
    assert "object/data@terms@.Environment/<enclosure>/d/<value>/id" in high("brms-data_removed.rds")


def test_a_plain_list_of_draws_is_draws():
    """`rstan::extract(fit)`: arrays without a class, whose log density is among them."""
    found = read_contents(FIXTURES / "extract_list.rds")
    assert (found.sign, found.draws.length, found.draws.shapes) == ("iterations", 400, {"beta": (3,), "sigma": ()})
    assert found.draws.log_density.shape == (1, 400)
