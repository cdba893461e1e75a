"""The program as a whole: help, version, and a process of its own."""

import os
import subprocess
import sys

from command import KIDIQ, Outcome, document, one_line
from typer.main import get_command

import bayesrecon
from bayesrecon.cli.main import app


def test_version_and_help(run):
    assert run("--version") == (0, f"bayesrecon {bayesrecon.__version__}\n", "")
    assert run("--help").code == 0
    group = get_command(app)
    for command in group.list_commands(None):
        outcome = run(command, "--help")
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out


def module(*arguments, **environment):
    command = [sys.executable, "-m", "bayesrecon", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300)


def test_as_a_process(database):
    done = module("recover", KIDIQ, "--draws", "1000", "--json")
    found = document(Outcome(done.returncode, done.stdout, done.stderr))
    assert (found["model"], done.stderr) == ("kidscore_momiq", "")


def test_bad_input_as_a_process():
    done = module("recover", "nothing.nc")
    one_line(Outcome(done.returncode, done.stdout, done.stderr), "nothing.nc: no such file")
