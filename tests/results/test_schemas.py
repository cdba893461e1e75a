"""Schemas of JSON documents: they are ones, they bite, and every result that is printed has one."""

import copy
import importlib
import inspect
import pkgutil
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import bayesrecon
from bayesrecon.results.base import Result, schema

pytestmark = pytest.mark.small

results = importlib.import_module("bayesrecon.results").__path__


@pytest.fixture(scope="module")
def audited():
    return bayesrecon.audit({"mu": np.random.default_rng(0).normal(size=(4, 100))}).to_dict()


def test_they_are_schemas():
    jsonschema.Draft202012Validator.check_schema(schema("Audit"))


def is_shipped(one):
    """Of a file of the package: other tests add modules to it for a while."""
    found = getattr(sys.modules.get(one.__module__), "__file__", None) or ""
    return one.__module__.startswith("bayesrecon.") and Path(found).is_relative_to(Path(bayesrecon.__file__).parent)


def every_result():
    for module in (
        "bayesrecon.cli.deletions",
        *(f"bayesrecon.results.{m.name}" for m in pkgutil.iter_modules(results)),
    ):
        importlib.import_module(module)
    pending, found = [Result], []
    while pending:
        below = [one for one in pending.pop().__subclasses__() if is_shipped(one)]
        found += below
        pending += below
    return found


def test_every_result_has_one():
    found = {one.__name__ for one in every_result()}
    assert len(found) > 15
    assert found <= set(schema("Audit")["$defs"])


def test_every_plot_draws_into_axes_and_writes_a_file():
    plots = {one.plotted_by for one in every_result()} - {""}
    assert len(plots) > 10
    for module, function in (plot.split(".") for plot in plots):
        draw = getattr(importlib.import_module(f"bayesrecon.plots.{module}"), function)
        assert {"ax", "path"} <= set(inspect.signature(draw).parameters)


def test_a_document_follows_the_schema_that_it_names(audited):
    jsonschema.validate(audited, schema(audited["schema"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"unheard": 1},
        {"severity": "harmless"},
        {"draws": "400"},
        {"findings": [{"kind": "copy"}]},
        {"schema": "Audit/1"},
    ],
    ids=str,
)
def test_another_document_does_not(audited, change):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**copy.deepcopy(audited), **change}, schema("Audit"))


def test_a_key_that_is_missing_is_missed(audited):
    document = {k: v for k, v in audited.items() if k != "not_run"}
    with pytest.raises(jsonschema.ValidationError, match="not_run"):
        jsonschema.validate(document, schema("Audit"))


def test_unknown_names_and_versions_are_refused():
    with pytest.raises(bayesrecon.BayesreconError, match="no JSON document 'Recover'"):
        schema("Recover")
    with pytest.raises(bayesrecon.BayesreconError, match="schemas of version 3"):
        schema("Recovery/1")
