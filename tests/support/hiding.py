# ruff: noqa: E501, SIM223
"""Files of a fit in which data lie hidden, as people do by accident or on purpose, and files in which none do.

All are made from one linear regression of 80 people: exact draws under flat priors, as a file, with one change. Every
maker writes one file of one format; `FILES` lists them with what kind of change it is.
"""

import base64
import gzip
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr
from scipy import stats

CHAINS, LENGTH, SIZE, CLINICS = 2, 250, 80, 6
DRAW = ("chain", "draw")

_RNG = np.random.default_rng(20)
AGE = np.round(_RNG.normal(55, 12, SIZE), 1)
CLINIC = _RNG.integers(0, CLINICS, SIZE)
PRESSURE = np.round(110 + 0.5 * (AGE - 55) + _RNG.normal(0, 9, SIZE), 1)
PATIENT = np.array([f"P{n}" for n in 1000 + _RNG.choice(9000, SIZE, replace=False)])
EMAIL = np.array([f"{p.lower()}@clinic{c}.org" for p, c in zip(PATIENT, CLINIC, strict=True)])
BORN = np.array([f"{1970 - int(a)}-{1 + n % 12:02d}-{1 + n % 28:02d}" for n, a in enumerate(AGE - 55)])
DATA = {"age": AGE, "pressure": PRESSURE, "clinic": CLINIC, "patient": PATIENT, "email": EMAIL, "born": BORN}
Y = PRESSURE


def _draws() -> dict[str, np.ndarray]:
    """Exact draws: flat coefficients, a scale that is uniform in its logarithm."""
    rng = np.random.default_rng(21)
    design = np.column_stack([np.ones(SIZE), AGE])
    mean, (residual,), _, _ = np.linalg.lstsq(design, PRESSURE)
    sigma = np.sqrt(residual / 2 / rng.gamma((SIZE - 2) / 2, size=(CHAINS, LENGTH)))
    root = np.linalg.inv(np.linalg.cholesky(design.T @ design))
    return {"coef": mean + sigma[..., None] * (rng.normal(size=(CHAINS, LENGTH, 2)) @ root), "sigma": sigma}


DRAWS = _draws()
MEAN = DRAWS["coef"][..., :1] + DRAWS["coef"][..., 1:] * AGE
TERMS = stats.norm.logpdf(PRESSURE, MEAN, DRAWS["sigma"][..., None])
DENSITY = TERMS.sum(axis=-1)  # flat priors and the determinant of a scale that is uniform in its logarithm cancel
FULL = DENSITY


def model():
    """The regression as a NumPyro program."""
    import numpyro
    import numpyro.distributions as dist

    from bayesrecon.models import from_numpyro

    flat = dist.ImproperUniform(dist.constraints.real_vector, (), (2,))
    line = dist.ImproperUniform(dist.constraints.real, (), ())

    def program(age, pressure=None):
        coef = numpyro.sample("coef", flat)
        sigma = numpyro.sample("sigma", dist.TransformedDistribution(line, dist.transforms.ExpTransform()))
        with numpyro.plate("people", age.shape[0]):
            numpyro.sample("pressure", dist.Normal(coef[0] + coef[1] * age, sigma), obs=pressure)

    return from_numpyro(program, record={"age": (), "pressure": ()})


@dataclass(frozen=True)
class File:
    """One file.

    Attributes:
        kind: "honest" of a mistake, "malice", or "harmless".
        form: "nc", "zarr", "npz" or "csv".
        make: writes it into a folder.
    """

    name: str
    kind: str
    form: str
    make: Callable[[Path], Path]

    @property
    def id(self) -> str:
        return f"{self.form}: {self.name}"


Groups = dict[str, xr.Dataset]


def groups(**stats_: Any) -> Groups:
    """The clean file."""
    rng = np.random.default_rng(3)
    posterior = {"coef": ((*DRAW, "term"), DRAWS["coef"]), "sigma": (DRAW, DRAWS["sigma"])}
    sampler = {
        "acceptance_rate": (DRAW, rng.beta(8, 2, (CHAINS, LENGTH))),
        "diverging": (DRAW, np.zeros((CHAINS, LENGTH), bool)),
        "tree_depth": (DRAW, rng.integers(2, 4, (CHAINS, LENGTH))),
        "step_size": (DRAW, np.repeat([[0.71283], [0.80112]], LENGTH, axis=1)),
    }
    attributes = {"created_at": "2026-05-01T10:11:12+00:00", "arviz_version": "0.23.4", "inference_library": "numpyro"}
    return {
        "posterior": xr.Dataset(posterior, {"chain": range(CHAINS), "draw": range(LENGTH)}, attributes),
        "sample_stats": xr.Dataset(sampler, {"chain": range(CHAINS), "draw": range(LENGTH)}, attributes),
    }


def write(made: Groups, path: Path, attributes: dict[str, Any] | None = None, **how: Any) -> Path:
    """Groups as netCDF or zarr."""
    tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs=attributes or {}), **made})
    if path.suffix == ".zarr":
        tree.to_zarr(path, mode="w", **{"consolidated": False, **how})
    else:
        tree.to_netcdf(path, engine="h5netcdf")
    return path


FILES: list[File] = []


