"""Good files of every format, and how each of them is changed."""

import json
import lzma
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from bayesrecon.results.diagnosis import Bounds, Interval
from tests.support.fuzz_changes import Rng, bytes_of, cells_of, either, hdf5_of, json_of, members_of, words_of

R_OBJECTS = Path(__file__).resolve().parent.parent / "fixtures" / "r"
RNG = np.random.default_rng(0)
BETA, SIGMA, LOG_LIK = RNG.normal(size=(2, 30, 2)), RNG.gamma(5, size=(2, 30)), RNG.normal(size=(2, 30, 5))


@dataclass(frozen=True)
class Kind:
    """A format of files.

    Attributes:
        make: writes a good one into a folder.
        change: makes another one of it, in place.
        use: what reads it, as a name in `fuzzed.VERBS`.
        share: how many of a hundred files are of this kind.
    """

    make: Callable[[Path], Path]
    change: Callable[[Path, Rng], None]
    use: str
    share: int


def tree(names: bool = True) -> xr.DataTree:
    """Draws with what goes with them: log densities, pointwise log likelihoods, data with labels, attributes."""
    labels = {"obs": [f"Ömer {i}" for i in range(5)]} if names else {}
    told = {"note": "hello", "numbers": [1.5, 2.5]}
    draws = {"beta": (("chain", "draw", "k"), BETA), "sigma": (("chain", "draw"), SIGMA)}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(draws, attrs=told),
            "sample_stats": xr.Dataset({"lp": (("chain", "draw"), -SIGMA)}),
            "log_likelihood": xr.Dataset({"y": (("chain", "draw", "obs"), LOG_LIK)}, labels),
            "observed_data": xr.Dataset({"y": ("obs", np.arange(5.0))}, labels),
        }
    )


def netcdf(folder: Path) -> Path:
    path = folder / "fit.nc"
    packed = {"sigma": {"zlib": True, "chunksizes": (2, 15), "shuffle": True}}
    tree().to_netcdf(path, engine="h5netcdf", encoding={"/posterior": packed})
    return path


def netcdf3(folder: Path) -> Path:
    path = folder / "fit.nc"
    draws = tree()["posterior"].to_dataset().assign(label=("k", ["Ömer", "Ann"])).transpose("draw", ...)
    draws.to_netcdf(path, engine="scipy", format="NETCDF3_64BIT", unlimited_dims=["draw"])
    return path


def zarr(version: int) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "fit.zarr"
        tree().to_zarr(path, zarr_format=version, consolidated=version == 2)
        return path

    return make


def sharded(folder: Path) -> Path:
    path, shards = folder / "fit.zarr", {"sigma": {"chunks": (1, 5), "shards": (2, 30)}}
    tree(names=False).to_zarr(path, zarr_format=3, consolidated=False, encoding={"/posterior": shards})
    return path


def cmdstan(folder: Path) -> Path:
    path = folder / "fit.csv"
    head = ["# method = sample (Default)", "# num_samples = 30", "# num_warmup = 10"]
    head += ["lp__,beta.1,beta.2,sigma,log_lik.1,log_lik.2", "# Step size = 0.8", "# data file = /home/eve/y.json"]
    columns = np.column_stack([-SIGMA[0], BETA[0], SIGMA[0], LOG_LIK[0, :, :2]])
    rows = [",".join(f"{v:.6g}" for v in row) for row in columns]
    path.write_text("\n".join([*head, *rows, "# Elapsed Time: 1 seconds", ""]))
    return path


def archive(folder: Path) -> Path:
    path = folder / "fit.npz"
    told = np.array('{"bayesrecon_note": "x"}')
    np.savez_compressed(path, beta=BETA, sigma=SIGMA, log_lik=LOG_LIK, __attributes__=told)
    return path


def chains() -> str:
    own = [{"beta[1]": BETA[c, :, 0], "beta[2]": BETA[c, :, 1], "sigma": SIGMA[c]} for c in range(2)]
    return json.dumps([{key: values.tolist() for key, values in one.items()} for one in own])


def plain_json(folder: Path) -> Path:
    path = folder / "fit.json"
    path.write_text(chains())
    return path


def zipped_json(folder: Path) -> Path:
    path = folder / "fit.json.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as held:
        held.writestr("fit.json", chains())
    return path


def data_csv(folder: Path) -> Path:
    path = folder / "table.csv"
    path.write_text('y,"name, first",mom_iq\n' + "\n".join(f"{v:.4g},n{i},{90 + i}" for i, v in enumerate(SIGMA[0])))
    return path


def data_json(folder: Path) -> Path:
    path = folder / "table.json"
    held = {"y": SIGMA[0].tolist(), "name": ["Ann", "Bob", None] * 10, "mom_iq": list(range(30)), "x": [[1, 2]] * 30}
    path.write_text(json.dumps(held | {"N": 30}))
    return path


