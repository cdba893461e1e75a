"""Levels of factors, counted by the standard errors of tables without correlations."""

import numpy as np
import pandas as pd
import pytest
from parts import slow_then_large

import bayesrecon
from bayesrecon.errors import BayesreconError, Note
from bayesrecon.factors import Factor, factors_by_name
from bayesrecon.posteriors import from_table
from bayesrecon.posteriors.printed.footers import cell

pytestmark = pytest.mark.usefixtures("hardly_optimised")

sm = pytest.importorskip("statsmodels.api")

COUNTS = (8, 5, 2)
RNG = np.random.default_rng(3)


def of_levels(counts):
    return np.repeat(np.arange(len(counts)), counts)


def table(kind, design, y, names, digits, sigma=True):
    fit = {"ols": sm.OLS, "logit": sm.Logit, "poisson": sm.Poisson}[kind](y, design)
    fit = fit.fit() if kind == "ols" else fit.fit(disp=0, tol=1e-12, maxiter=200)
    rows = [[cell(b, digits), cell(e, digits)] for b, e in zip(fit.params, fit.bse, strict=True)]
    names = ["const", *names]
    if kind == "ols" and sigma:
        rows, names = [*rows, [cell(fit.scale**0.5, digits), ""]], [*names, "sigma"]
    return pd.DataFrame(rows, names, ["estimate", "std. error"])


def simulated(kind, counts, digits, contrast="treatment", names=None, rng=RNG):
    """A table of one factor, with both outcomes at every level."""
    level = of_levels(counts)
    factor = Factor("g", tuple(names or (f"g{k}" for k in range(2, len(counts) + 1))), (), contrast)
    design = np.column_stack([np.ones(len(level)), factor.matrix[level]])
    y = rng.normal(size=len(level)) if kind == "ols" else rng.poisson(2.0, len(level)).astype(float) + 1
    if kind == "logit":
        y = np.concatenate([np.arange(n) < rng.integers(1, n) for n in counts]).astype(float)
    return table(kind, design, y, factor.columns, digits), factor, level, y


def counted(found, levels):
    return [found[f"n[g={level}]"].estimate for level in levels]


def test_the_counts_of_an_analysis_of_variance_by_hand(tmp_path):
    """(s / se_0)^2 = 8.000 and s^2 / (se_k^2 - se_0^2) = 5.0005 and 1.9999."""
    path = tmp_path / "factor_ols.csv"
    path.write_text(
        "term,estimate,std. error\nconst,-0.4481,0.5129\ng1,1.8580,0.8270\ng2,1.5865,1.1469\nsigma,1.4507,\n"
    )
    release = from_table(path, "ols")
    assert bayesrecon.recover(release)["n"].estimate is None
    for found in (
        bayesrecon.recover(release, factors={"g": ["g1", "g2"]}),
        bayesrecon.recover(release, factors={"g": ["g*"]}),
        bayesrecon.recover(from_table(path, "ols", formula="y ~ C(g)")),
    ):
        assert counted(found, ["baseline", "1", "2"]) == [8, 5, 2]
        assert found["n"].estimate == found["n"].lower == 15
        assert found.warnings[-1].endswith("8, 5, 2")
        assert isinstance(found.warnings[-1], Note)
    # Whole numbers tell that the dummies exclude each other, once n is known and each of them is 0 or 1.
    found = bayesrecon.recover(release, total=15, domain={"g1": "binary", "g2": "binary"})
    assert found["n[g1=1,g2=1]"].upper == 0
    assert found["n[g1=1,g2=0]"].estimate == 5


@pytest.mark.parametrize("kind", ["ols", "logit", "poisson"])
@pytest.mark.parametrize("contrast", ["treatment", "sum", "helmert", "polynomial"])
def test_counts_of_a_factor_hold(kind, contrast):
    for counts in (COUNTS, (12, 30, 4, 9)):
        frame, factor, _, _ = simulated(kind, counts, 5, contrast)
        found = bayesrecon.recover(from_table(frame, kind), factors={"g": factor}, total=sum(counts))
        assert not found.failures
        for level, n in zip(factor.levels, counts, strict=True):
            row = found[f"n[g={level}]"]
            assert row.lower <= n <= row.upper
            assert contrast in ("helmert", "polynomial") or (kind == "poisson" or row.estimate == n)


@pytest.mark.parametrize("kind", ["logit", "poisson"])
def test_totals_of_the_response_come_with_the_counts(kind):
    frame, factor, level, y = simulated(kind, COUNTS, 6)
    found = bayesrecon.recover(from_table(frame, kind), factors={"g": factor})
    for k, name in enumerate(factor.levels):
        row = found[f"n[g={name},y=1]" if kind == "logit" else f"sum(y)[g={name}]"]
        assert row.lower <= y[level == k].sum() <= row.upper
    assert found["mean(y)"].lower <= y.mean() <= found["mean(y)"].upper


