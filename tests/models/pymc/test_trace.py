"""A trace as a user has it: sampled by PyMC, kept as a file, with its model in a file beside it."""

import json

import numpy as np
import pytest

pm = pytest.importorskip("pymc", reason="PyMC is not installed: pip install 'bayesrecon[pymc]'")

import bayesrecon  # noqa: E402
from bayesrecon.models import model_of  # noqa: E402

OWN = """
import numpy as np, pymc as pm

rng = np.random.default_rng(0)
age, clinic = rng.normal(50, 12, 300), rng.integers(0, 6, 300)
pressure = 90 + 0.7 * age + rng.normal(0, 4, 6)[clinic] + rng.normal(0, 8, 300)
with pm.Model(coords={"clinic": list("ABCDEF")}) as model:
    effect = pm.Normal("effect", 100, 50, dims="clinic")
    slope, sigma = pm.Normal("slope", 0, 5), pm.HalfNormal("sigma", 20)
    pm.Normal("pressure", effect[clinic] + slope * pm.Data("age", age), sigma, observed=pressure)


def make():
    return model
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def own(folder):
    (folder / "own.py").write_text(OWN)
    found = {}
    exec(OWN, found)
    return found


@pytest.fixture(scope="module", params=["pymc", "numpyro"])
def trace(request, own, folder):
    """By both samplers: NumPyro's calls the potential energy `lp`."""
    settings = {"tune": 400, "chains": 2, "random_seed": 1, "progressbar": False, "compute_convergence_checks": False}
    more = {"nuts_sampler": "numpyro"} if request.param == "numpyro" else {"cores": 1}
    with own["model"]:
        found = pm.sample(400, **settings, **more)
    found.to_netcdf(folder / f"{request.param}.nc")
    return found, folder / f"{request.param}.nc"


@pytest.mark.filterwarnings("ignore")  # PyMC's, ArviZ's and Numba's own
def test_a_trace_and_its_model(own, trace, run, folder):
    found, path = trace
    recovery = bayesrecon.recover(found, model=own["model"])
    assert recovery["n"].verdict == "determined"
    truth = {"n": 300, "mean(age)": own["age"].mean(), "mean(pressure)": own["pressure"].mean()}
    for name, true in truth.items():
        assert abs(recovery[name].estimate - true) < 4 * recovery[name].se
    densities = [f for f in bayesrecon.audit(found, own["model"], remedies=False) if f.kind == "log-density"]
    assert "n = 300 ± " in densities[0].summary
    for name in ("model", "make"):
        outcome = run("recover", str(path), "--model", f"{folder / 'own.py'}:{name}", "--json")
        rows = json.loads(outcome.out)["statistics"]
        assert {r["name"]: r["estimate"] for r in rows}["n"] == pytest.approx(recovery["n"].estimate, rel=1e-9)
    outcome = run("audit", str(path), "--model", f"{folder / 'own.py'}:model", "--no-remedies", "--json")
    findings = {f["kind"]: f for f in json.loads(outcome.out)["findings"]}
    assert "n = 300 ± " in findings["log-density"]["summary"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("formula", "family", "fields"),
    [
        ("y ~ x + w", "gaussian", {"x": "real", "w": "real", "y": "real"}),
        ("y ~ x + g", "gaussian", {"x": "real", "g": "levels", "y": "real"}),
        ("y ~ x + (x|g)", "gaussian", {"x": "real", "g": "levels", "y": "real"}),
        ("z ~ x", "bernoulli", {"x": "real", "z": "levels"}),
        ("c ~ x*w", "negativebinomial", {"x": "real", "w": "real", "x:w": "real", "c": "integer"}),
    ],
)
def test_bambi_models_have_the_fields_of_their_formula(formula, family, fields):
    bmb, pd = pytest.importorskip("bambi", reason="Bambi is not installed"), pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    columns = {k: rng.normal(3, 2, size=80) for k in ("x", "w", "y")}
    data = pd.DataFrame(
        {**columns, "g": rng.choice(list("abcd"), 80), "z": rng.integers(0, 2, 80), "c": rng.poisson(3, 80)}
    )
    built = bmb.Model(formula, data, family=family)
    built.build()
    assert {k: f.domain.kind for k, f in model_of(built).fields.items()} == fields


@pytest.mark.filterwarnings("ignore")
def test_a_bambi_fit():
    """Its draws are of predictors as they are, though it samples with centred ones."""
    bmb, pd = pytest.importorskip("bambi", reason="Bambi is not installed"), pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = rng.normal(30, 4, size=200)
    data = pd.DataFrame({"x": x, "y": 5 + 0.5 * x + rng.normal(size=200)})
    built = bmb.Model("y ~ x", data)
    fit = built.fit(draws=1000, tune=400, chains=2, cores=1, random_seed=1, progressbar=False)
    found = bayesrecon.recover(fit, model=built)
    truth = {"n": 200, "mean(x)": data.x.mean(), "mean(y)": data.y.mean(), "var(x)": data.x.var(ddof=0)}
    for name, true in truth.items():
        assert found[name].verdict == "determined"
        assert abs(found[name].estimate - true) < 4 * found[name].se
