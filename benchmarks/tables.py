"""What summaries give away: modes with covariances, moments of draws, printed regression tables. Writes TABLES.md.

    python benchmarks/tables.py [posteriors]      needs POSTERIOR_DB_PATH; about 20 minutes on two cores

Every release is made from the data, and every statistic compared with them afterwards.
"""

import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from summaries import cut

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import true_statistics
from bayesrecon.models import find
from bayesrecon.posteriors import from_posteriordb, from_table, gaussian
from bayesrecon.posteriors.database import open_database, read_data
from bayesrecon.precision import x64

PAGE = Path(__file__).resolve().parent / "TABLES.md"
POSTERIORS = (
    "kidiq-kidscore_momiq",
    "kidiq-kidscore_momhs",
    "kidiq-kidscore_interaction",
    "kidiq_with_mom_work-kidscore_interaction_c2",
    "earnings-earn_height",
    "earnings-logearn_height_male",
    "mesquite-logmesquite_logvolume",
    "mesquite-logmesquite_logva",
    "kilpisjarvi_mod-kilpisjarvi",
)
SIMULATED = 300

INTRODUCTION = """# What summaries give away

Made by `python benchmarks/tables.py`. A posterior is summarised in four ways, and `recover` is given the summary alone:
its mode with the inverse of minus the Hessian there (Laplace) at full precision and printed with 4 and 3 significant
digits (mean and standard deviations; correlations with as many decimals), and the mean and covariance of its reference
draws. *Error* is the largest relative error of the determined statistics, *inside* how many true values the bounds
hold, *width* that of the bounds of n, *z* the root mean square of errors over standard errors. A dash: nothing was
stated, since rounding moves the covariance beyond what the first order tells.
"""


def mode(model, records, start):
    """The mode in unconstrained coordinates with the Jacobian, and the inverse of minus the Hessian."""

    def log_posterior(t):
        terms = jax.vmap(model.log_lik, in_axes=(None, 0))(t, records)
        return terms.sum() + model.log_prior(t) + model.log_det(t)

    derivatives = jax.jit(lambda t: (jax.grad(log_posterior)(t), jax.hessian(log_posterior)(t)))
    at = start
    for _ in range(100):
        slope, hessian = (np.asarray(x) for x in derivatives(at))
        step = np.linalg.solve(hessian, slope)
        at = at - step
        if np.abs(step / np.sqrt(np.diag(np.linalg.inv(-hessian)))).max() < 1e-11:
            break
    return at, np.linalg.inv(-np.asarray(derivatives(at)[1]))


def one(name: str) -> dict[str, str]:
    database, release = open_database(), from_posteriordb(name)
    model, theta = release.model, np.asarray(release.theta)
    records = find(model.name).records(read_data(database, name.split("-")[0]))
    truth = true_statistics(model, records)
    with x64():
        at, covariance = mode(model, records, theta.mean(axis=0))
    row = {"posterior": name, "N": f"{truth['n']:.0f}", "d": f"{model.dimension}"}
    found = bayesrecon.recover(gaussian(model, at, covariance, jacobian=True))
    seen = [r for r in found if r.verdict == "determined"]
    scale = [abs(truth[r.name]) if abs(truth[r.name]) > 1e-9 else 1.0 for r in seen]
    worst = max(abs(r.estimate - truth[r.name]) / s for r, s in zip(seen, scale, strict=True))
    row |= {"n": f"{found['n'].estimate:.9g}", "error": f"{worst:.0e}", "seen": f"{len(seen)}/{len(found)}"}
    for digits in (4, 3):
        try:
            printed = gaussian(model, *cut(at, covariance, digits), jacobian=True, digits=digits)
            found = bayesrecon.recover(printed)
        except BayesreconError:
            found = ()
        seen = [r for r in found if r.verdict == "determined"]
        inside = sum(r.lower <= truth[r.name] + 1e-9 and truth[r.name] - 1e-9 <= r.upper for r in seen)
        n = next((r for r in seen if r.name == "n"), None)
        row |= {
            f"n, {digits} digits": f"{n.estimate:.5g}" if n else "–",
            f"inside, {digits}": f"{inside}/{len(seen)}" if seen else "–",
            f"width, {digits}": f"{n.upper - n.lower:.2g}" if n else "–",
        }
    found = bayesrecon.recover(gaussian(model, theta.mean(axis=0), np.cov(theta.T), draws=len(theta)))
    z = [(r.estimate - truth[r.name]) / r.se for r in found if r.verdict == "determined" and r.se]
    n = found["n"]
    row |= {"n of draws' moments": f"{n.estimate:.5g} ± {n.se:.2g}" if n.se else "–"}
    row |= {"z": f"{np.sqrt(np.mean(np.square(z))):.2f}" if z else "–"}
    return row


def simulated(count: int, digits: int = 3) -> tuple[str, list[float]]:
    """Regression tables by chance: how often the bounds hold."""
    rng, held, stated, silent, widths = np.random.default_rng(0), 0, 0, 0, []
    for _ in range(count):
        size, centre, spread = int(rng.integers(50, 500)), 2 * rng.normal(), 1 + rng.gamma(2.0)
        x = rng.normal(centre, spread, size)
        y = rng.normal() + rng.normal() * x + rng.normal(0, rng.gamma(3.0), size)
        design = np.column_stack([np.ones(size), x])
        beta, rss, *_ = np.linalg.lstsq(design, y, rcond=None)
        scale = float(rss[0]) / (size - 2)
        covariance = scale * np.linalg.inv(design.T @ design)
        se = np.sqrt(np.diag(covariance))
        related = f"{covariance[0, 1] / se[0] / se[1]:#.{digits}g}"
        lines = {
            "coef": [f"{v:#.{digits}g}" for v in (*beta, np.sqrt(scale))],
            "se": [*(f"{v:#.{digits}g}" for v in se), ""],
        }
        table = pd.DataFrame(lines, index=["const", "x", "sigma"])
        found = bayesrecon.recover(from_table(table, "ols", correlations=[["1", related], [related, "1"]]))
        if found.failures:
            silent += 1
            continue
        truth = {"n": size, "mean(x)": x.mean(), "mean(y)": y.mean(), "var(x)": x.var(), "var(y)": y.var()}
        truth["cov(x,y)"] = float(np.cov(x, y, ddof=0)[0, 1])
        stated += len(truth)
        held += sum(found[k].lower <= v <= found[k].upper for k, v in truth.items())
        widths.append((found["n"].upper - found["n"].lower) / size)
    text = (
        f"{count} simulated linear regressions of 50 to 500 records on one covariate, printed at {digits} digits: "
        f"bounds hold {held} of {stated} true values ({held / stated:.2%}); nothing was stated for {silent} tables; "
        f"the bounds of n are {np.median(widths):.1%} of n wide (median)."
    )
    return text, widths


def main() -> None:
    warnings.simplefilter("ignore")
    rows, began = [], time.perf_counter()
    for name in sys.argv[1:] or POSTERIORS:
        rows.append(one(name))
        print(rows[-1], f"{time.perf_counter() - began:.0f} s", flush=True)
    text, _ = simulated(SIMULATED)
    print(text)
    lines = [INTRODUCTION, "| " + " | ".join(rows[0]) + " |", "| --- |" + " ---: |" * (len(rows[0]) - 1)]
    lines += ["| " + " | ".join(row.values()) + " |" for row in rows]
    PAGE.write_text("\n".join([*lines, "", "## Printed regression tables", "", text]) + "\n")


if __name__ == "__main__":
    main()
