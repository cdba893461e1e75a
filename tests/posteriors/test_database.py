"""posteriordb: names, draws and data of a copy on disk, and what a damaged one says."""

import json
import pathlib
import sys
import types
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import BETA, CHAINS, LP, SIGMA, draws_or_complaint, refused, same

from bayesrecon.errors import BayesreconError, MissingExtraError
from bayesrecon.posteriors.fitting.database import (
    open_database,
    posterior_info,
    posterior_names,
    read_data,
    read_reference_draws,
)
from bayesrecon.posteriors.formats import read_draws
from bayesrecon.untrusted import json_file


def test_dictionary_of_arrays():
    import jax.numpy as jnp

    same(read_draws({"sigma": SIGMA, "beta": BETA, "__log_density__": LP}))
    assert read_draws({"k": jnp.arange(6).reshape(2, 3)}).values["k"].dtype == np.float64
    refused("no numeric arrays", read_draws, {})
    refused("cannot be read as named arrays", read_draws, {"a": [[1], [1, 2]]})


def zipped(path, *contents):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, content in enumerate(contents):
            archive.writestr(f"{number}.json", content if isinstance(content, bytes) else json.dumps(content))


def build(root, draws=None, info=None, data=None):
    """A database of one posterior, `toy-line`."""
    description = {"name": "toy-line", "model_name": "line", "data_name": "toy"}
    description |= {"reference_posterior_name": "toy-line"} | (info or {})
    for path, content in (
        ("posteriors/toy-line.json", description),
        ("data/info/toy.info.json", {"name": "toy", "data_file": "data/data/toy.json"}),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(json.dumps(content))
    zipped(root / "data/data/toy.json.zip", {"N": 2, "y": [1.5, 2]} if data is None else data)
    if draws is not None:
        zipped(root / "reference_posteriors/draws/draws/toy-line.json.zip", draws)
    return open_database(root)


def chain_objects():
    objects = [
        {"sigma": SIGMA[c].tolist()}
        | {f"beta[{i + 1},{j + 1}]": BETA[c, :, i, j].tolist() for i in range(2) for j in range(3)}
        for c in range(CHAINS)
    ]
    return [objects[0], dict(reversed(objects[1].items())), *objects[2:]]  # the order of keys varies


def test_database(tmp_path):
    toy = build(tmp_path, chain_objects())
    assert posterior_names(toy) == ["toy-line"]
    assert posterior_info(toy, "toy-line")["model_name"] == "line"
    draws = read_reference_draws(toy, "toy-line")
    same(draws, None)
    assert draws.name == "toy-line"
    np.testing.assert_array_equal(read_reference_draws(toy, "toy-line", draws=5).values["sigma"], SIGMA[-1:, -5:])
    refused("take 7 or 14", read_reference_draws, toy, "toy-line", draws=8)
    assert read_data(toy, "toy-line") == read_data(toy, "toy") == {"N": 2, "y": [1.5, 2]}


def test_database_that_is_not_one(tmp_path, monkeypatch):
    monkeypatch.delenv("POSTERIOR_DB_PATH", raising=False)
    refused("set POSTERIOR_DB_PATH", open_database)
    refused("not a posterior database.*download=True", open_database, tmp_path)
    build(tmp_path)
    monkeypatch.setenv("POSTERIOR_DB_PATH", str(tmp_path))
    assert posterior_names(open_database()) == ["toy-line"]
    monkeypatch.setitem(sys.modules, "posteriordb", None)
    with pytest.raises(MissingExtraError, match=r"bayesrecon\[posteriordb\]"):
        open_database()


@pytest.mark.parametrize("name", ["../toy-line", "..", ".", "a/b", "a\\b", "a\x00", "", "a b", None, "toy-line\n"])
def test_database_refuses_names_before_touching_the_disk(name):
    for read in (posterior_info, read_reference_draws, read_data):
        refused("is not a name", read, None, name)  # there is no database to touch


def test_database_suggests_names(tmp_path):
    toy = build(tmp_path)
    refused("did you mean toy-line", posterior_info, toy, "toy-lin")
    refused("did you mean toy-line", read_reference_draws, toy, "toyline")
    refused("did you mean toy", read_data, toy, "toi")


def test_database_without_draws_or_data(tmp_path):
    toy = build(tmp_path)
    refused("not in this copy.*bayesrecon fit", read_reference_draws, toy, "toy-line")
    (tmp_path / "data/data/toy.json.zip").unlink()
    refused("not in this copy", read_data, toy, "toy-line")
    (tmp_path / "data/info/toy.info.json").unlink()
    refused("not in this copy", read_data, toy, "toy-line")
    toy = build(tmp_path, info={"reference_posterior_name": None})
    refused("no reference draws for toy-line.*bayesrecon fit", read_reference_draws, toy, "toy-line")


def test_database_stays_inside_its_folder(tmp_path):
    zipped(tmp_path / "secret.json.zip", {"a": 1})
    toy = build(tmp_path / "db", info={"reference_posterior_name": "../../../../secret", "data_name": "../../x"})
    refused("is not a name", read_reference_draws, toy, "toy-line")
    refused("is not a name", read_data, toy, "toy-line")
    info = tmp_path / "db/data/info/toy.info.json"
    info.write_text(json.dumps({"data_file": "../secret.json"}))
    refused("points outside the database", read_data, toy, "toy")
    info.write_text("{")
    refused("cannot be read as JSON", read_data, toy, "toy")
    (tmp_path / "db/posteriors/toy-line.json").write_text("[]")
    refused("not a JSON object", posterior_info, toy, "toy-line")


@pytest.mark.parametrize(
    "draws, match",
    [
        ([], "one object a chain"),
        ({"a": [1.0]}, "one object a chain"),
        ([{}], "one object a chain"),
        ([{"a": [1.0]}, {"b": [1.0]}], "same parameters"),
        ([{"a": 1.0}], "not a list of draws"),
        ([{"a": []}], "not a list of draws"),
        ([{"a": [1.0, 2.0], "b": [1.0]}], "not all equally long"),
        ([{"a": [1.0]}, {"a": [1.0, 2.0]}], "not all equally long"),
        ([{"a": [1.0, None]}], "not all numbers"),
        ([{"a": ["1.0"]}], "not all numbers"),
        ([{"a": [[1.0]]}], "not all numbers"),
        ([{"a": [[1.0], 2.0]}], "not all numbers"),
        ([{"a": [10**400]}], "not all numbers"),
        ([{"b[1]": [1.0], "b[3]": [1.0]}], r"b\[2\] is missing"),
        (b'[{"a": [1.0], "a": [2.0]}]', "appears twice"),
        (b"[{", "cannot be read as zipped JSON"),
        (b"\xff\xfe\xff", "not zipped JSON"),
        (b"[" * 100_000, "cannot be read as zipped JSON"),
    ],
)
def test_database_refuses_damaged_draws(tmp_path, draws, match):
    refused(match, read_reference_draws, build(tmp_path, draws), "toy-line")


def test_database_lets_nan_through(tmp_path):
    toy = build(tmp_path, b'[{"a": [NaN, Infinity, 1]}]')
    np.testing.assert_array_equal(read_reference_draws(toy, "toy-line").values["a"], [[np.nan, np.inf, 1]])


def test_database_damaged_zip(tmp_path, monkeypatch):
    toy = build(tmp_path, chain_objects())
    path = tmp_path / "reference_posteriors/draws/draws/toy-line.json.zip"
    whole = path.read_bytes()
    for content in (b"", whole[:-30], whole[:300] + b"\x00\xff\x00" + whole[303:]):
        path.write_bytes(content)
        refused("cannot be read as zipped JSON", read_reference_draws, toy, "toy-line")
    zipped(path, [], [])
    refused("holds 2 files", read_reference_draws, toy, "toy-line")
    path.write_bytes(whole)
    monkeypatch.setattr(json_file, "MAX_JSON", 1000)
    refused("unpacks to more than", read_reference_draws, toy, "toy-line")
    refused("not a JSON object", read_data, build(tmp_path, data=[1]), "toy")


def test_database_downloads_what_is_missing(tmp_path, monkeypatch, capsys):
    import requests

    source = tmp_path / "source"
    build(source, chain_objects())
    listing = [
        {
            "type": "file",
            "path": f"posterior_database/{path.relative_to(source)}",
            "download_url": str(path),
            "sha": "",
        }
        for path in source.rglob("*")
        if path.is_file()
    ]

    def get(url, **options):
        content = b"" if url.startswith("https://api.github.com") else pathlib.Path(url).read_bytes()
        return types.SimpleNamespace(ok=True, content=content, json=lambda: listing)

    monkeypatch.setattr(requests, "get", get)
    local = open_database(tmp_path / "posterior_database", download=True)
    assert posterior_names(local) == ["toy-line"]
    same(read_reference_draws(local, "toy-line"), None)
    assert read_data(local, "toy-line")["N"] == 2
    assert capsys.readouterr().out == ""

    def fail(url, **options):
        raise OSError("no network")

    monkeypatch.setattr(requests, "get", fail)
    refused("cannot be listed on GitHub", open_database, tmp_path / "posterior_database", download=True)
    assert capsys.readouterr().out == ""


def test_real_database(database):
    names = posterior_names(database)
    assert "kidiq-kidscore_momiq" in names
    assert posterior_info(database, "kidiq-kidscore_momiq")["data_name"] == "kidiq"
    draws = read_reference_draws(database, "kidiq-kidscore_momiq")
    assert {key: value.shape for key, value in draws.values.items()} == {
        "beta": (10, 1000, 2),
        "sigma": (10, 1000),
    }
    assert draws.values["beta"][..., 1].mean() == pytest.approx(0.61, abs=0.01)  # the textbook's slope
    last = read_reference_draws(database, "kidiq-kidscore_momiq", draws=1000)
    np.testing.assert_array_equal(last.values["sigma"], draws.values["sigma"][-1:])
    data = read_data(database, "kidiq-kidscore_momiq")
    assert data["N"] == len(data["mom_iq"]) == 434
    refused("did you mean .*kidiq-kidscore_momiq", posterior_info, database, "kidiq-kidscore_momi")


@pytest.mark.slow
def test_real_database_every_posterior(database):
    complaints = []
    for name in (names := posterior_names(database)):
        try:
            draws = read_reference_draws(database, name)
        except BayesreconError as error:
            complaints.append(str(error))
        else:
            assert (draws.chains, draws.length) == (10, 1000)
    assert len(names) - len(complaints) >= 40
    assert all("bayesrecon fit" in complaint for complaint in complaints)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b[1]", "b[2]", "b", "x:1"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    root = tmp_path_factory.mktemp("database")
    return build(root, [{"a": [1.0]}]), root / "reference_posteriors/draws/draws/toy-line.json.zip"


@pytest.mark.parametrize("examples", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_any_bytes_as_reference_draws(toy, examples):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(content=st.binary(max_size=60) | JSON, as_zip=st.booleans())
    def check(content, as_zip):
        base, path = toy
        if as_zip or not isinstance(content, bytes):
            zipped(path, content)
        else:
            path.write_bytes(content)
        draws_or_complaint(read_reference_draws, base, "toy-line")

    check()