def estimates(folder: Path) -> Path:
    path = folder / "estimates.csv"
    path.write_text("name,estimate,std. error\n(Intercept),25.80,5.917\nmom_iq,0.61,0.059\nsigma,18.27,0.621\n")
    return path


def summary_text(folder: Path) -> Path:
    """As R prints it."""
    path = folder / "summary.txt"
    lines = ["Coefficients:", "            Estimate Std. Error t value Pr(>|t|)    "]
    lines += [
        "(Intercept)   5.0320     0.1971  25.527   <2e-16 ***",
        "grouptrt1    -0.3710     0.2788  -1.331   0.1944    ",
    ]
    lines += ["grouptrt2     0.4940     0.2788   1.772   0.0877 .  ", "---", ""]
    lines += ["Residual standard error: 0.6234 on 27 degrees of freedom", "Multiple R-squared:  0.2641"]
    lines += ["F-statistic: 4.846 on 2 and 27 DF,  p-value: 0.01591", ""]
    path.write_text("\n".join(lines))
    return path


def summary_html(folder: Path) -> Path:
    path = folder / "summary.html"
    lines = [("", "Coef. (95% CI)"), ("const", "5.03 (0.20)"), ("x", "-0.37 (0.28)"), ("sigma", "0.62"), ("N", "30")]
    rows = "".join(f"<tr><td>{a}</td><td>{b}</td></tr>" for a, b in lines)
    path.write_text(f"<html><body><table>{rows}</table><p>R&sup2; = 0.26</p></body></html>")
    return path


def models_text(folder: Path) -> Path:
    """Two models side by side, as statsmodels and stargazer print them."""
    path = folder / "models.txt"
    lines = ["===============================", "             (1)        (2)    ", "-------------------------------"]
    lines += ["Intercept -1.6094** -11.6016***", "          (0.6325)  (4.2130)   ", "PSI       1.8971**  2.3378**   "]
    lines += ["          (0.8317)  (1.0408)   ", "GPA                 3.0634**   ", "                    (1.2229)   "]
    lines += ["N         32        32         ", "===============================", "* p<.1, ** p<.05, ***p<.01"]
    path.write_text("\n".join(lines))
    return path


def saved_by_r(folder: Path) -> Path:
    path = folder / "fit.rds"
    path.write_bytes(lzma.decompress((R_OBJECTS / "rpart-stripped.rds").read_bytes()))  # or changes are found at once
    return path


def result_npz(folder: Path) -> Path:
    rows = tuple(Interval(name, 40.0, None) for name in ("n", "mean(y)", "=1+1"))
    return Bounds("draws", 0.99, {"y": (0.0, 1.0)}, rows).save(folder / "result.npz")


def result_nc(folder: Path) -> Path:
    import bayesrecon

    draws = {"beta": np.random.default_rng(1).normal(size=(2, 60, 2)), "sigma": SIGMA.repeat(2, axis=1)}
    return bayesrecon.recover(draws, model="kidscore_momiq").save(folder / "result.nc")


KINDS = {
    "netCDF-4: bytes": Kind(netcdf, bytes_of, "draws", 10),
    "netCDF-4: structure, compound and vlen types": Kind(netcdf, hdf5_of, "draws", 10),
    "netCDF-3": Kind(netcdf3, either(bytes_of, words_of), "draws", 3),
    "zarr 2": Kind(zarr(2), either(bytes_of, json_of), "draws", 9),
    "zarr 3": Kind(zarr(3), either(bytes_of, json_of), "draws", 8),
    "zarr 3 with shards": Kind(sharded, either(bytes_of, json_of), "draws", 8),
    "CmdStan CSV": Kind(cmdstan, either(bytes_of, cells_of), "draws", 8),
    "NumPy archive": Kind(archive, either(bytes_of, members_of), "draws", 6),
    "draws as JSON": Kind(plain_json, either(bytes_of, json_of), "draws", 6),
    "zipped JSON": Kind(zipped_json, either(bytes_of, members_of), "draws", 4),
    "table as CSV": Kind(data_csv, either(bytes_of, cells_of), "data", 7),
    "table as JSON": Kind(data_json, either(bytes_of, json_of), "data", 5),
    "table of estimates": Kind(estimates, either(bytes_of, cells_of), "estimates", 4),
    "printed summary": Kind(summary_text, bytes_of, "estimates", 1),
    "printed table as HTML": Kind(summary_html, bytes_of, "estimates", 1),
    "printed models side by side": Kind(models_text, bytes_of, "models", 1),
    "saved object of R": Kind(saved_by_r, bytes_of, "draws", 1),
    "saved result": Kind(result_npz, either(bytes_of, members_of), "result", 6),
    "saved result as netCDF": Kind(result_nc, either(bytes_of, hdf5_of), "result", 2),
}
