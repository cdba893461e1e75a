"""Tables as packages print them: headers, brackets, ratios, and the numbers below."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesrecon
from bayesrecon.errors import BayesreconError, Note
from bayesrecon.posteriors import from_table
from bayesrecon.posteriors.printed import headers
from bayesrecon.posteriors.printed.footers import Footer, estimates_of
from bayesrecon.posteriors.printed.reading import as_printed
from bayesrecon.posteriors.recognition import as_table

sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")

HEADERS = {
    "broom": "term,estimate,std.error,statistic,p.value",
    "statsmodels": ",coef,std err,t,P>|t|,[0.025,0.975]",
    "statsmodels summary2": ",Coef.,Std.Err.,t,P>|t|,[0.025,0.975]",
    "R": ",Estimate,Std. Error,t value,Pr(>|t|)",
    "Stata": ",Coefficient,Std. err.,t,P>|t|,[95% conf.,interval]",
    "Stata 15": ",Coef.,Std. Err.,t,P>|t|,[95% Conf.,Interval]",
    "SPSS": "Model,B,Std. Error,Beta,t,Sig.",
    "SAS": "Variable,Parameter Estimate,Standard Error,t Value,Pr > |t|",
    "brms": ",Estimate,Est.Error,l-95% CI,u-95% CI,Rhat,Bulk_ESS,Tail_ESS",
    "stansummary": "name,Mean,MCSE,StdDev,5%,50%,95%,N_Eff,R_hat",
    "ArviZ": ",mean,sd,hdi_3%,hdi_97%",
    "nlme": ",Value,Std.Error,DF,t-value,p-value",
    "coxph": ",coef,exp(coef),se(coef),z,Pr(>|z|)",
    "lifelines": "covariate,coef,exp(coef),se(coef),coef lower 95%,coef upper 95%,z,p",
    "linearmodels": ",Parameter,Std. Err.,T-stat,P-value,Lower CI,Upper CI",
    "Minitab": "Term,Coef,SE Coef,T-Value,P-Value",
    "MATLAB": ",Estimate,SE,tStat,pValue",
    "gretl": ",coefficient,std. error,t-ratio,p-value",
    "EViews": "Variable,Coefficient,Std. Error,t-Statistic,Prob.",
    "Excel": ",Coefficients,Standard Error,t Stat,P-value,Lower 95%,Upper 95%",
    "GLM.jl": ",Coef.,Std. Error,t,Pr(>|t|),Lower 95%,Upper 95%",
    "parameters": "Parameter,Coefficient,SE,CI_low,CI_high,t,df_error,p",
    "JASP": "Coefficient,Estimate,Standard Error,z,Wald Statistic,df,p",
    "jamovi": "Predictor,Estimate,SE,t,p",
    "papers": "Variable,β,b,S.E.,p",
}


def row(header, name, estimate, error):
    """A line with these two numbers where the header has them, and others elsewhere."""
    from bayesrecon.posteriors.printed.headers import columns_of

    columns = columns_of(header)
    cells = [name, *["9.99"] * (len(header) - 1)]
    cells[columns.estimate], cells[columns.error] = estimate, error
    return ",".join(cells)


@pytest.mark.parametrize("package", HEADERS)
def test_headers_of_packages(package, tmp_path):
    header = HEADERS[package].split(",")
    path = tmp_path / "table.csv"
    lines = [row(header, *one) for one in (("(Intercept)", "25.8", "5.917"), ("iq", "0.61", "0.0585"))]
    empty = ",".join(["sigma", *("18.27" if w == "25.8" else "" for w in lines[0].split(",")[1:])])
    path.write_text("\n".join([HEADERS[package], *lines, empty]) + "\n")
    assert as_table(path)
    release = from_table(path, "ols")
    found = bayesrecon.recover(release)
    assert found["mean(iq*iq)"].estimate == pytest.approx((5.917 / 0.0585) ** 2)


def test_the_two_headers_that_were_refused(tmp_path):
    for header in ("term,estimate,std.error", ",Coef.,Std.Err."):
        path = tmp_path / "table.csv"
        path.write_text(f"{header}\n(Intercept),25.8,5.917\niq,0.61,0.0585\nsigma,18.27,\n")
        assert bayesrecon.audit(path, "ols", remedies=False).findings[0].evidence[0].name == "mean(iq*iq)"


RNG = np.random.default_rng(0)
GROUPS = pd.DataFrame({"g": np.repeat(list("abc"), (60, 21, 4)), "y": RNG.normal(size=85)})
GROUPS["event"] = (np.arange(85) % 3 == 0).astype(int)
COUNTS = {"n[g=baseline]": 60, "n[g=b]": 21, "n[g=c]": 4}


def counts(release, **knows):
    found = bayesrecon.recover(release, **knows)
    assert not found.failures
    return {name: found[name].estimate for name in COUNTS}, found


@pytest.mark.parametrize("suffix", [".txt", ".html", ".csv"])
def test_summaries_of_statsmodels(suffix, tmp_path):
    """They print no sigma: the log likelihood tells it."""
    summary = smf.ols("y ~ C(g)", GROUPS).fit().summary()
    path = tmp_path / f"summary{suffix}"
    path.write_text({".txt": summary.as_text, ".html": summary.as_html, ".csv": summary.as_csv}[suffix]())
    assert as_table(path)
    release = from_table(path, "ols")
    assert "N 85" in release.notes[0]
    found, rest = counts(release)
    assert found == COUNTS
    assert rest["var(y)"].lower <= GROUPS.y.var(ddof=0) <= rest["var(y)"].upper


def test_a_summary_of_r_that_was_copied(tmp_path):
    path = tmp_path / "lm.txt"
    path.write_text(
        "Coefficients:\n"
        "            Estimate Std. Error t value Pr(>|t|)    \n"
        "(Intercept)   5.0320     0.1971  25.527   <2e-16 ***\n"
        "grouptrt1    -0.3710     0.2788  -1.331   0.1944    \n"
        "grouptrt2     0.4940     0.2788   1.772   0.0877 .  \n"
        "---\nSignif. codes:  0 ‘***’ 0.001 ‘**’ 0.01 ‘*’ 0.05 ‘.’ 0.1 ‘ ’ 1\n\n"
        "Residual standard error: 0.6234 on 27 degrees of freedom\n"
        "Multiple R-squared:  0.2641,\tAdjusted R-squared:  0.2096 \n"
        "F-statistic: 4.846 on 2 and 27 DF,  p-value: 0.01591\n"
    )
    found = bayesrecon.recover(from_table(path, "ols", formula="weight ~ group"))
    assert [found[f"n[group={v}]"].estimate for v in ("baseline", "trt1", "trt2")] == [10, 10, 10]
    assert found["n"].estimate == 30


ARMS = (("Constant", 2.181, 0.441), ("age", 0.0587, 0.0078), ("high", 0.574, 0.776), ("low", 1.524, 0.279))
"""A regression of 212 people, of whom 7 are in the arm "high"."""


def of_authors(form):
    """The regression as authors print it; the text alone tells that `high` and `low` are levels."""
    if form == "Call of R":
        lines = [f"{name.replace('high', 'armhigh').replace('low', 'armlow')} {b} {se}" for name, b, se in ARMS]
        return "Call:\nlm(formula = y ~ age + arm, data = d)\n\n Estimate Std. Error\n" + "\n".join(lines)
    if form == "block of Stata":
        constant, age, *levels = (f"{name:>12} | {b} {se}" for name, b, se in ARMS)
        empty = "             |"
        return "\n".join(["y | Coefficient  Std. err.", age, empty, "         arm |", *levels, empty, constant])
    named = [(name if name in ("Constant", "age") else f"Arm: {name}", b, se) for name, b, se in ARMS]
    if form == "cells of Word":
        return "Predictor\tB\tSE\n" + "\n".join(f"{name}\t{b}\t{se}" for name, b, se in named)
    if form == "booktabs":
        lines = "".join(rf"\textbf{{{name}}} & ${b}$ & {se} \\[2pt]" for name, b, se in named)
        return r"\begin{tabular}{@{}l*{2}{r}} \toprule & Estimate & Std.\ Error \\ \midrule " + lines + r"\end{tabular}"
    lines = "\n".join(rf" {name} & {b}$^{{***}}$ \\ & ({se}) \\ & \\" for name, b, se in named)
    return r"\begin{tabular}{lc} \\[-1.8ex]\hline & \multicolumn{1}{c}{(1)} \\ " + lines + r"\hline \end{tabular}"


@pytest.mark.parametrize("form", ["Call of R", "block of Stata", "cells of Word", "booktabs", "stargazer"])
def test_an_arm_of_a_few_people_is_read_from_the_text_alone(form, tmp_path):
    path = tmp_path / ("paper.tex" if form in ("booktabs", "stargazer") else "paper.txt")
    path.write_text(of_authors(form) + "\n\nN = 212\n\nResidual standard error: 1.989 on 208 degrees of freedom\n")
    first, *others = bayesrecon.audit(path, "ols", remedies=False)
    assert first.title.lower() == "records with arm=high: between 7 and 28, perhaps below 10"
    assert not others  # the number of records is printed


def test_a_table_of_stata_that_was_copied(tmp_path):
    path = tmp_path / "regress.txt"
    path.write_text(
        "      Source |       SS           df       MS      Number of obs   =        15\n"
        "-------------+----------------------------------   R-squared       =    0.3208\n"
        "                                                   Root MSE        =    1.4507\n"
        "------------------------------------------------------------------------------\n"
        "           y | Coefficient  Std. err.      t    P>|t|     [95% conf. interval]\n"
        "-------------+----------------------------------------------------------------\n"
        "         2.g |     1.8580     0.8270     2.25   0.044     .0561229    3.659877\n"
        "         3.g |     1.5865     1.1469     1.38   0.192    -.9123771    4.085377\n"
        "       _cons |    -0.4481     0.5129    -0.87   0.399    -1.565616    .6694161\n"
    )
    found = bayesrecon.recover(from_table(path, "ols"))
    assert [found[f"n[g={v}]"].estimate for v in ("baseline", "2", "3")] == [8, 5, 2]


@pytest.mark.parametrize("form", ["below", "beside", "interval", "ratio", "stars"])
def test_brackets_stars_and_ratios(form, tmp_path):
    fit = smf.logit("event ~ C(g)", GROUPS).fit(disp=0)
    low, high = fit.conf_int()[0], fit.conf_int()[1]
    lines = ["| | Model 1 |", "|---|---|"]
    if form == "ratio":
        lines = ["| | OR | 95% CI |", "|---|---|---|"]
    for name in fit.params.index:
        b, e = fit.params[name], fit.bse[name]
        if form == "below":
            lines += [f"| {name} | {b:.4f}* |", f"| | ({e:.4f}) |"]
        elif form == "beside":
            lines.append(f"| {name} | {b:.4f} ({e:.4f}) |")
        elif form == "interval":
            lines.append(f"| {name} | {b:.4f} [{low[name]:.4f}, {high[name]:.4f}] |")
        elif form == "stars":
            lines[0], lines[1] = "| | Estimate | S.E. |", "|---|---|---|"
            lines.append(f"| {name} | {b:.4f}*** | {e:.4f} |")
        else:
            lines.append(f"| {name} | {np.exp(b):.5f} | {np.exp(low[name]):.5f}–{np.exp(high[name]):.5f} |")
    path = tmp_path / "table.md"
    path.write_text(
        "\n".join([*lines, f"| Observations | {len(GROUPS)} |" + " |" * (form in ("ratio", "stars"))]) + "\n"
    )
    release = from_table(path, "logit")
    assert release.notes[0].startswith("columns read as ")
    found, rest = counts(release)
    assert found == COUNTS
    events = {k: GROUPS.event[v].sum() for k, v in GROUPS.groupby("g").groups.items()}
    assert rest["n[g=b,y=1]"].estimate == events["b"]
    assert rest["n[g=c,y=1]"].estimate == events["c"]


def test_f_and_r_squared_tell_the_number_of_records():
    lines = [["5.0320", "0.1971"], ["-0.3710", "0.2788"], ["0.4940", "0.2788"], ["0.6234", ""]]
    frame = pd.DataFrame(
        [*lines, ["0.2641", ""], ["4.846", ""]],
        ["(Intercept)", "a", "b", "sigma", "R-squared", "F-statistic"],
        ["estimate", "std.error"],
    )
    found = bayesrecon.recover(from_table(frame, "ols"))
    assert found["n"].lower <= 30 <= found["n"].upper
    assert found["n"].upper - found["n"].lower < 0.1


def test_an_interval_of_least_squares_needs_its_degrees_of_freedom():
    fit = smf.ols("y ~ C(g)", GROUPS).fit()
    rows = [[f"{fit.params[k]:.4f}", *(f"{v:.4f}" for v in fit.conf_int().loc[k])] for k in fit.params.index]
    names = [*fit.params.index, "sigma"]
    frame = pd.DataFrame([*rows, [f"{fit.scale**0.5:.5f}", "", ""]], names, ["estimate", "conf.low", "conf.high"])
    with pytest.raises(BayesreconError, match="add a line N"):
        from_table(frame, "ols")
    frame.loc["N"] = ["85", "", ""]
    assert counts(from_table(frame, "ols"))[0] == COUNTS


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([["1.2 (0.1)", "1.3 (0.2)"]], ["(1)", "(2)"], "has 2 models"),
        ([["1.2 (-2.3)"]], ["(1)"], "not standard errors"),
        ([["1.2 (0.3)"]], ["OR"], "supply their intervals"),
        ([["1.2", "0.1"]], ["odds ratio", "std. err."], "those of the ratios or of their logarithms"),
        ([["0.0", "0.0", "2.0"]], ["OR", "lower", "upper"], "could be zero"),
        ([["1.2", "x"]], ["estimate", "p"], "no column std. error"),
    ],
)
def test_tables_with_bad_numbers_are_refused_in_a_line(rows, columns, message):
    with pytest.raises(BayesreconError, match=message) as caught:
        from_table(pd.DataFrame(rows, ["const"], columns), "logit")
    assert "\n" not in str(caught.value)


def test_draws_with_parameters_of_these_names_are_no_table(tmp_path):
    path = tmp_path / "draws.csv"
    path.write_text("alpha,beta,sd\n0.1,0.2,0.3\n0.2,0.1,0.4\n")
    assert not as_table(path)
    path = tmp_path / "weighted.txt"
    path.write_text("weight logl beta sd\n1.684e-09 -6.78e+01 6.602e-01 5.9e-01\n2.9e-08 -62.1 9.7e-01 0.7\n")
    assert not as_table(path)


def test_text_without_a_table(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Nothing of this is a table.\n1 2 3\n")
    assert not as_table(path)
    with pytest.raises(BayesreconError, match="no line of the text is the header"):
        as_printed(path)
    path.write_text("coef se\n" + "1" * 20_000 + "\n")
    with pytest.raises(BayesreconError, match="more than 10000 letters"):
        as_printed(path)
    path.write_bytes(b"\xff\xfe\x00coef,se\n")
    with pytest.raises(BayesreconError, match="text in UTF-8"):
        as_printed(path)


def test_on_the_command_line(tmp_path, run):
    path = tmp_path / "summary.txt"
    path.write_text(smf.ols("y ~ C(g)", GROUPS).fit().summary().as_text())
    code, out, err = run("audit", path, "--model", "ols", "--no-remedies")
    assert code == 0  # with all its records counted, correlations would tell no more
    assert "read as estimates from 'coef' and std. error from 'std err'; the intercept is Intercept" in err
    assert "g=c: 4" in " ".join(out.split())


SIDES = """
===============================
             (1)        (2)    
