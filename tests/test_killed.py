"""Whatever verb is killed, and by which signal, leaves no large file, at the latest once any verb ran again."""

import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from parts import slow_then_large

from bayesrecon.cli import commands

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="signals")]

LARGE = 2**20
WAIT = 8.0  # seconds for a large file to appear; verbs that write none are killed wherever they are then
PROGRAM = """
import sys
from bayesrecon.running import scratch
from bayesrecon.cli.main import main
from bayesrecon.posteriors.formats import stored
stored._LARGE, scratch._SPOOLED = 0, 1000  # every file counts as large
main()
"""
MODEL = ("--model", "kidscore_momiq")
VERBS = {
    "recover": ("recover", "fit.nc", *MODEL, "--out", "a.npz"),
    "diagnose": ("diagnose", "fit.nc", *MODEL, "--out", "a.npz"),
    "reconstruct": ("reconstruct", "fit.nc", *MODEL, "-n", "50", "--out", "a.npz"),
    "audit": ("audit", "fit.nc", *MODEL, "--html", "a.html", "--fix", "b.nc"),
    "deletion": ("deletion", "fit.nc", "other.nc", *MODEL, "--out", "a.npz"),
    "fit": ("fit", "linear_regression", "table.csv", "--response", "y", "-o", "a.nc"),
    "game": ("game", "table.csv", "--response", "y", "--learner", "linear", "--folder", "rounds"),
    "outputs": ("outputs", "model.py:predict", "--public", "images.npz", "--audit", "--html", "a.html"),
    "posteriors": ("posteriors", "--verdict"),
    "models": ("models",),
    "sanitise": ("sanitise", "fit.nc", *MODEL, "-o", "safe.nc"),
    "publish": ("publish", "fit.nc", *MODEL, "-o", "published"),
    "ledger": ("ledger", "add", "fit.nc", *MODEL, "--ledger", "private/ledger.json"),
    "verify": ("verify", "fit.nc", "statement.json"),
    "demo": ("demo",),
}
KILLED = slow_then_large(
    ("game", signal.SIGTERM),
    *((verb, signal.SIGKILL) for verb in VERBS if verb != "demo"),
    ("demo", signal.SIGKILL),
    *((verb, signal.SIGTERM) for verb in VERBS if verb != "game"),
    slow=len(VERBS),
)
SCRATCH = {"recover", "diagnose", "reconstruct", "deletion"}
"""Verbs that keep draws in a scratch file, which the test has to see before it kills them."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("inputs"), np.random.default_rng(0)
    for name in ("fit.nc", "other.nc"):
        beta, sigma = rng.normal([25.8, 0.6], [5.9, 0.06], (2, 50_000, 2)), rng.normal(18.3, 0.6, (2, 50_000))
        draws = {"beta": (("chain", "draw", "k"), beta), "sigma": (("chain", "draw"), sigma)}
        xr.DataTree.from_dict({"posterior": xr.Dataset(draws)}).to_netcdf(folder / name)
    rows = "\n".join(f"{x:.6f},{y:.6f}" for x, y in rng.normal(size=(500, 2)))
    (folder / "table.csv").write_text(f"x,y\n{rows}\n")
    program = "import numpy as np\ndef predict(x):\n    return np.asarray(x).reshape(len(x), -1)[:, :3]\n"
    (folder / "model.py").write_text(program)
    np.savez(folder / "images.npz", x=rng.uniform(size=(2000, 4, 4)))
    return folder


def started(folder, verb):
    inner = {"TMPDIR": str(folder / "tmp"), "BAYESRECON_CACHE": str(folder / "cache"), "BAYESRECON_COMPILE_CACHE": "0"}
    inner["BAYESRECON_LEDGER"] = str(folder / "ledger.json")
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *verb],
        cwd=folder / "work",
        env={**os.environ, **inner},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def large(folder, but):
    """Files above a megabyte that were not there before."""
    found = []
    for path in folder.rglob("*"):
        try:
            if path.is_file() and path.stat().st_size > LARGE and path.name not in but:
                found.append(path)
        except FileNotFoundError:  # gone meanwhile
            continue
    return found


def test_every_verb_is_here():
    assert set(VERBS) == {info.name for info in pkgutil.iter_modules(commands.__path__)}


@pytest.mark.parametrize(("name", "number"), KILLED)
def test_a_killed_verb_leaves_no_large_file(tmp_path, inputs, name, number):
    own = [p.name for p in inputs.iterdir()]
    shutil.copytree(inputs, tmp_path / "work")
    (tmp_path / "tmp").mkdir()
    with started(tmp_path, VERBS[name]) as running:
        end = time.monotonic() + (120 if name in SCRATCH else WAIT)
        seen: list[Path] = []
        while running.poll() is None and not seen and time.monotonic() < end:
            seen = large(tmp_path, own)
            time.sleep(0.01)
        assert seen or name not in SCRATCH
        running.send_signal(number)
        running.wait(60)
    if number == signal.SIGKILL:
        started(tmp_path, ("models",)).wait(120)
    assert large(tmp_path, own) == []
