"""Everything a file holds is found, whatever wrote it; damaged and hostile files are one error."""

import json
import pickle
import zipfile
from types import SimpleNamespace

import fits
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayesrecon import audit
from bayesrecon.errors import BayesreconError, version
from bayesrecon.posteriors.contents import group_of, stride, wide_rows
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.posteriors.formats.cmdstan import read_cmdstan
from bayesrecon.posteriors.formats.hdf5 import dataset_of
from bayesrecon.untrusted import cmdstan_file
from bayesrecon.untrusted.guarded import opened
from bayesrecon.untrusted.hdf5 import HDF5File

pytestmark = pytest.mark.small

RNG = np.random.default_rng(0)
MU, LOGLIK = RNG.normal(size=(2, 30)), RNG.normal(size=(2, 30, 5))


def tree():
    draws = {"mu": (("chain", "draw"), MU)}
    pointwise = {"y": (("chain", "draw", "obs"), LOGLIK)}
    names = {"obs": [f"Ömer {i}" for i in range(5)]}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(draws, attrs={"note": "hello"}),
            "sample_stats": xr.Dataset({"lp": (("chain", "draw"), -MU)}),
            "log_likelihood": xr.Dataset(pointwise, names),
            "observed_data": xr.Dataset({"y": ("obs", np.arange(5.0))}, names),
        }
    )


def check(found):
    assert found.groups == ["posterior", "sample_stats", "log_likelihood", "observed_data"]
    np.testing.assert_allclose(found.draws.values["mu"], MU)
    np.testing.assert_allclose(found.draws.log_density, -MU)
    (pointwise,) = found.group("log_likelihood")
    assert (pointwise.shape, pointwise.per_draw) == ((5,), True)
    np.testing.assert_allclose(pointwise.values, LOGLIK.reshape(60, 5)[found.rows])
    np.testing.assert_allclose(found.group("observed_data")[0].values, np.arange(5.0))
    assert list(found.coordinates["observed_data/obs"]) == [f"Ömer {i}" for i in range(5)]
    assert found.attributes["posterior/note"] == "hello"


def write_netcdf(folder):
    tree().to_netcdf(folder / "fit.nc", engine="h5netcdf")
    return folder / "fit.nc"


def write_with_netcdf4(folder):
    pytest.importorskip("netCDF4")
    tree().to_netcdf(folder / "fit.nc", engine="netcdf4")
    return folder / "fit.nc"


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_netcdf_groups_are_what_xarray_reads(engine, tmp_path):
    if engine == "netcdf4":
        pytest.importorskip("netCDF4")
    draws = ("chain", "draw")
    values = MU.copy()
    values[0, 0] = np.nan
    whole = xr.Dataset(
        {
            "mu": (draws, values, {"units": "seconds", "sizes": [1, 2], "one": 3}),
            "packed": (draws, np.round(MU, 3)),
            "diverging": (draws, MU > 1),
            "single": ((*draws, "school"), LOGLIK[..., :2].astype("f4")),
            "names": ("school", np.array(["ä", "bb"])),
            "bytes": ("school", np.array([b"ab", b"cd"])),
            "scalar": ((), 3.5),
            "empty": (("chain", "nothing"), np.zeros((2, 0))),
        },
        {"chain": [0, 1], "draw": np.arange(30), "school": ["Å", "B"], "district": ("school", [7, 8])},
        {"note": "hello", "numbers": [1.5, 2.5]},
    )
    path = tmp_path / "fit.nc"
    packing = {"packed": {"dtype": "i2", "scale_factor": 0.001, "_FillValue": -999}}
    whole.to_netcdf(path, group="posterior", engine=engine, encoding=packing, unlimited_dims=["draw"])
    whole[["mu"]].to_netcdf(path, group="posterior/inner", engine=engine, mode="a")
    times = {"decode_times": False, "decode_timedelta": False}
    with opened(HDF5File, path) as file:
        for group in ("posterior", "posterior/inner"):
            with xr.open_dataset(path, group=group, engine="h5netcdf", **times) as expected:
                found = dataset_of(file, file.describe_group(group))
                xr.testing.assert_identical(found.load(), expected.load())
        steps = {"draw": slice(None, None, 7), "chain": [1]}
        for key in (steps, {"draw": slice(20, None, -3)}, {"draw": [9, 2, 2]}, {"draw": -1}, {"draw": slice(5, 5)}):
            found = dataset_of(file, file.describe_group("posterior"))["single"]
            xr.testing.assert_identical(found[key].load(), whole["single"][key])
        twice = found[{"draw": slice(4, None)}][{"draw": slice(None, None, 5)}]  # which nothing is read for
        assert not twice.variable._in_memory
        xr.testing.assert_identical(twice.load(), whole["single"][{"draw": slice(4, None, 5)}])
        turned = ("school", "draw", "chain")
        some = found.transpose(*turned)[{"draw": slice(1, None, 4)}].load()
        xr.testing.assert_identical(some, whole["single"].transpose(*turned)[{"draw": slice(1, None, 4)}])
        with pytest.raises(BayesreconError, match="load"):
            found[{"draw": [1, 2], "chain": [0, 1]}].load()


