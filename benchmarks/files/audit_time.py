"""How long an audit takes until it answers, as the page benchmarks/AUDIT_TIME.md.

python -m benchmarks.files.audit_time [--repetitions 3] [--draws 4000]
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.study import Study, table

TARGET = 60  # seconds on two cores

MODEL = """
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

import bayesrecon


def program(clinic, dose, response=None):
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    slope = numpyro.sample("slope", dist.Normal(0, 10))
    sd = numpyro.sample("sd", dist.HalfNormal(5))
    effect = numpyro.sample("effect", dist.Normal(0, 2).expand([13]).to_event(1))
    with numpyro.plate("patients", dose.shape[0]):
        numpyro.sample("response", dist.Normal(mean + effect[clinic] + slope * dose, sd), obs=response)


model = bayesrecon.models.from_numpyro(
    program, record={"clinic": (), "dose": (), "response": ()}, domain={"clinic": list(range(13))}
)
"""

FIT = """
import sys

import jax
import numpy as np
from numpyro.infer import MCMC, NUTS
import arviz

sys.path.insert(0, sys.argv[1])
from own import program

rng = np.random.default_rng(0)
clinic, dose = rng.integers(0, 13, 400), rng.uniform(0, 4, 400)
response = 3 + rng.normal(0, 2, 13)[clinic] + 1.5 * dose + rng.normal(0, 2, 400)
per_chain = int(sys.argv[2]) // 4
sampler = MCMC(
    NUTS(program), num_warmup=500, num_samples=per_chain, num_chains=4, chain_method="vectorized", progress_bar=False
)
sampler.run(jax.random.key(0), clinic, dose, response, extra_fields=("potential_energy",))
found = arviz.from_numpyro(sampler, log_likelihood=True)
found.to_netcdf(sys.argv[1] + "/all.nc")
del found.log_likelihood, found.sample_stats, found.observed_data
found.to_netcdf(sys.argv[1] + "/draws.nc")
"""

WORDS = """# How long an audit takes

Made by `python -m benchmarks.files.audit_time`. The file has {draws} draws of a hierarchical model with 16
parameters on 400 patients. Every row is the median time of {repetitions} audits on the command line. Each audit runs in
its own process, and its time includes compilation. The machine had {cores} cores and a mean load of {load:.1f}. The
target is {target} s with default effort. No remedy is started after 45 seconds of CPU time, so a busy machine takes
longer and gives the same result.

{table}

*Processor* and *clock* are in seconds; under a load far above the number of cores the clock says nothing. `draws alone`
is the same file without log density, pointwise log likelihoods and observed data. *Remedies*: measured by attacking
again, predicted by theory, not tried.
"""


def audited(folder, file, options, draws):
    """Seconds of processor and clock, load, and what was done, of one audit."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "bayesrecon", "audit", f"{folder}/{file}.nc", "--model", f"{folder}/own.py:model"]
    done = subprocess.run([*command, "--json", *options], capture_output=True, text=True)
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout)
    status = [r["status"] for f in found["findings"] for r in f["remedies"]]
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    kinds = [f["kind"] for f in found["findings"]]
    assert found["draws"] == draws
    found = {"processor": processor, "clock": clock, "load": os.getloadavg()[0], "findings": kinds}
    return found | {k: status.count(k) for k in ("measured", "predicted", "not tried")}


def main():
    parser = STUDY.parser(__doc__, repetitions=3, draws=4000)
    options = STUDY.given(parser)
    cases = {}
    for title, file in (("all groups", "all"), ("draws alone", "draws")):
        cases |= {title: (file, []), f"{title}, no remedies": (file, ["--no-remedies"])}
    found = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "own.py").write_text(MODEL)
        subprocess.run([sys.executable, "-c", FIT, folder, str(options.draws)], check=True)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = ""  # nothing that an earlier audit compiled
        for _ in range(options.repetitions):
            for name, (file, more) in cases.items():
                found[name].append(audited(folder, file, more, options.draws))
                print(name, found[name][-1], flush=True)
    about = {"draws": options.draws, "repetitions": options.repetitions, "cores": os.cpu_count()}
    STUDY.keep(about | {"cases": found})


def page(rows):
    lines, loads = [], []
    for name, runs in rows["cases"].items():
        middle = {k: statistics.median(r[k] for r in runs) for k in ("processor", "clock", *STATUS)}
        loads += [r["load"] for r in runs]
        remedies = ", ".join(f"{middle[k]:.0f} {k}" for k in STATUS if middle[k]) or "none"
        lines.append([name, f"{middle['processor']:.1f}", f"{middle['clock']:.1f}", len(runs[0]["findings"]), remedies])
    head = ["file", "processor", "clock", "findings", "remedies"]
    about = {k: rows[k] for k in ("draws", "repetitions", "cores")}
    return WORDS.format(**about, target=TARGET, load=float(np.mean(loads)), table=table(head, lines))


STUDY = Study(__file__, page)
STATUS = ("measured", "predicted", "not tried")

if __name__ == "__main__":
    main()
