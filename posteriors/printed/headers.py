"""Names that packages give to the columns and lines of regression tables."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

EST, SE, OR, LOW, HIGH, STAT = "estimate", "std. error", "odds ratio", "lower", "upper", "statistic"
"""Columns of the one form."""

ESTIMATE = (
    "estimate",
    "estimates",
    "est",
    "coef",
    "coefs",
    "coefficient",
    "coefficients",
    "b",
    "beta",
    "mean",
    "value",
    "mode",
    "map",
    "point estimate",
    "parameter estimate",
    "post mean",
    "posterior mean",
    "log odds",
    "unstandardized b",
    "parameter",
)
"""Columns of estimates, those that are meant where there are several first."""

ERROR = (
    "std error",
    "std err",
    "se",
    "s e",
    "stderr",
    "standard error",
    "standard errors",
    "std errors",
    "bse",
    "se coef",
    "se(coef)",
    "std error of estimate",
    "est error",
    "sd",
    "std dev",
    "stddev",
    "post sd",
    "posterior sd",
)
"""Columns of standard errors."""

RATIO = (
    "or",
    "odds ratio",
    "odds ratios",
    "odds ratio (or)",
    "hr",
    "hazard ratio",
    "hazard ratios",
    "irr",
    "incidence rate ratio",
    "incidence rate ratios",
    "rr",
    "exp(b)",
    "exp(coef)",
    "exp(beta)",
    "exp(estimate)",
)
"""Columns of exponentials of estimates."""

LOWER = (
    "[0 025",
    "2 5 %",
    "2 5%",
    "lower",
    "lower 95%",
    "lower 95",
    "lower 95% ci",
    "95% ci lower",
    "lower ci",
    "ci lower",
    "ci low",
    "conf low",
    "lcl",
    "lower cl",
    "l-95% ci",
    "lower bound",
    "coef lower 95%",
    "[95% conf",
    "lower 95% bound",
    "q2 5",
)
UPPER = (
    "0 975]",
    "97 5 %",
    "97 5%",
    "upper",
    "upper 95%",
    "upper 95",
    "upper 95% ci",
    "95% ci upper",
    "upper ci",
    "ci upper",
    "ci high",
    "conf high",
    "ucl",
    "upper cl",
    "u-95% ci",
    "upper bound",
    "coef upper 95%",
    "interval]",
    "upper 95% bound",
    "q97 5",
)
BOTH = (
    "95% ci",
    "ci",
    "ci 95%",
    "95 % ci",
    "95% conf interval",
    "95% confidence interval",
    "confidence interval",
    "or (95% ci)",
)
"""Ends of 95 % intervals, in columns of their own or in one."""

STATISTIC = ("z", "z value", "z-value", "z statistic", "t", "t value", "t-value", "t statistic", "statistic", "t stat")
"""Columns of estimates over their errors."""

INTERCEPT = ("intercept", "(intercept)", "const", "constant", "(constant)", "cons", "b intercept", "[intercept]")
SIGMA = (
    "sigma",
    "residual standard error",
    "rse",
    "root mse",
    "residual std error",
    "residual sd",
    "residual standard deviation",
    "std error of the regression",
    "s",
)

FOOTERS = {
    "n": (
        "n",
        "nobs",
        "no observations",
        "number of observations",
        "number of obs",
        "num obs",
        "observations",
        "obs",
        "sample size",
        "n observations",
    ),
    "freedom": ("df residuals", "df residual", "residual df", "degrees of freedom residuals"),
    "r2": ("r-squared", "r2", "r squared", "r²", "multiple r-squared", "rsq", "r square", "r-square"),
    "f": ("f-statistic", "f statistic", "f", "f value", "f-value"),
    "loglik": ("log-likelihood", "log likelihood", "loglik", "loglikelihood", "log lik"),
    "aic": ("aic", "akaike inf crit", "akaike information criterion"),
    "bic": ("bic", "bayesian inf crit", "bayesian information criterion", "schwarz criterion"),
    "sigma": SIGMA,
}
"""Lines below a table, by what they are."""


def plain(header: object) -> str:
    """A header as it is compared: small letters, points and underscores as spaces."""
    text = re.sub(r"[._\s]+", " ", str(header).replace("\u00a0", " ").strip().strip('"').lower())
    return text.strip().strip(":").strip()


_LEVEL = re.compile(r"([A-Za-z][\w.]*)\s*(?:={1,2}\s*|:\s+)(?=\w)")


def line_label(text: object) -> str:
    """The label of a line, with a level of a factor as `factor=level`.

    >>> line_label(" Arm: high "), line_label("arm == high"), line_label("age:female")
    ('Arm=high', 'arm=high', 'age:female')
    """
    return _LEVEL.sub(r"\1=", str(text).strip(), count=1)


def footer_of(label: str) -> str | None:
    """Which number below a table a line is, None if it is none.

    >>> footer_of("No. Observations:"), footer_of("R²"), footer_of("age")
    ('n', 'r2', None)
    """
    return next((name for name, words in FOOTERS.items() if plain(label) in words), None)


@dataclass(frozen=True)
class ColumnPositions:
    """Positions of the columns that are read; None if there is none of the kind."""

    estimate: int | None
    error: int | None
    ratio: bool = False
    lower: int | None = None
    upper: int | None = None
    both: int | None = None
    statistic: int | None = None

    @property
    def enough(self) -> bool:
        spread = self.error is not None or self.both is not None or None not in (self.lower, self.upper)
        return self.estimate is not None and spread


def columns_of(headers: Sequence[object]) -> ColumnPositions:
    """Which columns of a table are which; the first one names its lines."""
    names = [plain(h) for h in headers]

    def first(words: Sequence[str]) -> int | None:
        return next((i for word in words for i, name in enumerate(names) if i and name == word), None)

    estimate, ratio = first(ESTIMATE), False
    if estimate is None:
        estimate, ratio = first(RATIO), True
    spread = (first(LOWER), first(UPPER))
    if spread[0] is None or spread[1] is None:
        spread = (None, None)
    return ColumnPositions(
        estimate, first(ERROR), ratio and estimate is not None, *spread, first(BOTH), first(STATISTIC)
    )
