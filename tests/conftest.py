"""What several files share: how programs are compiled, the database, the command line, and releases."""

import atexit
import contextlib
import ctypes
import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

from flags import optimisations, quickly_compiled

if "PYTEST_XDIST_WORKER" in os.environ:  # one process a core, one thread a process; before NumPy is loaded
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
elif "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # Before JAX is loaded; workers, and the processes that tests start, inherit it.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="bayesrecon-compiled-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
# Most tests wait for the compiler, few for what it made: the large ones run optimised code (.ci/large).
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # what is compiled says not where it comes from
os.environ["XLA_FLAGS"] = quickly_compiled(os.environ.get("XLA_FLAGS", ""))

import numpy as np
import pytest
import shaped

shaped.install()  # what annotations say of arrays and their shapes is checked at every call

from command import Outcome  # noqa: E402
from documents import check_document  # noqa: E402

if "PYTEST_XDIST_WORKER" in os.environ:
    # Once a day ArviZ writes a file when it is imported, and the second of two workers that do so at once fails.
    with contextlib.suppress(FileNotFoundError):
        import arviz  # noqa: F401


def pytest_configure():
    """Tracing makes many objects: looking through all of them as often as usual takes a fifth of the time."""
    gc.set_threshold(50_000, 50, 50)


def pytest_collection_finish():
    """What was imported stays, and is not looked through again."""
    gc.freeze()


@pytest.fixture(autouse=True)
def no_figures_left():
    """Figures that a test drew are closed after it."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True, scope="module")
def programs_forgotten():
    """Compiled programs are let go of before a process holds too many of them."""
    yield
    forget_programs()


@pytest.fixture(scope="module")
def hardly_optimised():
    """Programs that run once or twice: optimising them takes longer than it saves, in the large part too."""
    with optimisations(False):
        yield


@pytest.fixture
def optimised():
    """Programs that run for long: without optimisations, a convolution takes ten times as long."""
    with optimisations(True):
        yield


@pytest.fixture
def slow_ones_optimised(request):
    """What the slow tests of a file compile runs for long; the others wait for the compiler."""
    with optimisations(request.node.get_closest_marker("slow") is not None):
        yield


def pytest_runtest_teardown(item):
    """A file of long tests may compile thousands."""
    if item.get_closest_marker("slow"):
        forget_programs()


LARGE = 2 * 2**30  # bytes of a process: two workers, and what they start, have to fit into a machine of 8 GiB
MORE = 2**30  # than there was left the last time, since data stay
MAPPINGS = 36_000  # every program holds several, and Linux refuses a process more than some 65,000
LEFT = [0]  # bytes, the last time


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def forget_programs():
    if "jax" in sys.modules and sys.platform == "linux":
        from bayesrecon.running.mappings import used

        if resident() > max(LARGE, LEFT[0] + MORE) or used() > MAPPINGS:
            sys.modules["jax"].clear_caches()
            gc.collect()
            with contextlib.suppress(AttributeError):  # a C library without it
                ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back to the system
            LEFT[0] = resident()


@pytest.fixture(scope="session")
def database():
    """The copy of posteriordb that POSTERIOR_DB_PATH points to."""
    if not os.environ.get("POSTERIOR_DB_PATH"):
        reason = "POSTERIOR_DB_PATH is not set"
        pytest.fail(reason) if os.environ.get("BAYESRECON_REQUIRE_DATA") == "1" else pytest.skip(reason)
    from bayesrecon.posteriors.fitting.database import open_database

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
        outcome = Outcome(caught.value.code or 0, *capsys.readouterr())
        if "--json" in arguments and outcome.out:
            check_document(outcome.out, arguments)
        return outcome

    return call


@pytest.fixture
def moved(monkeypatch):
    """What goes to the devices and comes back."""
    import jax

    counts = {"there": 0, "back": 0}
    put, get = jax.device_put, jax.device_get

    def counting_put(*arguments, **more):
        counts["there"] += 1
        return put(*arguments, **more)

    def counting_get(*arguments):
        counts["back"] += 1
        return get(*arguments)

    monkeypatch.setattr(jax, "device_put", counting_put)
    monkeypatch.setattr(jax, "device_get", counting_get)
    return counts


# Releases that tests of several folders attack, each built once


@pytest.fixture(scope="session")
def regression():
    """A conjugate regression: data, model and 4,000 exact draws."""
    from conjugate import regression_model, sample_regression

    from bayesrecon.posteriors import from_draws

    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (60, 1))
    y = 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, 60)
    model = regression_model()
    release = from_draws(sample_regression(x, y, 4000, rng), model, name="conjugate")
    return {"x": x, "y": y}, release


@pytest.fixture(scope="session")
def small():
    """The same with 400 draws of other data, for what descends."""
    from conjugate import regression_model, sample_regression

    from bayesrecon.posteriors import from_draws

    rng = np.random.default_rng(4)
    x = rng.normal(3, 2, (60, 1))
    y = 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, 60)
    return {"x": x, "y": y}, from_draws(sample_regression(x, y, 400, rng), regression_model())


@pytest.fixture(scope="session")
def kidiq(database):
    """Four chains of 434 children's test scores given their mothers'."""
    from bayesrecon.posteriors import from_posteriordb

    return from_posteriordb("kidiq-kidscore_momiq", draws=4000)


@pytest.fixture(scope="session")
def logistic_case():
    """A logistic regression on one covariate: data, draws and the covariate's domain."""
    from gridded import logistic

    return logistic(np.random.default_rng(0))


@pytest.fixture(scope="session")
def everything():
    """A dictionary of draws with every side channel, at the digits that samplers print."""
    import fits
    from kidscore import DATA, DRAWS

    from bayesrecon.digits import round_to

    return {
        **DRAWS,
        "__log_density__": round_to(fits.lp(DATA, DRAWS), 8),
        "log_lik": round_to(fits.log_lik(DATA, DRAWS), 6),
        "kid_score_rep": round_to(fits.replicated(DATA, DRAWS), 6),
    }


@pytest.fixture(scope="session")
def full(everything):
    """The audit of it, scored against the data."""
    from kidscore import DATA, MODEL

    import bayesrecon

    return bayesrecon.audit(everything, MODEL, data=DATA, remedies=False)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Files of trained parameters before and after deletions, with public and private records; the first deleted."""
    from deletions import write

    return write(tmp_path_factory.mktemp("deletion"))
