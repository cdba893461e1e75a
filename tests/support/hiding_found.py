"""More files of the same regression, made by somebody who tried what the audit was not made for.

Their makers are those of `hiding`; formats that hold more than one fit's groups are added: JSON of samples, and tables
with more than draws in them.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from tests.support.hiding import (
    AGE,
    CHAINS,
    CLINIC,
    CLINICS,
    DENSITY,
    DRAW,
    DRAWS,
    LENGTH,
    MEAN,
    PATIENT,
    PRESSURE,
    SIZE,
    TERMS,
    File,
    Groups,
    groups,
    write,
)

_RNG = np.random.default_rng(5)
_SHAPE = (CHAINS, LENGTH)
_SLOPE, _SIGMA = DRAWS["coef"][..., 1], DRAWS["sigma"]
_RESIDUALS = PRESSURE - MEAN
_FITTED = MEAN.mean(axis=(0, 1))
_ELPD = np.log(np.exp(TERMS).mean(axis=(0, 1)))
_TRIANGLE = np.linalg.qr(np.column_stack([np.ones(SIZE), AGE]))[1] / np.sqrt(SIZE - 1)

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

FOUND: list[File] = []


def _add(kind: str, form: str, name: str, make: Callable[[Path], Path]) -> None:
    FOUND.append(File(name, kind, form, make))


def _nc(kind: str, name: str, change: Callable[[Groups], Any]) -> None:
    def make(folder: Path) -> Path:
        made = groups()
        return write(made, folder / "fit.nc", change(made))

    _add(kind, "nc", name, make)


def _constants(group: str, **arrays: Any) -> Callable[[Groups], None]:
    import xarray as xr

    def change(made: Groups) -> None:
        axes = {k: tuple(f"{k}_dim_{i}" for i in range(np.ndim(v))) for k, v in arrays.items()}
        made[group] = xr.Dataset({k: (axes[k], np.asarray(v)) for k, v in arrays.items()})

    return change


def _drawn(**arrays: Any) -> Callable[[Groups], None]:
    def change(made: Groups) -> None:
        for k, v in arrays.items():
            made["posterior"][k] = ((*DRAW, *(f"{k}_dim_{i}" for i in range(np.ndim(v) - 2))), v)

    return change


def _effects(name: str, labels: list[Any]) -> Callable[[Groups], None]:
    """Effects of an axis with labels."""

    def change(made: Groups) -> None:
        effects = np.random.default_rng(6).normal(size=(*_SHAPE, len(labels)))
        made["posterior"] = made["posterior"].assign_coords({name: labels}).assign(u=((*DRAW, name), effects))

    return change


def _curve(made: Groups) -> None:
    ages = np.arange(20, 90, 10)
    curve = DRAWS["coef"][..., :1] + DRAWS["coef"][..., 1:] * ages
    made["posterior"] = made["posterior"].assign_coords(age_grid=ages).assign(curve=((*DRAW, "age_grid"), curve))


def _json(name: str, **more: Any) -> None:
    def make(folder: Path) -> Path:
        path = folder / "fit.json"
        path.write_text(json.dumps({"coef": DRAWS["coef"].tolist(), "sigma": _SIGMA.tolist(), **more}))
        return path

    _add("harmless" if name == "nothing" else "honest", "json", name, make)


def _npz(name: str, **more: Any) -> None:
    def make(folder: Path) -> Path:
        np.savez(folder / "fit.npz", **DRAWS, **more)
        return folder / "fit.npz"

    _add("honest", "npz", name, make)


def _table(name: str, beside: bool) -> None:
    """A sheet in which the data stand to the right of the draws, or below them."""

    def make(folder: Path) -> Path:
        columns = [DENSITY.ravel(), *DRAWS["coef"].reshape(-1, 2).T, _SIGMA.ravel()]
        draws = [",".join(repr(float(v)) for v in row) for row in zip(*columns, strict=True)]
        records = [f"{age},{pressure}" for age, pressure in zip(AGE, PRESSURE, strict=True)]
        header = "lp__,coef.1,coef.2,sigma"
        if beside:
            cells = [*records, *([","] * (len(draws) - SIZE))]
            lines = [f"{header},age,pressure", *(f"{d},{r}" for d, r in zip(draws, cells, strict=True))]
        else:
            lines = [header, *draws, "age,pressure", *records]
        (folder / "fit.csv").write_text("\n".join(lines) + "\n")
        return folder / "fit.csv"

    _add("honest", "csv", name, make)


def _mistakes() -> None:
    _nc("honest", "values of loo and pareto k", _constants("loo", loo_i=_ELPD, pareto_k=_RNG.uniform(-0.2, 0.4, SIZE)))
    _nc("honest", "fitted means as constant data", _constants("constant_data", fitted=_FITTED))
    _nc("honest", "residuals at the mean", _constants("constant_data", residual=PRESSURE - _FITTED))
    limits = {"lower": _FITTED - 18, "upper": _FITTED + 18}
    _nc("honest", "intervals of predictions", _constants("predictions_constant_data", **limits))
    _nc("honest", "survey weights", _constants("constant_data", weight=np.round(_RNG.gamma(4, 0.25, SIZE), 3)))
    _nc("honest", "R of the design", _constants("constant_data", R=_TRIANGLE))
    inverse = np.broadcast_to(np.linalg.inv(_TRIANGLE), (*_SHAPE, 2, 2))
    _nc("honest", "the inverse of R, in all draws", _drawn(R_inverse=inverse))
    _nc("honest", "distances of records", _constants("constant_data", distance=np.abs(AGE[:, None] - AGE)))
    bumps = np.exp(-(((AGE[:, None] - np.linspace(20, 90, 6)) / 15) ** 2))
    _nc("honest", "a spline basis", _constants("constant_data", basis=bumps / bumps.sum(axis=1, keepdims=True)))
    by_clinic = np.array([_ELPD[c == CLINIC].mean() for c in range(CLINICS)])
    _nc("honest", "log scores of clinics", _constants("diagnostics", elpd=by_clinic))
    _nc("honest", "effects by patient number", _effects("patient", [1003, 1017, 1101, 1144, 1190, 1213, 1288, 1302]))
    _nc("honest", "imputed values", _drawn(age_missing=AGE[:5] + _RNG.normal(0, 3, (*_SHAPE, 5))))
    _nc("honest", "chi square of the data", _drawn(chi_square=(_RESIDUALS**2).sum(-1) / _SIGMA**2))
    _nc("honest", "the largest residual", _drawn(largest=np.abs(_RESIDUALS).max(-1)))
    _nc("honest", "Bayesian R squared", _drawn(r2=MEAN.var(-1) / (MEAN.var(-1) + _SIGMA**2)))
    _nc("honest", "the mean prediction", _drawn(mean_prediction=MEAN.mean(-1)))
    means = np.stack([MEAN[..., c == CLINIC].mean(-1) for c in range(CLINICS)], axis=-1)
    _nc("honest", "mean predictions of clinics", _drawn(clinic_mean=means))
    _nc("honest", "probabilities", _drawn(p_high=stats.norm.sf(130, MEAN, _SIGMA[..., None])))
    _nc("honest", "ranks of predictions", _drawn(rank=MEAN.argsort(axis=-1).argsort(axis=-1)))
    _nc("honest", "sums of squares", _drawn(sse=(_RESIDUALS**2).sum(-1)))
    _nc("honest", "what standardised a covariate", lambda made: {"age_mean": AGE.mean(), "age_sd": AGE.std(ddof=1)})
    digest = hashlib.sha256(PRESSURE.tobytes()).hexdigest()
    _nc("honest", "a digest of the data", lambda made: {"data_sha256": digest})
    _json("nothing")
    _json("data beside", data={"age": AGE.tolist(), "pressure": PRESSURE.tolist()})
    _json("patients", patients=PATIENT.tolist())
    _npz("the design", X=np.column_stack([np.ones(SIZE), AGE]))
    _npz("rows of the training set", train=np.sort(_RNG.permutation(400)[:SIZE]))
    _table("data beside the draws", beside=True)
    _table("data below the draws", beside=False)


def _harmless() -> None:
    _nc("harmless", "split R-hat", _constants("diagnostics", rhat=[1.0003, 1.0011, 0.9998], ess=[812.3, 901.2, 655.4]))
    _nc("harmless", "a seed", lambda made: {"random_seed": 42})
    _nc("harmless", "an effect size", _drawn(d=_SLOPE / _SIGMA))
    _nc("harmless", "whether a slope is large", _drawn(large=(_SLOPE > 0.45).astype(int)))
    _nc("harmless", "another unit", _drawn(per_decade=10 * _SLOPE))
    _nc(
        "harmless",
        "months",
        _effects("month", _MONTHS),
    )
    _nc("harmless", "a citation", lambda made: {"doi": "10.1000/xyz123", "institution": "University of Bern"})
    _nc("harmless", "a curve", _curve)
    _nc("harmless", "counts of the run", lambda made: {"num_chains": 2, "num_samples": 250, "num_warmup": 500})
    _nc("harmless", "a time", lambda made: {"sampling_time": 12.37})


_mistakes()
_harmless()
