"""What PyMC's ADVI gives away, as users run it. Writes ADVI.md and advi.json.

    python benchmarks/advi.py [fits]      needs bayesrecon[pymc]; about a quarter of an hour on one core

A model is compiled once: every fit restores what its step function started from (parameters and optimiser), with other
data and other random numbers. Every statistic is compared with the data afterwards.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pymc as pm
from drawn import PROGRAMS, simulated

import bayesrecon
from bayesrecon.evaluate import true_statistics
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_guide

PAGE = Path(__file__).resolve().parent / "ADVI.md"
ITERATES = 20
DEFAULT = "PyMC's default"  # windowed Adagrad with a step of 0.001
RUNS = (
    ("ADVI", "linear", 200, 1, "Adam, 0.01", 20_000),
    ("ADVI", "linear", 200, 1, DEFAULT, 10_000),
    ("ADVI", "linear", 300, 2, "Adam, 0.01", 20_000),
    ("ADVI", "poisson", 200, 1, "Adam, 0.01", 20_000),
)

INTRODUCTION = """# What PyMC's ADVI gives away

Made by `python benchmarks/advi.py`. `pm.fit(method="advi")` on standardised data that were simulated, one particle a
step, from PyMC's own start, through `posteriors.from_guide` and `recover`: the result alone, and with iterates of the
second half of the run, as a `Tracker` stores them. *Silent* counts the fits of which nothing was stated, as the check
says that they have not settled, or that nothing tells whether they have; *held* the true values inside 95 % intervals
of the others, *z* their errors in standard errors, *± of n* the half width of the interval of n. Full-rank fits are not
read without a stated `residual=`: of 20 such fits 11 were called not stationary, and intervals of the others held 43 of
54 true values only.
"""


def twin(kind: str, x: np.ndarray, y: np.ndarray) -> pm.Model:
    """The same in PyMC."""
    with pm.Model() as model:
        data, response, width = pm.Data("design", x), pm.Data("response", y), x.shape[1] + 1
        if kind == "linear":
            beta, sigma = pm.Normal("beta", 0, 10, shape=width), pm.HalfNormal("sigma", 5)
            pm.Normal("y", beta[0] + data @ beta[1:], sigma, observed=response)
        else:
            beta = pm.Normal("beta", 0, 3, shape=width)
            pm.Poisson("y", pm.math.exp(beta[0] + data @ beta[1:]), observed=response)
    return model


def fits(method: str, program: pm.Model, optimiser: str, steps: int, sets: list):
    """`(approximation, parameters at ITERATES steps of the second half)` of every data set."""
    options = {} if optimiser == DEFAULT else {"obj_optimizer": pm.adam(learning_rate=float(optimiser.split(", ")[1]))}
    with program:
        inference = getattr(pm, method)(random_seed=1)
    step = inference.objective.step_function(obj_n_mc=1, score=True, **options)
    moved = [v for v in step.get_shared() if v.name not in ("design", "response") and hasattr(v.get_value(), "shape")]
    start = [v.get_value().copy() for v in moved]
    spread = "cov" if method == "FullRankADVI" else "std"
    approximation, every = inference.approx, steps // 2 // ITERATES
    for x, y in sets:
        program.set_data("design", x)
        program.set_data("response", y)
        for variable, value in zip(moved, start, strict=True):
            variable.set_value(value)
        late = []
        for i in range(1, steps + 1):
            step()
            if i > steps - ITERATES * every and not (steps - i) % every:
                late.append({"mean": approximation.mean.eval(), spread: getattr(approximation, spread).eval()})
        yield approximation, late


def run(method: str, kind: str, n: int, p: int, optimiser: str, steps: int, count: int) -> list[dict]:
    rng = np.random.default_rng(0)
    sets = [simulated(kind, n, p, rng) for _ in range(count)]
    model = from_numpyro(PROGRAMS[kind], {"x": (p,), "y": ()}, domain=None if kind == "linear" else {"x": "binary"})
    rows = [
        {"method": method, "model": f"{kind}, {p + 1} coefficients, n = {n}", "optimiser": optimiser, "steps": steps}
        | {"iterates": k, "fits": count, "silent": 0, "held": 0, "stated": 0, "z": [], "widths": []}
        for k in (0, ITERATES)
    ]
    for (approximation, late), (x, y) in zip(
        fits(method, twin(kind, *sets[0]), optimiser, steps, sets), sets, strict=True
    ):
        truth = true_statistics(model, {"x": x, "y": np.asarray(y, float)})
        for row in rows:
            more = late[:-1] if row["iterates"] else None
            found = bayesrecon.recover(from_guide(model, approximation, late[-1], iterates=more))
            if found.failures:
                row["silent"] += 1
                continue
            for r in found:
                if r.verdict == "determined" and r.name in truth:
                    row["stated"] += 1
                    row["held"] += bool(r.lower <= truth[r.name] <= r.upper)
                    row["z"].append((r.estimate - truth[r.name]) / r.se)
            if found["n"].upper is not None:
                row["widths"].append((found["n"].upper - found["n"].lower) / 2 / n)
    for row in rows:
        z, widths = np.array(row.pop("z")), row.pop("widths")
        row["z"] = float(np.sqrt(np.mean(z**2))) if len(z) else None
        row["width"] = float(np.median(widths)) if widths else None
        print(row, flush=True)
    return rows


def page(rows: list[dict]) -> str:
    """The page of what was counted."""
    titles = ("method", "model", "optimiser", "steps", "iterates", "fits", "silent", "held", "z", "± of n")
    lines = ["| " + " | ".join(titles) + " |", "|" + " --- |" * 3 + " ---: |" * (len(titles) - 3)]
    for r in rows:
        held = f"{r['held']}/{r['stated']}" + (f" ({r['held'] / r['stated']:.1%})" if r["stated"] else "")
        z, width = ("–" if r[k] is None else f"{r[k]:{f}}" for k, f in (("z", ".2f"), ("width", ".1%")))
        cells = (r["method"], r["model"], r["optimiser"], f"{r['steps']:,}", r["iterates"] or "none", r["fits"])
        lines.append("| " + " | ".join(map(str, (*cells, r["silent"], held, z, width))) + " |")
    told = [r for r in rows if r["iterates"]]
    held, stated = (sum(r[k] for r in told) for k in ("held", "stated"))
    total, silent = (sum(r[k] for r in told) for k in ("fits", "silent"))
    share = f", {held / stated:.1%}" if stated else ""
    whole = (
        f"With iterates: {total} fits, {silent} of them silent; intervals of the others hold {held} of {stated}{share}."
    )
    return "\n".join([INTRODUCTION, whole, "", *lines]) + "\n"


def main() -> None:
    warnings.simplefilter("ignore")
    count, began = int(sys.argv[1]) if len(sys.argv) > 1 else 20, time.perf_counter()
    rows = []
    for settings in RUNS:
        rows += run(*settings, count)
        PAGE.with_suffix("").with_name("advi.json").write_text(json.dumps(rows, indent=1) + "\n")
        PAGE.write_text(page(rows))
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
