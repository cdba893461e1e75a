"""The rules that hold everywhere: who may import whom, what importing costs, and what is left untouched."""

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
import tomllib
from functools import cache
from pathlib import Path

import jax
import layers
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist

import bayesrecon
from bayesrecon import Metric
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = sorted(path for folder in ("bayesrecon", "models", "posteriors") for path in (ROOT / folder).rglob("*.py"))
ENGINES = {"joblib", "dask", "distributed"}
"""Run work elsewhere, and pickle for it: only what plays games and what runs on engines imports them."""

SENDS = {"bayesrecon/running/engine.py"}
"""Sends work to the caller's own workers; what it reads back there is what it wrote itself."""

SETTLES = {"bayesrecon/running/compiled.py"}
"""Changes JAX's settings of what is kept on disk, for a block, and puts them back."""

HEAVY = {"numpyro", "arviz", "posteriordb", "matplotlib", "pandas", "sklearn", "xarray", "h5py", "typer", "rich"}


def named(path):
    return str(path.relative_to(ROOT))


@cache
def tree(path):
    return layers.parsed(path.read_text(encoding="utf-8"))


def nodes_of(path):
    return layers.nodes_of(path.read_text(encoding="utf-8"))


def imported(nodes):
    """Absolute names of what is imported, `from a import b` as `a.b`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def at_import(body):
    """Statements that run when the module is imported: not inside functions, nor for type checkers only."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from at_import(
                child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.excepthandler)
            )


def inside(name, modules):
    return any(name == module or name.startswith(f"{module}.") for module in modules)


LIGHT = [p for p in PACKAGE if layers.package_of(layers.module_name(p, ROOT)) in layers.CORE]


def offending(paths, found):
    """`{file: what was found in it}`, of the files in which there is something."""
    assert paths
    return {named(path): names for path in paths if (names := list(found(path)))}


@pytest.mark.slow
def test_the_core_loads_nothing_heavy_at_import():
    def heavy(path):
        return (name for name in imported(at_import(tree(path).body)) if inside(name, HEAVY))

    assert offending(LIGHT, heavy) == {}


def test_no_global_settings_and_no_pickle():
    def forbidden(path):
        banned = {"jax.config", "pickle", "cloudpickle", "dill", "marshal", "shelve"}
        if layers.package_of(layers.module_name(path, ROOT)) not in layers.ON_ENGINES:
            banned |= ENGINES
        if named(path) in SENDS:
            banned -= {"cloudpickle"}
        yield from (name for name in imported(nodes_of(path)) if inside(name, banned))
        for call in (node for node in nodes_of(path) if isinstance(node, ast.Call)):
            function = ast.unparse(call.func)
            if function.endswith("config.update") and named(path) not in SETTLES:
                yield function
            if function in ("eval", "exec", "np.random.seed"):
                yield function
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            unsaid = function == "np.load" and list(given) != ["allow_pickle"]
            if unsaid or given.get("allow_pickle", "False") != "False":
                yield ast.unparse(call)

    assert offending(PACKAGE, forbidden) == {}


RESULTS = {"divergence", "estimation", "disclosure", "attacks", "auditing"}


