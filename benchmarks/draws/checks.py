"""How often good releases fail the checks of draws and model, and bad ones pass, as the page benchmarks/CHECKS.md.

python -m benchmarks.draws.checks [good] [size] [ends] [shipped] [bad] [handled] [records] [--repetitions 40]
    [--posteriors NAME ...] [--workers 4]

To be run when a check changes. Good releases are blocks of posteriordb's reference draws and exact draws of simulated
data; bad ones are spoilt by a stated size. The best any test could do knows what is wrong and how far: with
`delta = log q - log p` over draws of q, p the stated model's posterior, the part of delta that other data of the same
model explain (the span of the records' log likelihoods) is taken out; the rest has standard deviation s, and the best
z is `s sqrt(T)`. Its power is that of a one-sided test with the same false alarms.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpyro
import scipy.linalg
from numpyro import distributions as dist
from scipy import stats

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.checks.beyond import check_edges
from bayesrecon.estimation.checks.chains import check_chains
from bayesrecon.estimation.checks.check import CheckInput
from bayesrecon.estimation.checks.ends import check_ends
from bayesrecon.estimation.checks.stein import check_identities
from bayesrecon.estimation.scored import ScoredDraws
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws, from_posteriordb
from bayesrecon.posteriors.fitting.database import open_database
from bayesrecon.posteriors.fitting.fitted import released
from bayesrecon.posteriors.fitting.programs import served_by
from bayesrecon.running.engine import swept
from bayesrecon.types import Model, Release
from benchmarks import workers
from benchmarks.draws import checks_good, conjugates
from benchmarks.draws.checks_good import in_chains
from benchmarks.study import Study, share, table
from tests.support import conjugate, gridded, untouched

LEVEL = 0.005
DRAWS, CHAINS = (1000, 4000), 4

INTRODUCTION = f"""# Checks of draws and model: false alarms and power

Made by `python -m benchmarks.draws.checks`. This page measures how often the checks of draws and model fail, for good
and for bad releases. Ranges are 95 % Clopper-Pearson intervals.

* **Good** releases are exact draws of the model, or blocks of posteriordb's reference draws. *Failed* is the share of
  releases in which any check failed, nominally {LEVEL:.1%}. *By* lists the checks that failed first. Under the
  heading *own scores* the draws come from distributions whose scores are known exactly. Elsewhere the scores are those
  of the fitted data.
* **Bad** releases have 4 chains with a defect of a stated size. *Best z* is the average statistic of a test that knows
  what is wrong, where and by how much. *Best* is the power of that test at {LEVEL:.1%} false alarms. If one of many
  places is wrong, the number behind a slash is the power of a test that does not know which. *Caught* is the share of
  releases in which a check failed. A best z near zero means that other data of the same model have (almost) these
  draws, so no test can detect the defect.
* **Handled** releases are exact draws of a regression on 200 records that were clipped, trimmed or selected by a
  condition afterwards. *Best* is the power of the likelihood ratio against the exact unaltered posterior. That test
  knows the limits and the data, and it is rare that all unaltered draws lie inside the limits. *By their ends* is
  the power of the two checks of ends alone. They use a posterior that is fitted to the same draws, and test all ends.
