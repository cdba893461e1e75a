"""What variational fits give away: optima, and fits as users make them. Writes VARIATIONAL.md.

    python -m benchmarks.approximated.variational [fits] [optima] [open] [users] [low]
                                                 needs POSTERIOR_DB_PATH; about ten minutes on two cores

With names of parts only these are made anew.
"""

import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.infer import SVI, Trace_ELBO, autoguide
from scipy.optimize import minimize

import bayesrecon
from bayesrecon.evaluate import true_statistics
from bayesrecon.posteriors import from_guide, gaussian
from bayesrecon.posteriors.approximated import guides
from bayesrecon.posteriors.approximated.normal import variational
from bayesrecon.precision import x64
from benchmarks.approximated.drawn import PROGRAMS, model_of, simulated, tallied
from benchmarks.references import reference
from benchmarks.study import Study, table
from tests.support.variational import optimum, ready

POSTERIORS = (
    "kidiq-kidscore_momiq", "kidiq-kidscore_momhs", "kidiq-kidscore_momhsiq", "kidiq-kidscore_interaction",
    "kidiq_with_mom_work-kidscore_interaction_c2", "earnings-earn_height", "earnings-logearn_height_male",
    "mesquite-logmesquite_logvolume", "mesquite-logmesquite_logva", "kilpisjarvi_mod-kilpisjarvi",
)  # fmt: skip
RUNS = (
    ("AutoMultivariateNormal", "linear", 200, 1, 0.01, 4000),
    ("AutoMultivariateNormal", "linear", 300, 2, 0.005, 6000),
    ("AutoMultivariateNormal", "linear", 200, 1, 0.001, 20000), ("AutoNormal", "linear", 200, 1, 0.01, 4000),
    ("AutoNormal", "linear", 300, 2, 0.005, 6000), ("AutoMultivariateNormal", "poisson", 200, 1, 0.01, 4000),
)  # fmt: skip
LOW = (("linear", 200, 1, 4000), ("linear", 300, 4, 8000), ("poisson", 200, 3, 8000))
ITERATES = 20
_TRIED = 8  # optima of low rank

INTRODUCTION = """# What variational fits give away

Made by `python -m benchmarks.approximated.variational`. *Optima* of the ELBO are found by Newton's method to machine
precision and attacked by `recover` through `posteriors.from_guide(..., residual=0)`. *Error* is the largest relative
error of the determined statistics, and *seen* is their number. *Fits as users make them* use NumPyro's SVI with Adam
at a constant step, one particle and the default start, on standardised simulated data. They are attacked with the
parameters alone, and with iterates from the second half of the run. *Held* counts true values inside 95 % intervals,
and *silent* counts fits without any result.
"""
MEAN_FIELD = """## What a mean field leaves open

A mean field of d coordinates satisfies 2d equations. A linear regression of y on x with an intercept has six totals: n
and the sums of x, y, x², xy and y². Let r be the residual at the mean of the fit.

* The equations in the coefficients determine the sums of r and x r.
* The equations in their standard deviations, the diagonal of E_q[Hess log p], determine n (times E[1/sigma²]) and the
  sum of x².
* The equations in sigma determine the sum of r², and n again.

These are five totals: n and the sums of x², r, x r and r². The sum of x is in no equation. It would multiply the
covariance of intercept and slope, which a mean field does not have. No other attack could find it either. To see this,
reflect the x of the private records across the part of the vector of ones that is orthogonal to the residuals, and keep
the residuals. All five totals and the optimum stay exactly the same. The mean of x changes, and with it the mean,
variance and covariance of y. `tests/posteriors/test_guides.py` makes such records and fits them.

The undetermined part is limited by the domains of the fields: see `bound`. If one field is known, as the design of a
study often is, the rest is determined exactly.
"""
LOW_RANK = """## Factors of low rank

`AutoLowRankMultivariateNormal` is read only with a stated `residual=`. It often has no optimum: as in factor analysis
(Heywood 1931), the ELBO keeps growing while the specific variance of a coordinate approaches zero. *Endless* counts
such fits: starting from the end of the run, quasi-Newton steps on the exact ELBO reduced the specific share of a
coordinate's variance below 0.0001. In these directions the equations hold at no step of a run. The other columns show
what the iterates would have given.
"""


