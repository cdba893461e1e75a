"""Results of statsmodels as releases: tables of estimates in full precision."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.posteriors.fits.mixed import from_mixed
from bayesrecon.posteriors.printed.estimates_in_files import field_name, last_step
from bayesrecon.posteriors.printed.summaries import of_estimator
from bayesrecon.releases import Release


def from_statsmodels(result: Any, *, response: str | None = None, name: str | None = None) -> Release:
    """A release from a fitted statsmodels result.

    | fit | its covariance | the model of the release |
    |---|---|---|
    | `OLS`, `GLM` (Gaussian) | `scale (X'X)^-1`, `scale = RSS / (n - p)` | "ols" |
    | `Logit`, `GLM` (Binomial, logit link) | inverse of minus the Hessian | "logit" |
    | `Poisson`, `GLM` (Poisson, log link) | inverse of minus the Hessian | "poisson" |
    | `WLS` | `scale (X'WX)^-1`, `scale = sum w r^2 / (n - p)` | "ols", weighted |
    | `MixedLM` by maximum likelihood | the same, the scale profiled out | `models.mixed` |

    Records are the rows of the design without the column of ones. For a `MixedLM` they are the groups, with the means
    of their rows and the scatter around them. The groups have the weights of the fit if sizes vary or slopes are random
    (`models.mixed`).

    Integer `freq_weights` count a record repeatedly. For a `WLS`, and for a GLM with other weights, totals are sums of
    weights, and means and variances are weighted. An `offset` in least squares is an additional, unknown field of the
    record.

    A result with a robust, clustered or HAC covariance also stores the non-robust one (`normalized_cov_params`), which
    is used.

    Args:
        response: name of the response. Defaults to the name in the result.

    Raises:
        BayesreconError: the model or link is not supported; the covariance is no inverse Hessian and no other one is
            stored; a `MixedLM` has weights or was fitted by REML, which does not factorise over groups; both kinds of
            weights are used; a fit other than least squares has an offset or exposure; the fit is regularised; or data
            were removed before the scale was computed.

    >>> import statsmodels.api as sm
    >>> from_statsmodels(sm.OLS([1.0, 2.0, 2.5, 4.0], sm.add_constant([0.0, 1.0, 2.0, 3.0])).fit()).temperature
    0.0
    """
    fitted = getattr(result, "model", None)
    kind = type(fitted).__name__
    if fitted is None or not hasattr(result, "cov_params"):
        raise BayesreconError(f"expected the result of a statsmodels fit, got a {type(result).__name__}")
    estimator = kind if kind == "MixedLM" else _estimator_of(kind, fitted)
    robust = getattr(result, "cov_type", "nonrobust")
    if robust != "nonrobust" and (kind == "MixedLM" or getattr(result, "normalized_cov_params", None) is None):
        raise BayesreconError(f"cov_type={robust!r} is not an inverse Hessian; fit with cov_type='nonrobust'")
    if getattr(result, "regularized", False) or "Regularized" in type(result).__name__:
        raise BayesreconError("a regularised fit has no covariance of this kind; fit without a penalty")
    attributes = ("offset", "exposure", "freq_weights", "var_weights", *(["weights"] if kind == "WLS" else []))
    options = {name: getattr(fitted, name, None) for name in attributes}
    weighting = how_fitted(estimator, options, getattr(fitted, "nobs", None))
    if kind == "MixedLM":
        return from_mixed(result, response, name)
    design = getattr(fitted, "exog", None)
    try:
        names = [str(n) for n in fitted.exog_names]
        response = response or field_name(str(fitted.endog_names))
        values, scale = np.asarray(result.params, float), float(getattr(result, "scale", 1.0))
        stored = (
            result.cov_params() if robust == "nonrobust" else scale * np.asarray(result.normalized_cov_params, float)
        )
        covariance = np.asarray(stored, float)
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        if design is not None:
            raise
        raise BayesreconError(
            f"the data of this {kind} were removed before its residual variance was computed "
            f"({type(error).__name__}); ask for result.scale before result.remove_data()"
        ) from None
    constant = _ones(design, names, getattr(getattr(fitted, "data", None), "const_idx", None))
    labels = labelled(names, constant)
    step = _last_step(result) if kind == "GLM" and estimator != "ols" else 0.0
    release = of_estimator(estimator, labels, response, values, covariance, scale, name or kind, step, **weighting)
    if robust == "nonrobust":
        return release
    note = (
        f"the result stores the inverse Hessian beside its covariance ({robust}), and the Hessian was used; a table "
        "with the robust errors alone would reveal less"
    )
    return replace(release, notes=(*release.notes, note))


def how_fitted(estimator: str, options: Json, records: float | None) -> Json:
    """Weights and offset of a fit, as arguments of `models.estimators.fitted_with`.

    Args:
        estimator: name of the estimator, such as "ols".
        options: weights, offset and exposure of the fit, by the name of the attribute.
        records: number of records, None if unknown.
    """
    used = {name: np.asarray(v, float) for name, v in options.items() if v is not None and np.size(v)}
    used = {name: v for name, v in used.items() if not np.all(v == (1.0 if name.endswith("weights") else 0.0))}
    if used.keys() & {"offset", "exposure"} and estimator != "ols":
        raise BayesreconError(
            f"{estimator} fits with an offset or exposure are not supported: the offset enters every equation"
        )
    if used and estimator == "MixedLM":
        raise BayesreconError(f"{next(iter(used))} of a MixedLM is not supported; fit without it")
    result: Json = {"offset": True} if used.keys() & {"offset", "exposure"} else {}
    counts = used.get("freq_weights")
    whole_counts = counts is None or bool(np.all(counts == np.round(counts)))
    others = used.keys() & {"var_weights", "weights"}
    if counts is not None and (others or (estimator == "ols" and not whole_counts)):
        raise BayesreconError(
            "freq_weights must be whole numbers and the only weights; pass other weights as var_weights"
        )
    removed = options.get("weights", ()) is None  # of a WLS whose data were removed
    if others or not whole_counts or removed:
        return result | {"weights": "analytic", "records": None if records is None else float(records)}
    return result if counts is None else result | {"weights": "frequency"}


def _last_step(result: object) -> float:
    """Length of the last step of a GLM, from the change of its deviance, or from the tolerance if it is not stored."""
    deviances = (getattr(result, "fit_history", None) or {}).get("deviance", ())
    if len(deviances) < 2 or not np.isfinite(deviances[-2:]).all():
        return last_step(_TOLERANCE, 0.0)
    return last_step(abs(float(deviances[-2] - deviances[-1])), float(deviances[-1]))


_TOLERANCE = 1e-8  # of statsmodels: largest change of the deviance in the last step


def _ones(design: np.ndarray | None, names: Sequence[str], stated: int | None) -> Sequence[int]:
    """Positions of the columns of a design that are all ones.

    Args:
        design: the design; None if it was removed.
        names: names of its columns.
        stated: position of the constant column that the fit stores.
    """
    if design is not None:
        columns = np.asarray(design, float)
        return [i for i in range(len(names)) if np.all(columns[:, i] == 1)]
    if stated is None:
        return []
    if not 0 <= int(stated) < len(names) or names[int(stated)].lower() not in ("intercept", "const"):
        raise BayesreconError("the design was removed, so it is unknown whether its constant column is all ones")
    return [int(stated)]


def labelled(names: Sequence[str], constant: Sequence[int]) -> list[str]:
    """Names of a design's columns as in a printed table. `constant` has the positions of the columns of ones."""
    return ["const" if i in constant else field_name(n) for i, n in enumerate(names)]