def is_number(node):
    if isinstance(node, ast.Tuple):
        return all(map(is_number, node.elts))
    if isinstance(node, ast.UnaryOp | ast.BinOp):
        return all(is_number(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def unexplained(code):
    """Numbers of a module with no word of why: beside them, above them and their neighbours, or, as a string, below."""
    lines, under = ["", *code.splitlines(), ""], set()
    for node in layers.parsed(code).body:
        if isinstance(node, ast.Assign) and is_number(node.value):
            if lines[node.lineno - 1].startswith("#") or node.lineno - 1 in under:
                under.add(node.end_lineno)
            elif "#" not in lines[node.end_lineno] and not lines[node.end_lineno + 1].startswith('"""'):
                yield ast.unparse(node)


def test_constants_that_decide_results_say_why():
    paths = [p for p in PACKAGE if layers.package_of(layers.module_name(p, ROOT)) in RESULTS]
    assert offending(paths, lambda path: unexplained(path.read_text(encoding="utf-8"))) == {}


def test_a_planted_constant_is_found():
    code = '# Why.\n_A = 1\n_B = (2, 3.0)\n\n_C = 2**20  # why\n_D = -1e-3\n\n_E = 4\n"""Why."""\n_F = \'text\'\n'
    assert list(unexplained(code)) == ["_D = -0.001"]


# Public names

PUBLIC = (
    "attacks",
    "datasets",
    "divergence",
    "evaluate",
    "games",
    "models",
    "plots",
    "posteriors",
    "results",
    "running",
    "types",
)


def stub():
    """`{public name: module}` of the stub."""
    found = {}
    for node in ast.parse((ROOT / "bayesrecon/__init__.pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert alias.name == alias.asname, "a re-export is spelt `name as name`"
                found[alias.name] = f"bayesrecon.{node.module}" if node.module else "bayesrecon"
    return found


def test_the_stub_names_what_the_package_offers():
    names = stub()
    assert set(names) == set(bayesrecon.__all__)
    assert len(set(bayesrecon.__all__)) == len(bayesrecon.__all__)
    assert set(names) <= set(dir(bayesrecon))
    for name, module in names.items():
        value = getattr(bayesrecon, name)
        if module == "bayesrecon":
            assert value is importlib.import_module(f"bayesrecon.{name}")
        else:
            assert value is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="attribute recovr"):
        _ = bayesrecon.recovr


@pytest.mark.parametrize(
    "module", [f"bayesrecon{end}" for end in ("", *(f".{name}" for name in PUBLIC if name != "types"))]
)
def test_public_names_have_docstrings(module):
    package = importlib.import_module(module)
    assert package.__doc__
    own = [getattr(package, name) for name in dir(package) if not name.startswith("_")]
    assert own
    for value in own:
        assert (value.__doc__ or "").strip(), value
        # A dataclass without one shows its signature.
        assert not value.__doc__.startswith(f"{getattr(value, '__name__', '')}("), value


def test_every_folder_is_installed():
    """The list of packages is written by hand: folders at the top are mapped into the package."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        listed = tomllib.load(file)["tool"]["setuptools"]["packages"]
    modules = (layers.module_name(path, ROOT) for path in PACKAGE if path.name == "__init__.py")
    assert sorted(listed) == sorted(modules)


def test_plots_are_where_results_and_commands_look_for_them():
    named = {
        found
        for path in PACKAGE
        for found in re.findall(r'"(\w+)\.((?:plot|audit)_\w+)"', path.read_text(encoding="utf-8"))
    }
    assert len(named) > 15
    for module, function in named:
        assert callable(getattr(importlib.import_module(f"bayesrecon.plots.{module}"), function))


def test_public_names_are_few():
    """Names are counted once, and packages are none of them; what `types` has are parts of the others."""
    own = {name for name in dir(bayesrecon) if name not in PUBLIC}
    assert len(own) <= 30
    offered = {(name, public) for name in PUBLIC for public in dir(importlib.import_module(f"bayesrecon.{name}"))}
    assert len(own) + sum(package != "types" for package, _ in offered) <= 157


def test_no_public_name_is_that_of_a_module_beside_it():
    """Importing the module would put it in the place of what it has."""
    for name in set(PUBLIC) - {"types"}:
        package = importlib.import_module(f"bayesrecon.{name}")
        assert not set(dir(package)) & {info.name for info in pkgutil.iter_modules(package.__path__)}


def test_dir_shows_what_is_meant():
    """The same, whatever was imported before."""
    import bayesrecon.posteriors.fitting.training

    stub = (ROOT / "posteriors/__init__.pyi").read_text(encoding="utf-8")
    assert dir(bayesrecon.posteriors) == sorted(line.split()[-1] for line in stub.splitlines())


# Where a module ends

LONGEST = 600
LEFT = 15
"""Modules that could be sections of their only user. The number may only fall."""


def test_a_module_ends_where_a_second_user_begins():
    """A module with one user in its own folder is a section of it, until both together are too long to read at once."""
    sources = {layers.module_name(path, ROOT): path.read_text(encoding="utf-8") for path in PACKAGE}
    lines = {name: len(code.splitlines()) for name, code in sources.items()}
    assert [name for name, count in lines.items() if count > LONGEST] == []
    assert len(layers.sections(layers.graph_of(sources), lines, LONGEST)) <= LEFT


def test_a_planted_section_is_found():
    graph = {
        "a.one": {"a.two", "b.far"},
        "a.two": set(),
        "b.far": {"b.shared"},
        "b.shared": set(),
        "b.own": {"b.shared"},
    }
    assert layers.sections(graph, dict.fromkeys(graph, 300), 600) == ["a.two of a.one"]
    assert layers.sections(graph, dict.fromkeys(graph, 301), 600) == []


# What importing costs


def python(code, cwd=None):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_nothing_heavy():
    heavy = sorted(HEAVY | {"jax", "numpy", "scipy"})
    assert python(f"import sys, bayesrecon; print([m for m in {heavy} if m in sys.modules])") == "[]"


@pytest.mark.slow
def test_what_importing_leaves_alone(tmp_path):
    """No array on a device, no drawing that nobody asked for, and modules of the user's own that have our names."""
    for name in ("models", "posteriors"):
        (tmp_path / f"{name}.py").write_text("MINE = True\n")
    code = """
        import sys
        sys.path.insert(0, "")
        import jax
        import bayesrecon.attacks.recovery, bayesrecon.disclosure.diagnosis
        import bayesrecon.models, bayesrecon.plots, bayesrecon.posteriors
        before = len(jax.live_arrays())
        bayesrecon.models.shipped()
        print(before, len(jax.live_arrays()), "matplotlib" in sys.modules)
        import models, posteriors
        print(models.MINE, posteriors.MINE)
    """
    assert python(code, cwd=tmp_path) == "0 0 False\nTrue True"


@pytest.mark.slow
def test_importing_costs_little_more_than_jax():
    """Processor time of one import after the other in one process, which loads nothing heavy, in units of JAX's own
    import, so that the processor does not matter; a busy machine gets three tries."""
    code = f"""
        import sys, time
        begin = time.thread_time()
        import jax
        start = time.thread_time()
        import bayesrecon.attacks.recovery, bayesrecon.results.recovery
        cost = (time.thread_time() - start) / (start - begin)
        print(cost, *(m for m in {sorted(HEAVY)} if m in sys.modules))
    """
    assert any(float(python(code)) < 0.8 for _ in range(3))


# What running leaves untouched


def numbers(result):
    return {key: value for key, value in result.to_dict().items() if key != "seconds"}


@pytest.fixture(scope="module")
def counted():
    """A model that counts how often its program is run, two releases of it, and the count."""
    runs = []

    def program(y):
        runs.append(1)
        mu = numpyro.sample("mu", dist.Normal(0, 10))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mu, 1), obs=y)

    model = from_numpyro(program, {"y": ()})
    rng = np.random.default_rng(0)
    # The exact posterior of 50 records with mean 3, twice.
    one, two = (from_draws({"mu": rng.normal(3, 50**-0.5, (2, 500))}, model, name="one") for _ in range(2))
    return one, two, runs


COMPILED = []


@pytest.fixture(scope="module")
def compiled():
    """Grows by one entry with every program that XLA compiles."""

    def listen(event, seconds, **rest):
        if event.endswith("backend_compile_duration"):
            COMPILED.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return COMPILED


def test_nothing_is_traced_or_compiled_twice(counted, compiled):
    one, two, runs = counted
    first = bayesrecon.recover(one)
    assert runs
    assert compiled
    runs.clear()
    compiled.clear()
    again = bayesrecon.recover(one)
    other = bayesrecon.recover(two)
    assert (len(runs), len(compiled)) == (0, 0)
    assert numbers(again) == numbers(first)
    assert numbers(other) != numbers(first)


@pytest.mark.slow
def test_the_users_precision_neither_matters_nor_changes(counted):
    one, _, _ = counted
    before = jax.config.jax_enable_x64
    expected = numbers(bayesrecon.recover(one))
    assert jax.config.jax_enable_x64 is before
    with x64():
        assert numbers(bayesrecon.recover(one)) == expected
        assert jax.config.jax_enable_x64 is True
        with pytest.raises(BayesreconError, match="metric"):
            bayesrecon.recover(one, metric=Metric("euclid"))
        assert jax.config.jax_enable_x64 is True
    with pytest.raises(BayesreconError, match="metric"):
        bayesrecon.recover(one, metric=Metric("euclid"))
    assert jax.config.jax_enable_x64 is before


def test_randomness_comes_from_the_key_alone(counted):
    one, _, _ = counted
    np.random.seed(1)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = numbers(bayesrecon.recover(one, key=3))
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    assert numbers(bayesrecon.recover(one, key=3)) == first
    ours, again = (numbers(bayesrecon.recover(one, key=jax.random.key(3))) for _ in range(2))
    assert ours == again
    with pytest.raises(BayesreconError, match="key must be an integer or a JAX random key, got str"):
        bayesrecon.recover(one, key="3")
