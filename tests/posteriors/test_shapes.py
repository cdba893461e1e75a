"""Columns that are functions of one covariate: squares, slopes of its own in every level, splines."""

import numpy as np
import pandas as pd
import pytest

import bayesrecon
from bayesrecon.posteriors import from_table
from bayesrecon.posteriors.printed.footers import cell

smf = pytest.importorskip("statsmodels.formula.api")

SETS = 8


def data(seed, levels=3):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(24, 200))
    x = rng.gamma(4, 2, n) if seed % 2 else rng.normal(rng.uniform(-3, 6), 2, n)
    g = np.concatenate([np.repeat(np.arange(levels), 3), rng.choice(levels, n - 3 * levels, p=[0.8, 0.15, 0.05])])
    y = 1 + 0.4 * x + 0.1 * rng.normal() * x**2 + 0.7 * g * x + rng.normal(0, rng.uniform(0.5, 4), n)
    return pd.DataFrame({"x": x, "y": y, "g": np.array(list("abc"))[g]})


def printed(formula, frame, digits, *below, fit=smf.ols, **options):
    """The table of a fit with so many digits, with numbers below it."""
    fitted = fit(formula, frame).fit(**options)
    rows = {name: [cell(b, digits), cell(fitted.bse[name], digits)] for name, b in fitted.params.items()}
    if fit is smf.ols:
        rows["sigma"] = [cell(fitted.scale**0.5, digits), ""]
    rows |= {label: [value(fitted, digits), ""] for label, value in below}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["coef", "std err"])


N = "No. Observations", lambda fit, digits: f"{int(fit.nobs)}"
R2 = "R-squared", lambda fit, digits: cell(fit.rsquared, digits)


def inside(found, truth):
    """Every limit holds, and how many of them have two ends."""
    assert not found.failures
    closed = 0
    for name, true in truth.items():
        row = found[name]
        low, high = (-np.inf if row.lower is None else row.lower), (np.inf if row.upper is None else row.upper)
        assert low - 1e-9 <= true <= high + 1e-9, (name, true, row)
        closed += np.isfinite(high - low)
    return closed


@pytest.mark.parametrize("digits", [3, 4])
def test_a_square_binds_the_moments_of_its_covariate(digits):
    for seed in range(SETS):
        frame = data(seed)
        x, y = frame.x, frame.y
        truth = {"mean(x)": x.mean(), "var(x)": x.var(ddof=0), "mean(I_x____2_)": (x**2).mean(), "mean(y)": y.mean()}
        truth |= {"var(I_x____2_)": (x**2).var(ddof=0), "var(y)": y.var(ddof=0)}
        truth["cov(x,y)"] = np.cov(x, y, bias=True)[0, 1]
        tables = [printed("y ~ x + I(x ** 2)", frame, digits, *below) for below in ((N,), (N, R2))]
        alone, more = (bayesrecon.recover(from_table(table, "ols")) for table in tables)
        assert inside(alone, truth) == inside(more, truth) == len(truth)
        width = [row["var(x)"].upper - row["var(x)"].lower for row in (alone, more)]
        assert width[1] < width[0]


@pytest.mark.parametrize("named", ["x2", "x_sq", "xsquared"])
def test_the_name_of_a_square_is_a_presumption_that_is_stated(named):
    frame = data(0)
    table = printed("y ~ x + I(x ** 2)", frame, 4, N).rename(index={"I(x ** 2)": named})
    found = bayesrecon.recover(from_table(table, "ols"))
    inside(found, {"mean(x)": frame.x.mean(), "var(x)": frame.x.var(ddof=0), "var(y)": frame.y.var(ddof=0)})
    assert found["mean(x)"].upper is not None
    words = f"{named} is the square of x"
    assert found.condition.endswith(words)
    assert any(line.startswith(f"assumed from the name alone: {words}") for line in found.warnings)
    audited = bayesrecon.audit(table, "ols", remedies=False)
    assert all(words in finding.needs for finding in audited if finding.kind == "fit")
    assert any(words in line for line in audited.warnings)


def test_tables_that_a_presumption_sets_apart_say_so():
    """A covariate of any kind that is called as the square of another: two tables of the same records contradict it."""
    frame = data(0)
    frame["z"] = np.random.default_rng(50).gamma(2, 3, size=len(frame))
    large = printed("y ~ x + z", frame, 4, N).rename(index={"z": "x2"})
    found = bayesrecon.recover([from_table(one, "ols") for one in (large, printed("y ~ x", frame, 4, N))])
    (failure,) = found.failures
    assert "or it is wrong that x2 is the square of x" in failure


@pytest.mark.parametrize("how", ["domain", "factors", "formula", "no plain column"])
def test_a_column_that_somebody_described_is_not_presumed_to_be_a_square(how):
    table = printed("y ~ x + I(x ** 2)", data(0), 4, N).rename(index={"I(x ** 2)": "x2"})
    read, knows = {}, {}
    if how == "domain":
        knows = {"domain": {"x2": (-np.inf, np.inf)}}
    elif how == "factors":
        knows = {"factors": {"g": ["x2"]}}
    elif how == "formula":
        pytest.importorskip("formulaic")
        read = {"formula": "y ~ x + x2"}
    else:
        table = table.rename(index={"x": "z"})
    found = bayesrecon.recover(from_table(table, "ols", **read), **knows)
    assert "square" not in found.condition
    assert not any("assumed from the name" in line for line in found.warnings)


