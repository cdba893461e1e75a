"""Do sanitised draws hide what is stated, at the cost that is stated, and what do other remedies cost?

python -m benchmarks.draws.sanitise [costs] [secrets] [many] [records] [bits] [remedies] [--sets 6] [--secrets 400]
    [--workers 2]

Rows go to benchmarks/sanitise.json, the page is benchmarks/SANITISE.md. Smaller numbers make a small version. Costs go
on with the posteriors that the rows have; `--again` measures them anew.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

import bayesrecon
from bayesrecon.disclosure.sanitising.tilted_draws import chosen
from bayesrecon.disclosure.sanitising.tilts import tilt_at
from bayesrecon.divergence.score import log_liks
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.predictive import responses
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
    alive = law.scatters > 1e-9 * law.scatters[-1]
    for share in (0.5, 0.95, 1.0):
        who = int(order[int(share * (records - 1))])
        gone = np.delete(x, who, axis=0), np.delete(y, who)
        unit = law.multiple * law.vectors[:, alive] / np.sqrt(law.scatters[alive])
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


# Bits of a response


def bits(secrets: int, records: int = 400) -> dict[str, Any]:
    """The response of one record, drawn anew with every secret, and what a linear attacker who knows everything else
    gets of it, against the limit that is stated."""
    x, y = line(records, 1, 0)
    first = pool(x, y, POOL, 10**6)
    law, predict, rows = law_of(first, WORTH), responses(first, ()), []
    at = np.arange(0, records, 4)
    stated, plain = law.bits({"x": x[at], "y": y[at]}, predict, PUBLISHED, POOL)
    alive = law.scatters > 1e-9 * law.scatters[-1]
    unit = law.multiple * law.vectors[:, alive] / np.sqrt(law.scatters[alive])
    order = np.argsort(stated)
    for share in (0.5, 0.95, 1.0):
        k = order[int(share * (len(at) - 1))]
        who, rng = int(at[k]), np.random.default_rng(5)
        drawn, seen = [], []
        for secret in range(secrets):
            other = y.copy()
            other[who] = predict(rng, {"x": x[who : who + 1], "y": y[who : who + 1]})["y"][0]
            release, own = pool(x, other, POOL, [secret, 9]), np.random.default_rng([secret, 10])
            kept = chosen(tilt_at(release.model, release.theta, law.drawn(own)), PUBLISHED, own)
            values = np.asarray(log_liks(law.model, np.asarray(release.theta)[kept], law.records))
            drawn.append(other[who])
            seen.append(unit.T @ values.mean(axis=0))
        rows.append({"share": share, "stated": float(stated[k]), "plain": float(plain[k]),
                     "measured": _linear_bits(np.array(drawn), np.array(seen))})  # fmt: skip
    return {"secrets": secrets, "rows": rows}


def _linear_bits(drawn: np.ndarray, seen: np.ndarray) -> float:
    """`-log2(1 - R^2) / 2` of a regression of what was drawn on what was seen, each predicted by all others."""
    design = np.column_stack([np.ones(len(seen)), (seen - seen.mean(axis=0)) / seen.std(axis=0)])
    hat = design @ np.linalg.pinv(design)
    left = (drawn - hat @ drawn) / (1 - np.diag(hat))
    return float(-0.5 * np.log2(min(np.mean(left**2) / drawn.var(), 1.0)))


# Other remedies


def remedies(sets: int, records: int = 400) -> dict[str, Any]:
    """What each remedy costs a reader beside sanitised draws, and what it leaves to an attacker."""
    x, y = line(records, 1, 0)
    read = reader(np.asarray(pool(x, y, 400_000, 10**7).theta))
    base = pool(x, y, PUBLISHED, 0)
    sd = np.asarray(base.theta).std(axis=0)

    def rounded(theta: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
        return np.round(theta / (share * sd)) * share * sd

    def noisy(theta: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
        return theta + share * sd * rng.normal(size=theta.shape)

    def thinned(theta: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
        return theta[: int(share)]

    law = law_of(pool(x, y, POOL, 10**6), WORTH)

    def sanitised(theta: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
        run = pool(x, y, 4 * PUBLISHED, rng)
        at = chosen(tilt_at(run.model, run.theta, law.drawn(rng)), PUBLISHED, rng)
        return np.asarray(run.theta)[at]

    rows = []
    every = ("sanitised", sanitised, (law.k**-2,)), ("thinned", thinned, (100, 200, 300))
    other = ("rounded", rounded, (0.5, 1.0, 2.0)), ("noise", noisy, (0.1, 0.2, 0.3, 0.5))
    for what, change, shares in (*every, *other):
        for share in shares:
            errors, moved = [], []
            for seed in range(sets):
                release, rng = pool(x, y, PUBLISHED, seed), np.random.default_rng([seed, 5])
                theta = change(np.asarray(release.theta), share, rng)
                weights, chain = np.full(len(theta), 1 / len(theta)), np.ones(len(theta), int)
                made = replace(release, theta=theta, weights=weights, chain=chain)
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
    parser.add_argument("parts", nargs="*", default=["costs", "secrets", "many", "records", "bits", "remedies"])
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
        "bits": lambda: STUDY.add(bits=bits(options.secrets // 2)),
        "remedies": lambda: STUDY.add(remedies=remedies(max(2, options.secrets // 10))),
    }
    workers.check_names(parser, options.parts, parts)
    with workers.engine(options), x64(), one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in options.parts:
            parts[part]()


if __name__ == "__main__":
    main()
