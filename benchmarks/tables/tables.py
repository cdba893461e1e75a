"""What summaries give away: modes, moments of draws, variational fits, printed tables. Makes the page TABLES.md.

python -m benchmarks.tables.tables [modes] [moments] [releases] [regressions] [--posteriors NAME ...] [--tables 1000]
"""

import time
import warnings
import zlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import from_table, gaussian
from bayesrecon.posteriors.approximated.normal import by_another_rule, pack, variational, whitening
from bayesrecon.precision import in_float64
from bayesrecon.types import Limit, VariationalOptimum
from benchmarks import workers
from benchmarks.draws.checks import references
from benchmarks.references import reference
from benchmarks.study import Study, table
from tests.support.regressions import Regression
from tests.support.summaries import cut

EIGHT = (
    "kidiq-kidscore_momiq", "kidiq-kidscore_momhs", "kidiq-kidscore_interaction",
    "kidiq_with_mom_work-kidscore_interaction_c2", "earnings-logearn_height_male",
    "mesquite-logmesquite_logvolume", "mesquite-logmesquite_logva", "kilpisjarvi_mod-kilpisjarvi",
)  # fmt: skip
FEW = 5  # parameters up to which a posterior gets its full share of simulated tables
DASH = "–"

INTRODUCTION = """# What summaries give away

Made by `python -m benchmarks.tables.tables`. A posterior is summarised, and `recover` gets only the summary. *Error*
is the largest relative error of the determined statistics. *Inside* is the number of true values inside the bounds.
*Width* is the width of the bounds of n. *z* is the error over the standard error. A dash means no result, because the
effect of rounding on the covariance is too large for a first-order approximation.
"""
TITLES = {
    "modes": "Modes with covariances", "moments": "Means and covariances of draws",
    "releases": "The same posterior released in other ways", "regressions": "Printed regression tables",
}  # fmt: skip
NOTES = {
    "modes": "The mode with the inverse of minus the Hessian there (Laplace) at full precision, and printed with 4 and "
    "3 significant digits (mean and standard deviations; correlations with as many decimals).",
    "moments": "The mean and covariance of posteriordb's reference draws, 10,000 of each posterior, and of as many "
    "exact draws of the same posterior, table by table. *z* is the root mean square over statistics; those of one "
    "table move together, so that one table says little.",
    "releases": "The number of records, and in brackets the largest relative error of any determined statistic "
    "(determined / all). *Full rank* and *mean field* are normal distributions that maximise the ELBO; *draws* are the "
    "10,000 reference draws themselves. At 4 digits the estimate lies between bounds, which hold (above).",
    "regressions": "Simulated linear regressions of 50 to 500 records on one covariate, printed at 3 digits.",
}


@in_float64
def mode(model, records, start):
    """The mode in unconstrained coordinates with the Jacobian, and the inverse of minus the Hessian."""

    def log_posterior(t):
        terms = jax.vmap(model.log_lik, in_axes=(None, 0))(t, records)
        return terms.sum() + model.log_prior(t) + model.log_det(t)

    return newton(log_posterior, start)


@in_float64
def newton(objective, start):
    """The maximum, and the inverse of minus the Hessian there."""
    derivatives = jax.jit(lambda t: (jax.grad(objective)(t), jax.hessian(objective)(t)))
    at, last = np.asarray(start, float), np.inf
    for _ in range(100):
        slope, hessian = (np.asarray(x) for x in derivatives(at))
        covariance = np.linalg.inv(-hessian)
        step = covariance @ slope
        at, size = at + step, np.abs(step / np.sqrt(np.abs(np.diag(covariance)))).max()
        if size < 1e-13 or (size < 1e-9 and size > 0.5 * last):  # the end of the arithmetic
            break
        last = size
    return at, np.linalg.inv(-np.asarray(derivatives(at)[1]))