-------------------------------
Intercept -1.6094** -11.6016***
          (0.6325)  (4.2130)   
PSI       1.8971**  2.3378**   
          (0.8317)  (1.0408)   
GPA                 3.0634**   
                    (1.2229)   
N         32        32         
===============================
Standard errors in parentheses.
"""
"""Of the package's data `spector`, as statsmodels' `summary_col` prints it."""


def side(path, column):
    frame = as_printed(path, column=column).frame
    return {label: tuple(map(str, frame.loc[label])) for label in frame.index}


@pytest.mark.parametrize("form", ["text", "frame", "html"])
def test_one_of_several_models_side_by_side(form, tmp_path):
    table = tmp_path / "models.txt"
    table.write_text(SIDES)
    if form != "text":
        cells = [
            ["-1.6094**", "-11.6016***"],
            ["(0.6325)", "(4.2130)"],
            ["1.8971**", "2.3378**"],
            ["(0.8317)", "(1.0408)"],
        ]
        cells += [["", "3.0634**"], ["", "(1.2229)"], ["32", "32"]]
        table = pd.DataFrame(cells, ["Intercept", "", "PSI", "", "GPA", "", "N"], ["(1)", "(2)"])
    if form == "html":
        table.to_html(tmp_path / "models.html")
        table = tmp_path / "models.html"
    assert side(table, "(1)") == {"Intercept": ("-1.6094", "0.6325"), "PSI": ("1.8971", "0.8317"), "N": ("32", "")}
    second = {
        "Intercept": ("-11.6016", "4.2130"),
        "PSI": ("2.3378", "1.0408"),
        "GPA": ("3.0634", "1.2229"),
        "N": ("32", ""),
    }
    assert side(table, "2") == second
    with pytest.raises(BayesreconError, match=r"has 2 models \(\(1\), \(2\)\); choose one with column="):
        as_printed(table)
    with pytest.raises(BayesreconError, match="no models of the table are called 'third'"):
        as_printed(table, column="third")


def test_models_of_the_same_records_are_read_together(tmp_path, run):
    path = tmp_path / "models.txt"
    path.write_text(SIDES)
    assert as_table(path)
    both = [from_table(path, "logit", column=name) for name in ("(1)", "(2)")]
    found = bayesrecon.recover(both, domain={"PSI": "binary"})
    assert [found[name].estimate for name in ("n", "n[PSI=0]", "n[PSI=1]")] == [32, 18, 14]
    notes = [line for line in found.warnings if isinstance(line, Note)]
    assert any(line.startswith("models.txt, (1): only one combination of whole cell counts") for line in notes)
    code, out, err = run("audit", path, "--model", "logit", "--column", "1", "--column", "2", "--no-remedies")
    assert (code, "models.txt, (1): records with" in " ".join(out.split())) == (3, True)
    assert "note: models.txt, (1): if PSI is 0 or 1: only one combination of whole cell counts" in " ".join(err.split())
    audited = bayesrecon.audit(path, "logit", column=["(1)", "2"], remedies=False)
    notes = [line for line in audited.warnings if isinstance(line, Note)]
    assert any(line.startswith("models.txt, (1): if PSI is 0 or 1: only one combination") for line in notes)
    assert any(f.title.startswith("models.txt, (1): records with PSI=0,y=1: 3") for f in audited)
    alone = [f for f in audited if f.kind != "outputs together"]
    assert {f.title.partition(": ")[0] for f in alone} == {"models.txt, (1)"}  # of (2) the printed N alone
    assert all(place.startswith("models.txt, (") for f in audited for place in f.where)
    assert bayesrecon.audit(path, "logit", column="2", remedies=False).name == "models.txt, (2)"
    code, out, err = run("recover", path, "--model", "logit")
    assert (code, "--column" in err) == (2, True)


def test_a_table_of_one_model_has_no_column_to_choose():
    with pytest.raises(BayesreconError, match="this table has one"):
        as_printed(pd.DataFrame({"estimate": ["1.2"], "se": ["0.1"]}, ["const"]), column="1")


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (["0.2512", "1.4639"], None),  # times the ratios, as Stata prints them
        (["0.5", "0.7319"], None),
        (["0.3", "0.9"], "it fits neither"),
    ],
)
def test_errors_beside_ratios_are_of_the_kind_that_their_quotients_tell(errors, message):
    """Of R's `mtcars`, am on vs."""
    table = pd.DataFrame({"OR": ["0.5024", "2.0000"], "SE": errors, "z": ["-1.377", "0.947"]}, ["(Intercept)", "vs"])
    if message is None:
        _, spread = estimates_of(as_printed(table).frame, np.inf)
        np.testing.assert_allclose(spread.values, [0.5, 0.7319], rtol=2e-4)
        return
    with pytest.raises(BayesreconError, match=message):
        from_table(table, "logit")
    with pytest.raises(BayesreconError, match="or z"):
        from_table(table.drop(columns="z"), "logit")


