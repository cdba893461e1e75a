"""Saved objects as people make them: models of the usual libraries fitted to a table of 83 made-up people.

    python tests/support/saving.py FOLDER

writes all of them whose library is installed, with `data.csv` beside them, and prints those that are missing. It loads
nothing of this package, so that another environment can run it.
"""

import importlib.util
import json
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

COUNT = 83


def people() -> pd.DataFrame:
    """Ages, measurements, cities and outcomes of people who do not exist."""
    rng = np.random.default_rng(2024)
    found = pd.DataFrame(
        {
            "person": [f"P{4711 + 17 * i:05d}" for i in range(COUNT)],
            "age": rng.normal(47, 12, COUNT).round(1),
            "bmi": rng.normal(26, 4, COUNT).round(2),
            "dose": rng.gamma(3, 2, COUNT).round(3),
            "smoker": rng.integers(0, 2, COUNT),
            "city": rng.choice(["Bern", "Basel", "Chur", "Genf", "Zug"], COUNT),
        }
    )
    score = 0.05 * (found.age - 47) + 0.1 * (found.bmi - 26) - 0.2 * found.smoker
    found["y"] = (3 + score + rng.normal(0, 0.7, COUNT)).round(3)
    found["z"] = (score + rng.logistic(0, 1, COUNT) > 0).astype(int)
    found["k"] = rng.poisson(np.exp(0.4 + 0.3 * score))
    found["t"] = rng.exponential(5 * np.exp(-0.2 * score)).round(2) + 0.01
    return found


DATA = people()
X = DATA[["age", "bmi", "dose", "smoker"]]
Y, Z, K = DATA["y"], DATA["z"], DATA["k"]

Writer = Callable[[Path], None]
OBJECTS: dict[str, tuple[str, str, Callable[[], Any]]] = {}
"""File name -> library, how it is written, and what makes the object."""