"""

COLUMNS = {"good": ("releases", "draws", "releases tried", "failed", "95 %")}
COLUMNS["shipped"] = COLUMNS["ends"] = COLUMNS["good"]
COLUMNS["size"] = (*COLUMNS["good"], "by")
COLUMNS["bad"] = ("what is wrong", "size", "draws", "best z", "best", "releases tried", "caught", "95 %")
TITLES = {
    "good": "Good releases",
    "size": "All checks together, on good releases of small, skewed and heavy-tailed posteriors",
    "ends": "Good draws with their own scores, the check of ends alone",
    "shipped": "Good releases of other shipped models, with the known fields and the unit that suit each model",
    "bad": "Bad releases, no field known to the attacker",
    "handled": "Draws that were handled after sampling",
    "records": "Bad and good releases, the design known to the attacker",
}
COLUMNS["records"] = COLUMNS["bad"]
COLUMNS["handled"] = ("what was done", "share", "draws", "best", "releases tried", "caught", "95 %", "by their ends")
Row = dict[str, str]


def failed(releases: Iterable[Release], **knows: Any) -> list[bool]:
    return [bool(found) for found in failures(releases, **knows)]


def failures(releases: Iterable[Release], **knows: Any) -> list[tuple[str, ...]]:
    """What fails, of releases of one model, each with its number as key, by the workers there are."""
    rest = iter(releases)
    first = next(rest)
    # A model is sent once, with what all share, so that a worker compiles its programs once.
    bare = (dataclasses.replace(release, model=None) for release in chain([first], rest))
    return list(swept(failures_of_one, (first.model, knows), enumerate(bare)))


def failures_of_one(shared: tuple[Model, dict[str, Any]], item: tuple[int, Release]) -> tuple[str, ...]:
    (model, knows), (key, bare) = shared, item
    verb = bayesrecon.reconstruct if "unit" in knows else bayesrecon.recover
    found = verb(dataclasses.replace(bare, model=model), force=True, key=key, **knows).failures
    if found:
        print("  failed", key, found[0], flush=True)
    return found


# Good releases

SIMULATED = {
    "normal mean": conjugates.normal_mean, "regression": partial(conjugates.regression, slopes=(0.5, -1)),
    "slopes": conjugates.slopes_of_groups, "effects": conjugates.effects,
}  # fmt: skip


def references() -> list[str]:
    """Posteriors with reference draws whose records are seen in a second or two."""
    folder = Path(os.environ["POSTERIOR_DB_PATH"]) / "reference_posteriors" / "draws" / "draws"
    names = sorted(path.name.removesuffix(".json.zip") for path in folder.glob("*.json.zip"))
    kinds = ("arK", "earnings", "kidiq", "kilpisjarvi", "mesquite", "nes", "sblr")
    return [name for name in names if name.startswith(kinds)]


def good(repetitions: int) -> Iterator[Row]:
    every: list[bool] = []

    def row(what: str, draws: int, hits: list[bool]) -> Row:
        every.extend(hits)
        return dict(zip(COLUMNS["good"], (what, f"{draws}", *share(hits)), strict=True))

    for name in references():
        release = from_posteriordb(name)
        blocks = [release.take(np.arange(b, release.size, 10)) for b in range(10)]
        yield row(name, blocks[0].size, failed(blocks))
    for name, simulate in SIMULATED.items():
        for draws in DRAWS:
            rng = np.random.default_rng(draws)
            hits = failed(in_chains(simulate(rng, draws)[1]) for _ in range(2 * repetitions))
            yield row(f"simulated: {name}", draws, hits)
    for simulate_grid in (gridded.logistic, gridded.poisson):
        rng = np.random.default_rng(3)
        made = [simulate_grid(rng) for _ in range(repetitions // 2)]
        hits = failed((release for _, release, _ in made), domain=made[0][2])
        yield row(f"simulated: {simulate_grid.__name__}", made[0][1].size, hits)
    yield row("all", 0, list(every)) | {"draws": ""}


SIZE = 200  # releases of a family
# The beginnings of failures, and the checks that they are of.
BY = {"the chains": "chains", "draws and model disagree": "identities", "draws ": "ends"}


def size(repetitions: int) -> Iterator[Row]:
    """Families that were tried before, as often, are taken over: it can be cut off and goes on.

    Of distributions with their own scores the checks are tried alone.
    """
    held = STUDY.kept().get("size", [])
    before = {row["releases"]: row for row in held}
    rows = []
    tasks = {name: (_of_family, *family) for name, family in checks_good.FAMILIES.items()}
    tasks |= {name: (_of_law, law, max(DRAWS)) for name, law in checks_good.LAWS.items()}
    for name, (tried, what, draws) in tasks.items():
        rows.append(before[name] if name in before else _size_row(name, draws, tried(what, draws)))
        yield rows[-1]
    yield dict(zip(COLUMNS["size"], ("all", "", *share(together(rows)), ""), strict=True))


def together(rows: Sequence[Row]) -> list[bool]:
    """What failed and what did not, of all rows."""
    tried = [int(row["releases tried"]) for row in rows]
    hits = sum(round(n * float(row["failed"].rstrip("%")) / 100) for n, row in zip(tried, rows, strict=True))
    return [True] * hits + [False] * (sum(tried) - hits)


def _of_family(make: Callable[[Any, int], Release], draws: int) -> list[tuple[str, ...]]:
    return failures(in_chains(make(np.random.default_rng(key), draws)) for key in range(SIZE))


def _of_law(law: Callable[[Any, int], Any], draws: int) -> list[tuple[str, ...]]:
    checks = (check_chains, check_identities, check_edges)
    seen = (_looked(law, [key, 7], draws, density=untouched.DENSITIES[law]) for key in range(SIZE))
    return [tuple(line for check in checks for line in check(one)) for one in seen]


def _looked(law: Callable[[Any, int], Any], seed: list[int], draws: int, **more: Any) -> CheckInput:
    theta, scores = law(np.random.default_rng(seed), draws)
    numbers = np.repeat(np.arange(CHAINS), draws // CHAINS)
    good = ScoredDraws(theta, np.full(draws, 1 / draws), numbers, scores)
    return CheckInput(("a", "b", "c"), good, lambda h, j, into: np.zeros((len(h), into.max(initial=-1) + 1)), **more)


def _size_row(name: str, draws: int, found: Sequence[tuple[str, ...]]) -> Row:
    kinds = [*BY.items(), ("", "others")]
    told = [next(by for words, by in kinds if line[0].startswith(words)) for line in found if line]
    by = ", ".join(f"{check} {told.count(check)}" for check in dict.fromkeys(told))
    return dict(zip(COLUMNS["size"], (name, f"{draws}", *share([bool(lines) for lines in found]), by), strict=True))


SHIPPED = (
    "Rate_1_data-Rate_1_model", "Rate_2_data-Rate_2_model", "Rate_3_data-Rate_3_model", "Rate_4_data-Rate_4_model",
    "Rate_5_data-Rate_5_model", "M0_data-M0_model", "Mb_data-Mb_model", "Mt_data-Mt_model", "Mh_data-Mh_model",
    "dogs-dogs", "dogs-dogs_log", "low_dim_gauss_mix-low_dim_gauss_mix", "eight_schools-eight_schools_noncentered",
    "surgical_data-surgical_model", "rats_data-rats_model", "seeds_data-seeds_model",
    "seeds_data-seeds_centered_model", "pilots-pilots", "GLM_Poisson_Data-GLM_Poisson_model",
    "GLM_Binomial_data-GLM_Binomial_model", "wells_data-wells_dist", "wells_data-wells_dae_model",
    "nes_logit_data-nes_logit_model", "dugongs_data-dugongs_model", "sesame_data-sesame_one_pred_a",
    "irt_2pl-irt_2pl", "lsat_data-lsat_model", "radon_mn-radon_pooled", "radon_mn-radon_partially_pooled_noncentered",
    "gp_pois_regr-gp_regr", "gp_pois_regr-gp_pois_regr",
)  # fmt: skip
BLOCKS = 10  # fewer where parameters are many: a covariance takes twice as many draws


def attacked(posterior: str) -> tuple[Release, dict[str, Any]]:
    """A posterior of posteriordb, sampled by NUTS where it has no draws, and what is known of its rows."""
    program = served_by(open_database(), posterior)
    release, data = released(open_database(), program), program.records()
    known = {k: np.asarray(data[k]) for k in program.design}
    private = [np.asarray(v) for k, v in data.items() if k not in known]
    told = known and all(v.ndim == 1 for v in (*private, *known.values()))
    if not (told and private and len(np.unique(np.stack([*known.values()]), axis=1).T) == len(private[0])):
        return release, {"total": 1} if len(private[0]) == 1 and not known else {}
    return release, {"known": known, "unit": tuple(known)}


def shipped_families(names: Sequence[str]) -> Iterator[Row]:
    for name in names:
        release, known = attacked(name)
        count = max(1, min(BLOCKS, release.size // (2 * release.model.dimension)))
        blocks = [release.take(np.arange(b, release.size, count)) for b in range(count)]
        yield dict(zip(COLUMNS["good"], (name, f"{blocks[-1].size}", *share(failed(blocks, **known))), strict=True))


def with_earlier(rows: list[Row], earlier: list[Row]) -> list[Row]:
    """Rows of shipped families with those of earlier runs, and all together."""
    by_name = {row["releases"]: row for row in (*earlier, *rows)}
    found = [by_name[name] for name in SHIPPED if name in by_name]
    return [*found, dict(zip(COLUMNS["good"], ("all", "", *share(together(found))), strict=True))]


# Bad releases of a regression


@cache
def people(records: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(434)
    x = rng.normal(0, 1, (records, 1))
    return x, 1 + 0.6 * x[:, 0] + rng.normal(size=records)


@cache
def exact(records: int, draws: int) -> np.ndarray:
    """Draws `(T, 3)` of log variance and two coefficients."""
    x, y = people(records)
    drawn = conjugate.sample_regression(x, y, draws, np.random.default_rng(1))
    release = from_draws(drawn, conjugate.regression_model())
    return np.asarray(release.theta)


def log_density(theta: np.ndarray, records: int, freedom: float = np.inf) -> np.ndarray:
    """Of the posterior with a t likelihood, up to a constant, `(T,)`."""
    x, y = people(records)
    v, beta = np.exp(theta[:, 0]), theta[:, 1:]
    r = (y - beta[:, :1] - beta[:, 1:] * x[:, 0]) / np.sqrt(v)[:, None]
    kernel = r**2 / 2 if np.isinf(freedom) else (freedom + 1) / 2 * np.log1p(r**2 / freedom)
    prior = -(beta**2).sum(axis=1) / (2 * conjugate.PRIOR_SCALE**2 * v) - beta.shape[1] / 2 * theta[:, 0]
    prior += -conjugate.SHAPE * theta[:, 0] - conjugate.RATE / v
    return prior - kernel.sum(axis=1) - len(y) / 2 * theta[:, 0]


@cache
def heavy(records: int, freedom: float, draws: int) -> np.ndarray:
    """Nearly independent draws `(T, 3)` with a t likelihood: Gibbs sampling of a scale mixture, every fifth state."""
    rng = np.random.default_rng(int(freedom))
    x, y = people(records)
    design = np.column_stack([np.ones(len(y)), x])
    prior = np.eye(2) / conjugate.PRIOR_SCALE**2
    found, variance, beta = np.empty((draws, 3)), 1.0, np.zeros(2)
    for t in range(-20, 5 * draws):
        residual = y - design @ beta
        w = rng.gamma((freedom + 1) / 2, 1 / ((freedom + residual**2 / variance) / 2))
        precision = (design.T * w) @ design + prior
        mean = np.linalg.solve(precision, design.T @ (w * y))
        rate = conjugate.RATE + 0.5 * (np.sum(w * y**2) - mean @ precision @ mean)
        variance = rate / rng.gamma(conjugate.SHAPE + len(y) / 2)
        root = np.linalg.cholesky(precision)
        beta = mean + np.sqrt(variance) * scipy.linalg.solve_triangular(root.T, rng.normal(size=2))
        if t >= 0:
            found[t // 5] = np.log(variance), *beta
    return found


def power(z: float | None, places: int = 1) -> str:
    """Of the best test, and of one that has to look at every place with either sign."""
    if z is None:
        return ""
    known, not_known = (NormalDist().cdf(z + NormalDist().inv_cdf(LEVEL / k)) for k in (1, 2 * places))
    return f"{known:.0%}" if places == 1 else f"{known:.0%} / {not_known:.0%}"


def best_z(theta: np.ndarray, delta: np.ndarray) -> float:
    """Of a test that knows `delta (T,)`, for one draw."""
    v, beta = np.exp(theta[:, 0]), theta[:, 1:]
    over = (f / v for f in (1, *beta.T, *(beta**2).T, beta[:, 0] * beta[:, 1]))
    explained = np.column_stack([np.ones(len(v)), theta[:, 0], *over])
    explained = np.linalg.qr(explained / np.abs(explained).max(axis=0))[0]
    rest = delta - explained @ (explained.T @ delta)
    rest -= explained @ (explained.T @ rest)
    return float(rest.std())


def blocks(theta: np.ndarray, draws: int, count: int) -> Iterator[Release]:
    for b in range(min(count, len(theta) // draws)):
        yield regression_release(theta[b * draws : (b + 1) * draws])


def regression_release(theta: np.ndarray) -> Release:
    size = len(theta)
    values = {"variance": np.exp(theta[None, :, 0]), "beta": theta[None, :, 1:]}
    release = from_draws(values, conjugate.regression_model())
    return dataclasses.replace(release, chain=np.repeat(np.arange(CHAINS), size // CHAINS))


def bad(repetitions: int) -> Iterator[Row]:
    rng = np.random.default_rng(5)

    def row(what: str, size: str, draws: int, best: float | None, releases: Iterator[Release], places: int = 1) -> Row:
        hits = failed(releases)
        z = "" if best is None else f"{best:.1f}"
        return dict(zip(COLUMNS["bad"], (what, size, f"{draws}", z, power(best, places), *share(hits)), strict=True))

    most = repetitions * max(DRAWS)
    for freedom in (3.0, 4.0, 8.0, 16.0):
        theta = heavy(434, freedom, most)
        delta = log_density(theta, 434, freedom) - log_density(theta, 434)
        for draws in DRAWS:
            best = best_z(theta, delta) * np.sqrt(draws)
            heavier = blocks(theta, draws, repetitions)
            yield row("t likelihood, 434 records", f"{freedom:g} degrees", draws, best, heavier)
    for records in (434, 40, 12):
        theta = exact(records, most)
        mean, covariance = theta.mean(axis=0), np.cov(theta.T)
        narrow = np.diag(1 / np.diag(np.linalg.inv(covariance)))
        for what, law in (("normal approximation", covariance), ("mean-field approximation", narrow)):
            drawn = rng.multivariate_normal(mean, law, most)
            delta = stats.multivariate_normal(mean, law).logpdf(drawn) - log_density(drawn, records)
            for draws in DRAWS:
                best = best_z(drawn, delta) * np.sqrt(draws)
                yield row(what, f"{records} records", draws, best, blocks(drawn, draws, repetitions))
    theta = exact(434, most)
    inverse = np.linalg.inv(np.cov(theta.T))
    for size in (0.05, 0.1, 0.2, 0.3, 0.5):
        shift = size * theta[:, 1].std() * np.eye(3)[1]
        for draws in DRAWS:
            best = float(np.sqrt(shift @ inverse @ shift * draws * (CHAINS - 1) / CHAINS**2))
            moved = (
                dataclasses.replace(r, theta=np.asarray(r.theta) + np.outer(np.asarray(r.chain) == 1, shift))
                for r in blocks(theta, draws, repetitions)
            )
            yield row("one chain of four shifted", f"{size:g} sd", draws, best, moved, CHAINS * theta.shape[1])
    for digits in (2, 3, 4, 5):
        for draws in DRAWS:
            cut = (rounded(r, digits) for r in blocks(theta, draws, repetitions // 2))
            yield row("digits cut", f"{digits}", draws, None, cut)
    for what, (spoil, delta_of) in SPOILT.items():
        moved = spoil(theta, rng)
        size = best_z(moved, delta_of(moved, theta)) if delta_of else None
        for draws in DRAWS:
            best = None if size is None else size * np.sqrt(draws)
            yield row(what, "", draws, best, blocks(moved, draws, repetitions // 2))


def rounded(release: Release, digits: int) -> Release:
    theta = np.asarray(release.theta)
    values = np.column_stack([np.exp(theta[:, 0]), theta[:, 1:]])
    unit = 10.0 ** (np.floor(np.log10(np.abs(values))) - digits + 1)
    values = np.round(values / unit) * unit
    return dataclasses.replace(release, theta=np.column_stack([np.log(values[:, 0]), values[:, 1:]]))


def twice_logged(moved: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """log q - log p of draws whose log variance v became log(v + 1): q is the posterior of exp(v') - 1."""
    before = np.column_stack([np.exp(moved[:, 0]) - 1, moved[:, 1:]])
    return log_density(before, 434) + moved[:, 0] - log_density(moved, 434)


def independent(moved: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """log q - log p of shuffled columns: q is the product of the marginals, inverse gamma and t."""
    x, y = people(434)
    design = np.column_stack([np.ones(len(y)), x])
    precision = design.T @ design + np.eye(2) / conjugate.PRIOR_SCALE**2
    mean = np.linalg.solve(precision, design.T @ y)
    shape = conjugate.SHAPE + len(y) / 2
    rate = conjugate.RATE + 0.5 * (y @ y - mean @ precision @ mean)
    scale = np.sqrt(rate / shape * np.diag(np.linalg.inv(precision)))
    alone = -shape * moved[:, 0] - rate * np.exp(-moved[:, 0])
    return alone + stats.t(2 * shape, mean, scale).logpdf(moved[:, 1:]).sum(axis=1) - log_density(moved, 434)


Spoil = Callable[[np.ndarray, np.random.Generator], np.ndarray]
SPOILT: dict[str, tuple[Spoil, Callable[[np.ndarray, np.ndarray], np.ndarray] | None]] = {
    "log variance passed as variance": (lambda t, rng: np.column_stack([np.log(t[:, 0] + 1), t[:, 1:]]), twice_logged),
    "columns shuffled independently": (lambda t, rng: rng.permuted(t, axis=0), independent),
    "two coefficients swapped": (lambda t, rng: t[:, [0, 2, 1]], None),
}


# Draws that were handled after sampling


def ends(repetitions: int) -> Iterator[Row]:
    """Ten times as many as of others: one costs little."""
    laws = ("normal", "student", "log_gamma", "logit_beta", "funnel", "two_modes", "correlated", "metropolis")
    every: list[bool] = []
    for law in (*laws, "one_at_a_time"):
        for draws in DRAWS:
            seen = (_looked(getattr(untouched, law), [key, draws], draws) for key in range(10 * repetitions))
            hits = [bool(check_ends(one)) for one in seen]
            every += hits
            yield dict(zip(COLUMNS["ends"], (law.replace("_", " "), f"{draws}", *share(hits)), strict=True))
    yield dict(zip(COLUMNS["ends"], ("all", "", *share(every)), strict=True))


def handled(repetitions: int) -> Iterator[Row]:
    """Rows that are there, of as many releases, are taken over, as of `size`."""
    held = STUDY.kept().get("handled", [])
    keys = ("what was done", "share", "draws", "releases tried")
    before = {tuple(row[key] for key in keys): row for row in held if row.keys() == set(COLUMNS["handled"])}
    for what, handle in HANDLED.items():
        for size in (0.01, 0.02, 0.05):
            for draws in DRAWS:
                if (row := before.get((what, f"{size:.0%}", f"{draws}", f"{repetitions}"))) is not None:
                    yield row
                    continue
                theta = exact(200, repetitions * draws)
                found, outside = [], []
                for b in range(repetitions):
                    whole = theta[b * draws : (b + 1) * draws]
                    left = handle(whole, size)
                    moved = len(left) == draws and (left != whole).any(axis=1).mean()
                    outside.append(moved or 1 - len(left) / draws)
                    release = regression_release(left[: len(left) // CHAINS * CHAINS])
                    found.append(bayesrecon.recover(release, force=True, key=b).failures)
                told = [any("draws were clipped" in f or "draws end too early" in f for f in one) for one in found]
                # Of the exact posterior's draws all lie inside by that chance; a test of a smaller size always tells.
                inside = draws * np.log1p(-float(np.mean(outside)))
                best = np.exp(min(0.0, np.log(LEVEL) - inside))
                tried = share([bool(one) for one in found])
                cells = (what, f"{size:.0%}", f"{draws}", f"{best:.0%}", *tried, f"{np.mean(told):.1%}")
                yield dict(zip(COLUMNS["handled"], cells, strict=True))


def trimmed(theta: np.ndarray, size: float) -> np.ndarray:
    low, high = np.quantile(theta, [size, 1 - size], axis=0)
    return theta[((theta >= low) & (theta <= high)).all(axis=1)]


def inner(theta: np.ndarray, size: float) -> np.ndarray:
    off = theta - theta.mean(axis=0)
    distance = ((off @ np.linalg.inv(np.cov(theta.T))) * off).sum(axis=1)
    return theta[distance <= np.quantile(distance, 1 - size)]


HANDLED: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "clipped at both ends of each parameter": lambda t, size: np.clip(t, *np.quantile(t, [size, 1 - size], axis=0)),
    "dropped beyond both ends of each parameter": trimmed,
    "kept where one parameter is large": lambda t, size: t[t[:, 1] > np.quantile(t[:, 1], size)],
    "kept in a region of highest density": inner,
}


# Releases of effects around a mean, the units known


def records(repetitions: int) -> Iterator[Row]:
    units = 60

    def program(unit: Any, y: Any = None) -> None:
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        effect = numpyro.sample("effect", dist.Normal(mu, 0.5).expand((units,)).to_event(1))
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Normal(effect[unit], 1), obs=y)

    model = from_numpyro(program, {"unit": (), "y": ()}, domain={"unit": list(range(units))})
    precision = np.diag([1.0 + 4 * units, *[5.0] * units])
    precision[0, 1:] = precision[1:, 0] = -4
    root = np.linalg.inv(np.linalg.cholesky(precision))
    rng = np.random.default_rng(11)
    known = {"unit": np.arange(units)}

    def release(make: Callable[[np.ndarray, np.ndarray], np.ndarray], draws: int) -> Release:
        y = rng.normal(rng.normal(0, 0.5, units), 1)
        theta = make(np.linalg.solve(precision, np.r_[0, y]), rng.normal(size=(draws, units + 1)))
        return in_chains(from_draws({"mu": theta[None, :, 0], "effect": theta[None, :, 1:]}, model))

    kinds: dict[tuple[str, str], Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
        ("nothing", ""): lambda mean, noise: mean + noise @ root,
        ("mean-field approximation", ""): lambda mean, noise: mean + noise / np.sqrt(np.diag(precision)),
        ("columns shuffled independently", ""): lambda mean, noise: rng.permuted(mean + noise @ root, axis=0),
    }
    for size in (0.1, 0.3, 1.0, 3.0):  # of the prior's mean, one of its standard deviations is one
        # The prior's mean enters the posterior of mu and, through it, that of every effect.
        move = np.linalg.solve(precision, np.r_[size, np.zeros(units)])
        kinds["prior of the mean shifted", f"{size:g} sd"] = lambda mean, noise, move=move: mean + move + noise @ root
    for (what, size), make in kinds.items():
        for draws in DRAWS:
            made = (release(make, draws) for _ in range(repetitions))
            hits = failed(made, known=known, unit="unit")
            # Only the score of mu tells, of which the records say nothing: a shift against its own spread given them.
            z = float(size.split()[0]) / np.sqrt(precision[0, 0]) * np.sqrt(draws) if size else None
            cells = (what, size, f"{draws}", "" if z is None else f"{z:.1f}", power(z, units + 1), *share(hits))
            yield dict(zip(COLUMNS["records"], cells, strict=True))


STUDIES: dict[str, Callable[[int], Iterator[Row]]] = {
    "good": good, "size": size, "ends": ends, "bad": bad, "handled": handled, "records": records,
}  # fmt: skip


def page(held: dict[str, list[Row]]) -> str:
    lines = [INTRODUCTION]
    for name, title in TITLES.items():
        if name in held:
            lines += [f"## {title}", "", table(COLUMNS[name], [list(row.values()) for row in held[name]]), ""]
    return "\n".join(lines)


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("studies", nargs="*", default=list(TITLES), help=", ".join(TITLES))
    parser.add_argument("--repetitions", type=int, default=40, help="releases a row; twice as many good ones")
    parser.add_argument("--posteriors", nargs="+", default=SHIPPED, help="of `shipped`; rows of others are kept")
    workers.add_arguments(parser)
    given = STUDY.given(parser)
    if "POSTERIOR_DB_PATH" not in os.environ:
        raise BayesreconError("POSTERIOR_DB_PATH is not set: the good releases are blocks of posteriordb's draws")
    with workers.engine(given):
        for name in given.studies:
            rows = []
            made = shipped_families(given.posteriors) if name == "shipped" else STUDIES[name](given.repetitions)
            for row in made:
                rows.append(row)
                print(*row.values(), sep=" | ", flush=True)
                before = STUDY.kept().get(name, [])
                STUDY.add(**{name: with_earlier(rows, before) if name == "shipped" else rows})


if __name__ == "__main__":
    main()
