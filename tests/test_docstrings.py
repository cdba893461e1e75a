"""Examples in docstrings run, and every public function has one and says what it raises."""

import ast
import doctest
import importlib
import io
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path

import layers
import pytest
from quick import quick

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("bayesrecon", "models", "posteriors")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
DEFINED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
NEEDS_DATA = re.compile(r"\b(open_database|from_posteriordb)\(")
REASON = re.compile(r"# (NUTS|network|large|display)  # doctest: \+SKIP")
CANNOT_RAISE = (
    "bayesrecon.evaluate.compare",
    "bayesrecon.evaluate.cosine_similarity",
    "bayesrecon.games.shipped",
    "bayesrecon.models.shipped",
    "bayesrecon.plots.plot_recovered_against_true",
)
"""They take nothing, or a result or arrays, no path and no names, and refuse nothing."""


def documented(node, name):
    """`(name, docstring, line)` of all that has a docstring, from the source: nothing is imported to be listed.

    `DocTestFinder` would pass over functions that `in_float64` wraps: they seem to be of another module.
    """
    if isinstance(node, ast.Module | DEFINED) and ast.get_docstring(node, clean=False):
        yield name, ast.get_docstring(node, clean=False), node.body[0].lineno
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler):
            yield from documented(child, f"{name}.{child.name}" if isinstance(child, DEFINED) else name)


PATHS = {layers.module_name(p, ROOT): p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.py"))}
SOURCES = {module: path.read_text(encoding="utf-8") for module, path in PATHS.items()}


@cache
def tree(module):
    return layers.parsed(SOURCES[module])


TESTS = {
    name: (module, doctest.DocTestParser().get_doctest(text, {}, name, str(PATHS[module]), line - 1))
    for module, source in SOURCES.items()
    if ">>>" in source
    for name, text, line in documented(tree(module), module)
    if ">>>" in text
}


# They train, sample or play for a second or more.
LONG = {
    "bayesrecon.attacks.deletion.difference.Difference",
    "bayesrecon.attacks.deletion.hrec.reconstruct_general",
    "bayesrecon.attacks.deletion.inversion.invert_embedding",
    "bayesrecon.attacks.outputs.decoder.train_decoder",
    "bayesrecon.attacks.reconstruction.reconstruct",
    "bayesrecon.auditing.fit_findings.attack_fit",
    "bayesrecon.disclosure.bounds.bound",
    "bayesrecon.disclosure.diagnosis.diagnose",
    "bayesrecon.disclosure.planner.plan",
    "bayesrecon.disclosure.sanitising.sanitise.sanitise",
    "bayesrecon.games.compliance.ComplianceGame",
    "bayesrecon.games.inference.MembershipGame",
    "bayesrecon.games.vicious.detection.detection_scores",
    "bayesrecon.games.vicious.network.train",
    "bayesrecon.plots.diagnosis.plot_diagnosis",
    "bayesrecon.plots.reconstruction.plot_reconstruction",
    "bayesrecon.plots.reconstruction.plot_traces",
    "bayesrecon.plots.recovery_summary.plot_summary",
    "bayesrecon.posteriors.approximated.approximations.evaluated",
    "bayesrecon.posteriors.approximated.approximations.from_log_density",
    "bayesrecon.posteriors.approximated.guides.from_guide",
    "bayesrecon.posteriors.fitting.nuts.newton_step_without",
}


@pytest.mark.parametrize("name", quick(TESTS, TESTS.keys() - LONG))
def test_examples_run(name, request, monkeypatch, tmp_path):
    module, test = TESTS[name]
    if any(NEEDS_DATA.search(example.source) for example in test.examples):
        request.getfixturevalue("database")
    if path := os.environ.get("POSTERIOR_DB_PATH"):
        monkeypatch.setenv("POSTERIOR_DB_PATH", os.path.abspath(path))
    monkeypatch.chdir(tmp_path)
    test.globs = dict(vars(importlib.import_module(module)))
    report = io.StringIO()
    doctest.DocTestRunner(verbose=False, optionflags=OPTIONS).run(test, out=report.write)
    if report.getvalue():
        pytest.fail(report.getvalue(), pytrace=False)


def test_no_example_is_left_out():
    """An example that is a comment does not run, and one outside a docstring is not found."""
    written = {module: len(re.findall(r"^ *>>> ", source, re.MULTILINE)) for module, source in SOURCES.items()}
    run = Counter(module for module, test in TESTS.values() for _ in test.examples)
    assert {module: count for module, count in written.items() if count} == run


def test_what_is_skipped_says_why():
    every = [(name, e.source) for name, (_, test) in TESTS.items() for e in test.examples if doctest.SKIP in e.options]
    assert [(name, source) for name, source in every if not REASON.search(source)] == []


PACKAGES = ("attacks", "models", "posteriors", "plots", "evaluate", "games", "results", "running")


def exported(path, package):
    """`{public name: (module, name)}` of what an `__init__` imports from other modules."""
    return {
        f"{package}.{alias.asname}": (module, alias.name)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module
        if (module := f"{package}.{node.module}" if node.level else node.module) in SOURCES and module != package
        for alias in node.names
        if alias.asname
    }


def public_functions():
    """`{public name: docstring}` of every function of the facade and of the packages that it names."""
    found = {}
    for package in ("bayesrecon", *(f"bayesrecon.{name}" for name in PACKAGES)):
        stub = PATHS[package].with_suffix(".pyi")
        found |= exported(stub if stub.exists() else PATHS[package], package)
    for public, (module, name) in found.items():
        for node in tree(module).body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                yield public, ast.get_docstring(node) or ""


FUNCTIONS = dict(public_functions())


def test_the_public_functions_are_found():
    assert len(FUNCTIONS) > 60
    assert {"bayesrecon.recover", *CANNOT_RAISE} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_have_an_example(name):
    assert any(example.want for example in doctest.DocTestParser().get_examples(FUNCTIONS[name]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_say_what_they_raise(name):
    listed = re.search(r"^Raises:\n +\w+Error: ", FUNCTIONS[name], re.MULTILINE)
    assert (listed is None) is (name in CANNOT_RAISE)
