"""Linear estimators of scikit-learn in files."""

from types import SimpleNamespace

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.fits.estimators import LINEAR, of_linear
from bayesrecon.posteriors.fits.saved.fits_of_saved import SavedReader, Values
from bayesrecon.releases import Release

_ATTRIBUTES = [
    "coef_", "intercept_", "fit_intercept", "alpha", "positive", "penalty", "C", "l1_ratio", "solver",
    "intercept_scaling", "classes_", "multi_class", "class_weight", "loss", "_sklearn_version",
    "alpha_", "C_", "l1_ratio_", "refit", "tol", "n_iter_", "max_iter", "solver_", "feature_names_in_",
]  # fmt: skip


def read(where: str, name: str, values: Values) -> Release | None:
    """The release that `from_sklearn` gives for the same estimator in Python; None if it is not fitted."""
    attributes = {k: v for k, v in values(where, _ATTRIBUTES).items() if not isinstance(v, dict)}
    if "coef_" not in attributes:
        return None
    if not np.isfinite(np.asarray(attributes["coef_"], float)).all():
        raise BayesreconError(f"coefficients of this {name} are not numbers")
    return of_linear(name, SimpleNamespace(**attributes), name)


SAVED = SavedReader("sklearn", frozenset(LINEAR), read)
