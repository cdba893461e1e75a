import numpy as np
import pandas as pd
import pytest

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.models import load
from bayesrecon.posteriors import from_statsmodels, from_table

pytestmark = pytest.mark.usefixtures("hardly_optimised")

sm = pytest.importorskip("statsmodels.api")

RNG = np.random.default_rng(2)
AGE = RNG.normal(40, 12, 150)
INCOME = 20 + 0.7 * AGE + RNG.normal(0, 9, 150)
TRUTH = {
    "n": 150,
    "mean(age)": AGE.mean(),
    "mean(income)": INCOME.mean(),
    "var(age)": AGE.var(),
    "var(income)": INCOME.var(),
    "cov(age,income)": np.cov(AGE, INCOME, ddof=0)[0, 1],
}
FIT = sm.OLS(pd.Series(INCOME, name="income"), sm.add_constant(pd.DataFrame({"age": AGE}))).fit()


def text(value, digits):
    return f"{value:#.{digits}g}"


def printed(digits):
    table = pd.DataFrame(
        {
            "estimate": [text(v, digits) for v in (*FIT.params, np.sqrt(FIT.scale))],
            "std. error": [*(text(v, digits) for v in FIT.bse), ""],
        },
        index=["const", "age", "sigma"],
    )
    covariance = np.asarray(FIT.cov_params())
    r = text(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]), digits)
    return table, pd.DataFrame([["1", r], [r, "1"]], index=["const", "age"], columns=["const", "age"])


@pytest.mark.slow
def test_least_squares_of_statsmodels():
    found = bayesrecon.recover(from_statsmodels(FIT))
    assert not found.failures
    for name, true in TRUTH.items():
        assert found[name].estimate == pytest.approx(true, rel=1e-9)


def weighted_table(fit, digits=None):
    """A table with correlations of a regression on age, to all digits or rounded to some."""
    show = (lambda v: v) if digits is None else (lambda v: text(v, digits))
    rows = {"estimate": [show(v) for v in (*fit.params, np.sqrt(fit.scale))], "std. error": [*map(show, fit.bse), ""]}
    r = np.asarray(fit.cov_params())[0, 1] / np.prod(fit.bse)
    one = "1" if digits else 1.0
    return from_table(
        pd.DataFrame(rows, index=["const", "age", "sigma"]), "ols", correlations=[[one, show(r)], [show(r), one]]
    )


def weighted_truth(weights, x, y):
    mean = lambda v: np.average(v, weights=weights)  # noqa: E731
    return {
        "mean(age)": mean(x),
        "mean(y)": mean(y),
        "var(age)": mean((x - mean(x)) ** 2),
        "var(y)": mean((y - mean(y)) ** 2),
        "cov(age,y)": mean((x - mean(x)) * (y - mean(y))),
    }


@pytest.mark.slow
def test_a_table_states_that_nothing_was_weighed():
    """A weighted fit prints the same lines, and what comes back is then weighted as well."""
    table = weighted_table(sm.WLS(INCOME, sm.add_constant(AGE), weights=AGE).fit())
    found = bayesrecon.recover(table)
    assert found.condition == "if the fit used no weights, no offset and no robust errors"
    assert found["mean(age)"].estimate == pytest.approx(np.average(AGE, weights=AGE), rel=1e-6)
    assert "no weights, no offset and no robust errors" in str(found)
    said = bayesrecon.recover(table, fit_weights="none", offset=False)
    assert said.condition == "if the fit used no robust errors"


