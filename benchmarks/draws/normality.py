"""What it costs that estimators of decaying spectra are tuned with the noise of a normal law, where posteriors are not.

python -m benchmarks.draws.normality [family ...] [--sets 20] [--records 12] [--draws 2000]

Few records make posteriors skew and long-tailed. Where the spectrum decays, `recover` weighs what it leaves unseen
against the noise of the equations, and takes this noise from the normal distribution that has the draws' mean and
covariance; the errors that it states are those of the draws themselves.
"""

import warnings
from typing import Any

import numpy as np
from scipy.stats import kurtosis, skew

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.estimation.span import Fit, shrunk
from bayesrecon.evaluate import true_statistics
from bayesrecon.precision import in_float64
from benchmarks.study import Study, share, table
from tests.support.families import model_of, simulated

CHOSEN = ("negative binomial", "Weibull", "beta", "Student t", "truncated normal", "zero-inflated Poisson")
HEAD = ("family", "records", "draws", "sets", "skewness", "excess kurtosis", "noise", "5 to 95 %", "error")
HEAD += ("failed", "determined", "held", "95 %", "partly", "held", "95 %")

WORDS = """# Estimators tuned with the noise of a normal distribution, where posteriors are not normal

Made by `python -m benchmarks.draws.normality`. `recover` runs with default options on exact draws for simulated
data sets.

* *Skewness* and *excess kurtosis* are the largest of any parameter, as medians over data sets. For a normal
  distribution both are 0.
* *Noise* is the standard deviation of an estimated total for the actual draws, over that for a normal distribution with
  the same mean and covariance. Median and range are over the count, the sums and the sums of squares of the fields, and
  over data sets.
* *Error* is the root mean square error of these totals, over that of the same estimator tuned with the noise of the
  draws. Below 1 the normal distribution is the better choice.
* *Failed* counts data sets on which a check of draws and model failed, a false alarm here. They have no result. The
  nominal 95 % intervals are those of the other data sets.

{table}
"""


def moments(records: dict[str, np.ndarray], scale: dict[str, Any]) -> np.ndarray:
    """One, the scalar fields and their squares, in units of the generic records' spread, `(Q, P)`."""
    columns = [np.ones(len(next(iter(records.values()))))]
    for name in sorted(records):
        value = np.asarray(records[name], float) / np.maximum(scale[name], 1e-300)
        columns += [value, value**2]
    return np.stack(columns, axis=1)


def totals(solved: Fit, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    beta = solved.project(values).beta
    return solved.target @ beta, beta


@in_float64
def study(name: str, sets: int, records: int, draws: int) -> dict[str, Any] | None:
    model, bent, noisy, errors, failed = model_of(name), [], [], [], 0
    held: dict[str, list[bool]] = {"determined": [], "partly": []}
    for key in range(sets):
        data, release = simulated(name, model, key, draws, records)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                problem = solve_release(release, key=key)
                found = bayesrecon.recover(release, key=key, force=True)
            except BayesreconError as error:
                print(name, key, "refused:", error, flush=True)
                continue
        theta, solved, embedding = np.asarray(release.theta), problem.solved, problem.embedding
        bent.append([np.abs(skew(theta)).max(), kurtosis(theta).max()])
        truth = true_statistics(model, data)
        failed += not found.consistent
        for row in found.rows if found.consistent else ():
            if row.verdict in held and row.lower is not None and row.upper is not None:
                held[row.verdict].append(bool(row.lower <= truth[row.name] <= row.upper))
        if solved.ridge is None:
            continue
        own = embedding.noise(solved.basis, solved.y) / embedding.effective_size
        scale = problem.reference.scale
        wanted = moments(solved.probes, scale)
        true = moments({k: np.asarray(v) for k, v in data.items()}, scale).sum(axis=0)
        plain, beta = totals(solved, wanted)
        other, _ = totals(shrunk(solved, own), wanted)
        series = solved.influence(beta)[0]
        variance = solved.variance(beta)
        assert variance is not None
        noisy += list(series.std(axis=0) / np.sqrt(embedding.effective_size * variance) / solved.size)
        errors.append([plain - true, other - true])
    if not errors:
        return None
    # Every total in units of its own error, so that none outweighs the others.
    off = np.array(errors)
    unit = np.sqrt(np.mean(off[:, 1] ** 2, axis=0))
    ratio = float(np.sqrt(np.mean((off[:, 0] / unit) ** 2)))
    low, middle, high = np.quantile(noisy, (0.05, 0.5, 0.95))
    crooked = np.median(bent, axis=0)
    cells = [name, records, draws, len(bent), *(f"{v:.2g}" for v in crooked), f"{middle:.2f}"]
    cells += [f"{low:.2f} to {high:.2f}", f"{ratio:.2f}", f"{failed}"]
    return {"family": name, "cells": [*cells, *share(held["determined"]), *share(held["partly"])]}


def page(rows: list[dict[str, Any]]) -> str:
    return WORDS.format(table=table(HEAD, [r["cells"] for r in rows]))


STUDY = Study(__file__, page, empty=list)


def main() -> None:
    parser = STUDY.parser(__doc__, sets=20, records=12, draws=2000)
    parser.add_argument("families", nargs="*", default=list(CHOSEN), help=", ".join(CHOSEN))
    given = STUDY.given(parser)
    for name in given.families:
        row = study(name, given.sets, given.records, given.draws)
        print(*(row["cells"] if row else (name, "no data set with a spectrum that decays")), sep=" | ", flush=True)
        if row:
            held = {r["family"]: r for r in STUDY.kept()}
            STUDY.keep(list({**held, row["family"]: row}.values()))


if __name__ == "__main__":
    main()
