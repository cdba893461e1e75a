"""Score-matching objectives side by side: efficiency and time, as the page benchmarks/OBJECTIVES.md.

python -m benchmarks.draws.objectives [--repetitions 2000] [--draws 1000]

The posterior is sampled exactly: sigma on a grid, coefficients given sigma. Needs POSTERIOR_DB_PATH.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bayesrecon.posteriors.fitting.database import open_database, read_data
from benchmarks.study import Study, table

STATISTICS = ("n", "mean(mom_iq)", "mean(kid_score)", "var(mom_iq)", "var(kid_score)")
X, Y = (100.0, 15.0), (87.0, 20.0)  # centres and scales that records are standardised with
CAUCHY = 2.5  # the prior's scale
TO_RAW = np.array([[1 / Y[1], X[0] / Y[1], 0.0], [0.0, X[1] / Y[1], 0.0], [0.0, 0.0, 1.0]])  # d(standardised)/d(raw)

WORDS = """# Objectives of score matching

Made by `python -m benchmarks.draws.objectives`: {repetitions} exact samples of {draws} draws each of the posterior of
`kidiq-kidscore_momiq`. Every objective is quadratic in the totals that enter the model, and is minimised in closed
form. So no optimiser affects the results. *Efficiency*: the variance at the Cramér-Rao floor of {draws} independent
draws over the mean squared error, bias included, known to about {error:.0%}. *ms*: CPU time of one solve.

{table}

- **Closed form**: integration by parts with all directions at once, in the metric that is named. The covariance metric
  is `recover`'s default.
- **Sliced**: the same with so many fresh random directions a draw. Normal directions have the closed form as their
  mean, and Rademacher directions likewise; both add noise of their own, which more slices take out at their cost. They
  are worth it where second derivatives in all directions are too dear, which forward sweeps of Laplacians are not.
- **Denoising**: scores of draws that were moved by normal noise of so many posterior standard deviations, ten times
  each; no second derivatives. Little noise makes it inefficient; with much it is the score of another, wider law, and n
  is biased (at noise 0.3 by {denoising} standard deviations). Worth it where second derivatives do not exist.
- **Kernel Stein discrepancy**: an inverse multiquadric kernel of whitened draws, over all pairs, so that the cost grows
  with the square of their number; no second derivatives either. Its length is in posterior standard deviations; what
  long ones gain in means and variances they lose in n (biased by {stein} standard deviations at length 3).
"""


@dataclass(frozen=True)
class Sample:
    """Draws `(T, 3)` of intercept, slope and log sigma, of standardised records."""

    theta: np.ndarray

    def scores(self, theta: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Of all records: `(T, 3, 6)` times the totals of 1, x, x^2, y, xy, y^2, and of the prior `(T, 3)`."""
        a, b, s = (self.theta if theta is None else theta).T
        w, zero, one = np.exp(-2 * s), np.zeros_like(a), np.ones_like(a)
        rows = (
            (-a * w, -b * w, zero, w, zero, zero),
            (zero, -a * w, -b * w, zero, w, zero),
            (a**2 * w - one, 2 * a * b * w, b**2 * w, -2 * a * w, -2 * b * w, w),
        )
        square = np.exp(2 * s)
        prior = np.stack([zero, zero, 1 - 2 * square / ((CAUCHY / Y[1]) ** 2 + square)], axis=1)
        return np.moveaxis(np.array(rows), -1, 0), prior

    def hessians(self) -> tuple[np.ndarray, np.ndarray]:
        """Likewise, `(T, 3, 3, 6)` and `(T, 3, 3)`."""
        w, zero = np.exp(-2 * self.theta[:, 2]), np.zeros(len(self.theta))
        score, _ = self.scores()
        found, prior = np.zeros((len(w), 3, 3, 6)), np.zeros((len(w), 3, 3))
        found[:, 0, 0] = np.stack([-w, *[zero] * 5], axis=1)
        found[:, 0, 1] = found[:, 1, 0] = np.stack([zero, -w, *[zero] * 4], axis=1)
        found[:, 1, 1] = np.stack([zero, zero, -w, *[zero] * 3], axis=1)
        for k in (0, 1):
            found[:, k, 2] = found[:, 2, k] = -2 * score[:, k]
        found[:, 2, 2] = -2 * (score[:, 2] + np.array([1.0, 0, 0, 0, 0, 0]))
        square, scale = np.exp(2 * self.theta[:, 2]), (CAUCHY / Y[1]) ** 2
        prior[:, 2, 2] = -4 * square * scale / (scale + square) ** 2
        return found, prior

    @property
    def covariance(self) -> np.ndarray:
        return np.cov(self.theta.T)