@pytest.mark.slow
def test_a_table_of_analytic_weights():
    """n is not the sum of weights, and the scale tells the response's variance where n is known alone."""
    weights = RNG.gamma(2, 0.8, len(AGE))
    table = weighted_table(sm.WLS(INCOME, sm.add_constant(AGE), weights=weights).fit())
    truth = {"sum(weights)": weights.sum(), **weighted_truth(weights, AGE, INCOME)}
    found = bayesrecon.recover(table, fit_weights="analytic")
    assert found.condition == "weighted as the fit was, if the fit used no offset and no robust errors"
    assert (found["n"].estimate, found["var(y)"].estimate) == (None, None)
    known = bayesrecon.recover(table, fit_weights="analytic", total=len(AGE))
    assert known["n"].estimate == len(AGE)
    assert found.failures == known.failures == ()
    for name, true in truth.items():
        assert known[name].estimate == pytest.approx(true, rel=1e-6)
        assert name == "var(y)" or found[name].estimate == pytest.approx(true, rel=1e-6)
    # Weights that count are records.
    counts = RNG.integers(1, 5, len(AGE))
    fit = sm.GLM(INCOME, sm.add_constant(AGE), freq_weights=counts).fit()
    found = bayesrecon.recover(weighted_table(fit), fit_weights="frequency")
    assert found.condition.startswith("with each record repeated as often as its weight, if the fit used no offset")
    for name, true in {"n": counts.sum(), **weighted_truth(counts, AGE, INCOME)}.items():
        assert found[name].estimate == pytest.approx(true, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_rounded_tables_of_analytic_weights_hold(seed):
    rng = np.random.default_rng(seed)
    x, weights = rng.normal(3, 1 + rng.gamma(2), 200), rng.gamma(2, 1, 200)
    y = 1 + x + rng.normal(0, 2, 200)
    table = weighted_table(sm.WLS(y, sm.add_constant(x), weights=weights).fit(), 4)
    truth = {"sum(weights)": weights.sum(), **weighted_truth(weights, x, y)}
    for total in (None, 200):
        found = bayesrecon.recover(table, fit_weights="analytic", total=total)
        assert not found.failures
        for name, true in truth.items():
            row = found[name]
            assert row.lower is None or row.lower <= true <= row.upper
            assert (row.lower is None) == (name == "var(y)" and total is None)


@pytest.mark.slow
def test_a_table_of_a_fit_with_an_offset():
    offset = RNG.normal(0, 3, len(AGE))
    fit = sm.GLM(INCOME, sm.add_constant(AGE), offset=offset).fit()
    less = {"less": lambda r: r["y"] - r["offset"]}
    for release in (from_statsmodels(fit, response="y"), weighted_table(fit)):
        found = bayesrecon.recover(release, statistics=less, offset=True)
        assert found.condition.startswith("with an offset, if the fit used no weights")
        assert found["n"].estimate == pytest.approx(len(AGE), rel=1e-6)
        assert (found["mean(y)"].estimate, found["mean(offset)"].estimate) == (None, None)
        assert found["mean(less)"].estimate == pytest.approx(np.mean(INCOME - offset), rel=1e-6)


@pytest.mark.slow
def test_weighted_fits_of_statsmodels(tmp_path):
    weights, counts = RNG.gamma(2, 0.8, len(AGE)), RNG.integers(1, 5, len(AGE))
    design = sm.add_constant(pd.DataFrame({"age": AGE}))
    y = pd.Series(INCOME, name="y")
    total = {"n": len(AGE), "sum(weights)": weights.sum(), **weighted_truth(weights, AGE, INCOME)}
    fits = [(sm.WLS(y, design, weights=weights).fit(), total)]
    fits.append((sm.GLM(y, design, var_weights=weights).fit(), total))
    fits.append((sm.GLM(y, design, freq_weights=counts).fit(), {"n": counts.sum()}))
    fits.append((sm.WLS(y, design, weights=np.ones(len(AGE))).fit(), {"n": len(AGE)}))
    for fit, truth in fits:
        found = bayesrecon.recover(from_statsmodels(fit))
        assert not found.failures
        for name, true in truth.items():
            assert found[name].estimate == pytest.approx(true, rel=1e-6)
    bare = fits[0][0]
    assert bare.scale > 0
    bare.remove_data()
    removed = bayesrecon.recover(from_statsmodels(bare, response="y"))
    assert removed["sum(weights)"].estimate == pytest.approx(weights.sum(), rel=1e-6)


def test_what_is_said_of_a_fit_is_checked():
    table, weights = weighted_table(FIT), RNG.gamma(2, 1, len(AGE))
    refused = {
        "fit_weights='aweight' is not one of frequency, analytic, none": {"fit_weights": "aweight"},
        "offset=1: say True or False": {"offset": 1},
        "2 coefficients need more records than that": {"fit_weights": "analytic", "total": 2},
        "known= has no effect with fit_weights": {"fit_weights": "analytic", "known": {"age": AGE}},
    }
    for message, said in refused.items():
        with pytest.raises(BayesreconError, match=message):
            bayesrecon.recover(table, **said)
    weighed = from_statsmodels(sm.WLS(INCOME, sm.add_constant(AGE), weights=weights).fit())
    with pytest.raises(BayesreconError, match="has analytic weights, not 'none'"):
        bayesrecon.recover(weighed, fit_weights="none")
    with pytest.raises(BayesreconError, match="total=99: WLS is of 150 records"):
        bayesrecon.recover(weighed, total=99)
    alone = from_table(
        pd.DataFrame({"estimate": [1.0, 2.0, 3.0], "se": [0.1, 0.2, np.nan]}, index=["const", "age", "sigma"]), "ols"
    )
    with pytest.raises(BayesreconError, match="bound no counts; supply the correlations"):
        bayesrecon.recover(alone, fit_weights="analytic")
    with pytest.raises(BayesreconError, match="are of the table of a regression"):
        bayesrecon.recover(
            bayesrecon.posteriors.dirac(load("linear_predictor", intercept=False), {"coef": [[0.5]]}), offset=True
        )
    with pytest.raises(BayesreconError, match="freq_weights must be whole numbers"):
        from_statsmodels(sm.GLM(INCOME, sm.add_constant(AGE), freq_weights=weights).fit())
    counts = RNG.poisson(2, len(AGE))
    with pytest.raises(BayesreconError, match="poisson fits with an offset or exposure are not supported"):
        from_statsmodels(sm.Poisson(counts, sm.add_constant(AGE), exposure=weights).fit(disp=0))


@pytest.mark.slow
def test_a_printed_table_bounds_the_statistics(tmp_path):
    table, correlations = printed(4)
    table.to_csv(tmp_path / "fit.csv", index_label="name")
    correlations.to_csv(tmp_path / "related.csv")
    release = from_table(tmp_path / "fit.csv", "ols", correlations=tmp_path / "related.csv", response="income")
    found = bayesrecon.recover(release)
    assert not found.failures
    for name, true in TRUTH.items():
        assert found[name].lower <= true <= found[name].upper
    assert found["n"].upper - found["n"].lower < 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_three_digits_hold(seed):
    """In each of 20 tables: bounds that missed one in ten would be found seven times in eight."""
    rng = np.random.default_rng(seed)
    x = rng.normal(rng.normal(0, 3), 1 + rng.gamma(2), 200)
    y = 1 + x + rng.normal(0, 2, 200)
    fit = sm.OLS(y, sm.add_constant(x)).fit()
    covariance = np.asarray(fit.cov_params())
    r = text(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]), 3)
    lines = {
        "coef": [text(v, 3) for v in (*fit.params, np.sqrt(fit.scale))],
        "se": [*(text(v, 3) for v in fit.bse), ""],
    }
    table = pd.DataFrame(lines, index=["const", "x", "sigma"])
    found = bayesrecon.recover(from_table(table, "ols", correlations=[["1", r], [r, "1"]]))
    truth = {"n": 200, "mean(x)": x.mean(), "mean(y)": y.mean(), "var(x)": x.var(), "var(y)": y.var()}
    if not found.failures:
        for name, true in truth.items():
            assert found[name].lower <= true <= found[name].upper
    else:
        assert "too few digits" in found.failures[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Logit", "Poisson", "GLM"])
def test_generalised_linear_models(kind):
    x = RNG.normal(size=400)
    if kind == "Logit":
        fit = sm.Logit((RNG.random(400) < 1 / (1 + np.exp(-x))).astype(float), sm.add_constant(x)).fit(disp=0)
    elif kind == "GLM":
        fit = sm.GLM(RNG.poisson(np.exp(0.3 * x)), sm.add_constant(x), sm.families.Poisson()).fit(tol=1e-12)
    else:
        fit = sm.Poisson(RNG.poisson(np.exp(0.3 * x)), sm.add_constant(x)).fit(disp=0, tol=1e-12)
    found = bayesrecon.recover(from_statsmodels(fit))
    for row in found:
        if row.verdict == "determined":
            truth = {"n": 400.0, "mean(x1)": x.mean(), "var(x1)": x.var()}.get(row.name, row.estimate)
            assert abs(row.estimate - truth) < 0.05 * max(1.0, abs(truth))


@pytest.mark.slow
def test_counts_of_a_fit_by_reweighting_hold_to_its_last_step():
    """Its covariance is that of the weights before the last step; and a rare cell is among what the check looks at."""
    rng = np.random.default_rng(20)
    size, share = int(rng.integers(10, 3000)), rng.uniform(0.05, 0.95)
    x, z = rng.random(size) < share, rng.random(size) < 0.4
    counts = rng.poisson(np.exp(rng.uniform(-1, 5) + rng.uniform(-2, 2) * x + 0.3 * z))
    design = pd.DataFrame({"const": 1.0, "x": x.astype(float), "z": z.astype(float)})
    fit = sm.GLM(counts, design, sm.families.Poisson()).fit()
    found = bayesrecon.recover(from_statsmodels(fit), domain={"x": "binary", "z": "binary"})
    assert found.failures == ()
    for name, true in {"n": size, "mean(x)": x.mean(), "mean(z)": z.mean(), "mean(y)": counts.mean()}.items():
        assert found[name].lower <= true <= found[name].upper
        assert found[name].upper - found[name].lower < 1e-4 * true


@pytest.mark.parametrize("how", [{"cov_type": "HC3"}, {"cov_type": "HAC", "cov_kwds": {"maxlags": 2}}])
def test_a_result_with_another_covariance_keeps_the_inverse_hessian(how):
    plain, robust = from_statsmodels(FIT), from_statsmodels(FIT.model.fit(**how))
    np.testing.assert_allclose(robust.theta, plain.theta, rtol=1e-12)
    (note,) = robust.notes
    assert note.startswith(f"the result stores the inverse Hessian beside its covariance ({how['cov_type']})")


def test_other_covariances_and_models_are_refused():
    alone = FIT.get_robustcov_results("HC3")
    alone.normalized_cov_params = None
    with pytest.raises(BayesreconError, match="cov_type='HC3'"):
        from_statsmodels(alone)
    with pytest.raises(BayesreconError, match="GLS is not supported: its covariance is that of sums that"):
        from_statsmodels(sm.GLS(INCOME, sm.add_constant(AGE), sigma=np.diag(AGE**2) + 1).fit())
    gamma = sm.GLM(AGE**2, sm.add_constant(AGE), sm.families.Gamma(sm.families.links.Log())).fit()
    with pytest.raises(BayesreconError, match="Gamma with link Log"):
        from_statsmodels(gamma)
    with pytest.raises(BayesreconError, match="expected the result of a statsmodels fit"):
        from_statsmodels(3)


def test_parameters_of_a_model_are_matched_by_name():
    lines = pd.DataFrame({"mean": [18.3, 25.8, 0.61], "sd": [0.6, 5.9, 0.06]}, index=["sigma", "beta.1", "beta[2]"])
    release = from_table(lines, load("kidscore_momiq"), correlations=np.eye(3), draws=4000)
    assert np.allclose(np.asarray(release.theta)[0, :3], [25.8, 0.61, np.log(18.3)])


def test_a_table_without_correlations_never_says_too_much():
    """One covariate: what is determined is right and limits hold; with the number of records only a sign is open."""
    table, _ = printed(5)
    release = from_table(table, "ols", response="income")
    alone, counted = bayesrecon.recover(release), bayesrecon.recover(release, total=150)
    for found in (alone, counted):
        assert "the correlations of the estimates were not given" in found.warnings[0]
        for name, true in TRUTH.items():
            row = found[name]
            assert row.lower is None or row.lower <= true
            assert row.upper is None or true <= row.upper
            assert row.verdict == "undetermined" or row.estimate == pytest.approx(true, rel=1e-3)
    assert (alone["n"].estimate, alone["n"].upper) == (None, None)
    assert [k for k in TRUTH if counted[k].verdict != "determined"] == ["mean(age)", "mean(income)"]
    signed = bayesrecon.recover(release, total=150, domain={"age": (0, 120)})
    assert signed["mean(age)"].estimate == pytest.approx(AGE.mean(), rel=1e-3)
    assert "need" in bayesrecon.recover(release, total=5).failures[0]
    for refused in (
        lambda: bayesrecon.diagnose(release),
        lambda: bayesrecon.reconstruct(release, n=10),
        lambda: bayesrecon.recover(release, known={"age": AGE}),
    ):
        with pytest.raises(BayesreconError, match="supply the correlations"):
            refused()


@pytest.mark.slow
def test_one_estimate_has_no_correlations():
    """Of n counts of mean exp(b) the standard error is `(n exp(b))^(-1/2)`."""
    lines = pd.DataFrame({"estimate": ["2.125"], "se": ["0.2500"]}, index=["const"])
    n = bayesrecon.recover(from_table(lines, "poisson"))["n"]
    assert n.lower < 16 * np.exp(-2.125) < n.upper < 1.01 * n.lower


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index": ["const", "const", "sigma"]}, "two rows named const"),
        ({"index": ["const", "age", "tau"]}, "one line 'sigma'"),
        ({"columns": ["estimate", "p"]}, "no column std. error"),
        ({"cells": ["1.0", "abc", "2.0"]}, "'abc' is not a number"),
        ({"cells": ["1.0", "inf", "2.0"]}, "not a finite number"),
        ({"cells": ["1.0", "", "2.0"]}, "the estimate of age is missing"),
        ({"correlations": None, "model": "logit", "index": ["height", "age", "sex"]}, "error of sex is missing"),
        ({"index": ["const", "age", "height"]}, "one line 'sigma'"),
        ({"correlations": np.eye(3)}, r"\(2, 2\)"),
        ({"correlations": [[1, 1.2], [1.2, 1]]}, "greater than one"),
        ({"correlations": [[1, 0.2], [0.4, 1]]}, "not symmetric"),
        ({"correlations": [[1, 1.0], [1.0, 1]]}, "not positive definite"),
        ({"model": "lasso"}, "no regression 'lasso'"),
        ({"model": load("kidscore_momiq")}, "no row for beta"),
        ({"table": 3}, "expected the path of a CSV file"),
        ({"table": "none.csv"}, "no such file"),
        ({"draws": 100}, "a table of an estimator"),
    ],
)
def test_bad_input_is_one_line(change, message):
    lines = {"estimate": change.get("cells", ["1.0", "2.0", "3.0"]), "se": ["0.1", "0.2", ""]}
    table = pd.DataFrame(lines, index=change.get("index", ["const", "age", "sigma"]))
    if "columns" in change:
        table.columns = change["columns"]
    given = {"correlations": [[1, 0.2], [0.2, 1]], "model": "ols", "table": table}
    given |= {k: v for k, v in change.items() if k in ("correlations", "model", "table", "draws")}
    with pytest.raises(BayesreconError, match=message) as caught:
        from_table(given.pop("table"), given.pop("model"), **given)
    assert "\n" not in str(caught.value)
