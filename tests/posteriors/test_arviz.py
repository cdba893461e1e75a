"""ArviZ's objects and files: right values, one line of complaint about damaged ones."""

import sys

import h5netcdf
import numpy as np
import pytest
import xarray as xr
from written import BETA, LP, SIGMA, refused, same

from bayesrecon.errors import MissingExtraError
from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.posteriors.formats.arviz import read_arviz

pytestmark = pytest.mark.small


def groups(**changes):
    posterior = xr.Dataset(
        {
            "sigma": (("chain", "draw"), SIGMA),
            "beta": (("i", "chain", "j", "draw"), BETA.transpose(2, 0, 3, 1)),  # dimensions in any order
            "label": (("chain", "draw"), np.full(SIGMA.shape, "x")),
        },
        attrs={"bayesrecon_model": "inner", "bayesrecon_count": 3, "other": "x"},
    )
    stats = xr.Dataset({"lp": (("chain", "draw"), LP), "diverging": (("chain", "draw"), LP > 0)})
    return {"posterior": posterior, "sample_stats": stats} | changes


def inference_data(**changes):
    import arviz as az

    if int(az.__version__.split(".")[0]) >= 1:
        pytest.skip("this ArviZ has trees alone")
    return az.InferenceData(**groups(**changes), attrs={"bayesrecon_version": "1", "created": "x"})


def tree(**changes):
    whole = xr.DataTree.from_dict(groups(**changes))
    whole.attrs["bayesrecon_version"] = "1"
    return whole


@pytest.mark.parametrize("make", [inference_data, tree])
@pytest.mark.parametrize("suffix", [None, ".nc", ".netcdf", ".h5"])
def test_arviz(make, suffix, tmp_path):
    source = make()
    if suffix is not None:
        path = tmp_path / f"fit{suffix}"
        source.to_netcdf(path, engine="h5netcdf")
        source = str(path)
    draws = read_draws(source)
    same(draws)
    assert draws.name == ("draws" if suffix is None else "fit")
    assert draws.attributes == {"bayesrecon_model": "inner", "bayesrecon_version": "1"}
    if suffix is not None:
        path.unlink()  # closed: fails on Windows otherwise
    assert read_draws(make(), name="mine").name == "mine"


def test_arviz_written_by_netcdf4(tmp_path):
    pytest.importorskip("netCDF4")
    tree().to_netcdf(tmp_path / "fit.nc", engine="netcdf4")
    draws = read_arviz(tmp_path / "fit.nc")
    same(draws)
    assert draws.attributes == {"bayesrecon_model": "inner", "bayesrecon_version": "1"}


@pytest.mark.parametrize("options", [{"consolidated": False}, {"zarr_format": 2}])
def test_zarr(options, tmp_path):
    zarr = pytest.importorskip("zarr", reason="the extra bayesrecon[arviz] is not installed")
    # Through the DataTree, as ArviZ's own to_zarr does not know zarr 3; which has no stable format for text.
    source = tree(posterior=groups()["posterior"].drop_vars("label"))
    source.to_zarr(tmp_path / "fit.zarr", mode="w", **options)
    draws = read_draws(tmp_path / "fit.zarr")
    same(draws)
    assert draws.name == "fit"
    assert draws.attributes == {"bayesrecon_model": "inner", "bayesrecon_version": "1"}
    (tmp_path / "empty.zarr").mkdir()
    refused("zarr directory", read_draws, tmp_path / "empty.zarr")
    zarr.open_group(str(tmp_path / "bare.zarr"), mode="w")
    refused("no group 'posterior'", read_draws, tmp_path / "bare.zarr")


def test_zarr_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    (tmp_path / "fit.zarr").mkdir()
    with pytest.raises(MissingExtraError, match=r"bayesrecon\[arviz\]"):
        read_draws(tmp_path / "fit.zarr")