def test_draws_that_are_left_out_are_not_read():
    """Whatever order their dimensions are in: files are larger than memory."""

    class Source:
        values, numbers = np.arange(4 * 1000 * 3.0).reshape(4, 1000, 3), 0

        def read(self, name, key):
            found = self.values[key]
            self.numbers += found.size
            return found

    about = {"name": "mu", "shape": (4, 1000, 3), "dtype": "f8", "dimensions": ("chain", "draw", "k"), "attributes": {}}
    for first, step in (("chain", 7), ("draw", 100), ("k", 1)):
        source = Source()
        mu = dataset_of(source, {"variables": {"mu": about}, "attributes": {}})["mu"]
        some = mu.transpose(first, ...).isel(draw=slice(3, None, step), k=[2])
        assert not source.numbers
        np.testing.assert_array_equal(some.transpose("chain", "draw", "k"), Source.values[:, 3::step, [2]])
        assert source.numbers == 4 * len(range(3, 1000, step))


def test_hdf5_without_netcdf_dimensions(tmp_path):
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["posterior/mu"] = MU
        file["posterior/mu"].attrs["DIMENSION_LIST"] = "nothing of the kind"
    with pytest.raises(BayesreconError, match="cannot be read as"):
        read_contents(tmp_path / "plain.h5")
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["posterior/mu"] = MU
    with pytest.raises(BayesreconError, match=r"dimensions \(dim_0, dim_1\); chain and draw are needed"):
        read_contents(tmp_path / "plain.h5")


@pytest.mark.parametrize("count", [300, pytest.param(1000, marks=pytest.mark.slow)])
def test_very_many_netcdf_variables(tmp_path, count):
    with h5py.File(tmp_path / "many.nc", "w") as file:
        posterior = file.create_group("posterior")
        for key, size in (("chain", 2), ("draw", 30)):
            posterior[key] = np.arange(size)
            posterior[key].make_scale(key)
        for i in range(count):
            posterior[f"v{i}"] = MU + i
            posterior[f"v{i}"].dims[0].attach_scale(posterior["chain"])
            posterior[f"v{i}"].dims[1].attach_scale(posterior["draw"])
    found = read_contents(tmp_path / "many.nc")
    assert len(found.variables) == len(found.draws.values) == count
    np.testing.assert_allclose(found.draws.values[f"v{count - 1}"], MU + count - 1)


def write_zarr(folder):
    pytest.importorskip("zarr")
    tree().to_zarr(folder / "fit.zarr", zarr_format=2, consolidated=False)
    return folder / "fit.zarr"


@pytest.mark.parametrize("write", [write_netcdf, write_with_netcdf4, write_zarr])
def test_files_of_arviz(tmp_path, write):
    found = read_contents(write(tmp_path))
    check(found)
    (stamp,) = found.files
    assert len(stamp.sha256) == 64
    assert stamp.size > 0


