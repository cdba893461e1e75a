"""Do sanitised draws hide what is stated, at the cost that is stated, and what do other remedies cost?

python -m benchmarks.draws.sanitise [costs] [secrets] [many] [records] [remedies] [--sets 6] [--secrets 400]
    [--workers 2]

Rows go to benchmarks/sanitise.json, the page is benchmarks/SANITISE.md. Smaller numbers make a small version. Costs go
on with the posteriors that the rows have; `--again` measures them anew.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

import bayesrecon
from bayesrecon.disclosure.sanitising.law import tilt_at
from bayesrecon.disclosure.sanitising.tilted_draws import chosen
from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.score import log_liks
from bayesrecon.precision import x64
from bayesrecon.running.engine import swept
from bayesrecon.running.threads import one_thread
from benchmarks import workers
from benchmarks.draws.sanitise_costs import WORTH, costs, law_of, line, pool, summed
from benchmarks.draws.sanitise_page import page
from benchmarks.draws.sanitise_secrets import one_secret, pooled, reader, spread
from benchmarks.study import Study

POOL, PUBLISHED = 10_000, 2500
TILTS = 100  # of each posterior whose costs are measured
FEW, MANY = 10_000, 1_000_000  # draws that are published under each of many secrets


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


def measured_costs(sets: int, again: bool) -> None:
    """Rows of all posteriors, kept as they are measured."""
    kept = [] if again else STUDY.kept().get("costs", {}).get("rows", [])
    for row, rows in costs(sets, TILTS, kept, swept):
        print(row, flush=True)
        STUDY.add(costs={"rows": rows, "secrets": TILTS, "summary": summed(rows)})


def measured_secrets(part: str, secrets: int, published: int, of_run: bool) -> None:
    """What is recovered under many secrets."""
    rows = []
    for row in swept(one_secret, (published, of_run), range(secrets)):
        rows.append(row)
        print(part, len(rows), flush=True)
    STUDY.add(**{part: pooled(rows, published)})


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("parts", nargs="*", default=["costs", "secrets", "many", "records", "remedies"])
    parser.add_argument("--sets", type=int, default=6)
    parser.add_argument("--secrets", type=int, default=400)
    parser.add_argument("--again", action="store_true", help="measure costs anew that the rows have")
    workers.add_arguments(parser)
    options = STUDY.given(parser)
    parts = {
        "costs": lambda: measured_costs(options.sets, options.again),
        "secrets": lambda: measured_secrets("secrets", options.secrets, FEW, True),
        "many": lambda: measured_secrets("many", options.secrets, MANY, False),
        "records": lambda: STUDY.add(records=single_records(options.secrets // 2)),
        "remedies": lambda: STUDY.add(remedies=remedies(max(2, options.secrets // 10))),
    }
    workers.check_names(parser, options.parts, parts)
    with workers.engine(options), x64(), one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in options.parts:
            parts[part]()


if __name__ == "__main__":
    main()
