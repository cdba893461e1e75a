"""What a zarr folder may not hold is refused before a library opens it."""

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from written import refused

from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.untrusted.zarr_folder import check_folder

pytestmark = pytest.mark.small

pytest.importorskip("zarr", reason="the extra bayesrecon[arviz] is not installed")

RAN = []


class Runs:
    """Runs a function of ours where it is unpickled."""

    def __reduce__(self):
        return RAN.append, ("run",)


def folder(path, version):
    draws = {"mu": (("chain", "draw"), np.random.default_rng(0).normal(size=(2, 30)))}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(draws)})
    with warnings.catch_warnings():  # zarr 3 gathers metadata, and warns that others may not
        warnings.simplefilter("ignore")
        tree.to_zarr(path, zarr_format=version, consolidated=True)
    return path


def edit(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def planted(path):
    """A variable whose chunk is a pickle."""
    from numcodecs.pickles import Pickle

    folder(path, 2)
    mu = path / "posterior" / "mu"
    edit(mu / ".zarray", lambda c: c.update(dtype="|O", filters=[{"id": "pickle"}], compressor=None, fill_value=None))
    for chunk in (f for f in mu.iterdir() if not f.name.startswith(".")):
        chunk.write_bytes(Pickle().encode(np.array([Runs()] * 60, object).reshape(2, 30)))
    return path


@pytest.mark.parametrize("read", [read_draws, read_contents])
def test_a_pickle_is_never_run(tmp_path, monkeypatch, read):
    path = planted(tmp_path / "fit.zarr")
    # Newer numcodecs refuse by themselves, unless somebody lets them.
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    RAN.clear()
    refused("codec 'pickle' is not among those that are read", read, path)
    assert RAN == []


V2 = {
    "filter": {"filters": [{"id": "pickle"}]},
    "compressor": {"compressor": {"id": "msgpack2"}},
    "no name": {"filters": [{"level": 1}]},
    "no list": {"filters": {"id": "zlib"}},
}
V3 = {
    "codec": {"codecs": [{"name": "numcodecs.pickle"}]},
    "a bare name": {"codecs": ["pickle"]},
    "in a shard": {"codecs": [{"name": "sharding_indexed", "configuration": {"codecs": [{"name": "cast"}]}}]},
    "index of a shard": {"codecs": [{"name": "sharding_indexed", "configuration": {"index_codecs": ["x"]}}]},
    "under a good name": {"codecs": [{"name": "numcodecs.zlib", "configuration": {"id": "pickle"}}]},
    "transformer": {"storage_transformers": [{"name": "x"}]},
}


@pytest.mark.parametrize(("version", "change"), [(2, c) for c in V2] + [(3, c) for c in V3])
def test_unknown_codecs_are_refused(tmp_path, version, change):
    path = folder(tmp_path / "fit.zarr", version)
    check_folder(path)
    name, changes = (".zarray", V2[change]) if version == 2 else ("zarr.json", V3[change])
    edit(path / "posterior" / "mu" / name, lambda content: content.update(changes))
    refused("codec|storage transformers", check_folder, path)


def test_gathered_metadata_count(tmp_path):
    two, three = folder(tmp_path / "2.zarr", 2), folder(tmp_path / "3.zarr", 3)
    edit(two / ".zmetadata", lambda c: c["metadata"]["posterior/mu/.zarray"].update(filters=[{"id": "pickle"}]))

    def change(content):
        metadata = content["consolidated_metadata"]["metadata"]
        metadata["posterior/mu"]["codecs"] = [{"name": "pickle"}]

    edit(three / "zarr.json", change)
    for path in (two, three):
        refused("codec 'pickle'", check_folder, path)


def rewritten(edit_):
    return lambda path: edit(path / "posterior" / "mu" / ".zarray", edit_)


HOSTILE = {
    "a huge shape": (rewritten(lambda c: c.update(shape=[2, 10**12])), "declares"),
    "a huge chunk": (rewritten(lambda c: c.update(chunks=[2, 10**12])), "declares"),
    "wide text": (rewritten(lambda c: c.update(dtype="|S1000000000")), "declares"),
    "many chunks": (rewritten(lambda c: c.update(shape=[2, 10**6], chunks=[1, 1])), "chunks in"),
    "no chunk": (rewritten(lambda c: c.update(chunks=[0, 0])), "do not make up"),
    "no sizes": (rewritten(lambda c: c.update(shape=[True, -1])), "not a list of sizes"),
    "utf-16": (lambda p: (p / ".zgroup").write_bytes('{"zarr_format": 2}'.encode("utf-16-le")), "plain UTF-8"),
    "twice": (lambda p: (p / ".zgroup").write_text('{"a": 1, "a": 2}'), "twice"),
    "capitals": (lambda p: (p / "posterior" / ".ZARRAY").write_text("{}"), "capitals"),
    "a link": (lambda p: (p / "posterior" / "mu" / "9.9").symlink_to("/etc/passwd"), "link out of the folder"),
    "a pipe": (lambda p: os.mkfifo(p / "posterior" / "pipe"), "not a plain file"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_folders(tmp_path, name):
    change, match = HOSTILE[name]
    path = folder(tmp_path / "fit.zarr", 2)
    change(path)
    refused(match, read_draws, path)


def test_a_wrong_codec_library_is_not_a_missing_one(tmp_path, monkeypatch):
    """zarr is there, and does not import: what it says is passed on."""
    path = folder(tmp_path / "fit.zarr", 2)
    library = tmp_path / "library" / "zarr"
    library.mkdir(parents=True)
    Path(library, "__init__.py").write_text("from numcodecs import cbuffer_sizes_of_old")
    monkeypatch.syspath_prepend(library.parent)
    for name in [n for n in sys.modules if n == "zarr" or n.startswith("zarr.")]:
        monkeypatch.delitem(sys.modules, name)
    refused("zarr [0-9.]+ is installed but cannot be imported .*cbuffer_sizes_of_old.*numcodecs", read_draws, path)