def test_arviz_integers_and_booleans_become_float():
    counts = xr.Dataset({"k": (("chain", "draw"), np.arange(6).reshape(2, 3))})
    counts["heads"] = counts["k"] > 2
    values = read_arviz({"posterior": counts}).values
    assert {value.dtype for value in values.values()} == {np.dtype(np.float64)}
    assert values["k"][1, 2] == 5.0
    assert values["heads"].sum() == 3.0


def test_arviz_units_do_not_turn_a_parameter_into_a_time(tmp_path):
    delay = xr.Dataset({"delay": (("chain", "draw"), SIGMA, {"units": "seconds"})})
    xr.DataTree.from_dict({"posterior": delay}).to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
    np.testing.assert_array_equal(read_arviz(tmp_path / "fit.nc").values["delay"], SIGMA)


@pytest.mark.parametrize(
    "name, attrs, sign",
    [
        ("lp", {}, 1),
        ("potential_energy", {}, -1),
        ("lp", {"inference_library": "numpyro", "arviz_version": "0.22.0"}, -1),
        ("lp", {"inference_library": "numpyro", "arviz_version": "0.23.4"}, 1),
        ("lp", {"inference_library": "numpyro", "creation_library_version": "1.2.0"}, -1),
        ("lp", {"inference_library": "numpyro", "creation_library_version": "1.3.0"}, 1),
        ("lp", {"inference_library": "cmdstanpy", "arviz_version": "0.20.0"}, 1),
        ("lp", {"inference_library": "numpyro"}, 1),
    ],
)
def test_arviz_sign_of_the_log_density(name, attrs, sign):
    stats = xr.Dataset({name: (("draw", "chain"), LP.T)}, attrs=attrs)
    same(read_arviz(tree(sample_stats=stats)), sign * LP)


@pytest.mark.parametrize(
    "lp",
    [("draw", LP[0]), (("chain", "draw"), np.full(LP.shape, "x")), (("chain", "step"), np.zeros((3, 99)))],
)
def test_arviz_log_density_of_other_draws_is_left_out(lp):
    same(read_arviz({**groups(), "sample_stats": xr.Dataset({"lp": lp})}), None)


@pytest.mark.parametrize(
    "posterior, match",
    [
        (xr.Dataset(), "no numeric variables"),
        (xr.Dataset({"s": (("chain", "draw"), [["x"]])}), "no numeric variables"),
        (xr.Dataset({"s": (("chain", "draw"), [[1j]])}), "no numeric variables"),
        (xr.Dataset({"s": ("draw", [1.0])}), r"dimensions \(draw\); chain and draw"),
        (xr.Dataset({"s": 1.0}), r"dimensions \(\); chain and draw"),
        (xr.Dataset({"s": (("chain", "draw"), np.zeros((0, 5)))}), "at least one draw"),
    ],
)
def test_arviz_refuses(posterior, match, tmp_path):
    refused(match, read_arviz, xr.DataTree.from_dict({"posterior": posterior}))
    if "at least" not in match and "1j" not in str(posterior.get("s")):  # what netCDF can hold
        xr.DataTree.from_dict({"posterior": posterior}).to_netcdf(tmp_path / "bad.nc", engine="h5netcdf")
        refused(match, read_arviz, tmp_path / "bad.nc")


def test_arviz_without_a_posterior(tmp_path):
    prior = xr.DataTree.from_dict({"prior": groups()["posterior"]})
    refused("without a group 'posterior'", read_arviz, prior)
    refused("without a group 'posterior'", read_arviz, groups()["posterior"])
    refused("without a group 'posterior'", read_arviz, 3)
    prior.to_netcdf(tmp_path / "prior.nc", engine="h5netcdf")
    refused("its groups are prior", read_arviz, tmp_path / "prior.nc")
    xr.Dataset({"y": ("obs", np.zeros(3))}).to_netcdf(tmp_path / "flat.nc", engine="h5netcdf")
    refused("it has no groups", read_arviz, tmp_path / "flat.nc")


