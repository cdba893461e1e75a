"""The program as a whole: help, version, and a process of its own."""

import os
import shlex
import subprocess
import sys

import pytest
from command import KIDIQ, Outcome, document, one_line
from typer.main import get_command

import bayesrecon
from bayesrecon.cli.main import SHOWN, app

pytestmark = pytest.mark.small


def test_version_and_help(run):
    assert run("--version") == (0, f"bayesrecon {bayesrecon.__version__}\n", "")
    assert run("--help").code == 0
    group = get_command(app)
    for command in group.list_commands(None):
        outcome = run(command, "--help")
        assert (outcome.code, outcome.err) == (0, "")
        assert "Example: bayesrecon " + command in " ".join(outcome.out.split())


def test_paragraphs_of_the_help_fill_the_line(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    lines = [line.strip() for line in run("audit", "--help").out.splitlines()]
    (first,) = (k for k, line in enumerate(lines) if line.startswith("Exit codes"))
    assert all(len(line) > 80 for line in lines[first : first + 2])


def test_examples_of_the_help_parse():
    """Every command has one that does something, with options that the command has."""
    group = get_command(app)
    assert sorted(SHOWN) == group.list_commands(None)
    for command, (_, example) in SHOWN.items():
        name, *arguments = shlex.split(example)
        assert name == command
        assert not {"-h", "--help"} & set(arguments)
        assert arguments or command in ("demo", "models", "posteriors")
        context = group.get_command(None, command).make_context(command, arguments)  # which a wrong option ends
        assert context.params


def module(*arguments, **environment):
    command = [sys.executable, "-m", "bayesrecon", *arguments]
    around = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}  # JAX sets it
    return subprocess.run(command, capture_output=True, text=True, env=around | environment, timeout=300)


def test_as_a_process(database):
    done = module("recover", KIDIQ, "--draws", "1000", "--json")
    found = document(Outcome(done.returncode, done.stdout, done.stderr))
    assert (found["model"], done.stderr) == ("kidscore_momiq", "")


@pytest.mark.slow
def test_bad_input_as_a_process():
    done = module("recover", "nothing.nc")
    one_line(Outcome(done.returncode, done.stdout, done.stderr), "nothing.nc: no such file")


def test_a_terminal_of_few_letters(monkeypatch):
    """What its encoding lacks is spelt out."""
    import io

    from bayesrecon.cli import main

    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    monkeypatch.setattr(main, "app", lambda **options: sys.stdout.write("2\u20133") and 0)
    with pytest.raises(SystemExit):
        main.main()
    assert written.getvalue().decode("ascii").split() == ["2\\u20133"]
