"""Linear estimators of scikit-learn out of files."""

from types import SimpleNamespace

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.fits.estimators import LINEAR, of_linear
from bayesrecon.posteriors.fits.saved.fits_of_saved import SavedReader, Values
from bayesrecon.releases import Release

_ATTRIBUTES = [
    "coef_", "intercept_", "fit_intercept", "alpha", "positive", "penalty", "C", "l1_ratio", "solver",
    "intercept_scaling", "classes_", "multi_class", "class_weight", "loss", "_sklearn_version",
    "alpha_", "C_", "l1_ratio_", "refit",
]  # fmt: skip


def read(where: str, name: str, values: Values) -> Release | None:
    """As `from_sklearn` reads the same estimator in Python.

    Raises:
        BayesreconError: as there.
    """
    given = {k: v for k, v in values(where, _ATTRIBUTES).items() if not isinstance(v, dict)}
    if "coef_" not in given:
        return None
    if not np.isfinite(np.asarray(given["coef_"], float)).all():
        raise BayesreconError(f"coefficients of this {name} are not numbers")
    return of_linear(name, SimpleNamespace(**given), name)


SAVED = SavedReader("sklearn", frozenset(LINEAR), read)
