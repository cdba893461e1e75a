"""Do sanitised draws hide what is stated, at the cost that is stated, and what do other remedies cost?

python -m benchmarks.draws.sanitise [costs] [secrets] [records] [remedies] [--sets 4] [--secrets 400]

Rows go to benchmarks/sanitise.json, the page is benchmarks/SANITISE.md. Smaller numbers make a small version.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import chi2

import bayesrecon
from bayesrecon.disclosure.sanitising.law import TiltLaw, count_of, divergences, tilt_at, tilt_law
from bayesrecon.disclosure.sanitising.page import hidden, statistics_of
from bayesrecon.disclosure.sanitising.supported import MOST_NATS, settled
from bayesrecon.disclosure.sanitising.tilted_draws import chosen
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import solve_release
from bayesrecon.evaluate import clopper_pearson
from bayesrecon.kernels.score import log_liks
from bayesrecon.posteriors import from_draws, from_posteriordb
from bayesrecon.precision import x64
from bayesrecon.running.threads import one_thread
from benchmarks.draws.sanitise_page import page
from benchmarks.study import Study
from tests.support.conjugate import regression_model, sample_regression
from tests.support.families import FAMILIES, model_of, simulated

GROWN = 6  # times that a worth is made half as large again where theory does not hold
WORTH, POOL, PUBLISHED = 100.0, 10_000, 2500
DATABASE = (
    "kidiq-kidscore_momiq", "kidiq-kidscore_momhs", "kidiq-kidscore_momhsiq", "kidiq-kidscore_interaction",
    "kidiq_with_mom_work-kidscore_mom_work", "earnings-logearn_height", "earnings-logearn_height_male",
    "mesquite-logmesquite_logvolume", "mesquite-logmesquite_logva", "nes1972-nes", "nes1980-nes", "nes1992-nes",
    "sblrc-blr", "kilpisjarvi_mod-kilpisjarvi", "low_dim_gauss_mix-low_dim_gauss_mix",
    "eight_schools-eight_schools_noncentered", "earnings-earn_height", "earnings-logearn_interaction",
    "kidiq_with_mom_work-kidscore_interaction_c", "kidiq_with_mom_work-kidscore_interaction_z", "nes1976-nes",
    "nes1984-nes", "nes1988-nes", "nes1996-nes", "sblri-blr",
)  # fmt: skip


def line(records: int, covariates: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Data of a regression."""
    rng = np.random.default_rng(seed)
    x = rng.normal(2, 1, (records, covariates))
    return x, 1 + x @ rng.normal(0.5, 0.5, covariates) + rng.normal(size=records)


def pool(x: np.ndarray, y: np.ndarray, draws: int, seed: int) -> Any:
    """Exact draws of its posterior, independent for every seed."""
    model = regression_model(x.shape[1])
    return from_draws(sample_regression(x, y, draws, np.random.default_rng(seed)), model, name=f"line {x.shape[1]}")


def law_of(release: Any, worth: float) -> TiltLaw:
    """The law of tilts of a release, capped as `sanitise` caps it; at the least worth that is supported where the one
    asked for is not."""
    problem = solve_release(release)
    if problem.unfit:
        raise BayesreconError(problem.unfit[0])
    count = count_of(statistics_of(problem)[0])
    if count is None:
        raise BayesreconError("the number of records is not determined")
    law = tilt_law(problem, worth**-0.5, problem.rng, max(1.0, count))
    while law.cost > MOST_NATS:
        law = law.at(law.k / 1.01)
    for _ in range(GROWN):
        try:
            return settled(law, release.name)[0]
        except BayesreconError:  # which asks for a larger worth
            law = law.at(law.k / 1.5**0.5)
    return settled(law, release.name)[0]


# Costs


