"""Printed tables of estimates and standard errors as releases."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from bayesrecon.errors import BayesreconError, MissingExtraError, beside, first_line, near, reading
from bayesrecon.factors import BASELINE, Factor
from bayesrecon.model import Model
from bayesrecon.models.estimators import ESTIMATORS, fitted_with
from bayesrecon.posteriors.approximated.approximations import in_coordinates_of, names_of, printed
from bayesrecon.posteriors.draws import MAX_NAMES
from bayesrecon.posteriors.printed.design_cells import parts_of
from bayesrecon.posteriors.printed.estimates_in_files import field_name
from bayesrecon.posteriors.printed.footers import (
    Footer,
    PrintedNumbers,
    estimates_of,
    numbers_of,
    with_scale,
    without_footer,
)
from bayesrecon.posteriors.printed.headers import INTERCEPT, SIGMA, line_label, plain
from bayesrecon.posteriors.printed.reading import Printed, as_printed
from bayesrecon.posteriors.printed.without_correlations import without_correlations_of
from bayesrecon.posteriors.recognition import is_table
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release
from bayesrecon.untrusted.csv_table import read_csv_texts
from bayesrecon.untrusted.guarded import asked

if TYPE_CHECKING:
    import pandas as pd
    from formulaic.parser.types import Term

_INTERCEPT, _SIGMA = INTERCEPT, SIGMA[:-1]  # a covariate may be called s
_SCALE = "sigma"
_MOST_BYTES = 2**24
_COARSE = 0.1


@in_float64
def from_table(
    table: "str | Path | pd.DataFrame | Printed",
    model: Model | str,
    *,
    correlations: "str | Path | pd.DataFrame | npt.ArrayLike | None" = None,
    draws: float | None = None,
    jacobian: bool | None = None,
    coordinates: str = "constrained",
    response: str = "y",
    formula: str | None = None,
    column: str | None = None,
    name: str | None = None,
) -> Release:
    """A release from a printed table of estimates and standard errors.

    Each number is assumed exact up to half a unit of its last digit. CSV files and columns of text keep trailing zeros.
    For columns of numbers the shortest decimal representation counts, and a number with 15 digits or more counts as not
    rounded. The interval of every statistic includes the uncertainty from rounding. For the equations see
    `posteriors.gaussian`.

    Args:
        table: path of a file (CSV, Markdown, HTML, LaTeX, or copied text) or a DataFrame, with one line per parameter.
            The name is the first column or the index. The columns `estimate` (mean, coef, mode) and `std. error` (se,
            sd, std err) may have the names that common packages print. Errors or 95 % intervals in brackets, odds
            ratios with intervals, stars, and numbers below the table (N, R-squared, F, log likelihood) are recognised.
            Notes say what was recognised.
        model: the model, or "ols", "logit" or "poisson" for a regression whose covariates are the names of the lines
            (`Intercept` and `const` are not covariates). "ols" has a line `sigma`, the residual standard error, without
            a standard error of its own.
        correlations: correlation matrix of the estimates, `(d, d)`: CSV, DataFrame, or array in the order of the
            table's lines. Without it, the table of a regression with an intercept gives only bounds that hold for all
            correlations (`least_squares`, `weighted_counts`). They may be wide or one-sided, and are tighter if the
            number of records (`total=`) or a binary covariate (`domain=`) is stated. Other tables of several estimates
            need correlations. Exclusive dummies of a factor are counted level by level (`models.coded_tables`). They
            are recognised by name (`g[T.b]`, `C(g)[T.b]`, `2.g`), by `formula`, or by `factors=` of the verb.
        draws: number of (effective) draws, if the estimates are posterior means and standard deviations; None for a
            mode.
        jacobian, coordinates: as in `posteriors.gaussian`. Tables print parameters in their own coordinates.
        response: name of the regression's response.
        formula: formula of the regression, such as "y ~ C(g) + x + g:x". It gives the levels of factors in the names of
            lines. Without one, a line such as `x2` beside `x` is presumed to be its square, and the result says so.
        column: which of several models side by side, by the name of its column or its number from 1. Models of the same
            records may be read individually and passed to `recover` together.

    Raises:
        BayesreconError: the file cannot be read, columns or lines are missing or belong to another model, cells are not
            numbers, or `posteriors.gaussian` refuses the values.

    >>> import pandas as pd
    >>> lines = {"estimate": ["25.800", "0.6100", "18.27"], "std. error": ["5.917", "0.05852", ""]}
    >>> table = pd.DataFrame(lines, index=["const", "mom_iq", "sigma"])
    >>> release = from_table(table, "ols", correlations=[["1", "-0.98892"], ["-0.98892", "1"]])
    >>> release.model.name
    'ols, mode and covariance'
    """
    if isinstance(correlations, str | Path):
        correlations = read_frame(correlations, "the correlations")
    printed_table = as_printed(table, column=column)
    title = name or titled(table, printed_table.model)
    frame, footer, notes = printed_table.frame, Footer(), printed_table.notes
    if isinstance(model, str):
        frame, footer = without_footer(frame)
        if model == "ols":
            frame = with_scale(frame, footer)
    labels = [str(x).strip() for x in frame.index]
    if isinstance(model, str):
        model, order = regression(model, labels, response)
        if draws is not None:
            raise BayesreconError("draws= is for means of posterior draws, and this is a table of an estimator")
        coordinates = "constrained"
    else:
        order = _order(model, labels, coordinates)
    normal = model.name in ("logit", "poisson")
    records = None if normal else footer.records(len(labels) - 1)
    exact = records is not None and records[0] == records[1]
    freedom = math.inf if normal else records[0] - len(labels) + 1 if exact else None  # type: ignore[index]
    estimates, errors = estimates_of(frame, freedom)
    coded = ()
    lines = [labels[i] for i in order if plain(labels[i]) not in (*_INTERCEPT, *_SIGMA)]
    if formula is not None:
        if model.name not in ESTIMATORS:
            raise BayesreconError("formula= applies only to tables of regressions")
        coded = factors_of_formula(formula, lines)
    elif printed_table.formula and model.name in ESTIMATORS:
        with suppress(BayesreconError):  # a call of R's that formulaic does not know, or its lines are another table's
            coded = factors_of_formula(printed_table.formula, lines)
            formula = printed_table.formula
    if coded:
        model = _with_factors(model, coded)
    boxes = in_coordinates_of(model, coordinates, draws)
    count = boxes.dimension if draws is None else len(order)
    with_error = [i for i in order if np.isfinite(errors.values[i])]
    without_error = [i for i in order if i not in with_error]
    for i in order:
        if np.isnan(estimates.values[i]) and not (labels[i] == _SCALE and correlations is None):
            raise BayesreconError(f"the estimate of {labels[i]} is missing")
        if errors.values[i] <= 0:
            raise BayesreconError(f"the standard error of {labels[i]} is not positive")
    needs_no_error = (_SCALE, *_SIGMA) if model.name in ESTIMATORS and len(with_error) == count - 1 else ()
    for i in without_error:
        if plain(labels[i]) not in needs_no_error:
            raise BayesreconError(f"the standard error of {labels[i]} is missing")
    below = correlations is None and printed_table.correlations is not None
    given = printed_table.correlations if correlations is None else correlations
    given = [["1"]] if given is None and len(with_error) == 1 else given
    place = {i: k for k, i in enumerate(sorted(with_error))}
    at = np.ix_(*2 * [[place[i] for i in with_error]])
    related = None if given is None else _correlations(given, [labels[i] for i in sorted(with_error)]).at(at)
    limits_only = below and model.name in ESTIMATORS and model.settings["intercept"]
    if related is None or (limits_only and (_coarse(related) or (exact and len(with_error) == 2))):
        if draws is not None:
            raise BayesreconError("moments of draws need their correlations; supply correlations=")
        first, second = ([(float(x.values[i]), float(x.half[i])) for i in order] for x in (estimates, errors))
        pairs = () if related is None else related.at(np.tril_indices(len(with_error), -1)).pairs
        told = coded, footer, formula is not None, pairs
        release = without_correlations_of(boxes, lines, first, second, title, *told)
        return replace(release, notes=(*notes, *release.notes))
    correlation, half = np.eye(count), np.zeros((count, count))
    block = np.ix_(range(len(with_error)), range(len(with_error)))
    correlation[block], half[block] = related.values, related.half
    sd, sd_half = errors.values[order].copy(), np.nan_to_num(errors.half[order])
    sd[np.isnan(sd)] = 0.1 * np.abs(estimates.values[without_error])  # only a unit of length
    release = printed(
        boxes,
        estimates.values[order],
        sd,
        correlation,
        estimates.half[order],
        sd_half,
        half[np.tril_indices(count, -1)],
        draws=draws,
        jacobian=jacobian,
        coordinates=coordinates,
        name=title,
        without_error=len(without_error),
    )
    return replace(release, notes=(*notes, *release.notes))


def titled(table: object, model: str) -> str | None:
    """The name of a table: that of its file, and of the chosen model if there are several.

    >>> titled("tables/fits.csv", "(2)"), titled(object(), "")
    ('fits.csv, (2)', None)
    """
    file = Path(table).name if isinstance(table, (str, Path)) else None
    return ", ".join(filter(None, (file, model))) or None


def regression(kind: str, labels: Sequence[str], response: str) -> tuple[Model, list[int]]:
    """The model of a regression table, and the positions of its lines in the order of the model's parameters."""
    if kind not in ESTIMATORS:
        raise BayesreconError(f"no regression {kind!r}{near(kind, ESTIMATORS)} (expected {', '.join(ESTIMATORS)})")
    constant = [i for i, x in enumerate(labels) if plain(x) in _INTERCEPT]
    sigma = [i for i, x in enumerate(labels) if plain(x) in _SIGMA] if kind == "ols" else []
    slopes = [i for i in range(len(labels)) if i not in constant and i not in sigma]
    if kind == "ols" and len(sigma) != 1:
        raise BayesreconError("a table of least squares needs one line 'sigma', the residual standard error")
    if len(constant) > 1:
        raise BayesreconError("the table has two intercepts")
    covariates = [field_name(labels[i]) for i in slopes]
    model = ESTIMATORS[kind](covariates, response, bool(constant))
    return model, [*constant, *slopes, *sigma]