def solved(gram: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """The totals at which `t'gram t / 2 + linear't` is least."""
    scale = np.sqrt(np.diag(gram))
    return -np.linalg.solve(gram / scale / scale[:, None], linear / scale) / scale


def along(sample: Sample, directions: np.ndarray) -> np.ndarray:
    """From directions `(T, L, 3)`, of which the outer products have the metric as their mean."""
    (score, prior), (hessian, _) = sample.scores(), sample.hessians()
    s = np.einsum("tld,tdk->tlk", directions, score)
    p = np.einsum("tld,td->tl", directions, prior)
    bent = np.einsum("tld,tdek,tle->k", directions, hessian, directions, optimize=True)
    return solved(np.einsum("tlk,tlm->km", s, s, optimize=True), np.einsum("tlk,tl->k", s, p) + bent)


def closed(sample: Sample, metric: np.ndarray) -> np.ndarray:
    """All directions at once: those of a root of the metric."""
    root = np.linalg.cholesky(metric).T
    return along(sample, np.broadcast_to(root, (len(sample.theta), 3, 3)))


def in_sigma(sample: Sample) -> np.ndarray:
    """The unwhitened divergence in (beta, sigma), the published one."""
    (score, prior), (hessian, _) = sample.scores(), sample.hessians()
    sigma = np.exp(sample.theta[:, 2])
    raw = score[:, :2].transpose(0, 2, 1) @ TO_RAW[:2, :2], prior[:, :2] @ TO_RAW[:2, :2]
    metric = TO_RAW[:2, :2] @ TO_RAW[:2, :2].T
    bent = np.einsum("de,tdek->k", metric, hessian[:, :2, :2])
    unit = 1 / (sigma * Y[1])  # of the derivative with respect to sigma; the density there has no Jacobian
    s, p = score[:, 2] * unit[:, None], (prior[:, 2] - 1) * unit
    bent = bent + np.sum((hessian[:, 2, 2] - score[:, 2]) * unit[:, None] ** 2, axis=0)
    gram = np.einsum("tkd,tmd->km", raw[0], raw[0]) + s.T @ s
    return solved(gram, np.einsum("tkd,td->k", *raw) + s.T @ p + bent)


def sliced(law: str, slices: int, sample: Sample, rng: np.random.Generator) -> np.ndarray:
    size = (len(sample.theta), slices, 3)
    v = rng.normal(size=size) if law == "normal" else rng.choice([-1.0, 1.0], size)
    return along(sample, v @ np.linalg.cholesky(sample.covariance).T)


def denoised(noise: float, sample: Sample, rng: np.random.Generator, times: int = 10) -> np.ndarray:
    root = np.linalg.cholesky(sample.covariance)
    gram, linear = np.zeros((6, 6)), np.zeros(6)
    for _ in range(times):
        z = rng.normal(size=sample.theta.shape)
        score, prior = sample.scores(sample.theta + noise * z @ root.T)
        s, p = np.einsum("de,tdk->tek", root, score), prior @ root + z / noise
        gram += np.einsum("tek,tem->km", s, s, optimize=True)
        linear += np.einsum("tek,te->k", s, p)
    return solved(gram, linear)


def kernel_stein(length: float, sample: Sample, rng: np.random.Generator) -> np.ndarray:
    root = np.linalg.cholesky(sample.covariance)
    white = np.linalg.solve(root, sample.theta.T).T / length
    score, prior = sample.scores()
    s, p = np.einsum("de,tdk->tek", root, score), prior @ root
    square = (white**2).sum(axis=1)
    base = 1 + np.maximum(square[:, None] + square - 2 * white @ white.T, 0.0)
    kernel, slope = base**-0.5, base**-1.5
    np.fill_diagonal(kernel, 0.0)
    np.fill_diagonal(slope, 0.0)
    gram, linear = np.zeros((6, 6)), np.zeros(6)
    for e in range(3):
        smooth = kernel @ s[:, e]
        gram += s[:, e].T @ smooth
        # The kernel's slope in its second argument, summed: sum_u slope_tu (white_t - white_u) / length.
        moved = (white[:, e] * slope.sum(axis=1) - slope @ white[:, e]) / length
        linear += smooth.T @ p[:, e] + s[:, e].T @ moved
    return solved(gram, linear)


OBJECTIVES: dict[str, Callable[[Sample, np.random.Generator], np.ndarray]] = {
    "closed form, covariance": lambda sample, rng: closed(sample, sample.covariance),
    "closed form, identity in (beta, sigma), published": lambda sample, rng: in_sigma(sample),
    "closed form, identity in (beta, log sigma)": lambda sample, rng: closed(sample, TO_RAW @ TO_RAW.T),
    "sliced, 1 normal direction": partial(sliced, "normal", 1),
    "sliced, 1 Rademacher direction": partial(sliced, "Rademacher", 1),
    "sliced, 10 normal directions": partial(sliced, "normal", 10),
    "sliced, 10 Rademacher directions": partial(sliced, "Rademacher", 10),
    **{f"denoising, noise {h:g}": partial(denoised, h) for h in (0.03, 0.1, 0.3, 1.0)},
    **{f"kernel Stein discrepancy, length {one:g}": partial(kernel_stein, one) for one in (0.3, 1.0, 3.0)},
}


def statistics(totals: np.ndarray) -> np.ndarray:
    n, x, xx, y, _, yy = totals
    mean, response = x / n, y / n
    spread = (xx / n - mean**2) * X[1] ** 2, (yy / n - response**2) * Y[1] ** 2
    return np.array([n, X[0] + X[1] * mean, Y[0] + Y[1] * response, *spread])


def floor(sample: Sample, totals: np.ndarray) -> np.ndarray:
    """Least variances for one draw: the posterior is an exponential family in the totals."""
    a, b, s = sample.theta.T
    w = np.exp(-2 * s)
    natural = np.stack([-s - a**2 * w / 2, -a * b * w, -(b**2) * w / 2, a * w, b * w, -w / 2])
    step = 1e-6 * totals[0]
    slopes = np.stack([(statistics(totals + d) - statistics(totals - d)) / (2 * step) for d in step * np.eye(6)])
    return np.einsum("ks,ks->s", slopes, np.linalg.solve(np.cov(natural), slopes))


def sampler(totals: np.ndarray) -> Callable[[int, np.random.Generator], Sample]:
    n, x, xx, y, xy, yy = totals
    gram = np.array([[n, x], [x, xx]])
    centre = np.linalg.solve(gram, [y, xy])
    left = yy - centre @ [y, xy]
    grid = np.exp(np.linspace(np.log(left / n) / 2 - 0.5, np.log(left / n) / 2 + 0.5, 20_001))
    log = -(n - 2) * np.log(grid) - left / (2 * grid**2) - np.log((CAUCHY / Y[1]) ** 2 + grid**2) + np.log(grid)
    law = np.cumsum(np.exp(log - log.max()))
    root = np.linalg.cholesky(np.linalg.inv(gram))

    def draw(count: int, rng: np.random.Generator) -> Sample:
        sigma = np.interp(rng.uniform(0, law[-1], count), law, grid)
        beta = centre + sigma[:, None] * (rng.normal(size=(count, 2)) @ root.T)
        return Sample(np.column_stack([beta, np.log(sigma)]))

    return draw


def main() -> None:
    parser = STUDY.parser(__doc__, repetitions=2000, draws=1000)
    given = STUDY.given(parser)
    data = read_data(open_database(), "kidiq")
    x, y = ((np.asarray(data[k], float) - c) / s for k, (c, s) in (("mom_iq", X), ("kid_score", Y)))
    totals = np.array([np.sum(f) for f in (np.ones_like(x), x, x**2, y, x * y, y**2)])
    draw, truth = sampler(totals), statistics(totals)
    least = floor(draw(1_000_000, np.random.default_rng(1)), totals) / given.draws
    rows = []
    for name, solve in OBJECTIVES.items():
        rng, found, spent = np.random.default_rng(2), [], 0.0
        for _ in range(given.repetitions):
            sample = draw(given.draws, rng)
            start = time.process_time()
            found.append(statistics(solve(sample, rng)))
            spent += time.process_time() - start
        off = np.array(found) - truth
        row = {"objective": name, "efficiency": (least / np.mean(off**2, axis=0)).tolist()}
        row |= {"bias": (off.mean(axis=0) / off.std(axis=0)).tolist(), "ms": 1e3 * spent / given.repetitions}
        rows.append(row)
        print(row, flush=True)
    STUDY.keep({"draws": given.draws, "repetitions": given.repetitions, "rows": rows})


def page(held: dict[str, Any]) -> str:
    draws, repetitions, rows = (held[key] for key in ("draws", "repetitions", "rows"))
    bias = {row["objective"]: f"{row['bias'][0]:+.1f}" for row in rows}
    cells = [[r["objective"], *(f"{v:.2g}" for v in r["efficiency"]), f"{r['ms']:.1f}"] for r in rows]
    return WORDS.format(
        table=table(("objective", *STATISTICS, "ms"), cells), error=np.sqrt(2 / repetitions),
        denoising=bias["denoising, noise 0.3"], stein=bias["kernel Stein discrepancy, length 3"], draws=draws,
        repetitions=repetitions,
    )  # fmt: skip


STUDY = Study(__file__, page)


if __name__ == "__main__":
    main()
