"""Readers of posterior draws: right values from real files, one line of complaint about damaged ones."""

import io
import json
import pathlib
import sys
import tempfile
import types
import zipfile

import h5netcdf
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesrecon.errors import BayesreconError, MissingExtraError
from bayesrecon.posteriors import cmdstan, database, npz
from bayesrecon.posteriors.arviz import read_arviz
from bayesrecon.posteriors.cmdstan import read_cmdstan
from bayesrecon.posteriors.database import (
    open_database,
    posterior_info,
    posterior_names,
    read_data,
    read_reference_draws,
)
from bayesrecon.posteriors.draws import Draws, assemble
from bayesrecon.posteriors.formats import read_draws
from bayesrecon.posteriors.npz import from_arrays, read_npz

RNG = np.random.default_rng(20)
CHAINS, DRAWS = 3, 7
SIGMA = RNG.normal(size=(CHAINS, DRAWS))
BETA = RNG.normal(size=(CHAINS, DRAWS, 2, 3))
LP = RNG.normal(size=(CHAINS, DRAWS))


def refused(match, read, *args, **options):
    """`read` must complain in one line that matches."""
    with pytest.raises(BayesreconError, match=match) as caught:
        read(*args, **options)
    assert "\n" not in str(caught.value)


def same(draws, log_density=LP):
    np.testing.assert_array_equal(draws.values["sigma"], SIGMA)
    np.testing.assert_array_equal(draws.values["beta"], BETA)
    assert draws.values.keys() == {"sigma", "beta"}
    assert all(value.dtype == np.float64 for value in draws.values.values())
    if log_density is None:
        assert draws.log_density is None
    else:
        np.testing.assert_array_equal(draws.log_density, log_density)


# Draws and assemble


def test_last_takes_whole_chains_or_the_end_of_the_last_one():
    draws = Draws({"sigma": SIGMA, "beta": BETA}, LP, "fit", {"a": "b"})
    few = draws.last(4)
    assert (few.chains, few.length, few.name, few.attributes) == (1, 4, "fit", {"a": "b"})
    np.testing.assert_array_equal(few.values["beta"], BETA[-1:, -4:])
    np.testing.assert_array_equal(few.log_density, LP[-1:, -4:])
    np.testing.assert_array_equal(draws.last(7).values["sigma"], SIGMA[-1:])
    np.testing.assert_array_equal(draws.last(14).values["sigma"], SIGMA[-2:])
    same(draws.last(21))
    refused("take 7 or 14, or 7 or fewer", draws.last, 9)
    for count in (0, -1, 22):
        refused("not between 1 and 21", draws.last, count)
    refused("not a whole number", draws.last, 2.5)


@pytest.mark.parametrize(
    "values, log_density, match",
    [
        ({}, None, "no parameters"),
        ({"a": np.zeros(3)}, None, r"\(chains, draws, ...\)"),
        ({"a": np.zeros((2, 0))}, None, "at least one draw"),
        ({"a": SIGMA, "b": SIGMA.T}, None, "'b' has"),
        ({"a": np.full((2, 2), "x")}, None, "not real numbers"),
        ({"a": np.zeros((2, 2), complex)}, None, "not real numbers"),
        ({"a": [[1.0], [1.0, 2.0]]}, None, "ragged"),
        ({"a": SIGMA}, LP.T, "log density has shape"),
    ],
)
def test_draws_refuses_what_is_not_draws(values, log_density, match):
    refused(match, Draws, values, log_density)


@pytest.mark.parametrize("style", ["beta[{},{}]", "beta.{}.{}"])
def test_assemble_any_order(style):
    columns = {style.format(i + 1, j + 1): BETA[:, :, i, j] for i in range(2) for j in range(3)}
    shuffled = [*columns, "sigma"]
    np.random.default_rng(0).shuffle(shuffled)
    columns["sigma"] = SIGMA
    same(Draws(assemble({key: columns[key] for key in shuffled})), None)