def _with_factors(model: Model, factors: Sequence[Factor]) -> Model:
    """The model of a regression whose settings say which covariates are levels of one variable."""
    settings, columns = model.settings, {f.name: [field_name(c) for c in f.columns] for f in factors}
    usable = {
        name: columns_of for name, columns_of in columns.items() if set(columns_of) <= set(settings["covariates"])
    }
    arguments = settings["covariates"], settings["response"], settings["intercept"]
    return ESTIMATORS[model.name](*arguments, factors=usable)


def of_estimator(
    kind: str,
    labels: Sequence[str],
    response: str,
    values: np.ndarray,
    covariance: np.ndarray,
    scale: float,
    name: str,
    last_step: float = 0.0,
    penalty: np.ndarray | None = None,
    weights: str | None = None,
    records: float | None = None,
    offset: bool = False,
) -> Release:
    """Estimates and their covariance with all digits, as a release.

    Args:
        kind: "ols", "logit" or "poisson".
        labels: labels of the estimates, "const" for an intercept; others are names of covariates.
        values, covariance: `(p,)` and `(p, p)`.
        scale: residual variance of "ols".
        weights, records, offset: how the fit weighted records (`models.estimators.fitted_with`).
        last_step: length of the last step of iteratively reweighted least squares, in standard errors: the covariance
            is that of the weights before it. Predictors whose errors are below one move weights by that share at most,
            and what is left of the score is of second order.
        penalty: S `(p, p)` in the order of the labels, where the fit maximised the log likelihood less `b' S b / 2`:
            `covariance` is then that of the penalised fit.

    >>> release = of_estimator("logit", ["const", "x"], "y", np.array([0.1, 0.5]), np.eye(2) / 9, 1.0, "fit")
    >>> release.of.name
    'logit'
    """
    rows = [*labels, *(["sigma"] if kind == "ols" else [])]
    model, order = regression(kind, rows, response)
    if weights is not None or offset:
        model = fitted_with(model, weights=weights, records=records, offset=offset)
    at = order[: len(labels)]
    if penalty is not None:
        inside = penalty[np.ix_(at, at)]
        model = replace(model, log_prior_at=lambda p: -0.5 * p["coefficient"] @ inside @ p["coefficient"])
    mean, sd = values[at], np.sqrt(np.diag(covariance))[at]
    correlation = np.eye(len(order))
    correlation[: len(at), : len(at)] = covariance[np.ix_(at, at)] / np.outer(sd, sd)
    if kind == "ols":
        mean, sd = np.append(mean, np.sqrt(scale)), np.append(sd, 0.1 * np.sqrt(scale))
    pairs = np.full(len(mean) * (len(mean) - 1) // 2, last_step)
    return printed(
        model.in_constrained_coordinates,
        mean,
        sd,
        correlation,
        last_step**2 * sd,
        last_step * sd,
        pairs,
        draws=None,
        jacobian=None,
        coordinates="constrained",
        name=name,
        without_error=int(kind == "ols"),
    )


def _order(model: Model, labels: Sequence[str], coordinates: str) -> list[int]:
    expected = names_of(model, coordinates == "constrained")
    positions = {re.sub(r"\s", "", re.sub(r"\.(\d+)", r"[\1]", x)): i for i, x in enumerate(labels)}
    for name in expected:
        if name not in positions:
            raise BayesreconError(f"the table has no row for {name} of model {model.name}{near(name, positions)}")
    for name in positions:
        if name not in expected:
            raise BayesreconError(
                f"the table holds {name}, which model {model.name} does not have{near(name, expected)}"
            )
    return [positions[name] for name in expected]


def read_frame(table: object, description: str) -> "pd.DataFrame":
    """A DataFrame, or that of a CSV file, whose rows have different names."""
    import pandas as pd

    if isinstance(table, (str, Path)):
        path = Path(table)
        if not path.is_file():
            raise BayesreconError(f"{path}: no such file{beside(path)}")
        if path.stat().st_size > _MOST_BYTES:
            raise BayesreconError(f"{path}: more than {_MOST_BYTES // 2**20} MiB, too large for a table of estimates")
        with reading(path, "CSV"):
            content = asked(read_csv_texts, path)
        table = pd.DataFrame(content["cells"], content["rows"], content["columns"], dtype=object)
    if not isinstance(table, pd.DataFrame):
        raise BayesreconError(
            f"{description}: expected the path of a CSV file or a DataFrame, got a {type(table).__name__}"
        )
    if not len(table) or len(table) > MAX_NAMES:
        raise BayesreconError(f"{description} has {len(table)} rows")
    if table.index.duplicated().any():
        raise BayesreconError(f"{description} has two rows named {table.index[table.index.duplicated()][0]}")
    return table


def _correlations(matrix: "str | Path | pd.DataFrame | npt.ArrayLike", labels: Sequence[str]) -> PrintedNumbers:
    """Correlations of the estimates that have a standard error, in the order of the table."""
    import pandas as pd

    if isinstance(matrix, (str, Path, pd.DataFrame)):
        frame = read_frame(matrix, "the correlations")
        rows, columns = ([line_label(x) for x in axis] for axis in (frame.index, frame.columns))
        for label in labels:
            if label not in rows or label not in columns:
                raise BayesreconError(f"the correlations lack {label}{near(label, rows)}")
        matrix = [[frame.iloc[rows.index(a), columns.index(b)] for b in labels] for a in labels]
    size = len(labels)
    rows = [list(row) for row in np.asarray(matrix, object)] if np.ndim(matrix) == 2 else []
    if len(rows) != size or any(len(row) != size for row in rows):
        raise BayesreconError(f"correlations of {size} estimates are expected, ({size}, {size})")
    numbers = numbers_of([x for row in rows for x in row])
    values, half = numbers.values.reshape(size, size), numbers.half.reshape(size, size)
    upper = np.isnan(values) & ~np.isnan(values.T)  # triangles are printed
    values, half = np.where(upper, values.T, values), np.where(upper, half.T, half)
    if np.isnan(values).any():
        raise BayesreconError("a correlation is missing")
    if np.abs(values).max() > 1:
        i, j = divmod(int(np.argmax(np.abs(values))), size)
        raise BayesreconError(f"the correlation of {labels[i]} and {labels[j]} is {values[i, j]:g}, greater than one")
    if (np.abs(values - values.T) > half + half.T + 1e-12).any() or (np.diag(values) != 1).any():
        raise BayesreconError("the correlations are not symmetric with ones on the diagonal")
    return PrintedNumbers(0.5 * (values + values.T), half)


def _coarse(related: PrintedNumbers) -> bool:
    """Whether rounded correlations may be off by more than a small share of what is left of each estimate."""
    own, vectors = np.linalg.eigh(related.values)
    if own[0] <= 0:
        return True
    whiten = np.abs(vectors / np.sqrt(own))
    return float((whiten.T @ (related.half * (1 - np.eye(len(own)))) @ whiten).sum(axis=1).max()) > _COARSE


def release_of_table(source: object, model: object, power: float | None) -> Release | None:
    """The release of a regression's table; None for other sources."""
    if not is_table(source):
        return None
    if power is not None:
        raise BayesreconError("power= does not apply to a table of estimates: the likelihood is not tempered")
    if not isinstance(model, str) or model not in ESTIMATORS:
        raise BayesreconError(
            f"a table of estimates is read directly for model= {', '.join(ESTIMATORS)}; for another model, describe "
            "the estimates with posteriors.from_table"
        )
    return from_table(source, model)


SOURCE = release_of_table


# Formulas of models: which lines of a table are levels of one variable.

_LONGEST = 10_000  # letters of a formula
_CATEGORICAL = re.compile(r"(?:C|factor|as\.factor)\(\s*([\w.]+)")


def factors_of_formula(formula: str, labels: Sequence[str]) -> tuple[Factor, ...]:
    """The factors of a formula, with the lines of a table that are their levels.

    A variable is a factor where the formula says so (`C(g)`, `factor(g)`), or where lines begin with its name and none
    is its name. The formula is parsed, with `formulaic`, and nothing of it is evaluated.

    >>> [f.columns for f in factors_of_formula("y ~ g + x", ["gb", "gc", "x"])]
    [('gb', 'gc')]
    """
    variables = _variables(formula)
    by_factor: dict[str, dict[str, str]] = {}
    for label in labels:
        for part in parts_of(label):
            owner = max((v for v in variables if _is_of(part, v, variables)), key=len, default=None)
            if owner is None:
                raise BayesreconError(
                    f"no term of the formula {formula!r} matches the line {label!r} (variables: {', '.join(variables)})"
                )
            if variables[owner] or part not in (owner, f"C({owner})"):
                level = _level(part, owner)
                if level is not None:
                    by_factor.setdefault(owner, {})[part] = level
    return tuple(
        Factor(name, tuple(levels), (BASELINE, *levels.values()))
        for name, levels in by_factor.items()
        if "[" not in next(iter(levels))  # codings that names tell beyond doubt are read by their names
    )


def _variables(formula: str) -> dict[str, bool]:
    """Names of the variables on the right of a formula, and whether it says that they are factors."""
    try:
        from formulaic import Formula
    except ImportError:
        raise MissingExtraError("a formula", "formulas") from None
    if len(formula) > _LONGEST:
        raise BayesreconError(f"the formula has {len(formula)} characters; at most {_LONGEST} are accepted")
    text = re.sub(r"\b(?:as\.)?factor\(", "C(", formula)
    try:
        parsed = cast("Callable[[str], Iterable[Term]]", Formula)(text)
        right: Iterable[Term] = getattr(parsed, "rhs", parsed)
        factors = {str(factor.expr) for term in right for factor in term.factors}
    except Exception as error:
        raise BayesreconError(f"{formula!r} is not a formula: {first_line(error)}") from None
    variables: dict[str, bool] = {}
    for expression in factors - {"1", "0"}:
        stated = _CATEGORICAL.match(expression)
        name = stated[1] if stated is not None else expression
        variables[name] = variables.get(name, False) or stated is not None
    return variables


def _is_of(part: str, variable: str, variables: dict[str, bool]) -> bool:
    plain = re.sub(r"\s", "", part)
    name = re.sub(r"\s", "", variable)
    return (
        plain == name
        or bool(re.match(rf"(?:C|factor|as\.factor)\({re.escape(name)}\b", plain))
        or (plain.startswith(name) and (variables[variable] or plain not in variables))
    )


def _level(part: str, variable: str) -> str | None:
    """The level that a line is of, where the variable codes levels; None if it is a function of its values."""
    bare = re.sub(r"^(?:C|factor|as\.factor)\([^)]*\)", "", part)
    rest = bare if bare != part else part.removeprefix(variable)
    return None if not rest or (rest == part and "(" in part) else rest.strip("_ ") or rest
