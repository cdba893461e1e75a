"""What PyMC's ADVI gives away, as users run it. Writes ADVI.md and advi.json.

    python -m benchmarks.approximated.advi [fits] [method]      needs bayesrecon[pymc]; about half an hour on one core

With a method only its rows are made anew.

A model is compiled once: every fit restores what its step function started from (parameters and optimiser), with other
data and other random numbers. Every statistic is compared with the data afterwards.
"""

import json
import sys
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pymc as pm

import bayesrecon
from bayesrecon.evaluate import true_statistics
from bayesrecon.posteriors import from_guide
from benchmarks.approximated.drawn import model_of, simulated, tallied
from benchmarks.study import HERE, table

PAGE = HERE / "ADVI.md"
ITERATES = 20
DEFAULT = "PyMC's default"  # windowed Adagrad with a step of 0.001
RUNS = (
    ("ADVI", "linear", 200, 1, "Adam, 0.01", 20_000), ("ADVI", "linear", 200, 1, DEFAULT, 10_000),
    ("ADVI", "linear", 300, 2, "Adam, 0.01", 20_000), ("ADVI", "poisson", 200, 1, "Adam, 0.01", 20_000),
    ("FullRankADVI", "linear", 200, 1, "Adam, 0.01", 20_000),
    ("FullRankADVI", "poisson", 200, 1, "Adam, 0.01", 20_000),
)  # fmt: skip

INTRODUCTION = """# What PyMC's ADVI gives away

Made by `python -m benchmarks.approximated.advi`. `pm.fit(method="advi")` fits standardised simulated data with one
particle per step, from PyMC's default start. `recover` attacks the result through `posteriors.from_guide`, once alone
and once with iterates from the second half of the run, as a `Tracker` stores them. *Silent* counts fits without any
result: the check says that the fit has not converged, or that convergence cannot be judged. *Held* is the share of
true values inside the 95 % intervals of the other fits. *z* is the error in standard errors. *± of n* is the
half-width of the interval of n.

**Full rank.** PyMC optimises the entries of the Cholesky factor, including those below the diagonal. One step is then
a considerable fraction of a posterior standard deviation. Over late iterates the gradient in these entries is zero on
average. The gradient in the covariance is not, because the derivative of one with respect to the other moves along.
When the covariance was used, 9 of 16 fits were called not stationary, and the intervals of the others held 34 of 42
true values. Below, the gradient is averaged in the entries that PyMC optimises.

**PyMC's default optimiser** is silent in every fit, and rightly: 10,000 steps, PyMC's default number, are too few for
it. It is a windowed Adagrad with a step of 0.001, of which a step is at most that, whatever the gradient, and 0.0003
where gradients agree. Laws that start one wide need more of them to shrink to a twentieth. With the same rule on 8 of
these data sets, standard deviations over those after 80,000 steps (medians, of sigma and the first coefficient) are
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
    model, each = model_of(kind, p), {0: [], ITERATES: []}
    fitted = fits(method, twin(kind, *sets[0]), optimiser, steps, sets)
    for (approximation, late), (x, y) in zip(fitted, sets, strict=True):
        truth = true_statistics(model, {"x": x, "y": np.asarray(y, float)})
        for iterates, found in each.items():
            release = from_guide(model, approximation, late[-1], iterates=late[:-1] if iterates else None)
            found.append((bayesrecon.recover(release), truth))
    about = {"method": method, "model": f"{kind}, {p + 1} coefficients, n = {n}", "optimiser": optimiser}
    rows = []
    for iterates, found in each.items():
        rows.append(about | {"steps": steps, "iterates": iterates, "fits": count} | tallied(found))
        print(rows[-1], flush=True)
    return rows


def default_widths(count: int = 8) -> list[tuple[int, list[float]]]:
    """How wide mean fields still are after so many steps of PyMC's default optimiser, whose rule this is."""
    rng, rate, window, floor, stretch = np.random.default_rng(0), 0.001, 10, 0.1, 5_000
    sets = [simulated("linear", 200, 1, rng) for _ in range(count)]
    xs, ys = (jnp.array([s[i] for s in sets]) for i in (0, 1))
    model = model_of("linear", 1)
    d = model.dimension

    def loss(u, noise, x, y):
        sd = jax.nn.softplus(u[d:])
        theta = u[:d] + sd * noise
        logs = jax.vmap(lambda a, b: model.log_lik(theta, {"x": a, "y": b}))(x, y).sum()
        return -(logs + model.log_prior(theta) + model.log_det(theta) + jnp.log(sd).sum())

    def one(key, x, y):
        def step(state, key):
            u, squares, i = state
            slope = jax.grad(loss)(u, jax.random.normal(key, (d,)), x, y)
            squares = squares.at[:, i % window].set(slope**2)
            return (u - rate * slope / jnp.sqrt(squares.sum(axis=1) + floor), squares, i + 1), None

        def stretched(state, key):
            state, _ = jax.lax.scan(step, state, jax.random.split(key, stretch))
            return state, state[0]

        start = jnp.concatenate([jnp.zeros(d), jnp.full(d, jnp.log(jnp.expm1(1.0)))])
        return jax.lax.scan(stretched, (start, jnp.zeros((2 * d, window)), 0), jax.random.split(key, 16))[1]

    found = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), count), xs, ys)
    sd = np.log1p(np.exp(np.asarray(found)[:, :, d:]))
    ratio = np.median(sd / sd[:, -1:], axis=0)
    return [(stretch * (i + 1), [float(r[0]), float(r[1])]) for i, r in enumerate(ratio) if i in (1, 3, 5)]


def page(rows: list[dict], widths: list[tuple[int, list[float]]]) -> str:
    titles = ("method", "model", "optimiser", "steps", "iterates", "fits", "silent", "held", "z", "± of n")
    lines = []
    for r in rows:
        held = f"{r['held']}/{r['stated']}" + (f" ({r['held'] / r['stated']:.1%})" if r["stated"] else "")
        z, width = ("–" if r[k] is None else f"{r[k]:{f}}" for k, f in (("z", ".2f"), ("width", ".1%")))
        cells = (r["method"], r["model"], r["optimiser"], f"{r['steps']:,}", r["iterates"] or "none", r["fits"])
        lines.append((*cells, r["silent"], held, z, width))
    told = [r for r in rows if r["iterates"]]
    held, stated = (sum(r[k] for r in told) for k in ("held", "stated"))
    total, silent = (sum(r[k] for r in told) for k in ("fits", "silent"))
    share = f", {held / stated:.1%}" if stated else ""
    counts = f"{total} fits, {silent} of them silent; intervals of the others hold {held} of {stated}{share}"
    whole = f"With iterates: {counts}."
    wide = [f"{' and '.join(f'{x:.2f}' for x in ratios)} after {steps:,} steps" for steps, ratios in widths]
    return "\n".join([INTRODUCTION + "; ".join(wide) + ".\n", whole, "", table(titles, lines, words=3)]) + "\n"


def main() -> None:
    warnings.simplefilter("ignore")
    count, began = int(sys.argv[1]) if len(sys.argv) > 1 else 20, time.perf_counter()
    stored, chosen = PAGE.with_name("advi.json"), sys.argv[2:]
    rows = [r for r in json.loads(stored.read_text()) if r["method"] not in chosen] if chosen else []
    widths = default_widths()
    for settings in RUNS:
        if not chosen or settings[0] in chosen:
            rows += run(*settings, count)
            stored.write_text(json.dumps(rows, indent=1) + "\n")
            PAGE.write_text(page(rows, widths))
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