@pytest.mark.parametrize(
    "names, match",
    [
        (["b[1]", "b[3]"], r"b\[2\] is missing"),
        (["b[2]"], r"b\[1\] is missing"),
        (["b[1,1]", "b[2,2]"], r"b\[1,2\] is missing"),
        (["b[1000000000]"], "neither"),
        (["b[999999999]"], "is missing"),
        (["b.999999999.999999999.999999999"], r"b\[1,1,1\] is missing"),
        (["b[1]", "b.1"], "same entry"),
        (["b[1]", "b[01]"], "same entry"),
        (["b", "b[1]"], "same number of indices"),
        (["b[1]", "b[1,1]"], "same number of indices"),
        (["b[0]"], "start at 1"),
        (["b" + ".1" * 40], "40 indices"),
        (["b[-1]"], "neither"),
        (["b[1"], "neither"),
        (["b[]"], "neither"),
        (["b[1][2]"], "neither"),
        (["b[\u0661]"], "neither"),
        ([""], "neither"),
        (["b\x00"], "neither"),
        (["b:1"], "tuple or a complex"),
        (["z.real"], "tuple or a complex"),
    ],
)
def test_assemble_refuses(names, match):
    refused(match, assemble, dict.fromkeys(names, SIGMA))


def test_assemble_refuses_unequal_columns():
    refused("same number of draws", assemble, {"a": SIGMA, "b": SIGMA[:2]})


def test_assemble_thousands_of_columns():
    grid = RNG.normal(size=(2, 5, 60, 70))
    columns = {f"m[{i + 1},{j + 1}]": grid[:, :, i, j] for j in range(70) for i in range(60)}
    np.testing.assert_array_equal(assemble(columns)["m"], grid)


# ArviZ


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
    groups()["posterior"].to_netcdf(tmp_path / "flat.nc", engine="h5netcdf")
    refused("it has no groups", read_arviz, tmp_path / "flat.nc")