def test_objects_of_arviz():
    check(read_contents(tree()))


def inference_data():
    arviz = pytest.importorskip("arviz")
    groups = {
        "posterior": {"mu": MU},
        "sample_stats": {"lp": -MU},
        "log_likelihood": {"y": LOGLIK},
        "observed_data": {"y": np.arange(5.0)},
    }
    labels = {"coords": {"obs": [f"Ömer {i}" for i in range(5)]}, "dims": {"y": ["obs"]}}
    if version("arviz") >= (1, 0):
        return arviz.from_dict(groups, **labels, attrs={"/": {"note": "hello"}})
    return arviz.from_dict(**groups, **labels, attrs={"note": "hello"})


@pytest.mark.parametrize("how", ["object", "netcdf", "zarr"])
def test_what_the_installed_arviz_writes(tmp_path, how):
    data = inference_data()
    if how == "netcdf":
        data.to_netcdf(str(tmp_path / "a.nc"))
    if how == "zarr":
        pytest.importorskip("zarr")
        whole = data if isinstance(data, xr.DataTree) else data.to_datatree()
        whole.to_zarr(tmp_path / "a.zarr", zarr_format=2, consolidated=False)  # as ArviZ says where zarr is version 3
    source = {"object": data, "netcdf": tmp_path / "a.nc", "zarr": tmp_path / "a.zarr"}[how]
    found = read_contents(source)
    np.testing.assert_allclose(found.draws.values["mu"], MU)
    np.testing.assert_allclose(found.group("log_likelihood")[0].values, LOGLIK.reshape(60, 5))
    assert found.group("observed_data")


# CmdStan


def cmdstan(tmp_path, **options):
    data = fits.records()
    values = fits.draws(data)
    columns = fits.scalar_columns(
        lp__=fits.lp(data, values), **values, log_lik=fits.log_lik(data, values), y_rep=fits.replicated(data, values)
    )
    return fits.write_cmdstan(tmp_path, columns, ["model = kids", "data file = /home/eve/kids.json"], **options)


def test_chains_are_streamed(tmp_path):
    paths = cmdstan(tmp_path, digits=9)
    told = []
    found = read_contents(paths, progress=lambda label, share: told.append(share))
    plain = read_cmdstan(paths)
    assert found.groups == ["posterior", "sample_stats", "log_likelihood", "posterior_predictive"]
    for name in ("beta", "sigma"):
        np.testing.assert_array_equal(found.draws.values[name], plain.values[name])
    np.testing.assert_array_equal(found.draws.log_density, plain.log_density)
    for name in ("log_lik", "y_rep"):
        at = next(v for v in found.variables if v.name == name)
        np.testing.assert_array_equal(at.values, plain.values[name].reshape(-1, fits.SIZE)[found.rows])
    assert "data file = /home/eve/kids.json" in found.comments
    assert "Step size = 0.8" in found.comments
    assert told[-1] == pytest.approx(1)
    assert len(found.files) == 2


def test_long_chains_are_thinned(tmp_path, monkeypatch):
    paths = cmdstan(tmp_path, digits=9)
    plain = read_cmdstan(paths)
    monkeypatch.setattr("bayesrecon.posteriors.formats.cmdstan._MOST_DRAWS", 200)
    found = read_contents(paths)
    keep = int(found.notes[0].split()[1].removesuffix("th"))
    assert keep > 1
    np.testing.assert_array_equal(found.draws.values["sigma"], plain.values["sigma"][:, ::keep])
    theirs = plain.values["log_lik"][:, ::keep].reshape(-1, fits.SIZE)[found.rows]
    np.testing.assert_array_equal(found.group("log_likelihood")[0].values, theirs)


def test_lines_may_cross_blocks(tmp_path, monkeypatch):
    paths = cmdstan(tmp_path)
    whole = read_contents(paths)
    monkeypatch.setattr(cmdstan_file, "_BLOCK", 1000)
    pieces = read_contents(paths, trusted=True)
    assert pieces.files == whole.files
    np.testing.assert_array_equal(pieces.draws.values["beta"], whole.draws.values["beta"])


