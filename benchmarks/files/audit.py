"""What side channels give away: exact statistics, records, remedies, and the reading of large CSV sets.

    python -m benchmarks.files.audit [densities] [pointwise] [remedies] [--only kidiq] [--subsets 200] [--gigabytes 1]

Needs POSTERIOR_DB_PATH; Log densities and log likelihoods of kidiq's reference draws are computed from the true model
as a sampler would have written them, and rounded; the attacks see nothing else. Remedies are tried on files made in
different ways: NumPyro fits in single and double precision as ArviZ writes them, and CmdStan CSV sets. With --gigabytes
a CmdStan CSV set of that size is written to a temporary folder, audited in a process of its own, and deleted.
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

import bayesrecon
from bayesrecon.attacks.sidechannels.preimage import invert_columns
from bayesrecon.attacks.sidechannels.released_log_densities import recover_from_log_density
from bayesrecon.attacks.sidechannels.resolution import resolution
from bayesrecon.digits import round_to
from bayesrecon.estimation.anchors import Reference
from bayesrecon.evaluate.record_scores import match_records
from bayesrecon.models import from_numpyro, load
from bayesrecon.posteriors import nuts
from bayesrecon.precision import x64
from benchmarks.references import reference
from benchmarks.study import Study

NAME, SCHOOLS = "kidiq-kidscore_momiq", "eight_schools-eight_schools_noncentered"
MEANS = ("mean(mom_iq)", "mean(kid_score)")
SUBSETS = ((1000, 6, 0.2), (100, 6, 0.5), (20, 6, 0.5), (20, 8, 0.05), (1000, 8, 0.05), (8, 0, 0.5))
"""Draws, digits, and what n is to be within."""
ALL = ("n", *MEANS, "var(mom_iq)", "var(kid_score)")
STUDY = Study(__file__)


def log_joint(model, theta, records):
    """The log density that a sampler writes: prior, Jacobian and likelihood, `(T,)`."""

    def one(t):
        terms = jax.vmap(lambda z: model.log_lik(t, z))(records)
        return model.log_prior(t) + model.log_det(t) + terms.sum()

    with x64():
        return np.asarray(jax.jit(jax.vmap(one))(theta))


def log_likelihoods(model, theta, records):
    """Pointwise, `(T, N)`."""
    with x64():
        f = jax.jit(jax.vmap(lambda t: jax.vmap(lambda z: model.log_lik(t, z))(records)))
        return np.asarray(f(theta))


def constrained(release):
    with x64():
        params = jax.vmap(release.model.constrain)(release.theta)
        return {k: np.asarray(v)[None] for k, v in params.items()}


def some(release, at, density):
    theta, weights = np.asarray(release.theta)[at], np.full(len(at), 1 / len(at))
    return replace(release, theta=theta, weights=weights, chain=np.ones(len(at), int), log_density=density)


def densities(release, records, truth, subsets):
    exact = log_joint(release.model, release.theta, records)
    rng = np.random.default_rng(0)

    def errors(at, digits):
        density = exact[at] if digits is None else round_to(exact[at], digits)
        found = recover_from_log_density(some(release, at, density))
        return {name: abs(found[name].estimate - truth[name]) for name in ALL}

    rows = []
    for count, digits, limit in SUBSETS:
        found = [errors(rng.permutation(release.size)[:count], digits or None) for _ in range(subsets)]
        n = np.array([f["n"] for f in found])
        five = [all(f[k] < 0.5 * 10.0 ** (np.floor(np.log10(truth[k])) - 4) for k in ALL) for f in found]
        rows.append(
            {"draws": count, "digits": digits or "all", "limit": limit, "subsets": subsets}
            | {"n within the limit": float(np.mean(n < limit)), "rms of n": float(np.sqrt(np.mean(n**2)))}
            | {"means within 0.001": float(np.mean([max(f[m] for m in MEANS) < 1e-3 for f in found]))}
            | {"five statistics to 5 digits": float(np.mean(five))}
        )
        print(rows[-1], flush=True)
    STUDY.add(densities=rows)


def pointwise(release, records):
    last = some(release, np.arange(release.size - 1000, release.size), None)
    columns = round_to(log_likelihoods(release.model, last.theta, records), 6)
    found = bayesrecon.audit(constrained(last) | {"log_lik": columns[None]}, last.model, remedies=False)
    found = next(f for f in found if f.kind == "log-likelihood")
    close = np.all([np.abs(found.records[f] - records[f]) < 0.01 for f in records], axis=0)
    straight = {"records": len(close), "within 0.01": int(close.sum())}

    rng = np.random.default_rng(1)
    covariates = ("a", "b", "c")
    data = {k: rng.normal(size=500) for k in covariates}
    eta = 0.5 + data["a"] - 0.7 * data["b"] + 0.3 * data["c"]
    data["y"] = (rng.random(500) < 1 / (1 + np.exp(-eta))).astype(int)
    model = load("logistic_regression", covariates=covariates, response="y")
    fit = nuts(model, data, draws=250, chains=4, key=0)
    columns = round_to(log_likelihoods(model, fit.theta, data), 6).T
    # Standardised covariates: where they lie is no secret, and the draws need not be attacked first.
    around = Reference(model.fields).recentred(dict.fromkeys(covariates, 0.0), dict.fromkeys(covariates, 1.0))
    with x64():
        theta, noise = np.asarray(fit.theta), resolution(columns).sd
        found = invert_columns(model, theta, columns, noise, around, np.random.default_rng(0))
    share = np.mean(np.all([np.abs(found.records[f] - data[f]) <= 0.01 * np.ptp(data[f]) for f in data], axis=0))
    score = match_records(found.records, data)
    found = {"linear": straight, "logistic": {"within 1 %": float(share), "null": float(score.null)}}
    print(found, flush=True)
    STUDY.add(pointwise=found)


def linear(x, y=None):
    intercept = numpyro.sample("intercept", dist.Normal(0, 100))
    slope = numpyro.sample("slope", dist.Normal(0, 10))
    sigma = numpyro.sample("sigma", dist.HalfNormal(20))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(intercept + slope * x, sigma), obs=y)


def logistic(a, b, y=None):
    alpha = numpyro.sample("alpha", dist.Normal(0, 5))
    beta = numpyro.sample("beta", dist.Normal(0, 5).expand([2]).to_event(1))
    with numpyro.plate("records", a.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=alpha + beta[0] * a + beta[1] * b), obs=y)


def made(kind):
    """Data as an ordinary user has them: a program, a model of it and its records."""
    rng = np.random.default_rng(0)
    if kind == "linear":
        x = rng.normal(50, 10, 60).round(1)
        data = {"x": x, "y": (3 + 0.5 * x + rng.normal(0, 4, 60)).round(1)}
        return linear, from_numpyro(linear, {"x": (), "y": ()}), data
    data = {k: rng.normal(size=200).round(2) for k in "ab"}
    data["y"] = (rng.random(200) < 1 / (1 + np.exp(-0.5 - data["a"] + 0.7 * data["b"]))).astype(int)
    return logistic, from_numpyro(logistic, {"a": (), "b": (), "y": ()}), data


def numpyro_file(path, program, data):
    """1,000 draws of NUTS as ArviZ writes them."""
    import arviz as az

    lengths = {"num_warmup": 500, "num_samples": 500, "num_chains": 2}
    mcmc = MCMC(NUTS(program), **lengths, chain_method="sequential", progress_bar=False)
    mcmc.run(jax.random.key(0), **{k: jnp.asarray(v) for k, v in data.items()}, extra_fields=("potential_energy",))
    az.from_numpyro(mcmc, log_likelihood=True).to_netcdf(str(path))
    return path


def write_set(folder, release, records, digits=6, copies=1, chains=4):
    """A CmdStan CSV set with `lp__` and, as often as asked for, `log_lik`."""
    lp = log_joint(release.model, release.theta, records)
    columns, values = log_likelihoods(release.model, release.theta, records), constrained(release)
    names = [f"log_lik.{i + 1}" for i in range(copies * columns.shape[1])]
    header = ",".join(["lp__", "energy__", "beta.1", "beta.2", "sigma", *names])
    paths, length = [Path(folder) / f"fit-{c}.csv" for c in range(1, chains + 1)], release.size // chains
    for c, path in enumerate(paths):
        with path.open("w") as file:
            file.write(f"# data file = /home/someone/kids.json\n# seed = 1\n{header}\n")
            for t in range(c * length, (c + 1) * length):
                own = [lp[t], -lp[t], *values["beta"][0, t], values["sigma"][0, t]]
                row = ",".join(f"{v:.{digits}g}" for v in columns[t])
                file.write(",".join(f"{v:.{digits}g}" for v in own) + "," + ",".join([row] * copies) + "\n")
    return paths


def files(release, records, folder):
    """Files as different people make them: name, source, model, private data, what an attacker knows."""
    for kind in ("linear", "logistic"):
        program, model, data = made(kind)
        yield f"NumPyro {kind}, single", numpyro_file(folder / f"{kind}.nc", program, data), model, data, None
        if kind == "linear":
            with x64():
                path = numpyro_file(folder / "double.nc", program, data)
            yield f"NumPyro {kind}, double", path, model, data, None
    for digits in (6, 8):
        last = some(release, np.arange(release.size - 4000, release.size), None)
        chains = folder / str(digits)
        chains.mkdir()
        yield f"CmdStan kidiq, {digits} digits", write_set(chains, last, records, digits), release.model, records, None
    schools, data, _ = reference(SCHOOLS)
    schools = some(schools, np.arange(schools.size - 4000, schools.size), None)
    known = {k: v for k, v in data.items() if k != "y"}
    values = constrained(schools)
    values["__log_density__"] = round_to(log_joint(schools.model, schools.theta, data), 8)[None]
    values["log_lik"] = round_to(log_likelihoods(schools.model, schools.theta, data), 8)[None]
    yield "eight schools, 8 digits", values, schools.model, data, known


def remedies(release, records, only):
    within: dict[str, list[bool]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, source, model, data, known in files(release, records, Path(folder)):
            if only not in name:
                continue
            found = bayesrecon.audit(source, model, data=data, known=known)
            for finding in found:
                for r in finding.remedies:
                    if r.measured is not None:
                        within.setdefault(name, []).append(0.75 <= r.predicted / r.measured <= 1.25)
                        errors = f"{r.before:.2g} before, {r.predicted:.2g} predicted, {r.measured:.2g} measured"
                        print(name, finding.kind, r.action, r.statistic, errors, sep=", ", flush=True)
    counts = {name: {"within 25 %": sum(hits), "remedies": len(hits)} for name, hits in within.items()}
    print(counts)
    STUDY.add(remedies=STUDY.kept().get("remedies", {}) | counts)


CHILD = """
import json, resource, sys, time
import bayesrecon
start = time.perf_counter()
found = bayesrecon.audit(sys.argv[1:], bayesrecon.models.load("kidscore_momiq"), remedies=False)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps([seconds, peak, [f.severity + " " + f.kind for f in found]]))
"""


def large(release, records, gigabytes):
    last = some(release, np.arange(release.size - 4000, release.size), None)
    copies = max(1, int(gigabytes * 1e9 / 4000 / len(records["mom_iq"]) / 8.9))
    with tempfile.TemporaryDirectory() as folder:
        paths = write_set(folder, last, records, copies=copies)
        size = sum(p.stat().st_size for p in paths)
        start = time.perf_counter()
        for path in paths:
            with path.open("rb") as file:
                while file.read(2**23):
                    pass
        floor = time.perf_counter() - start
        command = [sys.executable, "-c", CHILD, *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak, kinds = json.loads(done.stdout)
    print("found:", *kinds)
    STUDY.add(large={"GB": size / 1e9, "seconds": seconds, "GiB": peak, "reading alone, seconds": floor})


def main():
    parser = STUDY.parser(__doc__, subsets=200, gigabytes=0.0)
    parser.add_argument("parts", nargs="*", help="densities, pointwise, remedies; default: all")
    parser.add_argument("--only", default="", help="remedies: files whose name holds this")
    options = STUDY.given(parser)
    release, records, truth = reference(NAME)
    parts = {"densities": lambda: densities(release, records, truth, options.subsets)}
    parts |= {"pointwise": lambda: pointwise(release, records)}
    parts |= {"remedies": lambda: remedies(release, records, options.only)}
    for part in options.parts or parts:
        parts[part]()
    if options.gigabytes:
        large(release, records, options.gigabytes)


if __name__ == "__main__":
    main()
