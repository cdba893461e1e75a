"""A small fit of a linear regression with everything that samplers write beside the draws, from SciPy alone."""

import numpy as np
from scipy import stats

SIZE, CHAINS, LENGTH = 40, 2, 300


def records(seed=0):
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(100, 15, SIZE), 3)
    return {"mom_iq": x, "kid_score": np.round(26 + 0.6 * x + rng.normal(0, 18, SIZE))}


def draws(data, seed=1):
    """Exact draws of kidscore_momiq but for the scale's prior, `{name: (chains, draws, ...)}`."""
    rng = np.random.default_rng(seed)
    x, y = data["mom_iq"], data["kid_score"]
    design = np.column_stack([np.ones(SIZE), x])
    mean, (residual,), _, _ = np.linalg.lstsq(design, y)
    sigma = np.sqrt(residual / 2 / rng.gamma((SIZE - 2) / 2, size=(CHAINS, LENGTH)))
    root = np.linalg.inv(np.linalg.cholesky(design.T @ design))
    return {"beta": mean + sigma[..., None] * (rng.normal(size=(CHAINS, LENGTH, 2)) @ root), "sigma": sigma}


def log_lik(data, values):
    """`(chains, draws, N)`."""
    mean = values["beta"][..., :1] + values["beta"][..., 1:] * data["mom_iq"]
    return stats.norm.logpdf(data["kid_score"], mean, values["sigma"][..., None])


def lp(data, values):
    """Stan's `lp__` of kidscore_momiq: the Jacobian of a positive scale included, constants dropped."""
    prior = stats.cauchy.logpdf(values["sigma"], 0, 2.5) + np.log(values["sigma"])
    return log_lik(data, values).sum(axis=-1) + prior + 0.5 * SIZE * np.log(2 * np.pi)


def replicated(data, values, seed=2):
    """Posterior predictive draws of kid_score, `(chains, draws, N)`."""
    rng = np.random.default_rng(seed)
    mean = values["beta"][..., :1] + values["beta"][..., 1:] * data["mom_iq"]
    return mean + values["sigma"][..., None] * rng.normal(size=mean.shape)


def write_cmdstan(folder, columns, comments=(), name="fit", digits=6, tail="#  Elapsed Time: 0.1 seconds\n"):
    """CmdStan's CSV files, one a chain; `columns` is `{scalar name: (chains, draws)}`."""
    table = np.stack(list(columns.values()), axis=-1)
    paths = []
    for c, rows in enumerate(table, 1):
        path = folder / f"{name}-{c}.csv"
        with path.open("w") as file:
            file.writelines(f"# {line}\n" for line in comments)
            file.write(",".join(columns) + "\n")
            file.write("# Adaptation terminated\n# Step size = 0.8\n")
            file.write("# Diagonal elements of inverse mass matrix:\n# 30.1, 0.003, 0.01\n")
            file.writelines(",".join(f"{v:.{digits}g}" for v in row) + "\n" for row in rows)
            file.write(tail)
        paths.append(path)
    return paths


def scalar_columns(**arrays):
    """CmdStan's names of the entries of arrays `(chains, draws, *shape)`."""
    columns = {}
    for name, values in arrays.items():
        if values.ndim == 2:
            columns[name] = values
        for k in range(values.shape[2] if values.ndim == 3 else 0):
            columns[f"{name}.{k + 1}"] = values[:, :, k]
    return columns
