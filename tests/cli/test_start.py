"""What a command costs before it works: no JAX for its help, and nothing compiled that the run before it compiled."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from parts import slow_then_large

from bayesrecon.cli import attacks as attack_options
from bayesrecon.cli.main import SHOWN

SETTLED = {"JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "TF_CPP_MIN_LOG_LEVEL"}

HELP = """
import sys
from bayesrecon.cli.main import main
for command in sys.argv[1:]:
    sys.argv = ["bayesrecon", command, "--help"]
    try:
        main()
    except SystemExit as end:
        assert not end.code
    for name in ("jax", "numpyro", "numpy"):
        assert name not in sys.modules, (command, name)
"""


@pytest.mark.slow
def test_help_loads_neither_jax_nor_numpy():
    commands = sorted(SHOWN)
    done = subprocess.run([sys.executable, "-c", HELP, *commands], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Example: bayesrecon") == len(commands)


MISSING = {
    "audit": ("nothing",),
    "audit --policy": ("x.csv", "--policy", "nothing.yaml"),
    "deletion": ("nothing", "nothing.npz"),
    "diagnose": ("nothing",),
    "fit": ("linear_regression", "nothing.csv", "-o", "fit.nc"),
    "game": ("nothing.csv", "--response", "y"),
    "ledger": ("add", "nothing", "--ledger", "private/ledger.json"),
    "outputs": ("nothing.py:predict", "--public", "x.npz", "--outputs", "y.npy"),
    "publish": ("nothing", "--model", "kidscore_momiq", "-o", "published"),
    "reconstruct": ("nothing",),
    "recover": ("nothing",),
    "sanitise": ("nothing", "-o", "safe.nc"),
    "verify": ("nothing.nc", "statement.json"),
}
LACKING = """
import json, sys
from bayesrecon.cli.main import main
for command, arguments in json.loads(sys.argv[1]).items():
    sys.argv = ["bayesrecon", command.split()[0], *arguments]
    try:
        main()
    except SystemExit as end:
        assert end.code == 2, command
    assert "jax" not in sys.modules, command
"""


def test_a_path_that_is_not_there_is_answered_without_jax(tmp_path, database):
    (tmp_path / "x.csv").write_text("x\n1\n")
    asked = [sys.executable, "-c", LACKING, json.dumps(MISSING)]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert [("nothing" in line) for line in done.stderr.splitlines()] == [True] * len(MISSING), done.stderr


def test_options_read_from_source_are_those_of_the_attacks():
    """The order of attacks and of options is that of the help."""
    read, imported = list(attack_options.from_sources()), list(attack_options.from_classes())
    assert len(read) > 3
    assert read == imported
    assert [list(one.options) for one in read] == [list(one.options) for one in imported]


OF_DRAWS = ("draws.npz", "--model", "kidscore_momiq")
COMMANDS = {
    "recover": OF_DRAWS,
    "diagnose": (*OF_DRAWS, "--plan"),
    "reconstruct": (*OF_DRAWS, "-n", "20"),
    "audit": OF_DRAWS,
    "outputs": ("model.py:predict", "--public", "images.npz", "--outputs", "z.npy"),
    "deletion": ("before.npz", "after.npz", "--public", "public.csv"),
    "game": ("plane-linear", "--rounds", "4", "--workers", "1"),
    "fit": (
        "linear_regression",
        "public.csv",
        "--response",
        "y",
        "-o",
        "fit.nc",
        "--draws-per-chain",
        "20",
        "--warmup",
        "20",
    ),
    "sanitise": ("kidiq-kidscore_momiq", "-o", "safe.nc"),
    "publish": ("fit.nc", "--model", "kidscore_momiq", "-o", "published"),
    "ledger": ("list", "--ledger", "private/ledger.json"),
    "verify": ("draws.npz", "statement.json"),
    "demo": (),
    "models": (),
    "posteriors": (),
}
LONG = {"sanitise", "publish", "fit", "demo"}  # which sample
PROGRAM = """
import numpy as np


def predict(x):
    return np.tanh(np.asarray(x).reshape(len(x), -1) @ np.random.default_rng(0).normal(size=(16, 3)) / 4)
"""


@pytest.fixture(scope="module")
def work(folder, tmp_path_factory):
    """A folder with what the commands are asked about."""
    path, rng = tmp_path_factory.mktemp("work"), np.random.default_rng(0)
    for one in folder[0].iterdir():
        (path / one.name).write_bytes(one.read_bytes())
    np.savez(
        path / "draws.npz", beta=rng.normal([26, 0.6], [0.2, 0.01], (2, 200, 2)), sigma=rng.normal(18, 0.5, (2, 200))
    )
    (path / "model.py").write_text(PROGRAM)
    subject = {"name": "draws.npz", "digest": {"sha256": hashlib.sha256((path / "draws.npz").read_bytes()).hexdigest()}}
    stated = {"_type": "https://in-toto.io/Statement/v1", "subject": [subject], "predicate": {}}
    (path / "statement.json").write_text(json.dumps({**stated, "predicateType": "tag:bayesrecon,2026:audit/1"}))
    images = rng.uniform(size=(400, 4, 4))
    np.savez(path / "images.npz", x=images)
    made = {}
    exec(PROGRAM, made)
    np.save(path / "z.npy", made["predict"](images[:1])[0])
    return path


def test_every_command_is_counted():
    assert set(COMMANDS) == set(SHOWN)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(
    "command", slow_then_large(*sorted(COMMANDS, key=lambda name: name in LONG), slow=len(COMMANDS) - len(LONG))
)
def test_a_second_run_compiles_nothing(command, work, cache, database):
    """JAX logs every program that it makes, and every one of them that it only reads."""
    around = {name: value for name, value in os.environ.items() if name not in SETTLED}
    around |= {"BAYESRECON_CACHE": str(cache), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    around |= {"JAX_LOG_COMPILES": "1", "BAYESRECON_LEDGER": str(cache / "ledger.json")}

    def run():
        asked = [sys.executable, "-m", "bayesrecon", command, *COMMANDS[command]]
        done = subprocess.run(asked, capture_output=True, text=True, env=around, cwd=work, timeout=600)
        assert done.returncode in (0, 3), done.stderr  # 3: the audit has found something
        lines = done.stderr.splitlines()
        made = [line.split("compilation of ")[1] for line in lines if "Finished XLA compilation of" in line]
        return made, [line for line in lines if "Persistent compilation cache hit" in line]

    first, _ = run()
    made, read = run()
    assert len(made) == len(read), (made, read)
    assert first or command in (
        "game",
        "ledger",
        "models",
        "outputs",
        "posteriors",
        "verify",
    )  # which compile nothing at all
