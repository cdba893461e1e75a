"""`bayesrecon fit`: draws and nothing of the data, which `recover` reads."""

import json
import sys
from pathlib import Path

import h5netcdf
import numpy as np
import pandas as pd
import pytest
from command import PROGRAM, QUICK, document, one_line, statistics

from bayesrecon.auditing.accounts.texts import is_known
from bayesrecon.posteriors import from_draws
from bayesrecon.posteriors.fitting.nuts import convergence


def regression_draws(data, shape, rng):
    """Exact draws of the line, but for the scale's prior."""
    design, y = np.column_stack([np.ones(len(data["height"])), data["height"]]), data["weight"]
    mean, (residual,), _, _ = np.linalg.lstsq(design, y)
    sigma = np.sqrt(residual / 2 / rng.gamma((len(y) - 2) / 2, size=shape))
    root = np.linalg.inv(np.linalg.cholesky(design.T @ design))
    line = mean + sigma[..., None] * (rng.normal(size=(*shape, 2)) @ root)
    return {"alpha": line[..., 0], "beta": line[..., 1:], "sigma": sigma}


def mean_draws(data, shape, rng):
    precision = len(data["y"]) + 0.01
    return {"mu": rng.normal(np.sum(data["y"]) / precision, precision**-0.5, shape)}


def scale_draws(data, shape, rng):
    return {"s": np.sqrt(np.sum(np.square(data["y"])) / 2 / rng.gamma(len(data["y"]) / 2, size=shape))}


@pytest.fixture(params=["exact draws", pytest.param("NUTS", marks=pytest.mark.slow)])
def sampler(request, monkeypatch):
    """NUTS, and exact draws in its place, as it takes seconds to compile."""

    def sample(model, data, *, key, chains, draws, **_):
        drawn = {"linear_regression": regression_draws, "own": mean_draws, "scale": scale_draws}[model.name]
        release = from_draws(drawn(data, (chains, draws), np.random.default_rng(key)), model)
        return release, convergence(release)

    if request.param != "NUTS":
        monkeypatch.setattr(sys.modules["bayesrecon.posteriors.fitting.nuts"], "sample", sample)


def test_fit_then_recover(run, sampler, tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame({"height": rng.normal(size=80), "weight": rng.normal(size=80)}).to_csv("people.csv", index=False)
    outcome = run("fit", "linear_regression", "people.csv", "-o", "fit.nc", "--response", "weight", *QUICK)
    assert outcome.code == 0
    assert "NUTS on linear_regression: 80 records, 3 parameters, 2 chains" in outcome.err
    assert "bayesrecon recover fit.nc" in outcome.err
    assert "NUTS" not in outcome.out
    for word in ("alpha", "beta[1]", "sigma", "R-hat", "200 draws"):
        assert word in outcome.out
    shown = next(line for line in outcome.out.splitlines() if "sigma" in line).split("│")
    with h5netcdf.File("fit.nc", "r") as file:  # draws and nothing of the data
        assert (list(file.groups), list(file.variables)) == (["posterior"], [])
        assert set(file["posterior"].variables) == {"alpha", "beta", "sigma", "chain", "draw"}
        assert file["posterior"].attrs["bayesrecon_model"] == "linear_regression"
        attributes = dict(file["posterior"].attrs)
        assert "bayesrecon_seed" not in attributes  # whoever guesses the data could draw again, and compare
        assert all(is_known(name, value) for name, value in attributes.items()), attributes  # by an audit
        assert float(shown[2]) == pytest.approx(np.mean(file["posterior/sigma"]), rel=1e-4)  # not its logarithm
    found = document(run("recover", "fit.nc", "--json"))
    assert (found["release"], found["model"], found["draws"]) == ("fit", "linear_regression", 200)
    rows = statistics(found)
    assert abs(rows["n"]["estimate"] - 80) < 5 * rows["n"]["se"]
    assert {"mean(height)", "mean(weight)", "cov(height,weight)"} < set(rows)
    named = document(run("recover", "fit.nc", "--model", "linear_regression", "--json"))
    assert statistics(named).keys() == rows.keys()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.nc", "people.csv"]


def test_a_stan_program_is_fitted(run, sampler, tmp_path):
    text = "data { int N; vector[N] y; } parameters { real<lower=0> s; } model { y ~ normal(0, s); }"
    (tmp_path / "scale.stan").write_text(text)
    (tmp_path / "data.json").write_text(json.dumps({"N": 50, "y": np.random.default_rng(0).normal(0, 3, 50).tolist()}))
    outcome = run("fit", "scale.stan", "data.json", "-o", "fit.nc", *QUICK)
    assert outcome.code == 0
    shown = next(line for line in outcome.out.splitlines() if line.startswith("│ s")).split("│")
    with h5netcdf.File("fit.nc", "r") as file:
        assert float(shown[2]) == pytest.approx(np.mean(file["posterior/s"]), rel=1e-4)


@pytest.mark.slow
def test_fit_and_recover_with_a_program_of_ones_own(run, sampler):
    Path("own.py").write_text(PROGRAM)
    pd.DataFrame({"y": np.random.default_rng(0).normal(3, 1, 50)}).to_csv("data.csv", index=False)
    found = document(run("fit", "own.py:make", "data.csv", "-o", "fit.nc", *QUICK, "--json"))
    assert (found["model"], found["draws"], found["out"]) == ("own", 200, "fit.nc")
    assert [row["name"] for row in found["parameters"]] == ["mu"]
    one_line(run("recover", "fit.nc", "--json"), "no shipped model 'own'.*file.py:function")
    rows = statistics(document(run("recover", "fit.nc", "--model", "own.py:make", "--json")))
    assert abs(rows["n"]["estimate"] - 50) < 5 * rows["n"]["se"]
    assert rows["var(y)"]["verdict"] == "undetermined"
    one_line(run("recover", "fit.nc", "--model", "own.py:make", "--settings", '{"size": 1}'), r"make\(\) failed.*size")