def test_an_orthogonal_polynomial_is_known_but_for_the_number_of_records():
    """R's `lm(dist ~ poly(speed, 2), cars)`, whose statistics R tells."""
    lines = {
        "(Intercept)": ["42.980", "2.146"],
        "poly(speed, 2)1": ["145.552", "15.176"],
        "poly(speed, 2)2": ["22.996", "15.176"],
        "sigma": ["15.18", ""],
    }
    table = pd.DataFrame.from_dict(lines, orient="index", columns=["estimate", "std. error"])
    true = {
        "mean(y)": 42.98,
        "var(y)": 650.7796,
        "cov(poly_speed__2_1,y)": 2.911045,
        "cov(poly_speed__2_2,y)": 0.4599153,
    }
    for told in ({}, {"total": 50}):
        found = bayesrecon.recover(from_table(table, "ols"), **told)
        assert found["n"].lower <= 50 <= found["n"].upper < 51
        for name, value in {**true, "var(poly_speed__2_1)": 0.02}.items():
            assert found[name].lower <= value + 1e-7
            assert value - 1e-7 <= found[name].upper
            assert found[name].upper - found[name].lower < 0.05 * abs(value)
    assert any("are not needed" in line and isinstance(line, Note) for line in found.warnings)
    raw = table.rename(index=lambda label: label.replace("2)", "2, raw = TRUE)"))
    assert bayesrecon.recover(from_table(raw, "ols"), total=50)["mean(y)"].estimate is None