def saved(name: str, library: str, how: str = "pickle") -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Adds one object."""

    def add(make: Callable[[], Any]) -> Callable[[], Any]:
        OBJECTS[name] = (library, how, make)
        return make

    return add


def write(value: Any, path: Path, how: str) -> None:
    """Save an object as its users do."""
    if how.startswith("pickle"):
        protocol = int(how[6:] or pickle.DEFAULT_PROTOCOL)
        path.write_bytes(pickle.dumps(value, protocol))
    elif how.startswith("joblib"):
        import joblib

        joblib.dump(value, path, compress={"": 0, "3": 3}.get(how[6:], (how[6:], 3)))
    elif how == "skops":
        import skops.io

        skops.io.dump(value, path)
    elif how.startswith("torch"):
        import torch

        torch.save(value, path, _use_new_zipfile_serialization=how == "torch")
    elif how == "safetensors":
        from safetensors.numpy import save_file

        arrays, about = value
        save_file(arrays, path, metadata=about)
    elif how == "onnx":
        from skl2onnx import to_onnx

        path.write_bytes(to_onnx(value, X.to_numpy(np.float32)[:1]).SerializeToString())
    elif how == "own":
        value(path)
    else:
        raise ValueError(how)


def simple(name: str, module: str, kind: str, target: str | None = None, how: str = "pickle", **options: Any) -> None:
    """An estimator of scikit-learn, fitted to the table of measurements."""

    def make() -> Any:
        estimator = getattr(importlib.import_module(f"sklearn.{module}"), kind)(**options)
        return estimator.fit(X) if target is None else estimator.fit(X, DATA[target])

    OBJECTS[name] = ("sklearn", how, make)


for _name, _module, _kind, _target, _how, _options in (
    ("linear.pkl", "linear_model", "LinearRegression", "y", "pickle", {}),
    ("ridge.joblib", "linear_model", "Ridge", "y", "joblib", {"alpha": 2.0}),
    ("lasso.pkl", "linear_model", "Lasso", "y", "pickle2", {"alpha": 0.01}),
    ("elastic.pkl", "linear_model", "ElasticNetCV", "y", "pickle", {}),
    ("ridge_cv.pkl", "linear_model", "RidgeCV", "y", "pickle", {}),
    ("bayesian_ridge.pkl", "linear_model", "BayesianRidge", "y", "pickle", {}),
    ("logistic.pkl", "linear_model", "LogisticRegression", "z", "pickle0", {"max_iter": 5000}),
    ("logistic_cities.pkl", "linear_model", "LogisticRegression", "city", "pickle", {"max_iter": 5000}),
    ("linear_svc.pkl", "svm", "LinearSVC", "z", "pickle1", {"max_iter": 100_000}),
    ("svc.joblib", "svm", "SVC", "z", "joblib3", {}),
    ("svr.pkl", "svm", "SVR", "y", "pickle", {}),
    ("one_class.pkl", "svm", "OneClassSVM", None, "pickle", {}),
    ("neighbours.joblib", "neighbors", "KNeighborsClassifier", "z", "joblib", {}),
    ("neighbours_regression.pkl", "neighbors", "KNeighborsRegressor", "y", "pickle5", {"algorithm": "brute"}),
    ("radius.pkl", "neighbors", "RadiusNeighborsRegressor", "y", "pickle", {"radius": 50.0}),
    ("outliers.pkl", "neighbors", "LocalOutlierFactor", None, "pickle", {"novelty": True}),
    ("density.pkl", "neighbors", "KernelDensity", None, "pickle", {}),
    ("centroids.pkl", "neighbors", "NearestCentroid", "z", "pickle", {}),
    ("gaussian_process.pkl", "gaussian_process", "GaussianProcessRegressor", "y", "pickle", {"alpha": 0.5}),
    ("gaussian_process_class.pkl", "gaussian_process", "GaussianProcessClassifier", "z", "pickle", {}),
    ("kernel_ridge.joblib", "kernel_ridge", "KernelRidge", "y", "joblibgzip", {"kernel": "rbf"}),
    ("isolation.joblib", "ensemble", "IsolationForest", None, "joblibxz", {"n_estimators": 5, "random_state": 0}),
    ("tree.pkl", "tree", "DecisionTreeRegressor", "y", "pickle", {}),
    ("tree_class.pkl", "tree", "DecisionTreeClassifier", "z", "pickle", {"max_depth": 3}),
    ("forest.joblib", "ensemble", "RandomForestRegressor", "y", "joblib3", {"n_estimators": 5, "random_state": 1}),
    ("boosting.pkl", "ensemble", "GradientBoostingClassifier", "z", "pickle", {"n_estimators": 5}),
    ("hist_boosting.pkl", "ensemble", "HistGradientBoostingRegressor", "y", "pickle", {"max_iter": 5}),
    (
        "perceptron.pkl",
        "neural_network",
        "MLPRegressor",
        "y",
        "pickle",
        {"max_iter": 3000, "random_state": 0, "tol": 1},
    ),
    ("bayes.pkl", "naive_bayes", "GaussianNB", "z", "pickle", {}),
    ("discriminant.pkl", "discriminant_analysis", "LinearDiscriminantAnalysis", "z", "pickle", {}),
    ("means.pkl", "cluster", "KMeans", None, "pickle", {"n_clusters": 3, "random_state": 0}),
    ("dbscan.pkl", "cluster", "DBSCAN", None, "pickle", {"eps": 8.0}),
    ("mixture.pkl", "mixture", "GaussianMixture", None, "pickle", {"random_state": 0}),
    ("components.pkl", "decomposition", "PCA", None, "pickle", {"n_components": 2}),
    ("kernel_components.pkl", "decomposition", "KernelPCA", None, "pickle", {"kernel": "rbf"}),
    ("nystroem.pkl", "kernel_approximation", "Nystroem", None, "pickle", {"n_components": 20, "random_state": 0}),
    ("scaler.pkl", "preprocessing", "StandardScaler", None, "pickle", {}),
    ("min_max.pkl", "preprocessing", "MinMaxScaler", None, "pickle", {}),
    ("quantiles.pkl", "preprocessing", "QuantileTransformer", None, "pickle", {"n_quantiles": COUNT}),
    ("median.pkl", "impute", "SimpleImputer", None, "pickle", {"strategy": "median"}),
    ("imputer.pkl", "impute", "KNNImputer", None, "pickle", {}),
    ("bins.pkl", "preprocessing", "KBinsDiscretizer", None, "pickle", {"quantile_method": "averaged_inverted_cdf"}),
):
    simple(_name, _module, _kind, _target, _how, **_options)


@saved("isotonic.pkl", "sklearn")
def _isotonic() -> Any:
    from sklearn.isotonic import IsotonicRegression

    return IsotonicRegression().fit(DATA["age"], Y)


@saved("encoder.pkl", "sklearn")
def _encoder() -> Any:
    from sklearn.preprocessing import OneHotEncoder

    return OneHotEncoder().fit(DATA[["city", "person"]])


@saved("target_encoder.pkl", "sklearn")
def _target_encoder() -> Any:
    from sklearn.preprocessing import TargetEncoder

    return TargetEncoder(target_type="continuous").fit(DATA[["person"]], Y)


@saved("words.pkl", "sklearn")
def _words() -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(token_pattern=r"\S+").fit(
        [f"{p} lives in {c}" for p, c in zip(DATA.person, DATA.city, strict=True)]
    )


@saved("pipeline.joblib", "sklearn", "joblib")
def _pipeline() -> Any:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), Ridge(1.0)).fit(X, Y)


@saved("columns.pkl", "sklearn")
def _columns() -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    parts = make_column_transformer((StandardScaler(), ["age", "bmi"]), (OneHotEncoder(), ["city"]))
    return make_pipeline(parts, LogisticRegression()).fit(DATA, Z)


@saved("search.pkl", "sklearn")
def _search() -> Any:
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV

    return GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]}, cv=3).fit(X, Y)


@saved("skops_logistic.skops", "skops", "skops")
def _skops_logistic() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=5000).fit(X, Z)


@saved("skops_neighbours.skops", "skops", "skops")
def _skops_neighbours() -> Any:
    from sklearn.neighbors import KNeighborsRegressor

    return KNeighborsRegressor().fit(X, Y)


for _name, _module, _kind, _target, _options in (
    ("linear.onnx", "linear_model", "LinearRegression", "y", {}),
    ("neighbours.onnx", "neighbors", "KNeighborsRegressor", "y", {}),
    ("tree.onnx", "tree", "DecisionTreeRegressor", "y", {}),
    ("svc.onnx", "svm", "SVC", "z", {}),
):
    simple(_name, _module, _kind, _target, "onnx", **_options)
    OBJECTS[_name] = ("skl2onnx", *OBJECTS[_name][1:])


def formula(name: str, kind: str, text: str, remove: bool = False, **how: Any) -> None:
    """A result of statsmodels, saved by its own method."""

    def make() -> Any:
        import statsmodels.formula.api as smf

        model = getattr(smf, kind)(text, DATA, **{k: v() for k, v in how.items()})
        found = model.fit(disp=0) if kind in ("logit", "poisson") else model.fit()
        found.summary()
        return lambda path: found.save(path, remove_data=remove)

    OBJECTS[name] = ("statsmodels", "own", make)


def _family(name: str) -> Callable[[], Any]:
    def make() -> Any:
        import statsmodels.api as sm

        return getattr(sm.families, name)()

    return make


formula("ols.pickle", "ols", "y ~ age + bmi")
formula("ols_removed.pickle", "ols", "y ~ age + bmi", remove=True)
formula("logit.pickle", "logit", "z ~ age + bmi")
formula("logit_removed.pickle", "logit", "z ~ age + bmi", remove=True)
formula("poisson.pickle", "poisson", "k ~ age + bmi")
formula("poisson_removed.pickle", "poisson", "k ~ age + bmi", remove=True)
formula("glm.pickle", "glm", "k ~ smoker", family=_family("Poisson"))
formula("mixed.pickle", "mixedlm", "y ~ age", groups=lambda: DATA["city"])
formula("quantile.pickle", "quantreg", "y ~ age")


@saved("ols_arrays.pickle", "statsmodels", "own")
def _ols_arrays() -> Any:
    import statsmodels.api as sm

    found = sm.OLS(Y.to_numpy(), sm.add_constant(X[["age", "bmi"]].to_numpy())).fit()
    found.summary()
    return lambda path: found.save(path, remove_data=True)


@saved("cox.pkl", "lifelines")
def _cox() -> Any:
    from lifelines import CoxPHFitter

    return CoxPHFitter().fit(DATA[["age", "bmi", "t", "z"]], "t", "z")


@saved("survival.pkl", "lifelines")
def _survival() -> Any:
    from lifelines import KaplanMeierFitter

    return KaplanMeierFitter().fit(DATA["t"], DATA["z"])


@saved("boosted.pkl", "xgboost")
def _boosted() -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=5, n_jobs=1).fit(X, Y)


@saved("light.joblib", "lightgbm", "joblib")
def _light() -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=5, min_child_samples=1, verbose=-1, n_jobs=1).fit(X, Y)


def _network() -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


@saved("weights.pt", "torch", "torch")
def _weights() -> Any:
    return _network().state_dict()


@saved("module.pth", "torch", "torch")
def _module() -> Any:
    return _network()


@saved("checkpoint.pt", "torch", "torch-before-1.6")
def _checkpoint() -> Any:
    import torch

    network = _network()
    optimiser = torch.optim.Adam(network.parameters())
    inputs = torch.tensor(X.to_numpy(), dtype=torch.float32)
    network(inputs).pow(2).mean().backward()
    optimiser.step()
    return {"model": network.state_dict(), "optimiser": optimiser.state_dict(), "last_batch": inputs}


@saved("weights.safetensors", "safetensors", "safetensors")
def _tensors() -> Any:
    rng = np.random.default_rng(0)
    return {"layer.weight": rng.normal(size=(4, 8)), "layer.bias": rng.normal(size=8)}, {"format": "np"}


@saved("tensors_with_rows.safetensors", "safetensors", "safetensors")
def _tensors_with_rows() -> Any:
    return {"weight": np.ones((4, 1)) / 3, "cache": np.ascontiguousarray(X.to_numpy(float))}, {
        "contact": "ann@example.org"
    }


@saved("idata.pkl", "xarray")
def _idata() -> Any:
    import xarray as xr

    rng = np.random.default_rng(5)
    posterior = xr.Dataset({"mu": (("chain", "draw"), rng.normal(size=(2, 50)))})
    observed = xr.Dataset({"y": ("person", Y.to_numpy())}, {"person": DATA["person"].to_numpy(str)})
    return {"posterior": posterior, "observed_data": observed}


@saved("trace.pkl", "numpy")
def _trace() -> Any:
    rng = np.random.default_rng(6)
    return {"trace": {"mu": rng.normal(size=400), "sigma": rng.gamma(3, size=400)}, "data": {"y": Y.to_numpy()}}


@saved("frame.pkl", "pandas")
def _frame() -> Any:
    return DATA


def rows_in(content: bytes) -> list[str]:
    """Which columns of the table lie in bytes as they are: as numbers of a usual type, whole or row by row, or as
    names. It is told from the bytes alone."""
    found = []
    for name in DATA:
        values = DATA[name].to_numpy()
        if values.dtype.kind not in "biuf":
            texts = sorted({str(v) for v in values})
            spelt = [(t.encode(), t.lower().encode(), t.encode("utf-32-le")) for t in texts]
            there = sum(any(one in content for one in ways) for ways in spelt) if len(texts) > 20 else 0
        else:
            kinds = ("<f8", "<f4", "<i8", "<i4") if np.array_equal(values, np.round(values)) else ("<f8", "<f4")
            runs = [values[k : k + 12].astype(kind).tobytes() for kind in kinds for k in range(0, COUNT - 12, 12)]
            there = sum(run in content for run in runs) if len(set(values)) > 2 else 0
        if there >= _FEWEST:
            found.append(name)
    for columns in (["age", "bmi", "dose", "smoker"], ["age", "bmi"]):
        for kind in ("<f8", "<f4"):
            rows = [row.tobytes() for row in DATA[columns].to_numpy(float).astype(kind)]
            if sum(row in content for row in rows) >= _FEWEST:
                found += columns
    return sorted(set(found))


_FEWEST = 5


def write_all(folder: Path, libraries: set[str] | None = None) -> dict[str, Any]:
    """Write every object whose library is there, `data.csv`, and `truth.json`: what of the table lies in each file."""
    missing, truth = {}, {}
    DATA.to_csv(folder / "data.csv", index=False)
    for name, (library, how, make) in OBJECTS.items():
        if libraries is not None and library not in libraries:
            continue
        if importlib.util.find_spec(library) is None:
            missing[name] = f"{library} is not installed"
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = make()
            write(value, folder / name, how)
        content = (folder / name).read_bytes()
        packed = how not in ("own", "skops", "safetensors", "onnx") and not how.startswith("torch")
        truth[name] = {"library": library, "rows": rows_in(pickle.dumps(value, 5) if packed else content)}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1))
    return missing


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(json.dumps(write_all(target)) + "\n")
