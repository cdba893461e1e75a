"""Plain copies of the data in a file, and private data that do not fit."""

import json

import fits
import numpy as np
import pytest
import xarray as xr
from audited import HOSTILE, arviz_tree
from kidscore import DATA, DRAWS, MODEL

import bayesrecon
from bayesrecon.auditing.channel import examine
from bayesrecon.auditing.look import Look
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.contents import Contents


def test_copies_are_found():
    tree = arviz_tree(
        source="/home/alice/study/kids.csv",
        contact="alice@example.org",
        rows=json.dumps(DATA["mom_iq"].tolist()),
        author="Alice",
        seed=7,
        created_at="2024-01-01",
    )
    private = {**DATA, "name": np.array([f"{HOSTILE} Ölaf {i}" for i in range(fits.SIZE)])}
    found = bayesrecon.audit(tree, data=private)
    told = {f.title: f for f in found}
    assert told["observed_data/kid_score holds data as they are"].severity == "high"
    assert "private column 'kid_score'" in told["observed_data/kid_score holds data as they are"].summary
    assert told["posterior/x_used is the same in every draw"].severity == "high"
    assert told["the coordinate 'child' holds the private column 'name'"].severity == "high"
    assert told["the attribute 'rows' holds the private column 'mom_iq' (inside a text)"].severity == "high"
    assert told["the attribute 'contact' holds an e-mail address"].severity == "high"
    assert told["the attribute 'author' holds a name"].severity == "medium"
    assert told["the attribute 'source' holds a path on the machine that made it"].severity == "low"
    assert any("random seed" in title for title in told)
    assert "warm-up draws are in the file" in told
    assert not any("created_at" in title for title in told)


def test_a_file_without_copies_holds_draws_alone():
    found = bayesrecon.audit(DRAWS)
    assert [(f.kind, f.severity) for f in found] == [("draws", "low")]
    assert found.verdict == "incomplete"


def test_comments_of_cmdstan(tmp_path):
    comments = ["model = kids", "data", "  file = /home/alice/kids.json", "  seed = 4711"]
    paths = fits.write_cmdstan(tmp_path, fits.scalar_columns(**DRAWS), comments)
    told = {f.title: f.summary for f in bayesrecon.audit(paths)}
    assert "/home/alice/kids.json" in told["the comment header holds file names of the machine it was made on"]
    assert "4711" in told["the comment header holds the random seed"]
    assert "30.1" in told["the comments hold step size and mass matrix of the warm-up"]


def test_only_data_groups():
    tree = xr.DataTree.from_dict({"observed_data": xr.Dataset({"y": ("i", np.arange(4.0))})})
    found = bayesrecon.audit(tree, MODEL)
    assert found.severity == "high"
    assert any("no draws" in w for w in found.warnings)


def test_a_file_without_anything_is_no_clean_file():
    tree = xr.DataTree.from_dict({"prior": xr.Dataset({"y": (("chain", "draw"), np.zeros((1, 4)))})})
    with pytest.raises(BayesreconError, match="no group 'posterior'"):
        bayesrecon.audit(tree)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"mom_iq": [1.0]}, "no column 'kid_score'"),
        ({"mom_iq": [1.0, np.nan], "kid_score": [1.0, 2.0]}, "missing values"),
        ({"mom_iq": [1.0, 3.0], "kid_score": [1.0]}, "different lengths"),
        (5, "expected columns or the path"),
    ],
)
def test_private_data_that_do_not_fit(data, words):
    with pytest.raises(BayesreconError, match=words):
        bayesrecon.audit(DRAWS, MODEL, data=data)


BIG = "9" * 400


@pytest.mark.parametrize(
    "value", [f"[1, 2, 3, {BIG}]", f'{{"a": [1, {BIG}]}}', int(BIG), [[1, 2], [3]], [1, 2, 3, int(BIG)]]
)
def test_attributes_of_any_kind(value):
    """Numbers that no float holds, and lists that are no array."""
    examine(Look(Contents("a", "object", attributes={"posterior/note": value})))
