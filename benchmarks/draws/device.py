"""The same work on this machine's accelerator and on its processor: time, what stays on the host, agreement.

python -m benchmarks.draws.device [--rows FILE.json] [--seconds 280] [--tiny]    # measure, beside each other
python -m benchmarks.draws.device --keep FILE.json                               # rows that another machine measured

Every case runs in a process of its own, first with nothing compiled and then again. On an accelerator a third run
counts what moves between it and the host (`jax.transfer_guard`), a fourth how long it is busy (JAX's profiler), and
another process finds compiled programs in the cache of the first. Processes run side by side, each with cores of its
own; what does not begin before the time is over is not measured.
"""

import argparse
import contextlib
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.draws.device_cases import ANSWERS, CASES, Numbers
from benchmarks.study import Study, form, table

_LANES = {"gpu": 3, "cpu": 2}  # processes at once on each side: an accelerator waits for the compiler most of the time
_SHARE = 0.25  # of the accelerator's memory for each
_LONG = 45.0  # seconds from which a processor is not asked again
_ENOUGH = 10  # seconds without which no case begins

_COLUMNS = (
    "Every case runs in a process of its own, some of them side by side.",
    "",
    "* *Cold*: the first run, with nothing compiled. *Warm*: the second run of the same process.",
    "* *Compiled before*: the first run of another process that finds compiled programs in the cache, as every later "
    "command does.",
    "* *On the host*: share of the warm run in which no kernel of the accelerator ran.",
    "* *Read back* and *sent*: transfers in one run.",
    "* *Off*: the largest difference of the results from those of the processor, relative to the largest number of "
    "its kind; of averages over chains, in standard errors of their difference.",
    "",
    "QR, singular values and Cholesky are timed by LAPACK and on the accelerator, copies there and back included. "
    "`recover` leaves them to LAPACK, like the jackknife, non-negative least squares, effective sample sizes and "
    "the checks of draws: together they are most of what a warm run spends on the host.",
)

Row = dict[str, Any]


