"""Time and memory of `recover`, and the kernel accumulation beside a NumPy matrix product of the same flops.

python benchmarks/speed.py            # needs POSTERIOR_DB_PATH for the first two rows
"""

import resource
import subprocess
import sys
import time

import numpy as np
import numpyro
import numpyro.distributions as dist
from rich.console import Console
from rich.table import Table

import bayesrecon
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.solve import find_basis
from bayesrecon.kernels.adaptive import AdaptiveEmbedding
from bayesrecon.kernels.metric import metric_factor
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws, from_posteriordb
from bayesrecon.precision import x64

COVARIATES, RECORDS, DRAWS = 25, 5000, 10_000


def wide_release():
    """Exact draws of a 26-parameter regression without intercept: 352 features of the data."""

    def regression(x, y):
        variance = numpyro.sample("variance", dist.InverseGamma(2.0, 1.0))
        beta = numpyro.sample("beta", dist.Normal(0, 10).expand((COVARIATES,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(x @ beta, variance**0.5), obs=y)

    rng = np.random.default_rng(0)
    x = rng.normal(size=(RECORDS, COVARIATES)) @ rng.normal(size=(COVARIATES, COVARIATES)) / 5
    y = x @ rng.normal(size=COVARIATES) + rng.normal(size=RECORDS)
    model = from_numpyro(regression, {"x": (COVARIATES,), "y": ()})
    # Gibbs sampling by its two exact conditionals, thinned until draws are all but independent.
    gram, cross, variance = x.T @ x, x.T @ y, 1.0
    values, vectors = np.linalg.eigh(gram)
    betas, variances = np.empty((DRAWS, COVARIATES)), np.empty(DRAWS)
    for t in range(-20, DRAWS):
        for _ in range(3):
            scale = 1 / (values / variance + 0.01)
            beta = vectors @ (scale * (vectors.T @ cross) / variance + np.sqrt(scale) * rng.normal(size=COVARIATES))
            squares = y @ y - 2 * beta @ cross + beta @ gram @ beta
            variance = (1.0 + squares / 2) / rng.gamma(2.0 + RECORDS / 2)
        if t >= 0:
            betas[t], variances[t] = beta, variance
    return from_draws({"variance": variances[None], "beta": betas[None]}, model, name="26 parameters")


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def accumulation(release):
    """Seconds of the Gram accumulation and of plain NumPy products with the same flops, taken in turn."""
    with x64():
        embedding = AdaptiveEmbedding(release, metric_factor(release, None))
        reference = Reference(
            release.model.fields,
            centre={"x": np.zeros(COVARIATES), "y": 0.0},
            scale={"x": np.ones(COVARIATES), "y": 1.0},
        )
        _, basis, _ = find_basis(embedding, reference, np.random.default_rng(0))
        embedding.moments(basis)
        r, d, chunk = basis.size, embedding.metric.shape[1], embedding._chunk(basis.records)
        phi = np.random.default_rng(1).normal(size=(chunk * d, r))
        ours, theirs = [], []
        for _ in range(3):
            ours.append(timed(lambda: embedding.moments(basis))[0])
            theirs.append(
                timed(lambda: [(p := phi @ basis.coefficients).T @ p for _ in range(release.size // chunk)])[0]
            )
    return min(ours), min(theirs), r, 4 * release.size * d * r**2


def main() -> None:
    table = Table(title="time and memory of recover")
    for heading in ("what", "seconds", "bound"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    command = [sys.executable, "-m", "bayesrecon", "recover", "kidiq-kidscore_momiq", "--json"]
    seconds, _ = timed(lambda: subprocess.run(command, check=True, capture_output=True))
    table.add_row("whole process, kidiq-kidscore_momiq --json, imports and compilation included", f"{seconds:.1f}", "8")
    release = from_posteriordb("kidiq-kidscore_momiq")
    bayesrecon.recover(release)
    seconds, _ = timed(lambda: bayesrecon.recover(release))
    table.add_row("second call in one session", f"{seconds:.3f}", "0.15")
    wide = wide_release()
    seconds, result = timed(lambda: bayesrecon.recover(wide))
    table.add_row(f"26 parameters, 10,000 draws, {result.rank} features, first call", f"{seconds:.1f}", "60")
    table.add_row("  n recovered (true 5000)", f"{result['n'].estimate:.0f} ± {result['n'].se:.0f}", "")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    table.add_row("  peak resident memory, GiB", f"{peak:.2f}", "4")
    ours, numpy, r, flops = accumulation(wide)
    table.add_section()
    table.add_row(f"kernel accumulation at rank {r} ({flops / 1e9:.0f} GFlop, scores included)", f"{ours:.2f}", "")
    table.add_row("NumPy matrix products of the same flops", f"{numpy:.2f}", "")
    table.add_row("ratio", f"{ours / numpy:.2f}", "")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
