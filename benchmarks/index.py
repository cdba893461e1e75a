"""The characteristic index against the number of records: what a bigger data set hides and what it does not.

python benchmarks/index.py

A kernel of finite rank sees the same number of features at every N; only their errors grow, with the count
itself (relative error of n: about the same at every N). A kernel whose spectrum decays sees the data
through parameters that vary less and less, and its index falls towards that of its quadratic approximation.
"""

import numpy as np
from rich.console import Console
from rich.table import Table

import bayesrecon
from bayesrecon.models import load
from bayesrecon.models.glm import logistic_regression, poisson_regression
from bayesrecon.posteriors import nuts

RECORDS = (30, 100, 300, 1000, 3000)


def simulate(kind, count, rng):
    x = rng.normal(0.3, 1.0, count)
    if kind == "linear":
        return load("linear_regression", covariates=["x"], response="y"), {"x": x, "y": 1 + x + rng.normal(size=count)}
    if kind == "logistic":
        y = (rng.random(count) < 1 / (1 + np.exp(-0.3 - x))).astype(int)
        return logistic_regression(), {"x": x, "y": y}
    return poisson_regression(), {"x": x, "y": rng.poisson(np.exp(0.5 + 0.4 * x))}


table = Table("model", "N", "kernel", "index with 4,000 draws", "recovered n", "se / n")
for kind in ("linear", "logistic", "Poisson"):
    for count in RECORDS:
        model, data = simulate(kind, count, np.random.default_rng(count))
        release = nuts(model, data, key=count, draws=1000)
        found, n = bayesrecon.diagnose(release), bayesrecon.recover(release)["n"]
        kernel = f"rank {found.rank}" if found.gap else "decays"
        table.add_row(kind, f"{count}", kernel, f"{found.index:.1f}", f"{n.estimate:.0f}", f"{n.se / n.estimate:.1%}")
Console().print(table)