def measured(name: str, tiny: bool, held: Path, again: bool) -> Row:
    """Times of one case in this process; its numbers go to a file. `again`: only of the first run."""
    import jax

    device, case = jax.local_devices()[0], CASES[name]
    row: Row = {"case": name, "platform": device.platform, "device": device.device_kind, "jax": jax.__version__}
    work = case.make(tiny)
    row["cold, s"], found = _timed(work)
    if again:
        return row
    if device.platform != "cpu" or row["cold, s"] < _LONG:
        row["warm, s"], found = _timed(work)
    np.savez(held, **case.told(found))
    if device.platform != "cpu":
        row |= _watched(work, case.profiled)
        row["peak on the device, MiB"] = (device.memory_stats() or {}).get("peak_bytes_in_use", 0) / 2**20
        row["on the host, %"] = max(0.0, 100 * (1 - row["busy, s"] / row["warm, s"])) if "busy, s" in row else None
    row["peak of the process, MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return row


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def _watched(work: Callable[[], Any], profiled: bool) -> Row:
    """How often something moved in one more run, and how long the device was busy in another."""
    import jax

    with _lines() as lines, jax.transfer_guard("log_explicit"):
        work()
    busy: Row = {}
    if profiled:
        with tempfile.TemporaryDirectory() as folder:
            try:
                with jax.profiler.trace(folder):
                    work()
                busy = _busy(Path(folder))
            except Exception as error:  # without the right to profile
                busy = {"not profiled": f"{type(error).__name__}: {error}"[:200]}
    text = "".join(lines)
    return busy | {"read back": text.count("device-to-host transfer"), "sent": text.count("host-to-device transfer")}


@contextlib.contextmanager
def _lines() -> Iterator[list[str]]:
    """What compiled code writes to stderr in the block."""
    found: list[str] = []
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield found
        finally:
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            found.append(file.read())


def _busy(folder: Path) -> Row:
    """Seconds in which a stream of the device worked, by the profile."""
    from jax.profiler import ProfileData

    (file,) = folder.rglob("*.xplane.pb")
    planes = list(ProfileData.from_file(str(file)).planes)
    lines = [line for plane in planes if plane.name.startswith("/device:") for line in plane.lines]
    events = [event for line in lines if line.name.startswith("Stream") for event in line.events]
    if not events:
        return {
            "not profiled": f"no stream among {[line.name for line in lines] or [one.name for one in planes]}"[:300]
        }
    end, total = -np.inf, 0.0
    for first, last in sorted((event.start_ns, event.start_ns + event.duration_ns) for event in events):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    copies = {"copied back": "MemcpyD2H", "copied there": "MemcpyH2D"}
    counts = {what: sum(event.name.startswith(name) for event in events) for what, name in copies.items()}
    return {"busy, s": total / 1e9, "kernels": len(events) - sum(counts.values()), **counts}


def compared(ours: Numbers, other: Numbers, chance: bool) -> float:
    """Largest difference, relative to the largest number of its kind; or in standard errors."""
    if chance:
        se = np.hypot(ours["mean se"], other["mean se"])
        return float(np.max(np.abs(ours["mean"] - other["mean"]) / se))
    scale = {name: max(float(np.max(np.abs(v), initial=0.0)), 1e-300) for name, v in other.items()}
    return max(float(np.max(np.abs(ours[name] - other[name]), initial=0.0)) / scale[name] for name in other)


def all_of(tiny: bool, seconds: float, only: str) -> list[Row]:
    """Every case on every side of this machine, with their agreement."""
    ends, cores = time.monotonic() + seconds, sorted(os.sched_getaffinity(0))
    names = [name for name in CASES if only in name]
    sides = [side for side in ("gpu", "cpu") if side == "cpu" or _accelerator()]
    lanes = [(side, lane) for side in sides for lane in range(_LANES[side])]
    free = {side: [cores[lanes.index((side, k)) :: len(lanes)] or cores for k in range(_LANES[side])] for side in sides}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as pools:
        waiting, drawing = [], pools.enter_context(ThreadPoolExecutor(1))
        drawn = drawing.submit(_drawn, tiny) if any("2PL" in name for name in names) else None
        for side in sides:
            pool = pools.enter_context(ThreadPoolExecutor(_LANES[side]))
            held = {name: Path(folder) / f"{side}-{i}.npz" for i, name in enumerate(names)}
            for name in names:
                needs = drawn if "2PL" in name else None
                waiting.append(pool.submit(_elsewhere, name, side, tiny, held[name], free[side], ends, needs))
        rows = [one.result() for one in waiting]
        for row in rows:
            i, side = names.index(row["case"]), row["side"]
            ours, other = Path(folder) / f"{side}-{i}.npz", Path(folder) / f"cpu-{i}.npz"
            if side != "cpu" and ours.exists() and other.exists():
                row["off"] = compared(dict(np.load(ours)), dict(np.load(other)), CASES[row["case"]].chance)
    return rows


def _elsewhere(
    name: str, side: str, tiny: bool, held: Path, free: list[list[int]], ends: float, needs: Future[None] | None
) -> Row:
    """One case in a process of its own, on cores that no other process has."""
    row: Row = {"case": name, "side": side}
    if needs is not None and (error := needs.exception()) is not None:
        return row | {"failed": f"no draws: {error}"}
    left = ends - time.monotonic()
    if left < _ENOUGH:
        return row | {"failed": "no time was left"}
    cores = free.pop()
    command = [sys.executable, "-m", __spec__.name, "--one", name, "--held", str(held), *(["--tiny"] if tiny else [])]
    pinned = ["taskset", "-c", ",".join(map(str, cores))] if shutil.which("taskset") else []
    cache = held.with_suffix(".compiled")
    env = _unsettled() | {"XLA_PYTHON_CLIENT_MEM_FRACTION": str(_SHARE), "TF_CPP_MIN_LOG_LEVEL": "0"}
    env |= {"BAYESRECON_COMPILE_CACHE": "0", "JAX_COMPILATION_CACHE_DIR": str(cache)}
    env |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    env |= {"JAX_PLATFORMS": "cpu"} if side == "cpu" else {}
    try:
        row |= {"cores": len(cores)} | _row([*pinned, *command], env, ends)
        if side != "cpu":
            row["compiled before, s"] = _row([*pinned, *command, "--again"], env, ends)["cold, s"]
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        late = isinstance(error, subprocess.TimeoutExpired)
        row["failed"] = "time was over" if late else " ".join(error.stderr.strip().splitlines()[-1:])[-300:]
    finally:
        free.append(cores)
        shutil.rmtree(cache, ignore_errors=True)
    print(form([row]), file=sys.stderr, flush=True)
    return row


def _row(command: list[str], env: dict[str, str], ends: float) -> Row:
    """What a process prints last."""
    left = max(ends - time.monotonic(), 1.0)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=left, check=True)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def _accelerator() -> bool:
    """Asked in another process: this one would hold the device's memory."""
    ask = "import jax; print(jax.default_backend())"
    done = subprocess.run([sys.executable, "-c", ask], env=_unsettled(), capture_output=True, text=True)
    return done.stdout.strip() not in ("", "cpu")


