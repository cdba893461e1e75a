"""Linear predictors of each loss, and scikit-learn's fits of them."""

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from bayesrecon.models import load

RNG = np.random.default_rng(0)
X = RNG.normal(0.5, 1, (300, 5))
SCORE = X @ [1.0, -1.0, 0.5, 0.0, 1.5] + RNG.normal(size=300)
EXACT = {"tol": 1e-12, "max_iter": 100_000}
CASES = {
    "squared": (1, SCORE, 0.0, Ridge(2.0)),
    "logistic": (1, (SCORE > 0.5).astype(int), 0.0, LogisticRegression(C=0.5, solver="newton-cg", **EXACT)),
    "softmax": (3, np.digitize(SCORE, [0, 1.5]), 0.0, LogisticRegression(C=0.5, solver="newton-cg", **EXACT)),
    "squared_hinge": (1, (SCORE > 0.5).astype(int), 2.0, LinearSVC(C=0.5, dual=False, **EXACT)),
}


def make(loss, outputs=1, features=5, penalty=2.0, **settings):
    return load("linear_predictor", loss=loss, features=features, outputs=outputs, penalty=penalty, **settings)
