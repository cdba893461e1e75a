"""The reader is found by what the source is."""

import io

import pytest
from written import SIGMA, refused

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