def test_what_missing_correlations_cost_is_said_once_the_records_are_counted():
    lines = [["33.9908", "1.8878"], ["-4.2556", "1.3861"], ["-3.2056", "0.7539"], ["2.557", ""], ["32", ""]]
    table = pd.DataFrame(lines, ["(Intercept)", "heavy", "wt", "sigma", "N"], ["estimate", "std. error"])
    found = bayesrecon.recover(from_table(table, "ols"))
    assert found["n"].estimate == 32
    (cost,) = (line for line in found.warnings if "correlations" in line)
    assert "with correlations= mean(heavy), mean(wt)" in cost
    assert "total=" not in cost


CO2 = """
Call:
lm(formula = uptake ~ Type * Treatment, data = CO2)

Coefficients:
                                 Estimate Std. Error t value Pr(>|t|)    
(Intercept)                        35.333      1.751  20.182  < 2e-16 ***
TypeMississippi                    -9.381      2.476  -3.789 0.000294 ***
Treatmentchilled                   -3.581      2.476  -1.446 0.152001    
TypeMississippi:Treatmentchilled   -6.557      3.502  -1.873 0.064741 .  
---
Residual standard error: 8.023 on 80 degrees of freedom
Multiple R-squared:  0.4718,	Adjusted R-squared:  0.452 
F-statistic: 23.82 on 3 and 80 DF,  p-value: 4.093e-11
"""
"""Of R's data `CO2`, whose moments R tells."""