@pytest.mark.parametrize("form", ["nc", "zarr"])
@pytest.mark.parametrize("shape", ["extract", "posterior"])
def test_a_posterior_at_the_root_of_a_file(tmp_path, form, shape):
    """As `to_netcdf` of `az.extract(fit)` and of `fit.posterior` write it."""
    posterior, path = groups()["posterior"].drop_vars("label"), tmp_path / f"flat.{form}"
    own = posterior.stack(sample=("chain", "draw")).reset_index("sample") if shape == "extract" else posterior
    if form == "zarr":
        pytest.importorskip("zarr")
        own.to_zarr(path, zarr_format=2, consolidated=False)
    else:
        own.to_netcdf(path, engine="h5netcdf")
    found, contents = read_arviz(path), read_contents(path)
    want = posterior["sigma"].to_numpy()
    np.testing.assert_array_equal(found.values["sigma"], want.reshape(1, -1) if shape == "extract" else want)
    assert {v.where for v in contents.variables} >= {"posterior/sigma", "posterior/beta"}
    assert not {e.where for e in contents.entries} & {"sigma", "beta"}
    np.testing.assert_array_equal(contents.group("posterior")[0].values.shape[0], want.size)


def test_arviz_damaged_files(tmp_path):
    path = tmp_path / "fit.nc"
    tree().to_netcdf(path, engine="h5netcdf")
    whole = path.read_bytes()
    for content in (
        b"",
        b"text",
        whole[: len(whole) // 2],
        whole[:600] + bytes(4000),
    ):
        path.write_bytes(content)
        refused("cannot be read as a netCDF file" if content else "the file is empty", read_arviz, path)
    path.write_bytes(b"CDF\x01" + bytes(60))  # a classic file with nothing in it
    refused("no group 'posterior'", read_arviz, path)
    refused("no such file", read_arviz, tmp_path / "none.nc")


def test_arviz_refuses_a_giant_declared_shape(tmp_path):
    with h5netcdf.File(tmp_path / "bomb.nc", "w") as file:  # a few hundred bytes on disk
        group = file.create_group("posterior")
        group.dimensions = {"chain": 10**5, "draw": 10**7}
        group.create_variable("mu", ("chain", "draw"), np.float64, chunks=(1, 1000))
    refused("GiB of arrays, refused", read_arviz, tmp_path / "bomb.nc")


def test_one_dimension_of_samples(tmp_path):
    """As `az.extract` has them: chain and draw are levels of one index."""
    az = pytest.importorskip("arviz")
    rng = np.random.default_rng(0)
    values = {"mu": rng.normal(size=(4, 25)), "beta": rng.normal(size=(4, 25, 3))}
    fit = az.from_dict(values if "InferenceData" in vars(az) else {"posterior": values})
    extracted = az.extract(fit)
    held = extracted.reset_index("sample")
    xr.DataTree.from_dict({"posterior": held}).to_netcdf(tmp_path / "sample.nc")
    for source in (extracted, held, xr.DataTree.from_dict({"posterior": held}), tmp_path / "sample.nc"):
        draws = read_draws(source)
        np.testing.assert_array_equal(draws.values["mu"][0], values["mu"].ravel())
        np.testing.assert_array_equal(draws.values["beta"][0], values["beta"].reshape(100, 3))
        found = read_contents(source)
        assert {v.name: v.values.shape for v in found.variables} == {"mu": (100,), "beta": (100, 3)}
        assert "posterior/chain" in found.coordinates


def test_chains_of_julia_are_read(tmp_path):
    import h5py

    rng = np.random.default_rng(0)
    values = {"a": rng.normal(size=(4, 50)), "b[1]": rng.normal(size=(4, 50)), "b[2]": rng.normal(size=(4, 50))}
    with h5py.File(tmp_path / "chains.h5", "w") as file:
        for name, column in values.items():
            file[f"parameters/{name}"] = column
        file["internals/lp"] = values["a"] ** 2
    draws = read_draws(tmp_path / "chains.h5")
    np.testing.assert_array_equal(draws.values["b"], np.stack([values["b[1]"], values["b[2]"]], axis=-1))
    np.testing.assert_array_equal(draws.values["a"], values["a"])
    np.testing.assert_array_equal(draws.log_density, values["a"] ** 2)
