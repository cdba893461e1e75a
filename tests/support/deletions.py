"""Files around deletions: ridge regressions with and without a record, and tables of the records."""

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge

from bayesrecon.posteriors import from_sklearn, save_trained

NAMES = ["a", "b", "c", "d"]


def write(path):
    """The folder, and the first deleted record."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4))
    y = x @ [1.0, 0.5, -1.0, 0.0] + rng.normal(size=400)
    save_trained(from_sklearn(Ridge(1.0).fit(x[:200], y[:200])), path / "before.npz")
    save_trained(from_sklearn(Ridge(1.0).fit(x[1:200], y[1:200])), path / "after.npz")
    save_trained(from_sklearn(Ridge(1.0).fit(np.delete(x[:200], 1, 0), np.delete(y[:200], 1))), path / "second.npz")
    for name, rows in (("deleted", slice(0, 2)), ("public", slice(200, 400)), ("members", slice(0, 200))):
        pd.DataFrame(x[rows], columns=NAMES).assign(y=y[rows]).to_csv(path / f"{name}.csv", index=False)
    return path, x[0]
