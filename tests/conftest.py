"""Fixtures that several files share."""

import os
import sys

if "PYTEST_XDIST_WORKER" in os.environ:  # one process a core, one thread a process; before NumPy is loaded
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from command import Outcome


@pytest.fixture(autouse=True)
def no_figures_left():
    """Figures that a test drew are closed after it."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def database():
    """The copy of posteriordb that POSTERIOR_DB_PATH points to."""
    if not os.environ.get("POSTERIOR_DB_PATH"):
        reason = "POSTERIOR_DB_PATH is not set"
        pytest.fail(reason) if os.environ.get("BAYESRECON_REQUIRE_DATA") == "1" else pytest.skip(reason)
    from bayesrecon.posteriors.database import open_database

    return open_database()


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """`bayesrecon ...` in this process, in an empty folder."""
    from bayesrecon.cli.main import main

    if path := os.environ.get("POSTERIOR_DB_PATH"):
        monkeypatch.setenv("POSTERIOR_DB_PATH", os.path.abspath(path))
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["bayesrecon", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        return Outcome(caught.value.code or 0, *capsys.readouterr())

    return call