@in_float64
def fitted(model, records, mean, covariance, diagonal):
    """The normal distribution that maximises the ELBO as a release; a diagonal one by request."""
    derived, d = variational(model), model.dimension
    count = len(next(iter(records.values())))
    spread = np.diag(1 / np.diag(np.linalg.inv(covariance))) if diagonal else covariance
    phi, metric = pack(model, mean, spread), whitening(model, pack(model, mean, spread))
    rows, columns = np.tril_indices(d)
    free = np.concatenate([np.ones(d, bool), (rows == columns) if diagonal else np.ones(len(rows), bool)])

    def elbo(u):
        at = jnp.asarray(phi) + jnp.asarray(metric[:, free]) @ u
        return jnp.ones(count) @ jax.vmap(derived.log_lik, in_axes=(None, 0))(at, records) + derived.log_prior(at)

    phi = phi + metric[:, free] @ newton(elbo, np.zeros(free.sum()))[0]
    directions = whitening(model, phi)[:, free]
    return VariationalOptimum(phi[None], derived, directions, model, by_another_rule(model), name="fit")


def worst(found, truth) -> float:
    """Largest relative error of the determined statistics."""
    seen = [r for r in found if r.verdict == "determined"]
    scale = [abs(truth[r.name]) if abs(truth[r.name]) > 1e-9 else 1.0 for r in seen]
    return max((abs(r.estimate - truth[r.name]) / s for r, s in zip(seen, scale, strict=True)), default=np.nan)


def modes(name: str) -> dict:
    release, records, truth = reference(name)
    model = release.model
    at, covariance = mode(model, records, np.asarray(release.theta).mean(axis=0))
    found = bayesrecon.recover(gaussian(model, at, covariance, jacobian=True))
    seen = [r for r in found if r.verdict == "determined"]
    row = {"posterior": name, "N": int(truth["n"]), "d": model.dimension, "n": found["n"].estimate}
    row |= {"error": worst(found, truth), "seen": [len(seen), len(found)]}
    for digits in (4, 3):
        try:
            found = bayesrecon.recover(gaussian(model, *cut(at, covariance, digits), jacobian=True, digits=digits))
        except BayesreconError:
            found = ()
        seen = [r for r in found if r.verdict == "determined"]
        inside = sum(r.lower <= truth[r.name] + 1e-9 and truth[r.name] - 1e-9 <= r.upper for r in seen)
        n = next((r for r in seen if r.name == "n"), None)
        row |= {f"n, {digits}": n and n.estimate, f"width, {digits}": n and n.upper - n.lower}
        row |= {f"inside, {digits}": [inside, len(seen)]}
    return row