_UNSUPPORTED = {
    "GLS": "its covariance is that of sums that mix records",
    "GLSAR": "its records are first filtered by an estimated correlation, so each row combines several records",
    "RLM": "its covariance is not an inverse Hessian, and its records are weighted by their residuals",
    "QuantReg": "its loss is not smooth at records that are fitted exactly, and its covariance is a kernel estimate",
}
"""Common models that are not supported, and the reason."""


def _estimator_of(kind: str, fitted: Any) -> str:
    if kind in ("OLS", "Logit", "Poisson"):
        return kind.lower()
    if kind == "WLS":
        return "ols"
    if kind == "GLM":
        family, link = type(fitted.family).__name__, type(fitted.family.link).__name__
        result = {("Binomial", "Logit"): "logit", ("Poisson", "Log"): "poisson", ("Gaussian", "Identity"): "ols"}
        if (family, link) in result:
            if family == "Binomial" and np.any(np.asarray(fitted.n_trials) != 1):
                raise BayesreconError(
                    "a Binomial GLM with several trials per row is not supported; use one row per trial"
                )
            return result[family, link]
        raise BayesreconError(
            f"a GLM of family {family} with link {link} is not supported: its covariance is not an inverse Hessian"
        )
    reason = f": {_UNSUPPORTED[kind]}" if kind in _UNSUPPORTED else ""
    raise BayesreconError(
        f"{kind} is not supported{reason}; expected OLS, WLS, Logit, Poisson, GLM or MixedLM, or posteriors.gaussian "
        "with a model"
    )


FIT = ("statsmodels", from_statsmodels)
"""The library of the fits, and the function that reads them."""