def test_arviz_damaged_files(tmp_path):
    path = tmp_path / "fit.nc"
    tree().to_netcdf(path, engine="h5netcdf")
    whole = path.read_bytes()
    for content in (
        b"",
        b"CDF\x01" + bytes(60),
        b"text",
        whole[: len(whole) // 2],
        whole[:600] + bytes(4000),
    ):
        path.write_bytes(content)
        refused("cannot be read as a netCDF-4 file", read_arviz, path)
    refused("no such file", read_arviz, tmp_path / "none.nc")


def test_arviz_refuses_a_giant_declared_shape(tmp_path):
    with h5netcdf.File(tmp_path / "bomb.nc", "w") as file:  # a few hundred bytes on disk
        group = file.create_group("posterior")
        group.dimensions = {"chain": 10**5, "draw": 10**7}
        group.create_variable("mu", ("chain", "draw"), np.float64, chunks=(1, 1000))
    refused("GiB of arrays, refused", read_arviz, tmp_path / "bomb.nc")


# CmdStan

HEADER = """\
# stan_version_major = 2
# stan_version_minor = 36
# stan_version_patch = 0
# model = linear_model
# start_datetime = 2025-03-01 10:00:00 UTC
# method = sample (Default)
#   sample
#     num_samples = {samples}
#     num_warmup = {warmup}
#     save_warmup = {save} (Default)
#     thin = {thin} (Default)
#     adapt
#       engaged = true (Default)
#       delta = 0.8 (Default)
#     algorithm = {algorithm} (Default)
#       hmc
#         engine = nuts (Default)
#     num_chains = 1 (Default)
# id = 1 (Default)
# data
#   file = data.json
# init = 2 (Default)
# random
#   seed = 1234
# output
#   file = output.csv (Default)
#   save_cmdstan_config = false (Default)
# stanc_version = stanc3 v2.36.0
# stancflags =
"""
ADAPTATION = """\
# Adaptation terminated
# Step size = 0.787025
# Diagonal elements of inverse mass matrix:
# 0.511, 1.02
"""
TIMING = """\
#
#  Elapsed Time: 0.003 seconds (Warm-up)
#                0.006 seconds (Sampling)
#                0.009 seconds (Total)
#
"""
# Stan writes matrices column by column.
COLUMNS = [
    "lp__",
    "accept_stat__",
    "energy__",
    "sigma",
    *(f"beta.{i}.{j}" for j in (1, 2, 3) for i in (1, 2)),
]
TABLE = np.concatenate(
    [
        LP[..., None],
        np.ones((CHAINS, DRAWS, 2)),
        SIGMA[..., None],
        BETA.swapaxes(2, 3).reshape(CHAINS, DRAWS, 6),
    ],
    axis=-1,
)


def lines(rows):
    return "".join(",".join(map(repr, row)) + "\n" for row in rows.tolist())


def stan_csv(rows, columns=COLUMNS, *, before=None, samples=DRAWS, warmup=1000, save=0, thin=1, algorithm="hmc"):
    saved = "" if before is None else lines(before)
    head = HEADER.format(samples=samples, warmup=warmup, save=save, thin=thin, algorithm=algorithm)
    return head + ",".join(columns) + "\n" + saved + ADAPTATION + lines(rows) + TIMING


@pytest.fixture
def chains(tmp_path):
    paths = [tmp_path / f"linear-{c + 1}.csv" for c in range(CHAINS)]
    for path, rows in zip(paths, TABLE, strict=True):
        path.write_text(stan_csv(rows))
    return paths


def test_cmdstan(chains):
    draws = read_draws(chains)
    same(draws)
    assert (draws.name, draws.attributes) == ("linear", {})
    one = read_draws(str(chains[1]))
    np.testing.assert_array_equal(one.values["beta"], BETA[1:2])
    assert one.name == "linear-2"
    assert read_draws(chains[:1], name="mine").name == "mine"


@pytest.mark.parametrize("save", ["1", "true"])
@pytest.mark.parametrize("warmup, thin, saved", [(4, 1, 4), (5, 2, 3), (1, 10, 1), (0, 1, 0)])
def test_cmdstan_drops_saved_warmup(tmp_path, save, warmup, thin, saved):
    path = tmp_path / "fit.csv"
    before = np.full((saved, TABLE.shape[-1]), 99.0)
    path.write_text(stan_csv(TABLE[0], before=before, warmup=warmup, save=save, thin=thin, samples=DRAWS * thin))
    np.testing.assert_array_equal(read_cmdstan(path).values["sigma"], SIGMA[:1])


def test_cmdstan_exact_sampler_has_no_density_and_no_warmup(tmp_path):
    path = tmp_path / "fit.csv"
    path.write_text(stan_csv(TABLE[0], algorithm="fixed_param", save=1, warmup=3))
    draws = read_cmdstan(path)
    np.testing.assert_array_equal(draws.values["sigma"], SIGMA[:1])
    assert draws.log_density is None


def test_cmdstan_keeps_every_digit_and_special_values(tmp_path):
    path = tmp_path / "fit.csv"
    tricky = np.array([[0.1 + 0.2, 1e-310], [np.nextafter(1, 2), 5e300], [np.nan, np.inf]])
    path.write_bytes(b"\xef\xbb\xbf" + ("a,b\r\n" + lines(tricky).replace("\n", "\r\n\r\n")).encode())
    draws = read_cmdstan(path)
    np.testing.assert_array_equal(draws.values["a"][0], tricky[:, 0])
    np.testing.assert_array_equal(draws.values["b"][0], tricky[:, 1])
    assert draws.log_density is None


def fit_of(chains, **more):
    return types.SimpleNamespace(runset=types.SimpleNamespace(csv_files=[str(path) for path in chains]), **more)


def test_cmdstanpy_fit(chains, tmp_path):
    same(read_draws(fit_of(chains)))
    names = [name.replace(".", "[", 1).replace(".", ",") + "]" * ("." in name) for name in COLUMNS]
    loaded = {"column_names": tuple(names), "draws": lambda concat_chains: TABLE.swapaxes(0, 1)}
    same(read_draws(fit_of([tmp_path / "gone.csv"], **loaded)))
    same(read_draws(types.SimpleNamespace(**loaded)))
    refused("not a CmdStanPy fit", read_cmdstan, fit_of([tmp_path / "gone.csv"]))
    refused("not a CmdStanPy fit", read_cmdstan, 3)


GOOD = stan_csv(TABLE[0])
ROWS = GOOD.index(lines(TABLE[0]))


@pytest.mark.parametrize(
    "content, match",
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        (HEADER, "empty but for comments"),
        (GOOD[:ROWS], "no draws after the header"),
        (GOOD[: GOOD.index(TIMING) - 60], "number of columns changed from 10"),
        (GOOD[: GOOD.index(TIMING) - 5], "the last row is cut off"),
        (GOOD.replace("lp__,", "lp__,extra__,"), "rows of 10 fields under a header of 11"),
        ("a,b\n1,2\n3,x\n", "could not convert string 'x'"),
        ("a,b\n1,2\n3,\n", "could not convert string ''"),
        ("a,b\n1,2\n3,4,5\n", "number of columns changed from 2 to 3"),
        ("a,b,a\n1,2,3\n", "'a' appears 2 times"),
        ("b.1,b.3\n1,2\n", r"b\[2\] is missing"),
        ("t:1,t:2\n1,2\n", "tuple or a complex"),
        ("z.real,z.imag\n1,2\n", "tuple or a complex"),
        ("lp__,energy__\n1,2\n", "no parameters"),
        ("# method = variational\na\n1\n", "method 'variational', not 'sample'"),
        ("# method = optimize\na\n1\n", "method 'optimize', not 'sample'"),
        ("# save_warmup = 1\n# num_warmup = 2\na\n1\n2\n", "warm-up draws only"),
        ("# save_warmup = 1\n# num_warmup = many\na\n1\n", "num_warmup = 'many'"),
        ("# save_warmup = 1\na\n1\n", "warmup = ''"),
        ("# save_warmup = 1\n# num_warmup = 2\n# thin = 0\na\n1\n", "thin = '0'"),
        (b"\x89HDF\r\n\x1a\n" + bytes(range(256)), "not UTF-8"),
        (b"a,b\n1,2\n\xff,3\n", "not UTF-8"),
        (bytes(1000), "CmdStan|no draws"),
    ],
)
def test_cmdstan_refuses(tmp_path, content, match):
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(match, read_cmdstan, path)