def posteriors(sets: int) -> Any:
    """Releases by kind: with finite rank, with spectra that decay, and of posteriordb."""
    for covariates in (1, 2, 3, 5):
        for records in (50, 200, 1000):
            for seed in range(sets):
                yield "conjugate regression", lambda c=covariates, n=records, s=seed: pool(*line(n, c, s), POOL, s)
    for name in DATABASE:  # which have reference draws
        yield "posteriordb", lambda name=name: from_posteriordb(name)
    for name in FAMILIES:
        for seed in range(max(1, sets // 6)):
            yield name, lambda name=name, s=seed: simulated(name, model_of(name), s, POOL)[1]


def costs(sets: int, secrets: int = 100) -> dict[str, Any]:
    """Of every posterior: how near the cost of each tilt is to the second order, on draws that the law has not seen."""
    found = []
    for kind, made in posteriors(sets):
        row: dict[str, Any] = {"kind": kind}
        try:
            release = made()
            row["name"] = release.name
            law = law_of(release.take(np.arange(0, release.size, 2)), WORTH)
            weights = law.weights(np.random.default_rng(7).normal(size=(len(law.own), secrets)))
            theta = np.asarray(release.theta)[1::2]
            values = np.asarray(log_liks(release.model, theta, law.records)) @ weights
            foreseen = (law.values @ weights).var(axis=0) / 2
            measured = divergences(values)
            row |= {
                "worth": law.k**-2,
                "directions": law.effective_rank,
                "predicted": law.cost,
                "measured": float(measured.mean()),
                "near": float(np.mean(np.abs(measured / foreseen - 1) <= 0.2)),
            }
        except (BayesreconError, FloatingPointError) as error:
            row["refused"] = str(error)
        print(row, flush=True)
        found.append(row)
        STUDY.add(costs={"rows": found, "secrets": secrets, "summary": summed(found)})
    return {"rows": found, "secrets": secrets, "summary": summed(found)}


def summed(found: list[dict[str, Any]]) -> dict[str, Any]:
    """By kind: posteriors, refused ones, shares near, costs."""
    every = {}
    for kind in (*dict.fromkeys(row["kind"] for row in found), "all"):
        rows = [row for row in found if kind in (row["kind"], "all")]
        done = [row for row in rows if "refused" not in row]
        ratio = [row["measured"] / row["predicted"] for row in done]
        every[kind] = {
            "posteriors": len(rows),
            "refused": len(rows) - len(done),
            "near": float(np.mean([row["near"] for row in done])) if done else None,
            "all near": sum(row["near"] >= 0.95 for row in done),
            "largest cost": max((row["measured"] for row in done), default=None),
            "ratio": float(np.median(ratio)) if done else None,
            "worth": max((row["worth"] for row in done), default=None),
        }
    return every


# Many secrets of one data set


def pooled(secrets: int, size: int = POOL, published: int = PUBLISHED, records: int = 400) -> dict[str, Any]:
    """One data set, a run of the sampler and a secret of its own each time: how `recover` scatters."""
    x, y = line(records, 1, 0)
    first = pool(x, y, POOL, 10**6)
    problem = solve_release(first)
    law = law_of(first, WORTH)
    rows, slopes = statistics_of(problem)
    stated = {one.name: one for one in hidden(problem, law, rows, slopes)}
    names = [row.name for row in rows if stated[row.name].scatter]
    cross = np.asarray(problem.solved.embedding.cross(problem.solved.basis, law.records)) @ slopes
    root = law.multiple / np.sqrt(1 + law.own / law.k**2)
    half = root[:, None] * (law.vectors.T @ cross[:, [r.name in names for r in rows]])
    covariance = half.T @ half
    se = np.array([stated[n].se ** 2 - stated[n].scatter ** 2 for n in names]) * POOL / published
    truth = bayesrecon.evaluate.true_statistics(first.model, {"x": x, "y": y})
    got, plain, failed, failed_plain, moved, moved_plain = [], [], 0, 0, [], []
    read = reader(np.asarray(pool(x, y, 400_000, 10**7).theta))
    for secret in range(secrets):
        release = pool(x, y, size, secret)
        rng = np.random.default_rng([secret, 1])
        tilt = law.drawn(rng)
        at = chosen(tilt_at(release.model, release.theta, tilt), published, rng)
        safe = replace(release, theta=np.asarray(release.theta)[at], weights=np.full(published, 1 / published),
                       chain=np.ones(published, int))  # fmt: skip
        found, other = (bayesrecon.recover(one, force=True) for one in (safe, release.take(np.arange(published))))
        failed, failed_plain = failed + bool(found.failures), failed_plain + bool(other.failures)
        got.append([found[n].estimate for n in names])
        hundred = bayesrecon.recover(pool(x, y, 100, [secret, 2]), force=True)
        plain.append([np.nan if hundred[n].estimate is None else hundred[n].estimate for n in names])
        moved.append(read(np.asarray(safe.theta)))
        moved_plain.append(read(np.asarray(release.theta)[:100]))
    errors = np.array(got) - [truth[n] for n in names]
    few = np.array(plain, float) - [truth[n] for n in names]
    statistics = []
    for i, n in enumerate(names):
        variance = covariance[i, i] + se[i]
        p = chi2.cdf((errors[:, i] ** 2).sum() / variance, secrets)
        statistics.append({
            "name": n, "stated": float(variance**0.5), "measured": float(np.sqrt((errors[:, i] ** 2).mean())),
            "p": float(2 * min(p, 1 - p)), "hundred": float(np.sqrt(np.nanmean(few[:, i] ** 2))),
            "hundred stated": float(stated[n].scatter * np.sqrt(stated[n].draws / 100)),
        })  # fmt: skip
    earlier = []
    for i, n in enumerate(names):
        own, before = statistics[i]["stated"] ** 2, statistics[i]["hundred stated"] ** 2
        both = (errors[:, i] / own + few[:, i] / before) / (1 / own + 1 / before)
        earlier.append({"name": n, "stated": float((1 / own + 1 / before) ** -0.5),
                        "measured": float(np.sqrt(np.nanmean(both**2)))})  # fmt: skip
    total = covariance + np.diag(se)
    n, others = names.index("n"), [i for i in range(len(names)) if names[i] != "n"]
    informed = []
    for i in others:
        slope = total[i, n] / total[n, n]
        left = errors[:, i] - slope * errors[:, n]
        variance = total[i, i] - slope * total[i, n]
        p = chi2.cdf((left**2).sum() / variance, secrets)
        informed.append({"name": names[i], "stated": float(variance**0.5), "measured": float(np.sqrt((left**2).mean())),
                         "p": float(2 * min(p, 1 - p))})  # fmt: skip
    return {
        "secrets": secrets, "pool": size, "published": published, "statistics": statistics, "knows n": informed,
        "earlier": earlier,
        "failed": list(clopper_pearson(failed, secrets)), "failed plain": list(clopper_pearson(failed_plain, secrets)),
        "readers": {"sanitised": spread(moved), "hundred draws": spread(moved_plain)},
    }  # fmt: skip


def reader(exact: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """What draws `(T, d)` are off by for a reader, in posterior standard deviations: means, standard deviations, 5 %
    and 95 % quantiles, `(4, d)`."""
    mean, sd = exact.mean(axis=0), exact.std(axis=0)
    true = np.quantile((exact - mean) / sd, (0.05, 0.95), axis=0)

    def read(theta: np.ndarray) -> np.ndarray:
        z = (theta - mean) / sd
        return np.stack([z.mean(axis=0), z.std(axis=0) - 1, *(np.quantile(z, (0.05, 0.95), axis=0) - true)])

    return read


def spread(moved: list[np.ndarray]) -> dict[str, float]:
    """Root mean squares of the worst coordinate."""
    size = np.sqrt((np.array(moved) ** 2).mean(axis=0)).max(axis=1)
    return dict(zip(("mean", "sd", "low", "high"), size.tolist(), strict=True))


# One record, by somebody who knows all others


def single_records(secrets: int, records: int = 400) -> dict[str, Any]:
    """Tilted draws with and without one record: how far apart the best linear statistic of them is, against what is
    stated."""
    x, y = line(records, 1, 0)
    first = pool(x, y, POOL, 10**6)
    law, found = law_of(first, WORTH), []
    shifts = law.shift({"x": x, "y": y}, PUBLISHED)
    order = np.argsort(shifts)
    alive = law.own > 1e-9 * law.own[-1]
    for share in (0.5, 0.95, 1.0):
        who = int(order[int(share * (records - 1))])
        gone = np.delete(x, who, axis=0), np.delete(y, who)
        unit = law.multiple * law.vectors[:, alive] / np.sqrt(law.own[alive])
        l = np.asarray(log_liks(law.model, law.theta, {"x": x[who : who + 1], "y": y[who : who + 1]}))
        along = (unit.T @ (law.values.T @ (l - l.mean(axis=0)))).ravel() / len(l)
        best = along / (law.variances[alive] + 1 / PUBLISHED)
        middle = np.asarray(log_liks(law.model, law.theta, law.records)).mean(axis=0)
        seen: list[list[float]] = [[], []]
        for secret in range(secrets):
            for k, data in enumerate(((x, y), gone)):
                release, rng = pool(*data, POOL, [secret, k]), np.random.default_rng([secret, k, 3])
                tilt = law.drawn(rng)
                at = chosen(tilt_at(release.model, release.theta, tilt), PUBLISHED, rng)
                values = np.asarray(log_liks(law.model, np.asarray(release.theta)[at], law.records)) - middle
                seen[k].append(float(best @ (unit.T @ values.mean(axis=0))))
        with_, without = (np.array(one) for one in seen)
        apart = (with_.mean() - without.mean()) / np.sqrt((with_.var() + without.var()) / 2)
        found.append({"share": share, "stated": float(shifts[who]), "measured": float(apart)})
    return {"secrets": secrets, "rows": found, "error": float(np.sqrt(2 / secrets))}


# Other remedies


def remedies(sets: int, records: int = 400) -> dict[str, Any]:
    """What each remedy costs a reader where it leaves an attacker about the error that is stated at a worth of 100."""
    x, y = line(records, 1, 0)
    read = reader(np.asarray(pool(x, y, 400_000, 10**7).theta))
    base = pool(x, y, PUBLISHED, 0)
    sd = np.asarray(base.theta).std(axis=0)

    def rounded(theta: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
        return np.round(theta / (share * sd)) * share * sd

    def noisy(theta: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
        return theta + share * sd * rng.normal(size=theta.shape)

    rows = []
    for what, change, shares in (("rounded", rounded, (0.5, 1.0, 2.0)), ("noise", noisy, (0.1, 0.2, 0.3, 0.5))):
        for share in shares:
            errors, moved = [], []
            for seed in range(sets):
                release, rng = pool(x, y, PUBLISHED, seed), np.random.default_rng([seed, 5])
                made = replace(release, theta=change(np.asarray(release.theta), share, rng))
                moved.append(read(np.asarray(made.theta)))
                try:
                    n = bayesrecon.recover(made, force=True)["n"].estimate
                except BayesreconError:
                    n = None
                errors.append(np.nan if n is None else n - records)
            known = np.array(errors) - np.nanmean(errors)  # whoever knows the step or the noise takes its mean off
            told = not np.isnan(errors).all()
            rows.append({
                "remedy": what, "size": share, "error": float(np.sqrt(np.nanmean(np.square(errors)))) if told else None,
                "informed": float(np.sqrt(np.nanmean(known**2))) if told else None, **spread(moved),
            })  # fmt: skip
    return {"sets": sets, "rows": rows}


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("parts", nargs="*", default=["costs", "secrets", "many", "records", "remedies"])
    parser.add_argument("--sets", type=int, default=6)
    parser.add_argument("--secrets", type=int, default=400)
    options = STUDY.given(parser)
    made = {
        "costs": lambda: costs(options.sets),
        "secrets": lambda: pooled(options.secrets),
        "many": lambda: pooled(max(2, options.secrets // 4), 200_000, 50_000),
        "records": lambda: single_records(options.secrets // 2),
        "remedies": lambda: remedies(max(2, options.secrets // 10)),
    }
    with x64(), one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in options.parts:
            STUDY.add(**{part: made[part]()})


if __name__ == "__main__":
    main()
