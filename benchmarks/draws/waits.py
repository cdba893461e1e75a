"""What a user waits for: whole commands, and NUTS beside other samplers."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

Numbers = dict[str, float]
CASE = {"chains": 4, "warmup": 700, "draws": 2500}
COMMANDS: dict[str, tuple[str, ...]] = {
    "recover": ("recover", "kidiq-kidscore_momiq"),
    "reconstruct": ("reconstruct", "kidiq-kidscore_momiq", "-n", "400"),
    "demo": ("demo",),
    "fit": ("fit", "linear_regression", "patients.csv", "--response", "outcome", "-o", "fit.nc"),
    "game": (
        *("game", "patients.csv", "--response", "outcome"),
        *("--learner", "linear", "--rounds", "200", "--workers", "1"),
    ),
}


def command(which: int) -> Numbers:
    """A command in its own process: with an empty cache of compiled programs, and again with what is there then."""
    arguments, found = list(COMMANDS.values())[which], {}
    with tempfile.TemporaryDirectory() as folder:
        write_patients(Path(folder) / "patients.csv")
        kept = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
        kept |= {"BAYESRECON_CACHE": f"{folder}/cache"}
        for name in ("first", "again"):
            (Path(folder) / "fit.nc").unlink(missing_ok=True)
            before, began = _spent(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "bayesrecon", *arguments], check=True, capture_output=True, cwd=folder, env=kept
            )
            found[f"{name}, wall s"] = time.perf_counter() - began
            found[f"{name}, CPU s"] = _spent(resource.RUSAGE_CHILDREN) - before
    return found | {"peak, MiB": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}


def write_patients(path: Path) -> None:
    """442 patients, four columns and the outcome."""
    from sklearn.datasets import load_diabetes

    table = load_diabetes(as_frame=True).frame[["age", "bmi", "bp", "s5", "target"]]
    table.rename(columns={"target": "outcome"}).to_csv(path, index=False)


def _spent(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def _problem() -> tuple[Any, dict[str, np.ndarray]]:
    """A linear regression with eight parameters on 400 records."""
    from bayesrecon.models import load

    rng, names = np.random.default_rng(0), tuple("abcdef")
    data: dict[str, np.ndarray] = {name: rng.normal(size=400) for name in names}
    data["y"] = 1 + sum(data.values()) + rng.normal(size=400)
    return load("linear_regression", covariates=names, response="y"), data


def ours() -> Numbers:
    from bayesrecon.posteriors import nuts

    model, data = _problem()
    found = {}
    for key, name in enumerate(("first", "again")):
        before = _spent(resource.RUSAGE_SELF)
        release = nuts(model, data, key=key, chain_method="sequential", **CASE)
        found[f"{name}, CPU s"] = _spent(resource.RUSAGE_SELF) - before
    return found | _mixed(np.asarray(release.theta).reshape(CASE["chains"], CASE["draws"], -1))


def blackjax() -> Numbers:
    """The same log density in one compiled program, chains one after the other."""
    import blackjax
    import jax
    from jax import lax

    from bayesrecon.precision import x64

    model, data = _problem()

    def chain(key: Any, records: Any) -> Any:
        def density(theta: Any) -> Any:
            rows = jax.vmap(model.log_lik, (None, 0))(theta, records).sum()
            return rows + model.log_prior(theta) + model.log_det(theta)

        one, two, three = jax.random.split(key, 3)
        start = jax.random.uniform(one, (model.dimension,), minval=-1, maxval=1)
        tuned = blackjax.window_adaptation(blackjax.nuts, density, is_mass_matrix_diagonal=False)
        (state, settings), _ = tuned.run(two, start, num_steps=CASE["warmup"])
        move = blackjax.nuts(density, **settings).step

        def step(state: Any, key: Any) -> Any:
            state, _ = move(key, state)
            return state, state.position

        return lax.scan(step, state, jax.random.split(three, CASE["draws"]))[1]

    found = {}
    with x64():
        chains = jax.jit(lambda keys, records: lax.map(lambda key: chain(key, records), keys))
        for seed, name in enumerate(("first", "again")):
            before = _spent(resource.RUSAGE_SELF)
            drawn = np.asarray(chains(jax.random.split(jax.random.key(seed), CASE["chains"]), data))
            found[f"{name}, CPU s"] = _spent(resource.RUSAGE_SELF) - before
    return found | _mixed(drawn)


def nutpie() -> Numbers:
    """The same log density and its gradient by JAX, called for every leapfrog step."""
    import jax
    import nutpie

    from bayesrecon.precision import x64

    model, data = _problem()
    with x64():
        rows = jax.vmap(model.log_lik, (None, 0))
        both = jax.jit(jax.value_and_grad(lambda t: rows(t, data).sum() + model.log_prior(t) + model.log_det(t)))

        def density(theta: np.ndarray) -> tuple[float, np.ndarray]:
            with x64():  # the scope belongs to the thread
                value, slope = both(theta)
            return float(value), np.asarray(slope)

        shape = [(model.dimension,)]
        compiled = nutpie.compiled_pyfunc.from_pyfunc(
            model.dimension, lambda: density, lambda *_: lambda t: {"theta": t},
            [np.dtype(float)], shape, ["theta"],
        )  # fmt: skip
        found = {}
        for seed, name in enumerate(("first", "again")):
            before = _spent(resource.RUSAGE_SELF)
            trace = nutpie.sample(
                compiled, chains=CASE["chains"], tune=CASE["warmup"], draws=CASE["draws"], seed=seed, cores=1,
                progress_bar=False,
            )  # fmt: skip
            found[f"{name}, CPU s"] = _spent(resource.RUSAGE_SELF) - before
    return found | _mixed(np.asarray(trace.posterior["theta"]))


def _mixed(drawn: np.ndarray) -> Numbers:
    """How good draws `(chains, draws, d)` are."""
    from bayesrecon.diagnostics import effective_sample_size, split_r_hat

    chain = np.repeat(np.arange(len(drawn)), drawn.shape[1])
    flat = drawn.reshape(-1, drawn.shape[-1])
    return {
        "least effective draws": float(effective_sample_size(flat, chain).min()),
        "largest R-hat": float(split_r_hat(flat, chain).max()),
    }


SAMPLERS = {"NumPyro's, as this package runs it": ours, "BlackJAX": blackjax, "nutpie": nutpie}


def sampler(which: int) -> Numbers:
    """With an empty cache of compiled programs."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BAYESRECON_CACHE"] = folder
        return list(SAMPLERS.values())[which]()