def test_cmdstan_refuses_a_giant_header(tmp_path, monkeypatch):
    monkeypatch.setattr(cmdstan, "MAX_LINE", 100)
    (tmp_path / "bad.csv").write_text("x" * 101)
    refused("a line of 100 characters", read_cmdstan, tmp_path / "bad.csv")


def test_cmdstan_refuses_chains_that_differ(chains, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(stan_csv(TABLE[0], [*COLUMNS[:-1], "gamma"]))
    refused("not chains of one fit", read_cmdstan, [chains[0], other])
    other.write_text(stan_csv(TABLE[0][:-1]))
    refused("6 draws, but .* has 7", read_cmdstan, [chains[0], other])
    refused("no such file", read_cmdstan, [chains[0], tmp_path / "none.csv"])
    refused("empty list", read_cmdstan, [])


# NPZ and dictionaries


def test_npz(tmp_path):
    path = tmp_path / "fit.npz"
    attributes = json.dumps({"bayesrecon_model": "m", "n": 3})
    np.savez_compressed(path, sigma=SIGMA, beta=BETA, __log_density__=LP, __attributes__=attributes, s=["x"])
    draws = read_draws(path)
    same(draws)
    assert (draws.name, draws.attributes) == ("fit", {"bayesrecon_model": "m"})


def test_npz_of_a_single_chain(tmp_path):
    path = tmp_path / "fit.npz"
    np.savez(path, sigma=SIGMA[0], beta=BETA[0], __log_density__=LP[0])
    draws = read_npz(path)
    np.testing.assert_array_equal(draws.values["beta"], BETA[:1])
    np.testing.assert_array_equal(draws.log_density, LP[:1])
    # The log density alone settles it too.
    assert from_arrays({"beta": BETA[0], "__log_density__": LP[0]}).values["beta"].shape == (1, DRAWS, 2, 3)
    assert from_arrays({"k": np.arange(12).reshape(3, 4)}).values["k"].shape == (3, 4)


def test_dictionary_of_arrays():
    import jax.numpy as jnp

    same(read_draws({"sigma": SIGMA, "beta": BETA, "__log_density__": LP}))
    assert read_draws({"k": jnp.arange(6).reshape(2, 3)}).values["k"].dtype == np.float64
    refused("no numeric arrays", read_draws, {})
    refused("cannot be read as named arrays", read_draws, {"a": [[1], [1, 2]]})


@pytest.mark.parametrize(
    "arrays, match",
    [
        ({}, "no numeric arrays"),
        ({"s": np.array(["x"])}, "no numeric arrays"),
        ({"__log_density__": LP}, "no numeric arrays"),
        ({"a": np.float64(1)}, "single number"),
        ({"a": SIGMA, "b": SIGMA.T}, "'b' has"),
        ({"a": SIGMA[0], "b": BETA}, "share the first dimension"),
        ({"a": SIGMA, "__log_density__": LP.T}, "log density has shape"),
        ({"a": np.zeros((2, 0))}, "at least one draw"),
        ({"a": SIGMA, "__attributes__": np.array("{")}, "JSON in __attributes__"),
        ({"a": SIGMA, "__attributes__": np.array("[1]")}, "not a JSON object"),
        ({"a": SIGMA, "__attributes__": np.array([1.0])}, "not one JSON text"),
        ({"a": SIGMA, "b": np.array([None, 1])}, "'b.npy' is pickled"),
    ],
)
def test_npz_refuses(tmp_path, arrays, match):
    np.savez(tmp_path / "bad.npz", **arrays)
    refused(match, read_npz, tmp_path / "bad.npz")


def npy_header(shape, descr="<f8", version=1):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2, "little") + text.encode()