def _add(kind: str, name: str, form: str, make: Callable[[Path], Path]) -> None:
    FILES.append(File(name, kind, form, make))


def _with(
    kind: str, name: str, change: Callable[[Groups], dict[str, Any] | None], forms: tuple[str, ...] = ("nc",)
) -> None:
    """A file of groups with a change to them; what the change returns are attributes of the root."""
    for form in forms:

        def make(folder: Path, form: str = form) -> Path:
            made = groups()
            attributes = change(made)
            return write(made, folder / f"fit.{form}", attributes)

        _add(kind, name, form, make)


def _h5(kind: str, name: str, change: Callable[[h5py.File], None]) -> None:
    """A netCDF file that somebody wrote into with h5py."""

    def make(folder: Path) -> Path:
        path = write(groups(), folder / "fit.nc")
        with h5py.File(path, "a") as file:
            change(file)
        return path

    _add(kind, name, "nc", make)


def constant(values: Any) -> np.ndarray:
    """The same values in every draw."""
    values = np.asarray(values)
    return np.broadcast_to(values, (CHAINS, LENGTH, *values.shape)).copy()


def put(made: Groups, group: str, name: str, values: Any, axes: tuple[str, ...] = (), labels: Any = None) -> None:
    """An array of draws in a group."""
    values = np.asarray(values)
    axes = axes or tuple(f"{name}_dim_{i}" for i in range(values.ndim - 2))
    coordinates = {} if labels is None else {axes[0]: labels}
    added = xr.Dataset({name: ((*DRAW, *axes), values)}, coordinates)
    made[group] = added if group not in made else made[group].merge(added)


