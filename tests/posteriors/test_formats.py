"""The reader is found by what the source is."""

import gzip
import io
import json

import numpy as np
import pytest
from written import SIGMA, refused

from bayesrecon import audit
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.formats import exports, read_draws, suffixes

pytestmark = pytest.mark.small


def test_dispatch(tmp_path):
    draws = Draws({"sigma": SIGMA})
    assert read_draws(draws) is draws
    refused("no such file", read_draws, tmp_path / "none.nc")
    refused(
        r"unknown suffix '.doc'; known suffixes: .npz, .*.csv, .csv.gz, .*.zarr, .*.rds, .rdata, .rda",
        read_draws,
        "a.doc",
    )
    refused("is a folder; name a file in it", read_draws, tmp_path)
    (tmp_path / "folder.nc").mkdir()
    refused("is a directory", read_draws, tmp_path / "folder.nc")
    (tmp_path / "file.zarr").write_text("")
    refused("is not a directory", read_draws, tmp_path / "file.zarr")
    refused("CmdStan chains", read_draws, ["a.csv", "b.nc"])
    refused("CmdStan chains", read_draws, ["a.csv", "b.txt"])
    for source in ([], [1], b"bytes", 3, None, io.StringIO()):
        refused("list of CmdStan|cannot read draws from", read_draws, source)
    (tmp_path / "FIT.CSV").write_text("a\n1\n")
    assert read_draws(tmp_path / "FIT.CSV").values["a"].shape == (1, 1)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("draws.parquet", "looks like a table of pandas, polars or Arrow: write it with to_csv"),
        ("fit.qs", "looks like an object of R: write it with saveRDS"),
        ("root.paramnames", "pass the chains"),
        ("fit.nc.gz", "looks like a compressed file: unpack it"),
        ("chain.npy", "np.savez"),
    ],
)
def test_a_file_that_is_not_read_says_which_tool_it_looks_like(name, match):
    refused(match, read_draws, name)


def test_no_hint_is_of_a_suffix_that_is_read():
    assert not {suffix for group in exports._TOOLS for suffix in group} & set(suffixes())


@pytest.mark.parametrize(
    ("name", "content", "tool"),
    [
        ("fit.json", b'{"learner": {"attributes": {}}, "version": [3, 2, 0]}', "XGBoost"),
        ("fit.ubj", b"{L\0\0\0\0\0\0\0\7learner{", "XGBoost"),
        ("fit.json", b'{"growth": "linear", "__prophet_version": "1.5"}', "Prophet"),
        ("fit.txt", b"tree\nversion=v4\n", "LightGBM"),
        ("fit.anything", b"CBM1\0\0", "CatBoost"),
        ("fit.keras", b"PK\3\4 metadata.json config.json model.weights.h5", "Keras"),
        ("fit.h5", b"\x89HDF\r\n\x1a\n ... keras_version", "Keras"),
        ("fit.txt", b"structure(list(age = c(41, 17)), class = 'data.frame')", "dput"),
        ("fit.pkl.gz", gzip.compress(b"\x80\4K\1.", mtime=0), "compressed pickle"),
        ("fit.rdb", b"\0\0\1x", "database of objects"),
    ],
)
def test_files_of_other_tools_are_known_by_their_content_and_never_cleared(tmp_path, name, content, tool):
    path = tmp_path / name
    path.write_bytes(content)
    refused(f"this is .*{tool}.*; not read; ", read_draws, path)
    found = audit(path)
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert tool in found.not_run[0].reason


def test_files_that_are_not_read_are_compared_with_the_private_table(tmp_path):
    doses = np.random.default_rng(0).normal(50, 9, 40).round(3)
    history = json.dumps({"data": [{"y": dose} for dose in doses.tolist()]})
    (tmp_path / "fit.json").write_text(json.dumps({"history": history, "__prophet_version": "1.5"}))
    found = audit(tmp_path / "fit.json", data={"dose": doses})
    assert (found.severity, found.verdict) == ("high", "incomplete")
