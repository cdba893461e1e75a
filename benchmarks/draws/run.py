"""Time and memory of the library beside floors and peers, as the page benchmarks/SPEED.md.

python -m benchmarks.draws.run [part ...] [--repetitions 5]     # parts: see --help
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.draws import waits
from benchmarks.study import HERE, Study, table

RECORDS = 500
STORED = (100_000, 200_000, 400_000, 1_000_000)
TABLES = {500: (25, 20), 2_000: (100, 20), 50_000: (1000, 50)}
PACKAGES = ("numpy", "scipy", "jax", "numpyro", "arviz", "scikit-learn")
_DENSE = 50  # most parameters of dense passes
_LONG = 60.0  # seconds from which a row is measured once
Numbers = dict[str, float]


def regression(coordinates: int, draws: int) -> Any:
    """Exact draws of a conjugate regression with so many parameters."""
    from tests.support.conjugate import through_the_origin

    rng, width = np.random.default_rng(0), coordinates - 1
    x = rng.normal(size=(RECORDS, width))
    return through_the_origin(x, x @ rng.normal(size=width) + rng.normal(size=RECORDS), draws, rng)


def peak() -> float:
    """Largest resident memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def recovered(release: Any) -> Numbers:
    import bayesrecon

    before, start = peak(), time.process_time()
    first, found = timed(lambda: bayesrecon.recover(release))
    spent, high = time.process_time() - start, peak()
    again, _ = timed(lambda: bayesrecon.recover(release))
    row = found["n"]
    return {
        "first call, s": first, "first call, CPU s": spent, "again, s": again, "features": found.rank,
        "memory before, MiB": before, "peak, MiB": high, "n off, standard errors": (row.estimate - RECORDS) / row.se,
    }  # fmt: skip


def written(coordinates: int, draws: int, kind: str, folder: Path) -> Path:
    """Exact draws of `sum_model` in a file of that kind, some at a time: the process that reads it begins afresh."""
    rng, length, block = np.random.default_rng(0), draws, 50_000
    precision = 1 + coordinates * RECORDS  # along the direction of the sum, in which the data have mean one

    def drawn(count: int) -> np.ndarray:
        free, root = rng.normal(size=(count, coordinates)), coordinates**0.5
        along = RECORDS * root / precision + rng.normal(size=(count, 1)) / precision**0.5
        return free - free.mean(axis=1, keepdims=True) + along / root

    pieces = (drawn(min(block, length - at)) for at in range(0, length, block))
    path = folder / f"draws.{'zarr' if kind == 'zarr' else 'csv' if kind == 'CSV' else 'nc'}"
    if kind == "CSV":
        with path.open("w") as file:
            file.write(",".join(f"mean.{k + 1}" for k in range(coordinates)) + "\n")
            for piece in pieces:
                np.savetxt(file, piece, delimiter=",", fmt="%.17g")
    elif kind == "zarr":
        import zarr

        group = zarr.open_group(str(path), mode="w").create_group("posterior")
        names = ("chain", "draw", "k")
        made = group.create_array(
            "mean", shape=(1, length, coordinates), chunks=(1, block, coordinates), dtype="f8", dimension_names=names
        )
        for k, piece in enumerate(pieces):
            made[:, k * block : k * block + len(piece)] = piece[None]
    else:
        import h5netcdf

        with h5netcdf.File(path, "w") as file:
            group = file.create_group("posterior")
            group.dimensions = {"chain": 1, "draw": length, "k": coordinates}
            made = group.create_variable("mean", ("chain", "draw", "k"), float, chunks=(1, 4096, coordinates))
            for k, piece in enumerate(pieces):
                made[:, k * block : k * block + len(piece)] = piece[None]
    return path