def numbers_of_records(size: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Columns that number the records or group them, as private tables have them beside the data."""
    return {
        "names": np.array([f"Patient {i:04d}" for i in range(size)]),
        "shuffled names": rng.permutation([f"P-{i}" for i in range(size)]),
        "from 0": np.arange(size),
        "from 1": np.arange(size) + 1,
        "shuffled from 0": rng.permutation(size),
        "shuffled from 1": rng.permutation(size) + 1,
        "with gaps": np.sort(rng.choice(2 * size, size, replace=False)),
        "wards": rng.permutation(np.arange(size) % 5).astype(str),
        "years": rng.integers(18, 90, size),
        "ranks": rng.normal(size=size).argsort().argsort(),
    }


def cycle(values: np.ndarray) -> np.ndarray:
    """Values one after another, draw by draw."""
    return np.resize(values, (CHAINS, LENGTH))


STANDARD = (Y - Y.mean()) / Y.std()
ONE_HOT = np.eye(CLINICS)[CLINIC]
TABLE = np.column_stack([AGE, PRESSURE])
ROWS = json.dumps([{"age": a, "pressure": p} for a, p in zip(AGE.tolist(), PRESSURE.tolist(), strict=True)])
CONTAINERS = ("nc", "zarr")


def _hidden_in_groups() -> None:
    h, m = "honest", "malice"
    data = lambda name, values: lambda g: g.update({name[0]: xr.Dataset({name[1]: ("obs", values)})})  # noqa: E731
    _with(h, "observed_data with the response", data(("observed_data", "pressure"), Y), CONTAINERS)
    _with(h, "constant_data with a covariate", data(("constant_data", "age"), AGE), CONTAINERS)
    _with(h, "predictions_constant_data with a covariate", data(("predictions_constant_data", "age"), AGE))
    _with(h, "a group of one's own with the response", data(("training", "pressure"), Y), CONTAINERS)
    _with(h, "a group of one's own with texts", data(("training", "patient"), PATIENT))
    payloads = {
        "response": Y, "covariate": AGE, "standardised": STANDARD, "single precision": np.round(Y.astype("f4"), 2),
        "ranks": stats.rankdata(Y), "sorted": np.sort(Y), "one-hot": ONE_HOT, "table": TABLE, "sums": np.cumsum(Y),
        "differences": np.diff(Y), "ten records": Y[:10], "groups": CLINIC, "permuted": Y[np.random.default_rng(1).permutation(SIZE)],
    }  # fmt: skip
    for name, values in payloads.items():
        where = CONTAINERS if name in ("response", "one-hot") else ("nc",)
        _with(
            h,
            f"posterior, the same in all draws: {name}",
            lambda g, v=values: put(g, "posterior", "used", constant(v)),
            where,
        )
        _with(
            h,
            f"sample_stats, the same in all draws: {name}",
            lambda g, v=values: put(g, "sample_stats", "weights", constant(v)),
        )
    for name in ("response", "standardised", "table"):
        _with(
            m,
            f"prior, the same in all draws: {name}",
            lambda g, v=payloads[name]: put(g, "prior", "coef0", constant(v)),
        )
    _with(
        m,
        "80 scalars of sample_stats",
        lambda g: [put(g, "sample_stats", f"s{i}", constant(v)) for i, v in enumerate(Y)] and None,
    )
    _with(
        m,
        "80 scalars of the posterior",
        lambda g: [put(g, "posterior", f"s{i}", constant(v)) for i, v in enumerate(Y)] and None,
    )
    for stat in ("step_size", "energy_error", "perf_counter_start", "n_steps", "acceptance_rate"):
        _with(m, f"{stat} runs through the response", lambda g, s=stat: put(
            {"x": xr.Dataset()}, "x", s, cycle(Y)) or (g["sample_stats"].update({s: (DRAW, cycle(Y))}) and None))  # fmt: skip
    _with(
        m,
        "tree_depth runs through the groups",
        lambda g: g["sample_stats"].update({"tree_depth": (DRAW, cycle(CLINIC))}) and None,
    )
    _with(m, "diverging runs through bits", lambda g: g["sample_stats"].update(
        {"diverging": (DRAW, cycle(((Y * 10).astype(int)[:, None] >> np.arange(12)) & 1).astype(bool).reshape(CHAINS, LENGTH))}) and None)  # fmt: skip

    # Log densities and their parts, whatever they are called.
    rng = np.random.default_rng(5)
    named = {
        "lp": FULL, "target_log_prob": FULL, "lnprob": FULL, "minuslogpost": -FULL, "deviance": -2 * DENSITY, "target": FULL,
        "log_likelihood": DENSITY, "objective": -FULL / SIZE, "lp_single": FULL.astype("f4"), "lp_rounded": np.round(FULL, 2),
        "lp_shifted": 3.7 * FULL + 11,
    }  # fmt: skip
    for name, values in named.items():
        _with(h, f"log density as sample_stats/{name}", lambda g, n=name, v=values: put(g, "sample_stats", n, v))
    for name in ("lp", "lnprob", "minuslogpost", "objective"):
        _with(h, f"log density as posterior/{name}", lambda g, n=name: put(g, "posterior", n, named[n]))
    _with(h, "log density in a group of one's own", lambda g: put(g, "diagnostics", "value", FULL))
    _with(
        h,
        "log densities of parts of the records",
        lambda g: put(g, "sample_stats", "parts", TERMS.reshape(CHAINS, LENGTH, 8, 10).sum(-1)),
    )
    for group, name in (("log_likelihood", "pressure"), ("sample_stats", "ll_i"), ("posterior", "log_lik"), ("predictions", "ll"),
                        ("posterior_predictive", "pointwise"), ("diagnostics", "terms")):  # fmt: skip
        _with(
            h,
            f"pointwise terms as {group}/{name}",
            lambda g, a=group, n=name: put(g, a, n, TERMS),
            CONTAINERS if group == "sample_stats" else ("nc",),
        )
    _with(h, "minus pointwise terms", lambda g: put(g, "sample_stats", "nll", -TERMS))
    _with(
        h,
        "pointwise terms as scalars",
        lambda g: [put(g, "posterior", f"ll_{i}", TERMS[..., i]) for i in range(SIZE)] and None,
    )
    _with(h, "pointwise terms in single precision", lambda g: put(g, "posterior", "terms", TERMS.astype("f4")))
    slope = np.stack([((Y - MEAN) / DRAWS["sigma"][..., None] ** 2).sum(-1), ((Y - MEAN) * AGE / DRAWS["sigma"][..., None] ** 2).sum(-1),
                      (((Y - MEAN) / DRAWS["sigma"][..., None]) ** 2 - 1).sum(-1)], axis=-1)  # fmt: skip
    _with(h, "gradients", lambda g: put(g, "sample_stats", "logdensity_grad", slope))
    _with(h, "gradients under another name", lambda g: put(g, "sample_stats", "state", slope))

    # Combinations of the draws.
    noisy = MEAN + DRAWS["sigma"][..., None] * rng.normal(size=MEAN.shape)
    linked = {
        "mu": MEAN, "fitted, in single precision": MEAN.astype("f4"), "fitted, rounded": np.round(MEAN, 2), "exp": np.exp(MEAN / 100),
        "logit": 1 / (1 + np.exp(-(MEAN - 110) / 20)), "log": np.log(MEAN), "residuals": Y - MEAN,
        "standardised residuals": (Y - MEAN) / DRAWS["sigma"][..., None], "squares of residuals": (Y - MEAN) ** 2,
        "standardised": (MEAN - 110) / 9, "probit": stats.norm.cdf((MEAN - 110) / 20), "variances of predictions": MEAN * 0 + (DRAWS["sigma"] ** 2)[..., None] * (1 + AGE / 100),
    }  # fmt: skip
    for name, values in linked.items():
        _with(
            h,
            f"Deterministic: {name}",
            lambda g, v=values: put(g, "posterior", "mu", v, ("obs_id",)),
            CONTAINERS if name == "mu" else ("nc",),
        )
    _with(h, "Deterministic in predictions", lambda g: put(g, "predictions", "mu", MEAN, ("obs_id",)))
    _with(h, "Deterministic in sample_stats", lambda g: put(g, "sample_stats", "eta", MEAN))
    _with(
        h,
        "linear predictors as scalars",
        lambda g: [put(g, "posterior", f"mu_{i}", MEAN[..., i]) for i in range(SIZE)] and None,
    )
    _with(h, "slopes of each record", lambda g: put(g, "posterior", "effect", DRAWS["coef"][..., 1:] * (AGE - 55)))
    _with(h, "predictive draws", lambda g: put(g, "posterior_predictive", "pressure", noisy))
    _with(h, "predictive draws as posterior/y_sim", lambda g: put(g, "posterior", "y_sim", noisy))
    _with(h, "predictive draws in a group of one's own", lambda g: put(g, "ppc", "draws", noisy))
    _with(h, "a Deterministic in the warm-up", lambda g: put(g, "warmup_posterior", "mu", MEAN[:, :40]))

    # Labels and names.
    for name, labels in {
        "patients": PATIENT,
        "addresses": EMAIL,
        "birthdays": BORN,
        "the response": Y,
        "the response as text": Y.astype(str),
    }.items():
        _with(
            h,
            f"labels of records: {name}",
            lambda g, v=labels: put(g, "posterior_predictive", "pressure", noisy, ("obs",), v),
            CONTAINERS if name == "patients" else ("nc",),
        )
    _with(
        h,
        "labels of a parameter's axis are patients",
        lambda g: put(g, "posterior", "effect", rng.normal(size=(CHAINS, LENGTH, SIZE)), ("who",), PATIENT),
    )
    many = np.resize(Y, LENGTH)
    _with(
        m, "the draws' labels are the response", lambda g: g.update(posterior=g["posterior"].assign_coords(draw=many))
    )
    _with(
        m,
        "the draws' labels of sample_stats are the response",
        lambda g: g.update(sample_stats=g["sample_stats"].assign_coords(draw=many)),
    )
    _with(
        m,
        "names of arrays carry values",
        lambda g: (
            [
                put(g, "posterior", f"v{i}_{v:.1f}".replace(".", "p"), rng.normal(size=(CHAINS, LENGTH)))
                for i, v in enumerate(Y)
            ]
            and None
        ),
    )
    _with(
        m,
        "a name of an axis carries values",
        lambda g: g.update(posterior=g["posterior"].rename(term="term_" + "_".join(f"{v:.1f}" for v in Y[:20]))),
    )
    _with(m, "names of attributes carry values", lambda g: g["posterior"].attrs.update({f"k{v:.1f}": "x" for v in Y}))
    _with(m, "attribute of a coordinate", lambda g: g["posterior"]["draw"].attrs.update(note=Y.tolist()))


def _hidden_in_attributes() -> None:
    h, m = "honest", "malice"
    packed = base64.b64encode(Y.tobytes()).decode()
    texts = {
        "rows as JSON": ROWS, "columns as JSON": json.dumps({"age": AGE.tolist()}), "rows as CSV": "\n".join(f"{a},{p}" for a, p in TABLE),
        "base64": packed, "hexadecimal": Y[:40].astype("f4").tobytes().hex(), "gzip in base64": base64.b64encode(gzip.compress(ROWS.encode())).decode(),
        "ten patients": ", ".join(PATIENT[:10]), "a sentence about somebody": "Anna Muster, 45, hypertension since 2019",
        "an address": f"ask {EMAIL[0]}", "ten values": " ".join(map(str, Y[:10])),
    }  # fmt: skip
    for name, text in texts.items():
        kind = m if name in ("base64", "hexadecimal", "gzip in base64") else h
        _with(
            kind,
            f"attribute of the posterior: {name}",
            lambda g, t=text: g["posterior"].attrs.update(note=t),
            CONTAINERS if name == "rows as JSON" else ("nc",),
        )
    _with(h, "attribute of the root: rows as JSON", lambda g: {"data": ROWS})
    _with(
        h,
        "attribute of an array: the response",
        lambda g: g["posterior"]["sigma"].attrs.update(data=Y.tolist()),
        CONTAINERS,
    )
    for name in (
        "created_at",
        "Conventions",
        "sampling_time",
        "bayesrecon_model_settings",
        "arviz_version",
        "units",
        "inference_library",
    ):
        _with(
            m,
            f"the attribute {name} holds the response",
            lambda g, n=name: g["posterior"].attrs.update({n: json.dumps(Y.tolist())}),
        )
    _with(
        m,
        "one attribute for each record",
        lambda g: g["posterior"].attrs.update({f"a{i}": float(v) for i, v in enumerate(Y)}),
    )


def _hidden_in_hdf5() -> None:
    h, m = "honest", "malice"
    _h5(h, "an array at the root", lambda f: f.create_dataset("pressure", data=Y))
    _h5(
        h,
        "a table at the root",
        lambda f: f.create_dataset(
            "table", data=np.array(list(zip(AGE, PRESSURE, strict=True)), [("age", "f8"), ("pressure", "f8")])
        ),
    )
    _h5(
        h,
        "a table with texts in a group",
        lambda f: f.create_dataset(
            "posterior/table",
            data=np.array(list(zip(PATIENT.astype("S8"), Y, strict=True)), [("who", "S8"), ("y", "f8")]),
        ),
    )
    _h5(h, "a nested group", lambda f: f.create_dataset("posterior/private/pressure", data=Y))
    _h5(h, "data groups of a nested study", lambda f: f.create_dataset("study/observed_data/pressure", data=Y))
    _h5(h, "an attribute of a nested group", lambda f: f.create_group("study/a").attrs.update(rows=ROWS))
    _add(h, "a group that was deleted", "nc", _deleted)
    _add(h, "a compressed group that was deleted", "nc", lambda folder: _deleted(folder, compression="gzip"))
    _h5(m, "lists of unequal lengths", lambda f: _ragged(f))
    _h5(m, "opaque bytes", lambda f: f.create_dataset("posterior/blob", data=np.void(Y.tobytes())))
    _h5(
        m,
        "an enumeration with names",
        lambda f: f.create_dataset(
            "posterior/who", data=np.arange(SIZE), dtype=h5py.enum_dtype({p: i for i, p in enumerate(PATIENT)}, "i4")
        ),
    )
    _h5(m, "a named type", lambda f: f.__setitem__("kinds", np.dtype([(p, "f4") for p in PATIENT])))
    _h5(m, "an array without chain and draw as an axis", lambda f: f.create_dataset("sample_stats/ages", data=AGE))
    _h5(
        m, "a link with a name", lambda f: f.__setitem__("posterior/ask " + EMAIL[0], h5py.SoftLink("/posterior/sigma"))
    )
    _h5(m, "the format's own attribute", lambda f: f["posterior"].attrs.update(_nc4_note=Y))

    def after(folder: Path) -> Path:
        path = write(groups(), folder / "fit.nc")
        path.write_bytes(path.read_bytes() + Y.tobytes())
        return path

    def before(folder: Path) -> Path:
        path = write(groups(), folder / "plain.nc")
        with h5py.File(path, "r") as old, h5py.File(folder / "fit.nc", "w", userblock_size=1024) as new:
            for key in old:
                old.copy(key, new)
        path.unlink()
        with (folder / "fit.nc").open("r+b") as file:
            file.write(Y.tobytes())
        return folder / "fit.nc"

    _add(m, "bytes after the end", "nc", after)
    _add(m, "bytes before the beginning", "nc", before)


def _deleted(folder: Path, **encoding: Any) -> Path:
    """Deleting an array leaves its numbers in the file."""
    data = xr.Dataset({"pressure": ("obs", Y)})
    data["pressure"].encoding.update(encoding)
    path = write({"observed_data": data, **groups()}, folder / "fit.nc")
    with h5py.File(path, "a") as file:
        del file["observed_data"]
    return path


def _ragged(file: h5py.File) -> None:
    made = file.create_dataset("posterior/lists", (10,), h5py.vlen_dtype("f8"))
    for i in range(10):
        made[i] = Y[8 * i : 8 * i + 8]


def _hidden_in_zarr() -> None:
    h, m = "honest", "malice"

    def stray(name: str, content: bytes, kind: str) -> None:
        def make(folder: Path) -> Path:
            path = write(groups(), folder / "fit.zarr")
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
            return path

        _add(kind, f"a file beside: {name}", "zarr", make)

    stray("patients.csv", "\n".join(f"{a},{p}" for a, p in TABLE).encode(), h)
    stray("notes.txt", b"ask Ann about patient P4711", h)
    stray("posterior/.ipynb_checkpoints/data.json", ROWS.encode(), h)
    stray("observed_data/pressure/c/0", Y.tobytes(), h)
    stray("posterior/sigma/c/7/9", Y.tobytes(), m)

    def nested(folder: Path) -> Path:
        import zarr

        path = write(groups(), folder / "fit.zarr")
        root = zarr.open_group(str(path), mode="a")
        root.require_group("posterior/private").create_array("pressure", data=Y)
        return path

    def at_root(folder: Path) -> Path:
        import zarr

        path = write(groups(), folder / "fit.zarr")
        zarr.open_group(str(path), mode="a").create_array("pressure", data=Y)
        return path

    def key(folder: Path) -> Path:
        path = write(groups(), folder / "fit.zarr")
        file = path / "posterior" / "zarr.json"
        file.write_text(
            json.dumps({**json.loads(file.read_text()), "rows": {"must_understand": False, "values": Y.tolist()}})
        )
        return path

    def stale(folder: Path) -> Path:
        made = groups()
        made["observed_data"] = xr.Dataset({"pressure": ("obs", Y)}, attrs={"rows": ROWS})
        path = write(made, folder / "fit.zarr", zarr_format=2, consolidated=True)
        shutil.rmtree(path / "observed_data")
        return path

    _add(h, "a nested group", "zarr", nested)
    _add(h, "an array at the root", "zarr", at_root)
    _add(m, "a key that zarr does not know", "zarr", key)
    _add(h, "copied metadata of a group that was deleted", "zarr", stale)


def _npz(kind: str, name: str, more: dict[str, Any], after: Callable[[Path], None] | None = None) -> None:
    def make(folder: Path) -> Path:
        path = folder / "fit.npz"
        np.savez(path, **DRAWS, **more)
        if after is not None:
            after(path)
        return path

    _add(kind, name, "npz", make)


def _hidden_in_npz() -> None:
    h, m = "honest", "malice"
    _npz(h, "the response, the same in all draws", {"used": constant(Y)})
    _npz(h, "linear predictors", {"mu": MEAN})
    _npz(h, "log densities", {"__log_density__": FULL})
    _npz(h, "log densities as lnprob", {"lnprob": FULL})
    _npz(h, "pointwise terms", {"log_lik": TERMS})
    _npz(h, "pointwise terms as terms", {"terms": TERMS})
    _npz(h, "names of patients", {"patients": PATIENT})
    _npz(
        h,
        "a table of records",
        {"table": np.array(list(zip(AGE, PRESSURE, strict=True)), [("age", "f8"), ("pressure", "f8")])},
    )
    _npz(h, "attributes with rows", {"__attributes__": np.array(json.dumps({"rows": ROWS}))})
    _npz(m, "attributes with a list", {"__attributes__": np.array(json.dumps({"rows": Y.tolist()}))})
    _npz(m, "complex numbers", {"z": constant(Y[:40] + 1j * Y[40:])})

    def comment(path: Path) -> None:
        with zipfile.ZipFile(path, "a") as archive:
            archive.comment = ROWS.encode()[:60_000]

    def trailing(path: Path) -> None:
        path.write_bytes(path.read_bytes() + Y.tobytes())

    def leading(path: Path) -> None:
        path.write_bytes(Y.tobytes() + path.read_bytes())

    def after_array(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            members = {n: archive.read(n) for n in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content + (Y.tobytes() if name == "sigma.npy" else b""))

    def member_comment(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            members = {n: archive.read(n) for n in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                info = zipfile.ZipInfo(name)
                info.comment = json.dumps(Y.tolist()).encode()
                archive.writestr(info, content)

    _npz(m, "comment of the archive", {}, comment)
    _npz(m, "bytes after the end", {}, trailing)
    _npz(m, "bytes before the beginning", {}, leading)
    _npz(m, "bytes after an array", {}, after_array)
    _npz(m, "comments of members", {}, member_comment)
    for name, values in {
        "standardised": STANDARD,
        "ranks": stats.rankdata(Y),
        "one-hot": ONE_HOT,
        "groups": CLINIC,
    }.items():
        _npz(h, f"the same in all draws: {name}", {"used": constant(values)})
    _npz(m, "a scalar that runs through the response", {"tau": cycle(Y)})


COMMENTS = (
    "stan_version_major = 2", "stan_version_minor = 35", "model = pressure_model", "start_datetime = 2026-05-01 10:11:12 UTC",
    "method = sample (Default)", "  sample", "    num_samples = 250", "    num_warmup = 250", "    save_warmup = false (Default)",
    "    thin = 1 (Default)", "    adapt", "      engaged = true (Default)", "    algorithm = hmc (Default)", "id = 1 (Default)",
)  # fmt: skip


def csv(
    folder: Path,
    more: dict[str, np.ndarray] | None = None,
    comments: tuple[str, ...] = COMMENTS,
    end: str = "",
    lp: bool = False,
) -> Path:
    """One chain as CmdStan writes it."""
    rng = np.random.default_rng(8)
    columns = {"lp__": FULL[0]} if lp else {}
    columns |= {"accept_stat__": rng.beta(8, 2, LENGTH), "stepsize__": np.full(LENGTH, 0.71283), "treedepth__": rng.integers(2, 4, LENGTH),
                "n_leapfrog__": rng.integers(3, 16, LENGTH), "divergent__": np.zeros(LENGTH)}  # fmt: skip
    columns |= {f"coef.{k + 1}": DRAWS["coef"][0, :, k] for k in range(2)} | {"sigma": DRAWS["sigma"][0]}
    for name, values in (more or {}).items():
        columns |= (
            {f"{name}.{k + 1}": values[0, :, k] for k in range(values.shape[2])}
            if values.ndim == 3
            else {name: values[0]}
        )
    path = folder / "fit.csv"
    lines = [f"# {c}" for c in comments] + [",".join(columns), "# Adaptation terminated"]
    lines += [",".join(f"{v:.8g}" for v in row) for row in np.column_stack(list(columns.values()))]
    path.write_text(
        "\n".join([*lines, "# ", "#  Elapsed Time: 0.1 seconds (Warm-up)", "#                0.2 seconds (Total)"])
        + "\n"
        + end
    )
    return path


def _hidden_in_csv() -> None:
    h, m = "honest", "malice"
    made = {
        "lp__": (h, {"lp": True}), "log_lik": (h, {"more": {"log_lik": TERMS}}), "mu": (h, {"more": {"mu": MEAN}}),
        "y_rep": (h, {"more": {"y_rep": MEAN + DRAWS["sigma"][..., None]}}), "transformed data": (h, {"more": {"x_std": constant(STANDARD)}}),
        "the response, the same in all draws": (h, {"more": {"used": constant(Y)}}), "terms": (h, {"more": {"ll": TERMS}}),
        "deviance": (h, {"more": {"dev": -2 * DENSITY}}), "residuals": (h, {"more": {"e": Y - MEAN}}), "one-hot": (h, {"more": {"g": constant(ONE_HOT[:, 0])}}),
        "rows in comments": (h, {"comments": (*COMMENTS, *(f"{a},{p}" for a, p in TABLE))}),
        "JSON in a comment": (h, {"comments": (*COMMENTS, ROWS)}), "an address in a comment": (h, {"comments": (*COMMENTS, f"contact {EMAIL[0]}")}),
        "a remark in a comment": (h, {"comments": (*COMMENTS, "without patient Muster, see mail")}),
        "base64 in a comment": (m, {"comments": (*COMMENTS, base64.b64encode(Y.tobytes()).decode())}),
        "rows after line 2,000": (m, {"end": "# \n" * 2000 + "".join(f"# {a},{p}\n" for a, p in TABLE)}),
        "a setting with a long value": (m, {"comments": (*COMMENTS, "id = " + "_".join(map(str, Y)))}),
        "a column that runs through the response": (m, {"more": {"tau": cycle(Y)}}),
        "names of columns": (m, {"more": {f"v{i}_{v:.1f}".replace(".", "p"): np.random.default_rng(i).normal(size=(CHAINS, LENGTH)) for i, v in enumerate(Y)}}),
    }  # fmt: skip
    for name, (kind, how) in made.items():
        _add(kind, name, "csv", lambda folder, how=how: csv(folder, **how))

    def two_columns(folder: Path) -> Path:
        path = folder / "fit.csv"
        path.write_text("age,pressure\n" + "\n".join(f"{a},{p}" for a, p in TABLE) + "\n")
        return path

    _add(h, "a table of patients", "csv", two_columns)


def _harmless() -> None:
    k = "harmless"
    rng = np.random.default_rng(9)
    effect = rng.normal(size=(CHAINS, LENGTH, 50))
    states = [
        f"{a}{b}"
        for a in ("North ", "South ", "East ", "West ", "New ")
        for b in ("Ava", "Bera", "Cory", "Dana", "Elm", "Fara", "Gil", "Hoy", "Ista", "Jura")
    ]
    _with(k, "nothing", lambda g: None, CONTAINERS)
    _with(
        k,
        "names of coefficients",
        lambda g: g.update(posterior=g["posterior"].assign_coords(term=["Intercept", "age"])),
        CONTAINERS,
    )
    _with(k, "50 states", lambda g: put(g, "posterior", "state_effect", effect, ("state",), states))
    _with(k, "arms", lambda g: put(g, "posterior", "arm_effect", effect[..., :2], ("arm",), ["control", "treatment"]))
    _with(
        k,
        "years",
        lambda g: put(g, "posterior", "year_effect", effect[..., :6], ("year",), [2001, 2003, 2004, 2007, 2011, 2020]),
    )
    _with(
        k,
        "consecutive years",
        lambda g: put(g, "posterior", "year_effect", effect[..., :9], ("year",), range(2010, 2019)),
    )
    _with(k, "doses", lambda g: put(g, "posterior", "dose_effect", effect[..., :4], ("dose",), [0.0, 5.0, 10.0, 50.0]))
    _with(
        k,
        "levels of quantiles",
        lambda g: put(g, "posterior", "q", np.sort(effect[..., :3], -1), ("quantile",), [0.025, 0.5, 0.975]),
    )
    _with(
        k, "knots", lambda g: put(g, "posterior", "spline", effect[..., :5], ("knot",), [20.0, 35.0, 50.0, 65.0, 80.0])
    )
    _with(k, "knots as an attribute", lambda g: g["posterior"].attrs.update(knots=[20.0, 35.0, 50.0, 65.0, 80.0]))
    _with(k, "prior scales as an attribute", lambda g: g["posterior"].attrs.update(prior_sd=[10, 10, 5, 2]), CONTAINERS)
    _with(k, "a prior scale", lambda g: g.update(constant_data=xr.Dataset({"prior_sd": 10.0})), CONTAINERS)
    _with(
        k,
        "prior scales as constants",
        lambda g: g.update(constant_data=xr.Dataset({"prior_sd": ("term", [10.0, 2.5])})),
    )
    _with(
        k,
        "a grid as a constant",
        lambda g: g.update(constant_data=xr.Dataset({"grid": ("point", np.linspace(20, 80, 61))})),
    )
    _with(k, "an identity matrix", lambda g: put(g, "posterior", "eye", constant(np.eye(3))))
    _with(
        k,
        "an identity matrix as a constant",
        lambda g: g.update(constant_data=xr.Dataset({"eye": (("a", "b"), np.eye(4))})),
    )
    _with(k, "units", lambda g: g["posterior"]["sigma"].attrs.update(units="mmHg"), CONTAINERS)
    _with(k, "a long name", lambda g: g["posterior"]["sigma"].attrs.update(long_name="residual scale"))
    _with(k, "a name of the model", lambda g: g["posterior"].attrs.update(model_name="linear regression"))
    _with(k, "a title", lambda g: {"title": "A linear regression"})
    _with(k, "a licence", lambda g: {"license": "CC-BY-4.0"})
    _with(k, "conventions", lambda g: {"Conventions": "CF-1.8"})
    _with(k, "a description", lambda g: {"description": "Posterior draws of a regression of blood pressure on age."})
    _with(k, "tuning steps", lambda g: g["sample_stats"].attrs.update(tuning_steps=1000, sampling_time=12.5))
    _with(k, "thinned draws", lambda g: g.update(posterior=g["posterior"].assign_coords(draw=np.arange(LENGTH) * 4)))
    _with(k, "chains from one", lambda g: g.update(posterior=g["posterior"].assign_coords(chain=[1, 2])))
    grid = np.linspace(20, 80, 25)
    line = DRAWS["coef"][..., :1] + DRAWS["coef"][..., 1:] * grid
    _with(k, "predictions on a grid", lambda g: put(g, "posterior", "curve", line, ("point",), grid))
    _with(k, "predictions on a grid without labels", lambda g: put(g, "posterior", "curve", line))
    _with(
        k,
        "predictions for two ages",
        lambda g: put(g, "posterior", "at", line[..., [5, 15]], ("who",), ["young", "old"]),
    )
    _with(k, "a contrast", lambda g: put(g, "posterior", "difference", DRAWS["coef"][..., 1] - DRAWS["coef"][..., 0]))
    _with(k, "a logarithm", lambda g: put(g, "posterior", "log_sigma", np.log(DRAWS["sigma"])))
    _with(k, "a variance", lambda g: put(g, "posterior", "variance", DRAWS["sigma"] ** 2))
    _with(k, "an odds ratio", lambda g: put(g, "posterior", "ratio", np.exp(DRAWS["coef"][..., 1])))
    _with(k, "a precision", lambda g: put(g, "posterior", "precision", 1 / DRAWS["sigma"] ** 2))
    z, tau = effect[..., :6], np.exp(effect[..., 10])
    _with(
        k,
        "centred effects",
        lambda g: (
            (
                put(g, "posterior", "tau", tau),
                put(g, "posterior", "z", z),
                put(g, "posterior", "a", DRAWS["coef"][..., :1] + tau[..., None] * z),
            )
            and None
        ),
    )
    share = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    _with(k, "a simplex", lambda g: put(g, "posterior", "share", share))
    _with(k, "effects that sum to zero", lambda g: put(g, "posterior", "zero", z - z.mean(-1, keepdims=True)))
    _with(
        k,
        "cumulative sums",
        lambda g: (put(g, "posterior", "steps", z), put(g, "posterior", "walk", np.cumsum(z, -1))) and None,
    )
    r = np.tanh(effect[..., 20])
    correlation = np.stack([np.stack([r * 0 + 1, r], -1), np.stack([r, r * 0 + 1], -1)], -2)
    _with(k, "a correlation matrix", lambda g: put(g, "posterior", "corr", correlation))
    _with(k, "statistics of PyMC", lambda g: [put(g, "sample_stats", n, v) for n, v in {
        "n_steps": rng.integers(1, 63, (CHAINS, LENGTH)).astype(float), "energy_error": rng.normal(size=(CHAINS, LENGTH)), "perf_counter_start": np.cumsum(rng.random((CHAINS, LENGTH)), 1),
        "perf_counter_diff": rng.random((CHAINS, LENGTH)) / 99, "process_time_diff": rng.random((CHAINS, LENGTH)) / 99, "reached_max_treedepth": np.zeros((CHAINS, LENGTH), bool),
        "index_in_trajectory": rng.integers(-9, 9, (CHAINS, LENGTH)), "largest_eigval": np.full((CHAINS, LENGTH), np.nan), "step_size_bar": np.repeat([[0.7], [0.8]], LENGTH, 1)}.items()] and None)  # fmt: skip
    varied = 0.6 * (1 + 0.1 * np.random.default_rng(10).uniform(-1, 1, (CHAINS, LENGTH)))
    unseen = np.full((CHAINS, LENGTH, 3), np.nan)
    _with(k, "statistics of nutpie", lambda g: [
        g.update(sample_stats=g["sample_stats"].drop_vars("step_size")),
        *(put(g, "sample_stats", n, v) for n, v in {
            "step_size": varied, "step_size_bar": np.full((CHAINS, LENGTH), 0.6), "depth": np.full((CHAINS, LENGTH), 3),
            "divergence_start": unseen, "divergence_end": unseen, "tuning": np.zeros((CHAINS, LENGTH), bool)}.items())] and None)  # fmt: skip
    _with(
        k,
        "prior draws",
        lambda g: (
            (
                put(g, "prior", "sigma", rng.gamma(2, size=(CHAINS, LENGTH))),
                put(g, "prior", "coef", rng.normal(size=(CHAINS, LENGTH, 2))),
            )
            and None
        ),
    )
    _with(
        k,
        "two packed arrays",
        lambda g: g["posterior"]["sigma"].encoding.update(dtype="f4", _FillValue=-999.0),
        CONTAINERS,
    )
    _npz(k, "nothing", {})
    _npz(k, "attributes", {"__attributes__": np.array(json.dumps({"units": "mmHg", "license": "MIT"}))})
    _npz(k, "a logarithm", {"log_sigma": np.log(DRAWS["sigma"])})
    _npz(k, "a simplex", {"share": share})
    _npz(k, "group effects", {"a": effect})
    for name, how in {
        "nothing": {}, "without comments": {"comments": ()}, "a contrast": {"more": {"d": DRAWS["coef"][..., 1] - DRAWS["coef"][..., 0]}},
        "group effects": {"more": {"a": effect}}, "a variance": {"more": {"v": DRAWS["sigma"] ** 2}}, "a simplex": {"more": {"share": share}},
        "the mass matrix": {"comments": (*COMMENTS, "Adaptation terminated", "Step size = 0.71283", "Diagonal elements of inverse mass matrix:", "1.2, 0.3, 0.01")},
        "an odds ratio": {"more": {"r": np.exp(DRAWS["coef"][..., 1])}},
    }.items():  # fmt: skip
        _add(k, name, "csv", lambda folder, how=how: csv(folder, **how))


_hidden_in_groups()
_hidden_in_attributes()
_hidden_in_hdf5()
_hidden_in_zarr()
_hidden_in_npz()
_hidden_in_csv()
_harmless()
