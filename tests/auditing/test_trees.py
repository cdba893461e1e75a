"""Trees and forests of R: counts of their nodes, responses of single records, and bounds on their covariates."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from r_written import FIXTURES

from bayesrecon.attacks.sidechannels.trees import of_forest, of_rpart
from bayesrecon.auditing.channel import examine
from bayesrecon.auditing.look import Look
from bayesrecon.posteriors.formats import read_contents

with (FIXTURES / "patients.csv").open() as _file:
    ROWS = list(csv.DictReader(_file))
PRESSURE = np.array([float(row["pressure"]) for row in ROWS])


def entries_of(name):
    return {e.where: e for e in read_contents(FIXTURES / name).entries if e.kind in ("array", "labels")}


def parts(entries, root):
    return {w.removeprefix(root): e for w, e in entries.items() if w.startswith(root) and e.kind == "array"}


@pytest.fixture(scope="module")
def tree():
    entries = entries_of("rpart-stripped.rds")
    return of_rpart(parts(entries, "object/frame/"), entries, "object/")


@pytest.fixture(scope="module")
def forest():
    entries = entries_of("randomForest-stripped.rds")
    return of_forest(parts(entries, "object/forest/"), ["age", "bmi"])


def is_a_record(tree, value, node):
    """Whether somebody has this response and covariates within the bounds of the leaf."""
    bounds = tree.bounds()[node]
    return any(
        abs(float(row["pressure"]) - value) < 1e-9
        and all(low <= float(row[name]) <= high for name, (low, high) in bounds.items())
        for row in ROWS
    )


def test_leaves_of_one_and_of_two_records_tell_their_responses(tree):
    values, nodes = tree.responses()
    assert (len(values), int((tree.count[tree.left < 0] == 1).sum())) == (24, 8)
    assert all(is_a_record(tree, value, node) for value, node in zip(values, nodes, strict=True))
    assert all(tree.bounds()[node] for node in nodes)


def test_counts_of_a_forest_follow_from_the_means_of_its_nodes(forest):
    assert [t.count[0] for t in forest] == [60.0] * 10
    for t in forest:
        inner = t.left >= 0
        np.testing.assert_array_equal(t.count[inner], t.count[t.left[inner]] + t.count[t.right[inner]])


def test_leaves_that_drew_one_record_tell_its_response(forest):
    told = [(t, value, node) for t in forest for value, node in zip(*t.responses(), strict=True)]
    assert len({round(value, 9) for _, value, _ in told}) == 20
    assert all(is_a_record(*one) for one in told)


def test_a_tree_that_does_not_add_up_is_none():
    """That of weighted records, of classes, of rates, or one that was changed."""
    entries = entries_of("rpart-stripped.rds")
    mean = entries["object/frame/yval"]
    for changed in (mean.values + np.arange(len(mean.values)), mean.values * np.nan, mean.values[:-1]):
        own = parts({**entries, "object/frame/yval": replace(mean, values=changed)}, "object/frame/")
        assert of_rpart(own, entries, "object/") is None
    without = {k: v for k, v in parts(entries, "object/frame/").items() if k != "nsurrogate"}
    (bounds, *_) = of_rpart(without, entries, "object/").bounds()
    assert bounds == {}


def test_counts_of_a_forest_of_few_leaves_are_not_told():
    """All of them may be multiples of two."""
    entries = entries_of("randomForest-stripped.rds")
    own = parts(entries, "object/forest/")
    first = {k: replace(e, values=np.asarray(e.values)[..., :1]) for k, e in own.items() if k != "ncat"}
    assert len(of_forest(first, ["age", "bmi"])) == 1
    small = {"left": [2, 0, 0], "right": [3, 0, 0], "mean": [2.0, 1.0, 3.0], "best": [1, 0, 0], "cut": [0.5, 0, 0]}
    names = ("leftDaughter", "rightDaughter", "nodepred", "bestvar", "xbestsplit")
    few = {k: replace(own[k], values=np.array(v)[:, None]) for k, v in zip(names, small.values(), strict=True)}
    few["ndbigtree"] = replace(own["ndbigtree"], values=np.array([3]))
    assert of_forest(few, ["x"]) == []


@pytest.mark.parametrize(
    ("name", "title", "count"),
    [
        ("rpart-stripped.rds", "leaves of the tree determine the responses of 24 of 60 records", 24),
        ("randomForest-stripped.rds", "leaves of the forest that drew one record hold 20 different responses", 20),
    ],
)
def test_audits_find_them_after_the_usual_removal(name, title, count):
    findings = examine(Look(read_contents(FIXTURES / name))).findings
    (told,) = (f for f in findings if f.title == title)
    assert told.severity == "high"
    assert len(told.records["response"]) == count
    assert set(np.round(told.records["response"], 6)) <= set(PRESSURE)
    if "tree" in title.split()[3]:
        assert [i.name for i in told.evidence] == ["n", "mean(response)", "var(response)"]
        assert told.evidence[2].estimate == pytest.approx(np.var(PRESSURE), rel=1e-12)


def test_counts_of_splits_that_no_tree_has_tell_no_way():
    entries = entries_of("rpart-stripped.rds")
    own = parts(entries, "object/frame/")
    competing = own["ncompete"]
    for values in (np.asarray(competing.values) - 3, np.asarray(competing.values) * 1.5, competing.values[:-1]):
        changed = {**own, "ncompete": replace(competing, values=values)}
        assert not any(of_rpart(changed, entries, "object/").bounds())