def test_a_mark_of_byte_order_is_no_header(tmp_path):
    paths = cmdstan(tmp_path)
    whole = read_contents(paths[:1])
    paths[0].write_text("\ufeff" + paths[0].read_text(), encoding="utf-8")
    marked = read_contents(paths[:1])
    assert marked.comments == whole.comments
    np.testing.assert_array_equal(marked.draws.values["beta"], whole.draws.values["beta"])


def damaged(text):
    return {
        "a cell": text.replace("0.8\n", "0.8\n1,2\n", 1),
        "no number": text.replace(text.splitlines()[8].split(",")[2], "abc", 1),
        "cut": text[: len(text) // 2],
        "empty": "",
        "header only": "\n".join(text.splitlines()[:3]) + "\n",
    }


@pytest.mark.parametrize("damage", ["a cell", "no number", "cut", "empty", "header only"])
def test_damaged_csv(tmp_path, damage):
    paths = cmdstan(tmp_path)
    paths[0].write_text(damaged(paths[0].read_text())[damage])
    with pytest.raises(BayesreconError) as caught:
        read_contents(paths if damage != "header only" else paths[:1])
    assert "\n" not in str(caught.value)


def test_chains_of_different_models(tmp_path):
    paths = cmdstan(tmp_path)
    other = fits.write_cmdstan(tmp_path, {"lp__": MU, "alpha": MU}, name="other")
    with pytest.raises(BayesreconError, match="not chains of one fit"):
        read_contents([paths[0], other[0]])


def written_as(kind, folder, a, b):
    """The path of a file with draws `a` `(chains, draws, K)` and `b` `(chains, draws)`, `b` last."""
    chains, size = a.shape[0], a.shape[2]
    rows = np.concatenate([a, b[..., None]], axis=2)
    if kind == "CmdStan":
        return fits.write_cmdstan(folder, fits.scalar_columns(lp__=b, b0=b, a=a, b=b), digits=17)
    if kind == "scalars":
        return fits.write_cmdstan(folder, {**{f"θ{i}": a[..., i] for i in range(size)}, "b": b}, digits=17)
    if kind == "text":
        header = " ".join([*(f'"a[{i + 1}]"' for i in range(size)), '"b"'])
        for chain in range(chains):
            np.savetxt(folder / f"fit_{chain}.txt", rows[chain], fmt="%.17g", header=header, comments="")
        return [folder / f"fit_{chain}.txt" for chain in range(chains)]
    path = folder / f"fit.{kind}"
    if kind == "npz":
        np.savez(path, a=a, b=b)
    elif kind == "json":
        path.write_text(json.dumps({"a": a.tolist(), "b": b.tolist()}))
    else:
        arrays = {"a": (("chain", "draw", "k"), a), "b": (("chain", "draw"), b)}
        xr.DataTree.from_dict({"posterior": xr.Dataset(arrays)}).to_netcdf(path, engine="h5netcdf")
    return path


@pytest.mark.parametrize("kind", ["CmdStan", "scalars", "text", "npz", "json", "nc"])
@pytest.mark.parametrize("size", [4095, 4096, 4097, 4098])
def test_a_variable_of_any_size_is_read_whole(kind, size, tmp_path):
    a, b = RNG.normal(size=(2, 3, size)), RNG.normal(size=(2, 3))
    found = read_contents(written_as(kind, tmp_path, a, b)).draws.values
    whole = np.stack([found[f"θ{i}"] for i in range(size)], axis=-1) if kind == "scalars" else found["a"]
    np.testing.assert_array_equal(whole, a)
    np.testing.assert_array_equal(found["b"], b)


def test_a_cmdstanpy_fit(tmp_path):
    paths = cmdstan(tmp_path)
    fit = SimpleNamespace(runset=SimpleNamespace(csv_files=[str(p) for p in paths]))
    assert read_contents(fit).format == "CmdStan CSV"


def test_a_numpyro_run():
    extra = {"potential_energy": MU, "energy": MU + 1}
    run = SimpleNamespace(
        get_samples=lambda group_by_chain: {"mu": MU}, get_extra_fields=lambda group_by_chain: dict(extra)
    )
    found = read_contents(run)
    np.testing.assert_allclose(found.draws.log_density, -MU)
    assert {v.name for v in found.group("sample_stats")} == {"lp", "energy"}


# Other formats


def test_json_of_posteriordb(tmp_path):
    content = [{"mu": MU[c].tolist(), "log_lik[1]": MU[c].tolist(), "log_lik[2]": MU[c].tolist()} for c in range(2)]
    (tmp_path / "a.json").write_text(json.dumps(content))
    with zipfile.ZipFile(tmp_path / "a.json.zip", "w") as archive:
        archive.writestr("a.json", json.dumps(content))
    for name in ("a.json", "a.json.zip"):
        found = read_contents(tmp_path / name)
        assert found.groups == ["posterior", "log_likelihood"]
        np.testing.assert_allclose(found.draws.values["mu"], MU)


def test_archives_without_pickles(tmp_path):
    np.savez(tmp_path / "a.npz", mu=MU, y_rep=LOGLIK)
    assert read_contents(tmp_path / "a.npz").groups == ["posterior", "posterior_predictive"]
    np.savez(tmp_path / "b.npz", mu=np.array([object()], dtype=object))
    with pytest.raises(BayesreconError, match="pickled"):
        read_contents(tmp_path / "b.npz")


def test_netcdf_that_is_no_fit(tmp_path):
    xr.Dataset({"x": ("a", np.zeros(3))}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(BayesreconError, match="none of ArviZ's groups"):
        read_contents(tmp_path / "a.nc")
    (tmp_path / "b.nc").write_bytes(b"\x89HDF\r\n\x1a\n garbage")
    with pytest.raises(BayesreconError, match="cannot be read as"):
        read_contents(tmp_path / "b.nc")
    with pytest.raises(BayesreconError, match="no such file"):
        read_contents(tmp_path / "c.nc")
    (tmp_path / "d.doc").write_text("hello")
    assert "in no format that is read" in read_contents(tmp_path / "d.doc").unread[0].reason


def test_names_tell_groups():
    assert group_of("log_likelihood") == "log_likelihood"
    assert group_of("y_pred") == "posterior_predictive"
    assert group_of("sigma_rep2") == "posterior"
    assert len(wide_rows(4, 1000, stride(4000, 434))) <= 1000
    assert stride(1000, 10**9) == 500


# Anything at all in place of a file


CELLS = ["1", "-2.5", "nan", "inf", "1e400", "x", "", "#", '"', "é", "0x1"]
TEXT = st.one_of(
    st.text(max_size=300),
    st.lists(
        st.lists(st.sampled_from(["1", "-2.5", "nan", "inf", "1e400", "x", "", "#", '"', "é", "0x1"]), max_size=4),
        max_size=8,
    ).map(lambda rows: "lp__,mu,log_lik.1,log_lik.2\n" + "\n".join(",".join(row) for row in rows)),
    st.text(alphabet="ab.,12#\n=_ ", max_size=200),
)
LITTLE = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.slow
@given(text=TEXT)
@LITTLE
def test_any_csv_is_read_or_refused(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8", newline="")
    read_or_refuse(path)


@given(content=st.binary(max_size=300))
@LITTLE
def test_any_bytes_are_read_or_refused(tmp_path, content):
    for name in ("a.csv", "a.json", "a.zip", "a.npz"):
        (tmp_path / name).write_bytes(content)
        read_or_refuse(tmp_path / name)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
CHAINS = st.lists(
    st.dictionaries(
        st.sampled_from(["mu", "b[1]", "b[2]", "log_lik[1]", "b.1", "x[0]", "é", ""]),
        st.lists(st.floats() | st.integers() | st.none(), max_size=3),
        max_size=4,
    ),
    max_size=3,
)


@pytest.mark.slow
@given(content=st.one_of(JSON, CHAINS))
@LITTLE
def test_any_json_is_read_or_refused(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    read_or_refuse(path)


def read_or_refuse(path):
    try:
        found = read_contents(path)
    except BayesreconError as error:
        assert str(error)
        assert "\n" not in str(error)
    else:
        assert found.variables or found.unread


def test_arrays_without_entries(tmp_path):
    np.savez(tmp_path / "a.npz", mu=MU[..., None], empty=np.zeros((2, 30, 0)))
    assert {v.name: v.values.shape for v in read_contents(tmp_path / "a.npz").variables}["empty"] == (60, 0)


def tables_of(folder, columns):
    """The same columns in each form that a table of records and a table of draws share."""
    rows = np.column_stack(list(columns.values()))
    np.savez(folder / "a.npz", **columns)
    np.savez(folder / "matrix.npz", X=rows[:, 1:], y=rows[:, 0])
    (folder / "a.json").write_text(json.dumps({k: v.tolist() for k, v in columns.items()}))
    (folder / "split.json").write_text(json.dumps({"columns": list(columns), "data": rows.tolist()}))
    (folder / "list.json").write_text(json.dumps([{k: v.tolist() for k, v in columns.items()}]))
    (folder / "a.pkl").write_bytes(pickle.dumps(columns))
    np.savetxt(folder / "a.csv", rows, delimiter=",", header=",".join(columns), comments="")
    np.savetxt(folder / "a.txt", rows, header=" ".join(columns), comments="")
    xr.Dataset({k: ("sample", v) for k, v in columns.items()}).to_netcdf(folder / "a.nc", engine="h5netcdf")
    return [
        *sorted(folder.iterdir()),
        columns,
        pd.DataFrame(columns),
        xr.Dataset({k: ("sample", v) for k, v in columns.items()}),
    ]


def test_a_table_is_of_draws_only_if_something_says_so(tmp_path):
    """Values do not: draws vary like records, and records of people have decimals."""
    rng = np.random.default_rng(0)
    weight, pressure = rng.normal(70, 9, 80).round(1), rng.normal(130, 15, 80)
    for source in tables_of(tmp_path, {"pressure": pressure, "weight": weight}):
        asked = audit(source)
        assert asked.advice.startswith("Draws or records?"), source
        assert (asked.severity in ("info", "low"), asked.verdict, asked.draws) == (True, "incomplete", 0), source
        assert audit(source, rows="draws", remedies=False).draws == 80, source
        assert audit(source, rows="records").severity == "high", source
        found = audit(source, data={"kilograms": weight, "other": rng.normal(size=80)})
        assert (found.severity, found.not_run) == ("high", ()), source
        assert "kilograms" in found.findings[0].summary, source
    with pytest.raises(BayesreconError, match="'draws' or 'records'"):
        audit({"weight": weight}, rows="rows")


@pytest.mark.parametrize(
    ("names", "sign"),
    [
        (("a", "lp__"), "lp__"),
        (("a", "log_prob"), "log_prob"),
        (("b[1]", "b[2]"), "b[2]"),
        (("b_x", "r_g[ann,Intercept]"), "r_g[ann,Intercept]"),
        (("a", ".draw"), ".draw"),
        (("a", "chain", "draw"), "chain and draw"),
        (("a", "draw"), ""),
        (("weight", "dose[mg]"), ""),
        (("score.1", "score.2"), ""),
    ],
)
def test_names_of_columns_that_say_so(tmp_path, names, sign):
    values = np.random.default_rng(0).normal(size=(60, len(names)))
    values[:, [k for k, name in enumerate(names) if name.lstrip(".") == "draw"]] = np.arange(1, 61)[:, None]
    values[:, [k for k, name in enumerate(names) if name == "chain"]] = 1
    np.savetxt(
        tmp_path / "a.csv",
        values,
        delimiter=",",
        header=",".join(f'"{n}"' if "," in n else n for n in names),
        comments="",
    )
    assert read_contents(tmp_path / "a.csv").sign == sign
    assert read_contents(pd.DataFrame(values, columns=list(names))).sign == sign