def test_products_of_dummies_are_products(tmp_path):
    path = tmp_path / "co2.txt"
    path.write_text(CO2)
    found = bayesrecon.recover(from_table(path, "ols", formula="uptake ~ Type * Treatment"))
    true = {"n": 84, "mean(TypeMississippi_Treatmentchilled)": 0.25, "n[Type=Mississippi,Treatment=chilled]": 21}
    true |= {"cov(TypeMississippi_Treatmentchilled,y)": -2.849702, "var(TypeMississippi_Treatmentchilled)": 0.1875}
    for name, value in true.items():
        assert found[name].lower <= value + 1e-9
        assert value - 1e-9 <= found[name].upper
        assert found[name].verdict == "determined"


def test_names_of_r_tell_factors():
    """Of R's `mtcars`, `glm(am ~ factor(cyl), binomial)`."""
    lines = [["0.9808", "0.6770"], ["-1.2685", "1.0206"], ["-2.7726", "1.0206"]]
    table = pd.DataFrame(lines, ["(Intercept)", "factor(cyl)6", "factor(cyl)8"], ["Estimate", "Std. Error"])
    found = bayesrecon.recover(from_table(table, "logit"))
    assert [found[f"n[cyl={level}]"].estimate for level in ("baseline", "6", "8")] == [11, 7, 14]
    assert "mean(factor_cyl_6*factor_cyl_6)" not in [row.name for row in found]


