"""Who may import whom: packages in one order, no circle, attacks and truth apart."""

import re
from functools import cache
from pathlib import Path

import layers
import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = [p for folder in ("bayesrecon", "models", "posteriors") for p in (ROOT / folder).rglob("*.py")]
SOURCES = {layers.module_name(p, ROOT): p.read_text(encoding="utf-8") for p in FILES}


@cache
def graph():
    return layers.graph_of(SOURCES)


def test_everything_is_looked_at():
    assert len(graph()) == len(SOURCES) - len(layers.FACADE)
    assert sum(map(len, graph().values())) > 500
    assert {layers.package_of(name) for name in graph()} <= {name for names in layers.RANKS for name in names}


def test_the_root_is_the_vocabulary():
    root = {name.split(".")[1] for name in graph() if layers.package_of(name) == "bayesrecon"}
    assert root == layers.VOCABULARY


def test_what_is_at_the_root_is_shared():
    """By several packages, or by what is: else it belongs in the one that uses it. `types` is for users alone."""
    for name in layers.VOCABULARY - {"types"}:
        users = {layers.package_of(one) for one, others in graph().items() if f"bayesrecon.{name}" in others}
        assert len(users - {"bayesrecon"}) > 1 or "bayesrecon" in users, name


def test_imports_point_down():
    assert layers.misplaced(graph()) == []


def test_there_is_no_circle():
    assert layers.circles(graph()) == []


def test_the_picture_has_few_levels():
    picture = layers.from_outside(graph())
    assert layers.circles(picture) == []
    assert layers.levels(picture) <= MOST_LEVELS
    assert all(layers.levels(layers.inside(graph(), room)) <= MOST_INSIDE for room in layers.ROOMS)


def test_rooms_are_entered_by_their_door():
    assert layers.past_the_door(graph()) == []
    planted = after("bayesrecon.models.conversion", "from bayesrecon.models.stan.values import V")
    assert layers.past_the_door(planted) == ["bayesrecon.models.conversion -> bayesrecon.models.stan.values"]


def test_the_facade_is_imported_by_nobody():
    """`import bayesrecon` inside the package would make it one circle."""
    users = {name for name, code in SOURCES.items() if "bayesrecon" in set(layers.imports_of(name, code, SOURCES))}
    assert users - layers.FACADE == set()


MOST_LEVELS = 9
MOST_INSIDE = 14


def after(module, line):
    """The graph once a module has one more line."""
    used = set(layers.imports_of(module, f"{SOURCES[module]}\n{line}\n", SOURCES))
    return graph() | {module: used & (set(graph()) - {module})}


PLANTED = {
    "upwards": ("bayesrecon.divergence.dense", "from bayesrecon.estimation.span import Fit"),
    "upwards, inside a function": ("bayesrecon.results.audit", "def f():\n    import bayesrecon.plots.report"),
    "upwards, for type checkers": (
        "bayesrecon.plots.diagnosis",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from bayesrecon.disclosure import bounds",
    ),
    "upwards, by a string": (
        "bayesrecon.divergence.score",
        'import importlib\nimportlib.import_module("bayesrecon.plots")',
    ),
    "the vocabulary looks up": ("bayesrecon.types", "from bayesrecon.models.registry import load"),
    "same rank": ("bayesrecon.divergence.score", "from bayesrecon.results.base import plain"),
    "same rank, a folder deeper": (
        "bayesrecon.attacks.records.rows",
        "from bayesrecon.disclosure.diagnosis import diagnose",
    ),
    "attacks see the truth": ("bayesrecon.attacks.recovery", "from bayesrecon.evaluate import score_records"),
    "the truth sees attacks": ("bayesrecon.evaluate.truth", "from bayesrecon.attacks.recovery import recover"),
    "the second door": ("bayesrecon.results.reconstruction", 'NAME = "bayesrecon.plots"'),
    "the command line is used": ("bayesrecon.auditing.audit", "from bayesrecon.cli.console import say"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_import_is_found(name):
    module, line = PLANTED[name]
    found = layers.misplaced(after(module, line))
    assert len(found) == 1
    assert found[0].startswith(f"{module} -> ")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bayesrecon.divergence.score", "bayesrecon.divergence.dense"),
        ("bayesrecon.models.catalogue.latent", "bayesrecon.models.catalogue.linear"),
        ("bayesrecon.plots.style", "bayesrecon.plots.recovery_summary"),
    ],
)
def test_a_planted_circle_is_found(one, other):
    planted = after(one, f"def f():\n    import {other}")
    assert layers.misplaced(planted) == []
    (circle,) = layers.circles(planted)
    assert {one, other} <= set(circle)


def test_few_modules_import_by_a_name_made_at_run_time():
    found = {name for name, code in SOURCES.items() if layers.imports_by_name(code)}
    assert found - layers.FACADE == set(layers.DYNAMIC)
    for line in ("importlib.import_module(x)", "from importlib import import_module as i\n__import__('x')"):
        assert layers.imports_by_name(line)


def test_docstrings_are_no_imports():
    assert not set(layers.imports_of("bayesrecon.types", '"""See `bayesrecon.plots`."""', SOURCES)) - {""}
    assert set(layers.imports_of("bayesrecon.types", '"""bayesrecon.plots"""', SOURCES)) == set()


def test_the_page_has_the_order():
    """`docs/architecture.md` names every package, in the order that is tested."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(?:bayesrecon/\*\.py|(\w+)/)` \|", page, re.MULTILINE)
    listed = {}
    for rank, package in rows:
        listed.setdefault(int(rank), set()).add(package or "bayesrecon")
    assert listed == dict(enumerate(map(set, layers.RANKS), start=1))
    folders = {path.parent.name for path in FILES if path.name == "__init__.py"}
    named = set(re.findall(r"`(\w+)/`", page))
    assert named <= folders | {"models", "posteriors"}