def test_a_formula_with_an_interaction_counts_every_cell():
    cells = np.array([[7, 3, 5], [4, 9, 2]])
    g, h = (np.repeat(x.ravel(), cells.ravel()) for x in np.indices(cells.shape))
    columns = {"gb": g == 1, "h2": h == 1, "h3": h == 2, "gb:h2": (g == 1) & (h == 1), "gb:h3": (g == 1) & (h == 2)}
    design = np.column_stack([np.ones(len(g)), *columns.values()]).astype(float)
    frame = table("ols", design, RNG.normal(size=len(g)), list(columns), 5)
    found = bayesrecon.recover(from_table(frame, "ols", formula="y ~ C(g) * C(h)"))
    for i, a in enumerate(("baseline", "b")):
        for j, b in enumerate(("baseline", "2", "3")):
            assert found[f"n[g={a},h={b}]"].estimate == cells[i, j]
    assert found["n[h=3]"].estimate == 7


def test_two_factors_without_interaction_and_covariates_have_limits():
    n = 40
    g, h, x = RNG.integers(0, 3, n), RNG.integers(0, 2, n), RNG.normal(size=n)
    columns = {"g[T.b]": g == 1, "g[T.c]": g == 2, "h[T.2]": h == 1}
    truth = {f"n[g={v}]": (g == k).sum() for k, v in enumerate(("baseline", "b", "c"))}
    truth |= {"n[h=baseline]": (h == 0).sum(), "n[h=2]": (h == 1).sum(), "n": n}
    for more in ({}, {"x": x}):
        design = np.column_stack([np.ones(n), *columns.values(), *more.values()]).astype(float)
        frame = table("ols", design, design.sum(axis=1) + RNG.normal(size=n), [*columns, *more], 4)
        for known in ({}, {"total": n}):
            found = bayesrecon.recover(from_table(frame, "ols"), **known)
            assert not found.failures
            for name, true in truth.items():
                row = found[name]
                assert row.lower <= true
                assert row.upper is None or true <= row.upper
                assert not known or row.upper is not None
            assert found["n[g=c]"].lower > 1


def test_more_levels_than_records_of_one_are_no_secret():
    frame, factor, _, _ = simulated("ols", (20, 1, 1, 14), 4)
    found = bayesrecon.recover(from_table(frame, "ols"), factors={"g": factor})
    assert counted(found, factor.levels) == [20, 1, 1, 14]


def test_what_no_data_print_is_a_failure():
    frame, factor, _, _ = simulated("ols", COUNTS, 4)
    frame.loc["g3", "std. error"] = "0.01"
    found = bayesrecon.recover(from_table(frame, "ols"), factors={"g": factor})
    assert "no whole cell counts" in found.failures[0]
    assert found["n"].estimate is None


@pytest.mark.slow
def test_with_correlations_levels_are_counted_too():
    level = of_levels((30, 18, 12))
    design = np.column_stack([np.ones(60), np.eye(3)[level][:, 1:], RNG.normal(size=60)])
    frame = pd.DataFrame(design[:, 1:], columns=["g[T.b]", "g[T.c]", "x"])
    fit = sm.OLS(RNG.normal(size=60), sm.add_constant(frame)).fit()
    found = bayesrecon.recover(fit)
    assert [found[f"n[g={v}]"].estimate for v in ("baseline", "b", "c")] == pytest.approx([30, 18, 12])
    stated = bayesrecon.recover(fit, factors={"group": ["g_T_*"]})
    assert stated["n[group=baseline]"].estimate == pytest.approx(30)


@pytest.mark.slow
def test_a_formula_counts_levels_with_correlations_too():
    level = of_levels((30, 18, 12))
    x = RNG.normal(size=60)
    design = np.column_stack([np.ones(60), np.eye(3)[level][:, 1:], x])
    y = RNG.normal(size=60)
    frame = table("ols", design, y, ["gb", "gc", "x"], 15)
    covariance = np.linalg.inv(design.T @ design)
    sd = np.sqrt(np.diag(covariance))
    names = ["const", "gb", "gc", "x"]
    related = covariance / np.outer(sd, sd)
    np.fill_diagonal(related, 1.0)
    correlations = pd.DataFrame((related + related.T) / 2, names, names)
    found = bayesrecon.recover(from_table(frame, "ols", correlations=correlations, formula="y ~ g + x"))
    assert [found[f"n[g={v}]"].estimate for v in ("baseline", "b", "c")] == pytest.approx([30, 18, 12], rel=1e-6)