def optima() -> list[dict[str, str]]:
    rows = []
    for name in POSTERIORS:
        release, records, truth = reference(name)
        model, theta = release.model, np.asarray(release.theta)
        row = {"posterior": name, "N": f"{truth['n']:.0f}", "d": f"{model.dimension}"}
        for full, title in ((True, "full rank"), (False, "mean field")):
            mean, covariance = optimum(model, records, theta.mean(axis=0), np.cov(theta.T), full)
            kind = autoguide.AutoMultivariateNormal if full else autoguide.AutoDiagonalNormal
            guide = kind(lambda batch, program=model.program: program(**batch))
            guide = ready(guide, {k: np.asarray(v)[:3] for k, v in records.items()})
            positions = {k: np.asarray(v) for k, v in guide._unpack_latent(np.arange(model.dimension)).items()}
            at = np.argsort(np.concatenate([np.ravel(positions[p.name]) for p in model.parameters]))
            root = np.linalg.cholesky(covariance[np.ix_(at, at)])
            params = {"auto_loc": mean[at], **({"auto_scale_tril": root} if full else {"auto_scale": np.diag(root)})}
            found = bayesrecon.recover(from_guide(model, guide, params, residual=0.0))
            seen = [r for r in found if r.verdict == "determined"]
            off = [abs(r.estimate - truth[r.name]) / size(r.name, truth) for r in seen]
            n = found["n"]
            row[f"n, {title}"] = f"{n.estimate:.8g}" if n.estimate is not None else "–"
            row[f"error, {title}"] = f"{max(off):.0e}" if off else "–"
            row[f"seen, {title}"] = f"{len(seen)}/{len(found)}" if not found.failures else "failed"
        rows.append(row)
        print(row, flush=True)
    return rows


def left_open() -> list[dict[str, str]]:
    """Bounds of a mean field of `kidscore_momiq`, and what is told once a field is known."""
    release, records, truth = reference("kidiq-kidscore_momiq")
    model, theta = release.model, np.asarray(release.theta)
    mean, covariance = optimum(model, records, theta.mean(axis=0), np.cov(theta.T), full=False)
    fit = gaussian(model, mean, covariance, fit="mean field")
    domains = {"mom_iq 50 to 160, kid_score 0 to 180": {"mom_iq": (50, 160), "kid_score": (0, 180)}}
    domains |= {"70 to 140, 20 to 145": {"mom_iq": (70, 140), "kid_score": (20, 145)}}
    found = {title: bayesrecon.bound(fit, domain=domain) for title, domain in domains.items()}
    known = bayesrecon.recover(fit, known={"mom_iq": records["mom_iq"]})
    rows = []
    for interval in found[next(iter(domains))].intervals:
        row = {"statistic": interval.name, "true": f"{truth[interval.name]:.6g}"}
        row |= {title: f"{b[interval.name].lower:.5g} to {b[interval.name].upper:.5g}" for title, b in found.items()}
        told = [r for r in known if r.name == interval.name]
        rows.append(row | {"mom_iq known": f"{told[0].estimate:.8g}" if told else "known"})
        print(rows[-1], flush=True)
    return rows


def low_rank(kind: str, n: int, p: int, steps: int, count: int) -> list[dict[str, str]]:
    """Fits of low rank, read as if their iterates told how far they are from an optimum."""
    refused, guides._SLOW = guides._SLOW, ""
    try:
        rows = run("AutoLowRankMultivariateNormal", kind, n, p, 0.01, steps, count, (True,))
    finally:
        guides._SLOW = refused
    ends = f"{sum(endless(kind, n, p, steps))} of {_TRIED}"
    return [{k: v for k, v in row.items() if k != "guide"} | {"endless": ends} for row in rows]


def endless(kind: str, n: int, p: int, steps: int) -> list[bool]:
    """Whether a coordinate's own variance vanishes on the way to the optimum of low rank, of the first data sets."""
    sets, guide, fitted, model = fits("AutoLowRankMultivariateNormal", kind, n, p, 0.01, steps, _TRIED)
    derived, found, d = variational(model), [], model.dimension
    with x64():
        for i, (x, y) in enumerate(sets):
            last = {k: np.asarray(v[i, -1], float) for k, v in fitted.items()}
            law = guides.autoguide_distribution(model, guide, last, ())
            records = {"x": jnp.asarray(x, float), "y": jnp.asarray(y, float)}

            def loss(u, law=law, records=records):
                phi = law.phi(u)
                return -jax.vmap(derived.log_lik, in_axes=(None, 0))(phi, records).sum() - derived.log_prior(phi)

            slope = jax.jit(jax.value_and_grad(loss))
            end = minimize(lambda u, f=slope: [np.asarray(v) for v in f(u)], law.native, jac=True, method="BFGS").x
            factor = end[d:-d].reshape(d, -1)
            found.append(bool((1 / (1 + (factor**2).sum(axis=1))).min() < 1e-4))
    return found