def _unsettled() -> dict[str, str]:
    """The environment without what says where compiled programs are kept, and what runs them."""
    return {k: v for k, v in os.environ.items() if k not in ("JAX_COMPILATION_CACHE_DIR", "JAX_PLATFORMS")}


def _drawn(tiny: bool) -> None:
    """Draws that both sides need, by the processor."""
    persons, items = ANSWERS[tiny]
    ask = f"from benchmarks.draws.records import table_of; table_of({persons}, {items})"
    subprocess.run(
        [sys.executable, "-c", ask], env=_unsettled() | {"JAX_PLATFORMS": "cpu"}, check=True, stdout=sys.stderr
    )


def machine() -> Row:
    """Of a run: cores, architecture, Python, the compiler's flags and processes at once."""
    found = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    return found | {"flags": os.environ.get("XLA_FLAGS", ""), "at once": _LANES}


def page(runs: Any) -> str:
    """What was measured, the accelerator beside the processor."""
    lines = ["# On an accelerator", "", "Made by `python -m benchmarks.draws.device`.", ""]
    return "\n".join([*lines, *_COLUMNS, "", *(line for run in runs for line in _run(run))])


def _run(run: Row) -> list[str]:
    """One session on a machine."""
    found = {(row["case"], row["side"]): row for row in run["cases"]}
    there = next((row for row in run["cases"] if row["side"] == "gpu" and "device" in row), {})
    machine, flags = run["machine"], run["machine"]["flags"]
    lines = [
        f"## {f'XLA_FLAGS={flags}' if flags else 'Without flags of XLA'}",
        "",
        f"{there.get('device', 'No accelerator')} beside {machine['cores']} cores ({machine['machine']}) of the same "
        f"machine, {machine['at once']['gpu']} processes at once on the accelerator and {machine['at once']['cpu']} on "
        f"the processor, {there.get('cores', '')} cores each, JAX {there.get('jax', '')}, Python {machine['python']}.",
        "",
    ]
    head = ["case", "processor, cold s", "warm s", "accelerator, cold s", "compiled before, s", "warm s"]
    head += ["times faster, warm", "on the host, %", "kernels", "read back", "sent", "peak there, MiB", "off"]
    cells = []
    for name in dict.fromkeys(row["case"] for row in run["cases"]):
        cpu, gpu = (found.get((name, side), {}) for side in ("cpu", "gpu"))
        if "cold, s" not in gpu:
            continue
        both = "warm, s" in cpu and "warm, s" in gpu
        times = [_cell(cpu, "cold, s"), _cell(cpu, "warm, s"), _cell(gpu, "cold, s")]
        times += [_cell(gpu, "compiled before, s"), _cell(gpu, "warm, s")]
        ratio = f"{cpu['warm, s'] / gpu['warm, s']:.2g}" if both else ""
        keys = ("on the host, %", "kernels", "read back", "sent", "peak on the device, MiB", "off")
        cells.append([name, *times, ratio, *(_cell(gpu, key) for key in keys)])
    failed = [row["case"] for row in run["cases"] if "failed" in row and row["side"] == "gpu"]
    more = [f"Not measured: {'; '.join(failed)}.", ""] if failed else []
    return [*lines, table(head, cells), "", *more]


def _cell(row: Row, key: str) -> str:
    value = row.get(key)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__)
    parser.add_argument("--rows", type=Path, help="write what was measured here, not to the page")
    parser.add_argument("--keep", type=Path, nargs="+", help="rows that another machine wrote, a file for each session")
    parser.add_argument("--seconds", type=float, default=280.0, help="after which nothing is begun or waited for")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that all of it works")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--held", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help=argparse.SUPPRESS)
    given = STUDY.given(parser)
    if given.one:
        print(json.dumps(measured(given.one, given.tiny, given.held, given.again)))
        return
    if given.keep:
        STUDY.keep([json.loads(path.read_text()) for path in given.keep])
        return
    run = {"machine": machine(), "cases": all_of(given.tiny, given.seconds, given.only)}
    if given.rows:
        given.rows.write_text(form(run))
    else:
        STUDY.keep([run])


if __name__ == "__main__":
    main()