@pytest.mark.parametrize(
    ("columns", "name", "levels", "contrast"),
    [
        (["g[T.b]", "g[T.c]"], "g", ("baseline", "b", "c"), "treatment"),
        (["C(g)[T.2]", "C(g)[T.3]"], "g", ("baseline", "2", "3"), "treatment"),
        (["C(g, Treatment(reference='a'))[T.b]"], "g", ("a", "b"), "treatment"),
        (["C(g, Sum)[S.a]", "C(g, Sum)[S.b]"], "g", ("a", "b", "last"), "sum"),
        (["C(g, Helmert)[H.b]"], "g", ("first", "b"), "helmert"),
        (["2.g", "3.g"], "g", ("baseline", "2", "3"), "treatment"),
        (["[g=1.00]", "[g=2.00]"], "g", ("baseline", "1.00", "2.00"), "treatment"),
        (["dose.L", "dose.Q", "dose.C"], "dose", ("level 1", "level 2", "level 3", "level 4"), "polynomial"),
        (["C_g__T_b_", "C_g__T_c_"], "g", ("baseline", "b", "c"), "treatment"),
    ],
)
def test_names_that_tools_write(columns, name, levels, contrast):
    (found,) = factors_by_name([*columns, "age"])
    assert (found.name, found.columns, found.levels, found.contrast) == (name, tuple(columns), levels, contrast)


def test_names_that_say_nothing_are_no_factors():
    assert factors_by_name(["age", "g2", "g3", "x_T", "height.m"]) == ()


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"g": ["h2"]}, "'h2' of g is not a field"),
        ({"g": ["g2"], "h": ["g2"]}, "column of two factors"),
        (["g2"], "expected {name: columns}"),
        ({"g": []}, "needs different columns"),
    ],
)
def test_factors_that_there_are_not(factors, message):
    frame, *_ = simulated("ols", COUNTS, 4)
    with pytest.raises(BayesreconError, match=message):
        bayesrecon.recover(from_table(frame, "ols"), factors=factors)


def test_an_invalid_formula_is_refused():
    frame, *_ = simulated("ols", COUNTS, 4)
    with pytest.raises(BayesreconError, match="is not a formula"):
        from_table(frame, "ols", formula="y ~ (g")
    with pytest.raises(BayesreconError, match="no term of the formula"):
        from_table(frame, "ols", formula="y ~ x")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ols", "logit", "poisson"])
@pytest.mark.parametrize("digits", slow_then_large(3, 2, 4))
def test_counts_of_simulated_tables_lie_inside(kind, digits):
    """Every one of them: intervals are bounds, and rounding is known."""
    rng = np.random.default_rng(digits)
    for _ in range(60):
        counts = tuple(rng.integers(2, 60, int(rng.integers(2, 7))))
        frame, factor, level, y = simulated(kind, counts, digits, rng=rng)
        found = bayesrecon.recover(from_table(frame, kind), factors={"g": factor})
        assert not found.failures
        for k, (name, n) in enumerate(zip(factor.levels, counts, strict=True)):
            row = found[f"n[g={name}]"]
            assert row.lower <= n
            assert row.upper is None or n <= row.upper
            mean = found[f"mean(y)[g={name}]"]
            assert mean.lower - 1e-9 <= y[level == k].mean() <= mean.upper + 1e-9


@pytest.mark.slow
def test_limits_of_two_factors_and_covariates_hold():
    rng = np.random.default_rng(7)
    for i in range(60):
        n = int(rng.integers(12, 80))
        g, h, x = rng.integers(0, 3, n), rng.integers(0, 2, n), rng.normal(2, 3, n)
        columns = {"g[T.b]": g == 1, "g[T.c]": g == 2, "h[T.2]": h == 1}
        columns |= {"x": x} if i % 2 else {}
        columns |= {"g[T.b]:x": (g == 1) * x} if i % 4 == 3 else {}
        design = np.column_stack([np.ones(n), *columns.values()]).astype(float)
        if np.linalg.matrix_rank(design) < design.shape[1]:
            continue
        frame = table("ols", design, design.sum(axis=1) + rng.normal(size=n), list(columns), 4)
        truth = {f"n[g={v}]": (g == k).sum() for k, v in enumerate(("baseline", "b", "c"))} | {"n": n}
        truth |= {"n[h=baseline]": (h == 0).sum(), "n[h=2]": (h == 1).sum()}
        for known in ({}, {"total": n}):
            found = bayesrecon.recover(from_table(frame, "ols"), **known)
            assert not found.failures
            for name, true in truth.items():
                row = found[name]
                assert row.lower is None or row.lower <= true
                assert row.upper is None or true <= row.upper