def size(name: str, truth: dict[str, float]) -> float:
    """What an error is relative to: a mean is also measured against its field's spread, a covariance against two."""
    kind, _, fields = name.rstrip(")").partition("(")
    spread = float(np.prod([truth[f"var({f})"] ** 0.5 for f in fields.split(",")])) if kind in ("mean", "cov") else 0.0
    return max(abs(truth[name]), spread)


def fits(guide_name, kind, n, p, rate, steps, count):
    """Data sets, the guide, its parameters at `ITERATES` steps of the second half for every data set, and the model."""
    rng, program, guide = np.random.default_rng(0), PROGRAMS[kind], getattr(autoguide, guide_name)(PROGRAMS[kind])
    sets = [simulated(kind, n, p, rng) for _ in range(count)]
    xs, ys = (jnp.array([s[i] for s in sets]) for i in (0, 1))
    svi, every = SVI(program, guide, numpyro.optim.Adam(rate), Trace_ELBO()), steps // 2 // ITERATES
    svi.init(jax.random.key(0), xs[0], ys[0])

    def one(key, x, y):
        def step(state, _):
            return svi.update(state, x, y)[0], None

        def stretch(state, _):
            state, _ = jax.lax.scan(step, state, None, length=every)
            return state, svi.get_params(state)

        state, _ = jax.lax.scan(step, svi.init(key, x, y), None, length=steps - every * ITERATES)
        return jax.lax.scan(stretch, state, None, length=ITERATES)[1]

    fitted = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), count), xs, ys)
    ready(guide, xs[0], ys[0])
    return sets, guide, fitted, model_of(kind, p)


def run(guide_name, kind, n, p, rate, steps, count, which=(False, True)) -> list[dict[str, str]]:
    sets, guide, fitted, model = fits(guide_name, kind, n, p, rate, steps, count)
    rows = []
    for with_iterates in which:
        found = []
        for i, (x, y) in enumerate(sets):
            late = [{k: np.asarray(v)[i, j] for k, v in fitted.items()} for j in range(ITERATES)]
            more = late[:-1] if with_iterates else None
            truth = true_statistics(model, {"x": np.asarray(x, float), "y": np.asarray(y, float)})
            found.append((bayesrecon.recover(from_guide(model, guide, late[-1], iterates=more)), truth))
        row = {"guide": guide_name, "model": f"{kind}, {p + 1} coefficients, n = {n}", "Adam": f"{rate:g}, {steps}"}
        silent, held, stated, z, width = tallied(found).values()
        row |= {"iterates": f"{ITERATES}" if with_iterates else "none", "fits": f"{count}", "silent": f"{silent}"}
        row |= {"held": f"{held}/{stated}" + (f" ({held / stated:.1%})" if stated else "")}
        row |= {"z": "–" if z is None else f"{z:.2f}", "± of n": "–" if width is None else f"{width:.1%}"}
        rows.append(row)
        print(rows[-1], flush=True)
    return rows


def page(rows: dict[str, list[dict[str, str]]]) -> str:
    def cells(part: str, words: int) -> str:
        return table(list(rows[part][0]), [list(row.values()) for row in rows[part]], words)

    lines = [INTRODUCTION, "## Optima", "", cells("optima", 1), "", MEAN_FIELD, cells("open", 1), ""]
    lines += ["## Fits as users make them", "", cells("users", 4)]
    lines += ["", LOW_RANK, cells("low", 3)] if rows["low"] else []
    return "\n".join(lines) + "\n"


STUDY = Study(__file__, page)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = STUDY.parser(__doc__)
    parser.add_argument("count", type=int, nargs="?", default=34, help="data sets a row")
    parser.add_argument("parts", nargs="*", help="those alone, beside the rows that there are")
    given, began = STUDY.given(parser), time.perf_counter()
    count, chosen = given.count, given.parts
    rows = STUDY.kept() if chosen else {}
    parts = {
        "optima": lambda: optima(),
        "open": left_open,
        "users": lambda: [row for settings in RUNS for row in run(*settings, count)],
        "low": lambda: [row for settings in LOW for row in low_rank(*settings, count)],
    }
    for part, make in parts.items():
        if not chosen or part in chosen:
            rows[part] = make()
    STUDY.keep(rows)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