def test_npz_damaged_files(tmp_path, monkeypatch):
    path = tmp_path / "bad.npz"
    np.savez(path, a=SIGMA)
    whole = path.read_bytes()
    for content in (b"", b"text", whole[:100]):
        path.write_bytes(content)
        refused("not an .npz file", read_npz, path)
    path.write_bytes(whole[:200] + b"\x00\xff" + whole[202:])
    refused("cannot be read as an .npz file", read_npz, path)
    for member, match in (
        (npy_header((10**6, 10**6)) + bytes(80), "shorter than its header says"),
        (npy_header((2, -3)), "cannot be"),
        (npy_header((1, 1), version=3) + bytes(8), "not a plain numeric array"),
        (b"not an array", "cannot be read as an .npz file"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", member)
        refused(match, read_npz, path)
    path.write_bytes(whole)
    monkeypatch.setattr(npz, "MAX_BYTES", 100)
    refused("GiB of arrays, refused", read_npz, path)
    refused("no such file", read_npz, tmp_path / "none.npz")


# posteriordb


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
        ([{"a": [[1.0], 2.0]}], "cannot be read as reference draws"),
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
    monkeypatch.setattr(database, "MAX_JSON", 1000)
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


# Dispatch


def test_dispatch(tmp_path):
    draws = Draws({"sigma": SIGMA})
    assert read_draws(draws) is draws
    refused("no such file", read_draws, tmp_path / "none.nc")
    refused(r"unknown suffix '.txt'; known are .npz, .csv, .json, .zip, .zarr, .nc, .netcdf, .h5", read_draws, "a.txt")
    refused("unknown suffix ''", read_draws, tmp_path)
    (tmp_path / "folder.nc").mkdir()
    refused("is a directory", read_draws, tmp_path / "folder.nc")
    (tmp_path / "file.zarr").write_text("")
    refused("is not a directory", read_draws, tmp_path / "file.zarr")
    refused("CmdStan chains", read_draws, ["a.csv", "b.nc"])
    for source in ([], [1], b"bytes", 3, None, io.StringIO()):
        refused("list of CmdStan|cannot read draws from", read_draws, source)
    (tmp_path / "FIT.CSV").write_text("a\n1\n")
    assert read_draws(tmp_path / "FIT.CSV").values["a"].shape == (1, 1)


def test_numpyro_mcmc_and_its_arviz_copy_agree():
    import arviz as az
    import jax
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    def program():
        numpyro.sample("beta", dist.Normal(1.0, 2.0).expand([3]).to_event(1))
        numpyro.sample("sigma", dist.LogNormal())

    kernel = NUTS(program)
    mcmc = MCMC(kernel, num_warmup=5, num_samples=4, num_chains=2, chain_method="sequential", progress_bar=False)
    refused("has it run", read_draws, mcmc)
    mcmc.run(jax.random.key(0), extra_fields=("potential_energy",))
    ours, theirs = read_draws(mcmc), read_draws(az.from_numpyro(mcmc, log_likelihood=False))
    assert ours.values["beta"].shape == (2, 4, 3)
    for key, value in theirs.values.items():
        np.testing.assert_array_equal(ours.values[key], value)
    np.testing.assert_array_equal(ours.log_density, theirs.log_density)
    beta, sigma = ours.values["beta"], ours.values["sigma"]
    exact = (
        dist.Normal(1.0, 2.0).log_prob(beta).sum(-1)
        + dist.LogNormal().log_prob(sigma)
        + np.log(sigma)  # the sampler's coordinate is log sigma
    )
    np.testing.assert_allclose(ours.log_density, exact, rtol=1e-5)


# Any bytes give draws or a complaint, never another exception

WORDS = "lp__ a b.1 b.2 b.2.1 b.999999999 t:1 # 1 -2.5 nan inf 1e999 x '' \" é = sample"
COMMENTS = "# save_warmup = 1; # num_warmup = 1; # thin = 2; # num_samples = 5; # method = sample"
STAN_TOKENS = st.sampled_from(
    WORDS.split() + [comment + "\n" for comment in COMMENTS.split("; ")] + [","] * 5 + ["\n"] * 5 + ["\r", "\0", " "]
)
NPZ = io.BytesIO()
np.savez(NPZ, a=np.zeros((2, 3)), __attributes__=np.array("{}"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b[1]", "b[2]", "b", "x:1"]), inner, max_size=3)
    ),
    max_leaves=12,
)


def draws_or_complaint(read, *args):
    try:
        result = read(*args)
    except BayesreconError as error:
        result = str(error)
    assert isinstance(result, Draws) or "\n" not in result


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=200) | st.lists(STAN_TOKENS, max_size=40).map(lambda tokens: "".join(tokens).encode()))
def test_any_bytes_as_cmdstan(content):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "fuzz.csv")
        path.write_bytes(content)
        draws_or_complaint(read_cmdstan, path)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, len(NPZ.getvalue()) - 1), st.binary(min_size=1, max_size=4)), max_size=3))
def test_any_bytes_as_npz(changes):
    content = bytearray(NPZ.getvalue())
    for position, patch in changes:
        content[position : position + len(patch)] = patch
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "fuzz.npz")
        path.write_bytes(content)
        draws_or_complaint(read_npz, path)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    root = tmp_path_factory.mktemp("database")
    return build(root, [{"a": [1.0]}]), root / "reference_posteriors/draws/draws/toy-line.json.zip"


@settings(max_examples=300, deadline=None, derandomize=True)
@given(content=st.binary(max_size=60) | JSON, as_zip=st.booleans())
def test_any_bytes_as_reference_draws(toy, content, as_zip):
    base, path = toy
    if as_zip or not isinstance(content, bytes):
        zipped(path, content)
    else:
        path.write_bytes(content)
    draws_or_complaint(read_reference_draws, base, "toy-line")
