"""Results of statsmodels in files."""

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.posteriors.fits.regressions import how_fitted, labelled
from bayesrecon.posteriors.fits.saved.fits_of_saved import SavedReader, Values
from bayesrecon.posteriors.printed.estimates_in_files import field_name
from bayesrecon.posteriors.printed.summaries import of_estimator
from bayesrecon.releases import Release

_RESULTS = frozenset(
    ("OLSResults", "RegressionResults", "GLMResults", "LogitResults", "PoissonResults", "BinaryResults", "CountResults",
     "MixedLMResults")
)  # fmt: skip
_ATTRIBUTES = [
    "params", "normalized_cov_params", "cov_params_default", "scale", "_cache.scale", "cov_type", "_regularized",
    "model", "model.exog", "model.data.exog", "model.data.orig_exog", "model.data.orig_endog",
    "model.data._cache.xnames", "model.data._cache.ynames", "model.data.const_idx", "model.weights", "model.nobs",
    "model.offset", "model.exposure", "model.freq_weights", "model.var_weights", "model.n_trials", "model.family",
    "model.family._link", "mle_settings.optimizer",
]  # fmt: skip


def read(where: str, name: str, values: Values) -> Release:
    """The release that `from_statsmodels` gives for the same result in Python, also if its data were removed."""
    attributes = values(where, _ATTRIBUTES)
    kind = _estimator(name, attributes)
    robust = attributes.get("cov_type", "nonrobust") != "nonrobust"
    if robust and attributes.get("normalized_cov_params") is None:
        raise BayesreconError(f"cov_type={str(attributes['cov_type'])[:20]!r} is not the inverse of a Hessian")
    if "l1" in str(attributes.get("mle_settings.optimizer", "")) or attributes.get("_regularized"):
        raise BayesreconError("a regularised fit has no covariance of this kind")
    trials = attributes.get("model.n_trials")
    if trials is not None and np.size(trials) and not np.all(np.asarray(trials, float) == 1):
        raise BayesreconError("a fit with n_trials is not supported")
    # `weights` of a GLM are those of the last step of its fit.
    weights = ["weights"] if _class(attributes.get("model")) == "WLS" else []
    options = {k: attributes.get(f"model.{k}") for k in ("offset", "exposure", "freq_weights", "var_weights", *weights)}
    weighting = how_fitted(kind, options, attributes.get("model.nobs"))
    params = np.asarray(attributes["params"], float).ravel()
    covariance, scale = _covariance(kind, {**attributes, "cov_params_default": None} if robust else attributes)
    names = _names(attributes, len(params))
    if covariance.shape != (len(params),) * 2 or not np.isfinite(covariance).all() or not np.isfinite(params).all():
        raise BayesreconError(f"this {name} has no covariance of its estimates")
    response = _first_text(attributes.get("model.data._cache.ynames"), attributes.get("model.data.orig_endog")) or "y"
    constant = _constant(attributes, names)
    return of_estimator(
        kind, labelled(names, constant), field_name(response), params, covariance, scale, name, **weighting
    )


def _estimator(name: str, attributes: Json) -> str:
    model = _class(attributes.get("model"))
    if name == "GLMResults":
        pair = _class(attributes.get("model.family")), _class(attributes.get("model.family._link")).lower()
        known = {("Binomial", "logit"): "logit", ("Poisson", "log"): "poisson", ("Gaussian", "identity"): "ols"}
        if pair in known:
            return known[pair]
        raise BayesreconError(f"a GLM of family {pair[0] or '?'} with link {pair[1] or '?'} is not supported")
    if model in ("OLS", "Logit", "Poisson"):
        return model.lower()
    if model == "WLS":
        return "ols"
    raise BayesreconError(f"{model or name} is not read from a file")


def _class(value: object) -> str:
    return str(value["class"]).rpartition(".")[2] if isinstance(value, dict) else ""


def _covariance(kind: str, attributes: Json) -> tuple[np.ndarray, float]:
    """Covariance of the estimates including the scale, as `cov_params()` of a non-robust fit returns it."""
    stated = attributes.get("scale", attributes.get("_cache.scale"))
    default = attributes.get("cov_params_default")
    if stated is None and (kind == "ols" or (default is None and attributes.get("normalized_cov_params") is None)):
        raise BayesreconError(
            "its residual variance was not computed before it was saved. It could be computed from the data, but if "
            "they are in the file no attack is needed"
        )
    scale = float(stated) if stated is not None else 1.0
    if default is not None:
        return np.asarray(default, float), scale
    return np.asarray(attributes["normalized_cov_params"], float) * scale, scale


def _names(attributes: Json, count: int) -> list[str]:
    for stated in (attributes.get("model.data._cache.xnames"), attributes.get("model.data.orig_exog")):
        names = [str(n) for n in np.ravel(np.asarray(stated))] if stated is not None else []
        if len(names) == count:
            return names
    position = attributes.get("model.data.const_idx")
    return ["const" if k == position else f"x{k}" for k in range(count)]


def _first_text(*stated: object) -> str:
    """The first value that is one text; empty if none is."""
    for value in stated:
        if isinstance(value, str):
            return value
        if value is not None and np.asarray(value).size == 1 and np.asarray(value).dtype.kind in "OU":
            return str(np.ravel(np.asarray(value))[0])
    return ""


def _constant(attributes: Json, names: list[str]) -> list[int]:
    for design in (attributes.get("model.exog"), attributes.get("model.data.exog")):
        if isinstance(design, np.ndarray) and design.ndim == 2 and design.shape[1] == len(names):
            return [i for i in range(len(names)) if len(design) and np.all(design[:, i] == 1)]
    position = attributes.get("model.data.const_idx")
    if position is None:
        return []
    if not 0 <= int(position) < len(names) or names[int(position)].lower() not in ("intercept", "const"):
        raise BayesreconError("its design was removed, so it is unknown whether its constant column is all ones")
    return [int(position)]


SAVED = SavedReader("statsmodels", _RESULTS, read)