def _criteria(kind, records=57):
    """A fit of statsmodels, and its estimates with what it prints below them, but for the number of records."""
    rng = np.random.default_rng(3)
    x = sm.add_constant(pd.DataFrame({"age": rng.normal(50, 9, records), "dose": rng.gamma(2, 1.5, records)}))
    line = 0.02 * (x["age"] - 50) + 0.4 * x["dose"] - 1
    y = (
        pd.Series(line + rng.normal(size=records), name="y")
        if kind == "ols"
        else rng.binomial(1, 1 / (1 + np.exp(-line)))
    )
    return (sm.OLS(y, x) if kind == "ols" else sm.Logit(y, x)).fit(disp=0), x


@pytest.mark.parametrize("kind", ["ols", "logit"])
def test_information_criteria_tell_the_number_of_records(kind):
    fit, _ = _criteria(kind)
    rows = {name: [f"{fit.params[name]:.4f}", f"{fit.bse[name]:.4f}"] for name in fit.params.index}
    below = {"AIC": f"{fit.aic:.4f}", "BIC": f"{fit.bic:.4f}", "Log-Likelihood": f"{fit.llf:.4f}"}
    frame = pd.DataFrame.from_dict(
        rows | {name: [value, ""] for name, value in below.items()}, orient="index", columns=["coef", "std err"]
    )
    found = bayesrecon.recover(from_table(frame, kind))
    assert found["n"].lower <= 57 <= found["n"].upper
    assert found["n"].upper - found["n"].lower < 0.1