def test_a_presumption_that_no_data_print_is_dropped_and_said():
    """Columns of mean zero print the least error of an intercept that there is, which no square does."""
    frame = data(0)
    table = printed("y ~ x + I(x ** 2)", frame, 4, N).rename(index={"I(x ** 2)": "x2"})
    table.loc["Intercept", "std err"] = cell(1.0005 * float(table.loc["sigma", "coef"]) / len(frame) ** 0.5, 6)
    found = bayesrecon.recover(from_table(table, "ols"))
    assert not found.failures
    assert "square" not in found.condition
    assert any("if x2 is the square of x" in line and "not assumed" in line for line in found.warnings)


def test_other_powers_have_no_structure_of_a_square():
    """Every limit holds with a cube, and beside another column."""
    for seed in range(SETS):
        frame = data(seed)
        frame["z"] = np.random.default_rng(seed).normal(size=len(frame))
        x = frame.x
        truth = {"n": len(frame), "mean(x)": x.mean(), "var(x)": x.var(ddof=0), "var(y)": frame.y.var(ddof=0)}
        for more in ("I(x ** 3)", "I(x ** 2) + I(x ** 3)", "I(x ** 2) + z", "C(g) + I(x ** 2)"):
            release = from_table(printed(f"y ~ x + {more}", frame, 4, N), "ols")
            found = bayesrecon.recover(release)
            square = {"mean(I_x____2_)": (x**2).mean()} if "2" in more else {}
            inside(found, truth | square)
            assert "powers of a covariate" in release.notes[-1]
            assert found["mean(x)"].upper is None
            if square:
                assert found["mean(I_x____2_)"].lower > 0


def test_errors_that_no_square_prints_are_refused():
    """The error of the intercept is at least `s / sqrt(n)`."""
    table = printed("y ~ x + I(x ** 2)", data(0), 4, N)
    table.loc["Intercept", "std err"] = "0.00001"
    found = bayesrecon.recover(from_table(table, "ols"))
    assert any("I_x____2_ is the square of x" in line for line in found.failures)


@pytest.mark.parametrize("digits", [3, 4])
def test_slopes_of_their_own_tell_sums_of_squares_of_each_level(digits):
    for seed in range(SETS):
        frame = data(seed)
        table = printed("y ~ C(g) * x", frame, digits, *((N,) if seed % 3 else ()))
        found = bayesrecon.recover(from_table(table, "ols"))
        truth = {}
        for level, name in zip("abc", ("baseline", "b", "c"), strict=True):
            one = frame.x[frame.g == level]
            truth |= {f"n[g={name}]": len(one), f"mean(x*x)[g={name}]": (one**2).mean()}
            truth[f"sum((x-mean)^2)[g={name}]"] = ((one - one.mean()) ** 2).sum()
        inside(found, truth | {"n": len(frame)})
        assert found["n[g=b]"].lower >= 2
        assert found["sum((x-mean)^2)[g=b]"].estimate == pytest.approx(truth["sum((x-mean)^2)[g=b]"], rel=0.05)


@pytest.mark.parametrize("kind", ["ols", "logit"])
def test_columns_of_splines_count_records(kind):
    pytest.importorskip("patsy")
    for seed in range(SETS):
        frame = data(seed)
        frame["y"] = frame.y if kind == "ols" else np.random.default_rng(seed).integers(0, 2, len(frame))
        options = {"fit": smf.ols} if kind == "ols" else {"fit": smf.logit, "disp": 0}
        table = printed("y ~ bs(x, df=4)", frame, 4, N, **options)
        from patsy import dmatrix

        columns = np.asarray(dmatrix("bs(x, df=4) - 1", frame))
        truth = {f"mean(bs_x__df_4__{k}_)": columns[:, k].mean() for k in range(4)}
        found = bayesrecon.recover(from_table(table, kind))
        assert inside(found, truth | {"n": len(frame)}) == len(truth) + 1
        assert found["mean(bs_x__df_4__1_)"].lower > 0


def natural_splines(x, df):
    """The columns of R's `ns(x, df)`: B-splines that are linear beyond the ends, by a QR decomposition."""
    from scipy.interpolate import BSpline

    ends = x.min(), x.max()
    knots = np.quantile(x, np.linspace(0, 1, df + 1)[1:-1])
    t = np.concatenate([[ends[0]] * 4, knots, [ends[1]] * 4])
    second = BSpline(t, np.eye(df + 3), 3).derivative(2)(ends)[:, 1:]
    turned = np.linalg.qr(second.T, mode="complete")[0]
    return BSpline.design_matrix(x, t, 3).toarray()[:, 1:] @ turned[:, 2:]


@pytest.mark.parametrize("kind", ["ols", "logit"])
def test_natural_splines_count_records(kind):
    for seed in range(SETS):
        frame = data(seed)
        frame["y"] = frame.y if kind == "ols" else np.random.default_rng(seed).integers(0, 2, len(frame))
        columns = natural_splines(frame.x.to_numpy(), 3)
        names = {f"ns(x, 3){k}": f"c{k}" for k in (1, 2, 3)}
        frame = frame.assign(**dict(zip(names.values(), columns.T, strict=True)), z=np.arange(len(frame)) % 5)
        options = {"fit": smf.ols} if kind == "ols" else {"fit": smf.logit, "disp": 0}
        table = printed("y ~ c1 + c2 + c3 + z", frame, 4, N, **options)
        table = table.rename(index={column: label for label, column in names.items()})
        found = bayesrecon.recover(from_table(table, kind))
        truth = {f"mean(ns_x__3_{k})": columns[:, k - 1].mean() for k in (1, 2, 3)}
        truth |= {f"mean(ns_x__3_{k}*ns_x__3_{k})": (columns[:, k - 1] ** 2).mean() for k in (1, 2, 3)}
        assert inside(found, truth | {"n": len(frame)}) == len(truth) + 1
        alone = bayesrecon.recover(from_table(table.drop(index="No. Observations"), kind))
        assert 1 < alone["n"].lower <= len(frame)