def sum_model(coordinates: int) -> Any:
    """Records about the sum of all parameters: whatever else there is grows with the draws and parameters alone."""
    import numpyro
    import numpyro.distributions as dist

    from bayesrecon.models import from_numpyro

    def program(y: Any) -> None:
        mean = numpyro.sample("mean", dist.Normal(0, 1).expand((coordinates,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mean.sum(), 1.0), obs=y)

    return from_numpyro(program, {"y": ()})


def stored(kind: str, draws: int) -> Numbers:
    """`recover` from a file that is read some draws at a time, 50 parameters."""
    import bayesrecon

    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        told = ["--write", kind, "--size", str(draws), "--folder", folder]
        writer = [sys.executable, "-m", "benchmarks.draws.run", "netCDF", *told]
        path = Path(subprocess.run(writer, check=True, capture_output=True, text=True).stdout.split()[-1])
        model, before = sum_model(50), peak()
        start = time.process_time()
        store = Path(folder) / "store.h5"
        reading, release = timed(lambda: bayesrecon.posteriors.from_file(path, model, store, trusted=True))
        high = peak()
        solving, found = timed(lambda: bayesrecon.recover(release))
        row = found["n"]
    return {
        "size of the draws, MiB": draws * 50 * 8 / 2**20, "reading, s": reading, "recover, s": solving,
        "CPU, s": time.process_time() - start, "memory before, MiB": before, "peak after reading, MiB": high,
        "peak, MiB": peak(), "statistics determined": float(sum(one.verdict == "determined" for one in found.rows)),
        "n off, standard errors": (row.estimate - RECORDS) / row.se,
    }  # fmt: skip


def over_coordinates(coordinates: int) -> Numbers:
    """With one pass of the kernel in closed form, and, on a few draws and in turn, dense passes beside the two NumPy
    products of the same flops: processor time of one thread of BLAS each. The largest takes too long to do both."""
    from bayesrecon.diagnostics import evenly
    from bayesrecon.divergence.adaptive import AdaptiveEmbedding
    from bayesrecon.divergence.metrics import metric_factor
    from bayesrecon.estimation.anchors import Reference
    from bayesrecon.estimation.basis import find_basis
    from bayesrecon.precision import x64
    from bayesrecon.running.threads import one_thread

    def worked(work: Callable[[], Any]) -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    release = regression(coordinates, 10_000)
    numbers = recovered(release)
    if coordinates > _DENSE:
        return numbers
    with x64(), one_thread():
        embedding = AdaptiveEmbedding(release, metric_factor(release, None))
        width = coordinates - 1
        reference = Reference(release.model.fields, most=2 * embedding.features)
        reference = reference.recentred({"x": np.zeros(width), "y": 0.0}, {"x": np.ones(width), "y": 1.0})
        _, basis, _ = find_basis(embedding, reference, np.random.default_rng(0))
        few = evenly(release.size, 1024)
        phi = np.random.default_rng(1).normal(size=(len(few) * embedding.metric.shape[1] // 4, basis.size))
        embedding.dense.moments(basis, few)
        found: list[tuple[float, ...]] = []
        for _ in range(3):
            spent = worked(lambda: embedding.moments(basis)), worked(lambda: embedding.dense.moments(basis, few)) / 4
            found.append((*spent, worked(lambda: (p := phi @ basis.coefficients).T @ p)))
    whole, dense, plain = np.median(found, axis=0)
    numbers |= {"pass, CPU s": float(whole), "256 draws densely, CPU ms": 1e3 * float(dense)}
    return numbers | {"two products, CPU ms": 1e3 * float(plain), "ratio": float(dense / plain)}


def decaying(covariates: int) -> Numbers:
    """A logistic regression of 500 records whose covariates nobody knows, 4,000 draws: its spectrum decays."""
    from tests.support.covariates import simulated

    return by_processor(simulated("logistic", covariates, 9)[2])


def over_groups(groups: int) -> Numbers:
    """Effects of so many groups of ten records, and their scale, 4,000 draws."""
    from bayesrecon.posteriors import from_draws
    from tests.support import conjugate

    rng, group = np.random.default_rng(0), np.repeat(np.arange(1, groups + 1), 10)
    y = rng.normal(size=groups)[group - 1] + rng.normal(size=len(group))
    draws = conjugate.sample_effects(group, y, groups, 4000, rng)
    return by_processor(from_draws(draws, conjugate.effects_model(groups)))


def by_processor(release: Any) -> Numbers:
    """CPU time of `recover`, compilation included and not, and memory."""
    import bayesrecon

    before, spent, highest = peak(), [], []
    for _ in range(2):
        start = time.process_time()
        found = bayesrecon.recover(release, force=True)
        spent.append(time.process_time() - start)
        highest.append(peak())
    return {
        "first call, CPU s": spent[0], "again, CPU s": spent[1], "features": found.rank, "memory before, MiB": before,
        "peak of the first, MiB": highest[0], "peak, MiB": highest[1],
    }  # fmt: skip


def over_unknowns(unknowns: int) -> Numbers:
    """A table of answers from draws of its posterior."""
    from benchmarks.draws.records import whole

    return whole(*TABLES[unknowns]) | {"peak, MiB": peak()}


def over_layers(unknowns: int) -> Numbers:
    from benchmarks.draws.records import either_way

    return either_way(*TABLES[unknowns])


def whole_process(_: int) -> Numbers:
    """`bayesrecon recover` of a reference posterior, and what an interpreter takes that only imports."""
    command = [sys.executable, "-m", "bayesrecon", "recover", "kidiq-kidscore_momiq", "--json"]
    quiet = {"check": True, "capture_output": True}
    whole, _ = timed(lambda: subprocess.run(command, **quiet))  # type: ignore[call-overload]
    imports, _ = timed(lambda: subprocess.run([sys.executable, "-c", "import numpyro"], **quiet))  # type: ignore[call-overload]
    return {"whole process, s": whole, "import numpyro alone, s": imports}


def same_family(_: int) -> Numbers:
    """A second posterior of the same program in one session, and the first one again."""
    import bayesrecon
    from bayesrecon.posteriors import from_posteriordb

    first, second = from_posteriordb("kidiq-kidscore_momiq"), from_posteriordb("kidiq-kidscore_momhs")
    return {
        "first, s": timed(lambda: bayesrecon.recover(first))[0],
        "the same again, s": timed(lambda: bayesrecon.recover(first))[0],
        "another, s": timed(lambda: bayesrecon.recover(second))[0],
    }


def beside_others(_: int) -> Numbers:
    """`recover` while two other processes keep the cores busy: small solves by one thread of BLAS, and by all."""
    import bayesrecon
    from bayesrecon.posteriors import from_posteriordb
    from bayesrecon.running import threads

    release, asked = from_posteriordb("kidiq-kidscore_momiq"), threads._THREADS.one
    bayesrecon.recover(release)

    found: dict[str, list[float]] = {}
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for _ in range(5):
            for what, ask in (("one thread", asked), ("all threads", contextlib.nullcontext)):
                threads._THREADS.one = ask  # type: ignore[method-assign]
                start = time.process_time()
                found.setdefault(f"{what}, s", []).append(timed(lambda: bayesrecon.recover(release))[0])
                found.setdefault(f"{what}, CPU s", []).append(time.process_time() - start)
    finally:
        for one in busy:
            one.kill()
    return {name: float(np.median(values)) for name, values in found.items()}


def audited(row: int) -> Numbers:
    """An audit of draws of three parameters, and what of it are calls of `recover` that try remedies."""
    import bayesrecon
    from bayesrecon.auditing.channels import draws as draw_findings

    file = Path(os.environ["POSTERIOR_DB_PATH"]) / "reference_posteriors/draws/draws/kidiq-kidscore_momiq.json.zip"
    recovered, inner = draw_findings.recovered, []

    def counting(*given: Any, **more: Any) -> Any:
        start = time.process_time()
        try:
            return recovered(*given, **more)
        finally:
            inner.append(time.process_time() - start)

    draw_findings.recovered = counting  # type: ignore[assignment]
    start = time.process_time()
    found = bayesrecon.audit(file, "kidscore_momiq", remedies=(False, True, "full")[row])
    whole = time.process_time() - start
    status = [remedy.status for finding in found.findings for remedy in finding.remedies]
    shares = {"inner calls of `recover`": len(inner), "their share, %": 100 * sum(inner) / whole}
    counts = {f"remedies {what}": status.count(what) for what in ("measured", "predicted", "not tried")}
    return {"whole audit, CPU s": whole, **shares, **counts}


def effective_sizes(columns: int) -> Numbers:
    """Effective sample sizes of the means of many series, and the same by ArviZ."""
    import arviz

    from bayesrecon.diagnostics import effective_sample_size

    series = np.random.default_rng(0).normal(size=(4, 2500, columns))
    flat, chain = series.reshape(-1, columns), np.repeat(np.arange(4), 2500)
    ours, sizes = timed(lambda: effective_sample_size(flat, chain))
    data = arviz.convert_to_dataset({"x": series})
    theirs, other = timed(lambda: arviz.ess(data, method="mean")["x"].values)
    off = float(np.abs(sizes / other - 1).max())
    return {"ours, s": ours, "ArviZ, s": theirs, "ratio": ours / theirs, "largest relative difference": off}


def informed(row: int) -> Numbers:
    """The one unknown record of 569, each in turn: errors by quantile, and whether its own statement covers them.

    The peer takes long for a record: it is asked for a few of them, and so is the closed form beside it.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    from benchmarks.draws.informed import closed_form, peer

    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    few = np.random.default_rng(0).choice(len(x), 3, replace=False)
    if row == 2:
        found = [peer(x, y, int(i)) for i in few]
        if None in found:
            sys.exit("it is not installed (pip install adversarial-robustness-toolbox)")
        errors, seconds = np.array(found).T
        return {"ms a record": 1e3 * float(seconds.mean()), **_quantiles(errors)}
    errors, labels, _, seconds, stated = closed_form(x, y, "newton-cg", 1e-10, few if row else None)
    root, bad = np.sqrt(x.shape[1]), errors > 0.1
    held = {"off by more than 0.1": bad, "of them stated within 0.1": bad & (stated / root < 0.1)}
    held |= {"within the stated error": errors * root <= stated}
    held = {name: float(which.sum()) for name, which in held.items()}
    return {"ms a record": 1e3 * seconds, **_quantiles(errors), **held, "labels right": float(labels)}


def _quantiles(errors: np.ndarray) -> Numbers:
    return {f"RMSE, {q:.0%}": float(np.quantile(errors, q)) for q in (0.5, 0.9, 0.98, 1.0)}


Part = tuple[str, str, Callable[[int], Numbers], tuple[int, ...]]

PARTS: dict[str, Part] = {
    "process": ("The command line", "", whole_process, (0,)),
    "commands": ("Commands, with an empty cache of compiled programs and again", "", waits.command, (0, 1, 2, 3, 4)),
    "samplers": ("NUTS: 4 chains of 700 and 2,500 steps, 8 parameters, 400 records", "", waits.sampler, (0, 1, 2)),
    "family": ("A second posterior of the same program", "", same_family, (0,)),
    "busy": ("`recover` beside two other busy processes", "", beside_others, (0,)),
    "draws": (
        "`recover` against the number of draws, 10 parameters", "draws",
        lambda draws: recovered(regression(10, draws)), (10_000, 100_000, 1_000_000),
    ),
    "netCDF": (
        "`recover` from a netCDF file: draws of 50 parameters; the records depend on their sum", "draws",
        partial(stored, "netCDF"), STORED,
    ),
    "zarr": ("`recover` from a zarr folder, the same draws", "draws", partial(stored, "zarr"), STORED),
    "CSV": ("`recover` from a CSV file, the same draws", "draws", partial(stored, "CSV"), STORED),
    "coordinates": (
        "`recover` against the number of parameters, 10,000 draws", "parameters",
        over_coordinates, (5, 10, 26, 50, 100),
    ),
    "decaying": (
        "`recover` of logistic regressions against the number of unknown covariates, 500 records, 4,000 draws",
        "covariates", decaying, (4, 10),
    ),
    "groups": ("`recover` of group effects, 4,000 draws", "groups", over_groups, (50, 200, 1000)),
    "unknowns": (
        "Answers in a two-parameter logistic (2PL) model, 2,000 draws: 25 and 100 persons on 20 items, 1,000 on 50",
        "answers", over_unknowns, tuple(TABLES),
    ),
    "layers": (
        "The same answers with the kernel as a sum over persons and items (layers), and with the kernel as one array",
        "answers", over_layers, (500, 2_000),
    ),
    "audit": (
        "`audit` of a file of three parameters (kidscore_momiq, 10,000 draws), compilation included", "",
        audited, (0, 1, 2),
    ),
    "sizes": ("Effective sample sizes beside ArviZ, 10,000 draws", "series", effective_sizes, (10, 100, 1000)),
    "informed": ("The informed adversary, 569 breast-cancer records", "", informed, (0, 1, 2)),
}  # fmt: skip

NAMED = {
    "commands": tuple(f"`bayesrecon {' '.join(words)}`" for words in waits.COMMANDS.values()),
    "samplers": tuple(waits.SAMPLERS),
    "process": ("`bayesrecon recover`",), "family": ("`bayesrecon.recover`",),
    "busy": ("kidscore_momiq, 10,000 draws",), "audit": ("no remedies", "by default", "every remedy measured"),
    "informed": (
        "`missing_record`, all records", "`missing_record`, three of them",
        "ART's `DatabaseReconstruction`, the same three",
    ),
}  # fmt: skip
"""What is measured where rows have no size."""


def measured(part: str, repetitions: int) -> list[dict[str, Any]]:
    rows = []
    for size in PARTS[part][3]:
        found = []
        for _ in range(repetitions):
            load, began = os.getloadavg()[0], time.perf_counter()
            command = [sys.executable, "-m", "benchmarks.draws.run", part, "--size", str(size)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent)
            if done.returncode:
                reason = done.stderr.strip().splitlines()[-1]
                print(part, size, "not measured:", reason, flush=True)
                rows.append({"size": size, "not measured": reason})
                found = []
                break
            found.append(json.loads(done.stdout.splitlines()[-1]) | {"load": load})
            if time.perf_counter() - began > _LONG:
                break
        if found:
            rows.append({"size": size, **{k: float(np.median([one[k] for one in found])) for k in found[0]}})
            print(part, rows[-1], flush=True)
    return rows


def exponent(rows: list[dict[str, Any]], of: str) -> float | None:
    """Slope of the logarithm of a cost in that of the size, between the two largest sizes."""
    known = [row for row in rows if row.get("size") and of in row]
    if len(known) < 2:
        return None
    first, second = known[-2:]
    return float(np.log(second[of] / first[of]) / np.log(second["size"] / first["size"]))


def page(held: dict[str, Any]) -> str:
    lines = ["# Time and memory", "", "Made by `python -m benchmarks.draws.run`. " + WORDS]
    for part, kept in held.items():
        title, axis, _, _ = PARTS[part]
        rows = [row for row in kept["rows"] if "not measured" not in row]
        lines += ["", f"## {title}", "", kept["machine"] + "."]
        if rows:
            names = [k for k in rows[0] if k not in ("size", "load")]
            starts = [_place(part, r) for r in rows]
            cells = [[*(f"{r[k]:.3g}" if k in r else "" for k in names), f"{r['load']:.1f}"] for r in rows]
            cells = [[start, *more] for start, more in zip(starts, cells, strict=True)]
            lines += ["", table([axis or "work", *(HEADINGS.get(name, name) for name in names), "load"], cells)]
        missing = [r for r in kept["rows"] if "not measured" in r]
        lines += [f"\nNot measured, {_place(part, r)}: {r['not measured']}" for r in missing]
        for cost in ("again, s", "seconds", "CPU, s"):
            if (slope := exponent(kept["rows"], cost)) is not None:
                lines += ["", f"Between the two largest sizes *{cost}* grows with the power {slope:.2f}."]
        if (HERE / f"speed-{part}.png").exists():
            lines += ["", f"![cost against {axis}](speed-{part}.png)"]
    return "\n".join([*lines, ""])


def _place(part: str, row: dict[str, Any]) -> str:
    return f"{row['size']:,}" if PARTS[part][1] else NAMED[part][row["size"]]


HEADINGS = {
    "n off, standard errors": "error of n, in standard errors",
    "256 draws densely, CPU ms": "256 draws, dense pass, CPU ms",
    "two products, CPU ms": "its two matrix products, CPU ms",
    "stated": "stated probability",
    "answers right": "share of answers right",
    "z": "sd of z",
    "in 95 % intervals": "coverage of 95 % intervals",
    "estimates off": "largest difference of estimates",
    "floors off": "largest relative difference of floors",
    "errors, 5 %": "ratio of standard errors, 5 % quantile",
    "95 %": "95 % quantile",
    "probabilities off, mean": "mean difference of probabilities",
    "z, layers": "sd of z, layers",
    "z, array": "sd of z, array",
    "ms a record": "ms per record",
    "off by more than 0.1": "records off by more than 0.1",
    "of them stated within 0.1": "of these, stated error within 0.1",
    "within the stated error": "records within the stated error",
}
"""Headings of the page, where the names of the rows are too short for it."""

WORDS = (
    "Times are medians over repetitions, each in its own process; what takes over a minute is measured once. *Load* is "
    "the number of busy processes on the whole machine at the start: above zero, other processes ran at the same time. "
    "No GPU was timed. Tests only count transfers to CPU devices and back in a pass (one each way, except for the "
    "draws). Games are not compared with Privacy Meter: the version on PyPI (1.0.1) has no likelihood-ratio attack."
)


def draw(part: str, rows: list[dict[str, Any]]) -> None:
    """Cost against size, where there are several."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in rows if "not measured" not in row]
    costs = [k for k in rows[0] if k.endswith(", s") or k == "seconds"] if len(rows) > 1 else []
    if not costs:
        return
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    for name in costs:
        axes.loglog([row["size"] for row in rows], [row[name] for row in rows], marker="o", label=name)
    axes.set(xlabel=PARTS[part][1], ylabel="seconds")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(HERE / f"speed-{part}.png", dpi=110)
    plt.close(figure)


STUDY = Study(__file__, page, name="speed")


def keep(part: str, rows: list[dict[str, Any]], repetitions: int) -> None:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, {versions}"
    held = STUDY.kept() | {part: {"machine": f"{machine}; medians of {repetitions}", "rows": rows}}
    held = {name: held[name] for name in PARTS if name in held}
    draw(part, rows)
    STUDY.keep(held)


def main() -> None:
    parser = STUDY.parser(__doc__, repetitions=5)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = STUDY.given(parser)
    if given.write:
        print(written(50, given.size, given.write, given.folder))
        return
    if given.size is not None:
        print(json.dumps(PARTS[given.parts[0]][2](given.size)))
        return
    for part in given.parts:
        keep(part, measured(part, given.repetitions), given.repetitions)


if __name__ == "__main__":
    main()