@pytest.mark.parametrize("extra", [0, 1])
def test_the_scale_by_a_criterion_and_n(extra):
    """Of programs that count the residual variance among the parameters, and of those that do not."""
    fit, _ = _criteria("ols")
    k = 3 + extra
    below = Footer(n=57.0, aic=(2 * k - 2 * fit.llf, 5e-4), bic=(k * np.log(57) - 2 * fit.llf, 5e-4))
    middle, half = below.scale(3)
    assert abs(middle - np.sqrt(fit.scale)) <= half < 1e-4 * middle
    assert Footer(n=57.0, aic=below.aic).scale(3) is None  # nobody says what was counted


def test_words_are_listed_as_they_are_compared():
    lists = [words for name, words in vars(headers).items() if name.isupper() and isinstance(words, tuple)]
    assert len(lists) > 8
    for word in {word for words in (*lists, *headers.FOOTERS.values()) for word in words}:
        assert headers.plain(word) == word


R = Path(__file__).parents[1] / "fixtures" / "r"  # printed.R


def test_correlations_that_r_prints_tell_the_sign_of_a_mean():
    found = bayesrecon.recover(from_table(R / "printed-all.txt", "ols"))
    row = found["mean(wt)"]
    assert row.lower < 3.21725 < row.upper < row.lower + 1e-3
    without = bayesrecon.recover(from_table(R / "printed-symbols.txt", "ols"))
    assert without["mean(wt)"].estimate is None
    assert any("were not read" in line for line in without.warnings)


@pytest.mark.parametrize("name", ["factor", "wrapped"])
def test_a_triangle_of_correlations_is_no_part_of_the_table(name):
    printed = as_printed(R / f"printed-{name}.txt")
    correlations = printed.correlations.replace("", "nan").astype(float).to_numpy()
    lines = printed.frame.index[: len(correlations)]
    assert list(lines) == list(printed.correlations.index)
    expected = {"factor": (2, 4, 3, 0.65), "wrapped": (10, 10, 9, -0.42)}[name]
    assert correlations[expected[1], expected[2]] == expected[3]
    assert np.isnan(correlations).sum() == len(lines) * (len(lines) - 1) / 2


def test_two_outputs_of_r_name_the_person_between_them():
    found, *_ = bayesrecon.audit([R / f"printed-{name}.txt" for name in ("all", "without_20")], "ols", remedies=False)
    assert found.severity == "high"
    for item, true in zip(found.evidence[1:], (1.835, 33.9), strict=True):
        assert item.lower <= true <= item.upper < item.lower + 0.01


@pytest.mark.parametrize("form", ["diagonal", "square"])
def test_correlations_of_other_forms(form, tmp_path):
    rows = [["wt", "1.00000"], ["_cons", "-0.95800", "1.00000"]]
    if form == "square":
        rows[0].append("-0.95800")
    related = "\n".join(f"{label:>12} | {'  '.join(cells)}" for label, *cells in rows)
    lines = "mpg | Coefficient  Std. err.\n wt | -5.344472 .559101\n_cons | 37.28513 1.877627\nRoot MSE = 3.045882"
    (tmp_path / "out.txt").write_text(f"{lines}\nCorrelation matrix of coefficients of regress model\n\n{related}\n")
    found = bayesrecon.recover(from_table(tmp_path / "out.txt", "ols"))
    assert found["n"].lower < 32 < found["n"].upper < found["n"].lower + 1
    assert found["mean(wt)"].lower < 3.21725 < found["mean(wt)"].upper