def moments(name: str, tables: int) -> dict:
    release, records, truth = reference(name)
    model, theta = release.model, np.asarray(release.theta)

    def errors(draws):
        found = bayesrecon.recover(gaussian(model, draws.mean(axis=0), np.cov(draws.T), draws=len(draws)))
        z = [round((r.estimate - truth[r.name]) / r.se, 3) for r in found if r.verdict == "determined" and r.se]
        return found, z

    found, z = errors(theta)
    row = {"posterior": name, "N": int(truth["n"]), "d": model.dimension, "n": found["n"].estimate, "se": found["n"].se}
    row |= {"z": z, "failed": list(found.failures)}
    exact, rng, rows, failed = Regression(model, records), np.random.default_rng(zlib.crc32(name.encode())), [], 0
    for _ in range(tables if model.dimension <= FEW else tables * 2 // 5):
        found, z = errors(exact.sample(len(theta), rng))
        failed += bool(found.failures)
        if z:
            rows.append(z)
    return row | {"simulated": rows, "simulated failed": failed}


def releases(name: str) -> dict:
    release, records, truth = reference(name)
    model, theta = release.model, np.asarray(release.theta)
    at, covariance = mode(model, records, theta.mean(axis=0))
    kinds = {"mode and covariance": lambda: gaussian(model, at, covariance, jacobian=True)}
    for digits in (6, 4):
        kinds[f"{digits} digits"] = lambda k=digits: gaussian(model, *cut(at, covariance, k), jacobian=True, digits=k)
    kinds |= {
        "full rank": lambda: fitted(model, records, theta.mean(axis=0), np.cov(theta.T), False),
        "mean field": lambda: fitted(model, records, theta.mean(axis=0), np.cov(theta.T), True),
        "mean and covariance of draws": lambda: gaussian(model, theta.mean(axis=0), np.cov(theta.T), draws=len(theta)),
        "draws": lambda: release,
    }
    row = {"posterior": name, "N": int(truth["n"])}
    for kind, make in kinds.items():
        try:
            found = bayesrecon.recover(make())
        except BayesreconError as error:
            row[kind] = {"refused": str(error)}
            continue
        every = {r.name: [r.estimate, r.se, truth.get(r.name)] for r in found if r.verdict == "determined"}
        row[kind] = {"every": every, "of": len(found), "error": worst(found, truth), "failed": list(found.failures)}
    return row


def regressions(count: int, digits: int = 3) -> Iterator[dict]:
    """Tables by chance: how often the bounds hold, with the correlation and without it."""
    rng = np.random.default_rng(0)
    tally = {k: {"held": 0, "stated": 0, "silent": 0, "width": []} for k in ("correlation", "none", "none, n known")}
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
        lines = {"coef": [f"{v:#.{digits}g}" for v in (*beta, np.sqrt(scale))]}
        lines |= {"se": [*(f"{v:#.{digits}g}" for v in se), ""]}
        table = pd.DataFrame(lines, index=["const", "x", "sigma"])
        truth = {"n": size, "mean(x)": x.mean(), "mean(y)": y.mean(), "var(x)": x.var(), "var(y)": y.var()}
        truth |= {"cov(x,y)": float(np.cov(x, y, ddof=0)[0, 1]), "mean(x*x)": float(np.mean(x**2))}
        found = bayesrecon.recover(from_table(table, "ols", correlations=[["1", related], [related, "1"]]))
        release = from_table(table, "ols")
        said = {"correlation": {row.name: row for row in found if row.verdict == "determined"}}
        said |= {"none": release.limits(release.model.fields, None)}
        said |= {"none, n known": release.limits(release.model.fields, float(size)) | {"n": Limit()}}
        tally["correlation"]["silent"] += bool(found.failures)
        for kind, rows in said.items():
            ends = {k: (row.lower, row.upper) for k, row in rows.items() if k in truth}
            ends = {k: pair for k, pair in ends.items() if np.isfinite(pair).any()}
            tally[kind]["stated"] += len(ends)
            tally[kind]["held"] += sum(bool(low <= truth[k] <= high) for k, (low, high) in ends.items())
            width = ends.get("var(x)" if kind == "none, n known" else "n", (0.0, np.inf))
            if np.isfinite(width).all():
                tally[kind]["width"].append(np.ptp(width) / truth["var(x)" if kind == "none, n known" else "n"])
    names = {"correlation": "with the correlation", "none": "without it", "none, n known": "without it, n known"}
    for kind, one in tally.items():
        width = float(np.median(one["width"])) if one["width"] else None
        yield {"posterior": names[kind], "tables": count, **one, "width": width}


def cells(study: str, rows: list[dict]) -> list[dict[str, str]]:
    shown = {"modes": of_modes, "moments": of_moments, "releases": of_releases, "regressions": plain}[study]
    return [shown(r) for r in rows]


def number(value: float | None, form: str) -> str:
    return DASH if value is None else format(value, form)


def of_modes(row: dict) -> dict[str, str]:
    line = {"posterior": row["posterior"], "N": str(row["N"]), "d": str(row["d"]), "n": number(row["n"], ".9g")}
    line |= {"error": f"{row['error']:.0e}", "determined": "{}/{}".format(*row["seen"])}
    for digits in (4, 3):
        hits, of = row[f"inside, {digits}"]
        line |= {f"n, {digits} digits": number(row[f"n, {digits}"], ".5g")}
        line |= {f"inside, {digits}": f"{hits}/{of}" if of else DASH}
        line |= {f"width, {digits}": number(row[f"width, {digits}"], ".2g")}
    return line


def of_moments(row: dict) -> dict[str, str]:
    z, own = np.array(row["simulated"]), np.array(row["z"])
    line = {"posterior": row["posterior"], "N": str(row["N"]), "d": str(row["d"])}
    line |= {"n of reference draws": f"{row['n']:.5g} ± {row['se']:.2g}" if row["se"] else DASH}
    line |= {"z": f"{np.sqrt(np.mean(own**2)):.2f}" if own.size else DASH, "simulated tables": str(len(z))}
    line |= {"failed": str(row["simulated failed"])}
    if z.size:
        each = np.sqrt((z**2).mean(axis=0))
        line |= {"their z": f"{np.sqrt(np.mean(z**2)):.2f} ({each.min():.2f} to {each.max():.2f})"}
        line |= {"mean z of n": f"{z[:, 0].mean():+.2f}", "95 % intervals hold": f"{(np.abs(z) < 1.96).mean():.1%}"}
    return line


def of_releases(row: dict) -> dict[str, str]:
    line = {"posterior": row["posterior"], "N": str(row["N"])}
    for kind, one in row.items():
        if kind in line:
            continue
        n = one.get("every", {}).get("n")
        count = f"{n[0]:.6g}" if n else "n undetermined" if one.get("every") else DASH
        line[kind] = f"{count} ({one['error']:.0e}; {len(one['every'])}/{one['of']})" if one.get("every") else DASH
    return line


def plain(row: dict) -> dict[str, str]:
    held = f"{row['held']}/{row['stated']} ({row['held'] / max(row['stated'], 1):.2%})"
    line = {"tables": f"{row['tables']}, {row['posterior']}", "bounds that hold": held}
    line |= {"nothing stated": str(row["silent"])}
    return line | {"median relative width (of n; of var(x) where n is known)": number(row["width"], ".1%")}


def summary(study: str, rows: list[dict]) -> str:
    if study == "modes":
        widths = {k: [r[f"width, {k}"] / r["N"] for r in rows if r[f"width, {k}"] is not None] for k in (4, 3)}
        inside = {k: np.sum([r[f"inside, {k}"] for r in rows], axis=0) for k in (4, 3)}
        return f"{len(rows)} posteriors, largest relative error {max(r['error'] for r in rows):.0e}. " + " ".join(
            f"At {k} digits {inside[k][0]} of {inside[k][1]} true values are inside, {len(widths[k])} posteriors tell "
            f"n, median width {np.median(widths[k]):.2%} of n."
            for k in (4, 3)
            if widths[k]
        )
    if study == "moments":
        own = np.concatenate([r["z"] for r in rows])
        z = np.concatenate([np.ravel(r["simulated"]) for r in rows])
        tables = sum(len(r["simulated"]) for r in rows)
        return (
            f"{len(rows)} posteriors: z of the reference draws' tables {np.sqrt(np.mean(own**2)):.2f} "
            f"({np.mean(np.abs(own) < 1.96):.1%} within 95 %). {tables} tables of exact draws: z "
            f"{np.sqrt(np.mean(z**2)):.2f}, 95 % intervals hold {np.mean(np.abs(z) < 1.96):.1%}, "
            f"{sum(r['simulated failed'] for r in rows)} failed a check."
        )
    return ""


def keep(study: str, row: dict) -> None:
    held = STUDY.kept()
    held.setdefault(study, {})[row["posterior"]] = row
    STUDY.keep(held)


def page(held: dict[str, dict[str, dict]]) -> str:
    lines = [INTRODUCTION]
    for name, title in TITLES.items():
        rows = [held[name][k] for k in sorted(held.get(name, {}))]
        if not rows:
            continue
        shown = cells(name, rows)
        lines += [f"## {title}", "", NOTES[name], *(["", told] if (told := summary(name, rows)) else []), ""]
        lines += [table(list(shown[0]), [list(line.values()) for line in shown]), ""]
    return "\n".join(lines)


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("studies", nargs="*", default=list(TITLES), help=", ".join(TITLES))
    parser.add_argument("--posteriors", nargs="+", help="all 30 linear ones by default, eight in releases")
    parser.add_argument("--tables", type=int, default=1000, help="simulated tables of a study in all")
    given = STUDY.given(parser)
    workers.check_names(parser, given.studies, TITLES)
    warnings.simplefilter("ignore")
    for study in given.studies:
        if study == "regressions":
            for row in regressions(given.tables):
                keep(study, row)
            continue
        every = given.posteriors or (EIGHT if study == "releases" else references())
        share = -(-given.tables * 46 // (len(every) * 33))  # 13 of 30 posteriors get two fifths of it
        for name in every:
            began = time.perf_counter()
            row = {"modes": modes, "releases": releases}[study](name) if study != "moments" else moments(name, share)
            keep(study, row)
            spent = f"{time.perf_counter() - began:.0f} s"
            print(study, *cells(study, [row])[0].values(), spent, sep=" | ", flush=True)
            reference.cache_clear()


if __name__ == "__main__":
    main()
