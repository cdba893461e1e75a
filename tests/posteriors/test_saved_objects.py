"""Saved objects of real libraries: what estimators keep is found, and fits are read as the same fits in Python."""

import json
import pickle
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import saving
import statsmodels.api as sm
from written import refused

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import from_sklearn, from_statsmodels
from bayesrecon.posteriors.conversion import release_of
from bayesrecon.posteriors.formats import read_contents

OTHERS = Path(__file__).parent / "saved_by_others"
DATA = {name: saving.DATA[name].to_numpy() for name in saving.DATA}


@pytest.fixture(scope="module")
def save(tmp_path_factory):
    """Writes an object of `saving` once."""
    folder = tmp_path_factory.mktemp("saved")

    def path(name):
        found = folder / name
        if not found.exists():
            _, how, make = saving.OBJECTS[name]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                saving.write(make(), found, how)
        return found

    return path


def audited(path, **options):
    return bayesrecon.audit(path, remedies=False, **options)


def entries(path):
    return {part.where: part for part in read_contents(path).entries if part.kind != "name"}


@pytest.mark.slow
def test_the_case_of_a_result_without_its_data(save):
    """`remove_data=True` leaves the table that the formula was given."""
    found = audited(save("ols_removed.pickle"))
    (kept,) = [f for f in found if f.kind == "records"]
    assert kept.severity == "high"
    assert "remove_data() leaves the table" in kept.summary
    assert "_results.model.data.frame/y" in kept.where
    parts = entries(save("ols_removed.pickle"))
    np.testing.assert_array_equal(parts["_results.model.data.frame/y"].values, DATA["y"])
    assert list(parts["_results.model.data.frame/person"].values) == list(DATA["person"])


@pytest.mark.parametrize(
    ("name", "place", "of"),
    [
        ("neighbours.joblib", "_fit_X", saving.X.to_numpy()),
        ("neighbours_regression.pkl", "_y", DATA["y"]),
        ("density.pkl", "tree_/(state)/0", saving.X.to_numpy()),
        ("gaussian_process.pkl", "X_train_", saving.X.to_numpy()),
        ("imputer.pkl", "_fit_X", saving.X.to_numpy()),
        ("svr.pkl", "support_", None),
        ("isotonic.pkl", "X_thresholds_", None),
        ("nystroem.pkl", "components_", None),
        ("kernel_ridge.joblib", "X_fit_", saving.X.to_numpy()),
        ("tree.pkl", "tree_.values", None),
        ("target_encoder.pkl", "categories_/0", None),
        ("encoder.pkl", "categories_/1", None),
    ],
)
def test_what_an_estimator_keeps_by_design_is_named(save, name, place, of):
    """Without the private data, and with the reason."""
    found = audited(save(name))
    (kept,) = [f for f in found if place in f.where and f.kind != "unrecognised"]
    assert kept.severity == "high"
    if of is not None:
        np.testing.assert_array_equal(np.asarray(entries(save(name))[place].values, float), np.asarray(of, float))


def test_totals_and_values_beside_records_are_named(save):
    for name, kind, place in (
        ("target_encoder.pkl", "leaves", "encodings_/0"),
        ("scaler.pkl", "totals", "mean_"),
        ("min_max.pkl", "cuts", "data_max_"),
        ("median.pkl", "totals", "statistics_"),
        ("forest.joblib", "cuts", "estimators_/0.tree_.nodes/threshold"),
    ):
        (kept,) = [f for f in audited(save(name)) if place in f.where]
        assert (kept.kind, kept.severity) == (kind, "medium")


def test_with_the_private_data_columns_are_matched(save):
    found = audited(save("neighbours_regression.pkl"), data=DATA)
    said = " ".join(f.summary for f in found if f.kind == "records")
    assert "_y is the private column 'y'" in said
    assert "_fit_X is the private column 'age'" in said


def test_leaves_of_one_record_are_counted(save):
    """A full tree: every record is alone, but for equal outcomes."""
    (leaves,) = [f for f in audited(save("tree.pkl"), data=DATA) if f.kind == "leaves"]
    assert f"{saving.COUNT} leaves hold one record each" in leaves.summary or "leaves hold one record" in leaves.summary
    assert "outcomes in leaves of one record are those of 'y'" in leaves.summary
    (few,) = [f for f in audited(save("tree_class.pkl")) if f.kind == "leaves"]
    assert few.severity == "medium"


def test_harmless_objects_raise_no_alarm(save):
    """Coefficients alone, with the data or without them: nothing above what their numbers are."""
    for name, data in (("linear.pkl", DATA), ("ridge.joblib", None), ("lasso.pkl", None), ("lasso.pkl", DATA)):
        found = audited(save(name), data=data)
        assert found.severity in ("info", "low"), (name, [f.title for f in found])
        assert found.unrecognised == ()


STATSMODELS = ("ols.pickle", "ols_removed.pickle", "logit.pickle", "poisson_removed.pickle", "glm.pickle")


@pytest.mark.parametrize("name", STATSMODELS)
def test_results_of_statsmodels_are_those_in_python(save, name):
    """The same model and the same numbers as `from_statsmodels` has, whatever was removed."""
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    kind = name.partition(".")[0].removesuffix("_removed")
    text = {"ols": "y ~ age + bmi", "logit": "z ~ age + bmi", "poisson": "k ~ age + bmi", "glm": "k ~ smoker"}[kind]
    more = {"family": sm.families.Poisson()} if kind == "glm" else {}
    model = getattr(smf, kind)(text, saving.DATA, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.fit(disp=0) if kind in ("logit", "poisson") else model.fit()
    expected, found = from_statsmodels(fitted), release_of(save(name))
    assert found.model.name == expected.model.name
    assert list(found.model.fields) == list(expected.model.fields)
    np.testing.assert_allclose(np.asarray(found.theta), np.asarray(expected.theta), rtol=1e-9)


@pytest.mark.slow
def test_a_result_of_arrays_gives_its_statistics_exactly(save):
    found = bayesrecon.recover(release_of(save("ols_arrays.pickle")))
    assert found["n"].estimate == pytest.approx(saving.COUNT, abs=1e-6)
    assert found["mean(x1)"].estimate == pytest.approx(DATA["age"].mean(), rel=1e-9)
    assert found["var(y)"].estimate == pytest.approx(DATA["y"].var(), rel=1e-9)


@pytest.mark.parametrize(
    ("name", "inner"), [("ridge.joblib", ""), ("pipeline.joblib", "ridge"), ("logistic_cities.pkl", "")]
)
def test_estimators_of_scikit_learn_are_those_in_python(save, name, inner):
    made = saving.OBJECTS[name][2]()
    expected, found = from_sklearn(made[-1] if inner else made), release_of(save(name))
    assert found.model.name == expected.model.name
    assert dict(found.model.settings) == dict(expected.model.settings)
    np.testing.assert_array_equal(np.asarray(found.theta), np.asarray(expected.theta))
    assert found.notes == expected.notes


def test_a_result_that_never_computed_its_scale(tmp_path):
    """Saved without its data and before anybody asked for an error: its estimates alone, and the table."""
    import statsmodels.formula.api as smf

    path = tmp_path / "m.pickle"
    smf.ols("y ~ age", saving.DATA).fit().save(path, remove_data=True)
    found = audited(path, data=DATA)
    (kept,) = [f for f in found if f.kind == "records"]
    assert kept.severity == "high"
    assert {"_results.model.data.frame/y", "_results.model.data.frame/person"} <= set(kept.where)
    assert "is the private column" in kept.summary
    assert any("its residual variance was not computed" in n.reason for n in found.not_run)


def test_a_fit_that_is_not_read_is_not_run(save):
    found = audited(save("quantile.pickle"))
    assert found.verdict == "incomplete"
    found = audited(save("mixed.pickle"))
    assert any("MixedLM is not read from a file" in n.reason for n in found.not_run)
    refused("no fit of a supported kind", release_of, save("frame.pkl"))
    refused("a saved model needs no model=", release_of, save("ridge.joblib"), "ols")
    refused("a saved object, which has its own model", audited, save("ridge.joblib"), model="linear_predictor")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("skops_neighbours.skops", "_fit_X"),
        ("checkpoint.pt", "last_batch"),
        ("tensors_with_rows.safetensors", "cache"),
        ("cox.pkl", "_model.durations"),
        ("survival.pkl", "durations"),
        ("neighbours.onnx", "graph/Sc_Scancst"),
    ],
)
def test_what_other_libraries_saved(name, place):
    found = audited(OTHERS / name, data=DATA)
    seen = [f for f in found if place in f.where and f.severity == "high"]
    assert seen, [(f.title, f.where) for f in found]
    assert any("private column" in f.title + f.summary for f in seen)


@pytest.mark.parametrize(
    "name", ["weights.pt", "module.pth", "weights.safetensors", "skops_logistic.skops", "linear.onnx"]
)
def test_weights_alone_are_weights(name):
    found = audited(OTHERS / name, data=DATA)
    assert found.severity in ("info", "low"), [f.title for f in found]
    assert found.unrecognised == ()
    assert found.verdict == "incomplete"  # nobody attacked them


@pytest.mark.parametrize("name", ["boosted.pkl", "light.joblib"])
def test_trees_of_other_libraries_are_not_cleared(name):
    found = audited(OTHERS / name)
    assert found.verdict == "incomplete"
    assert any(n.attack == "trees" for n in found.not_run)


def test_tensors_are_those_that_were_saved():
    np.testing.assert_allclose(entries(OTHERS / "checkpoint.pt")["last_batch"].values, saving.X.to_numpy(), rtol=1e-6)
    np.testing.assert_array_equal(
        entries(OTHERS / "tensors_with_rows.safetensors")["cache"].values, saving.X.to_numpy()
    )


PMML = """<?xml version="1.0"?>
<PMML xmlns="http://www.dmg.org/PMML-4_4" xmlns:data="http://jpmml.org/jpmml-model/InlineTable" version="4.4">
 <DataDictionary>
  <DataField name="y"><Interval leftMargin="{low!r}" rightMargin="{high!r}"/></DataField>
 </DataDictionary>
 {model}
</PMML>"""


def test_pmml_of_neighbours_holds_their_rows(tmp_path):
    names = list(DATA)
    cells = (
        "".join(f"<data:{n}>{v}</data:{n}>" for n, v in zip(names, row, strict=True))
        for row in zip(*DATA.values(), strict=True)
    )
    table = "".join(f"<row>{one}</row>" for one in cells)
    rows = f"<TrainingInstances><InlineTable>{table}</InlineTable></TrainingInstances>"
    model = f"<NearestNeighborModel>{rows}</NearestNeighborModel>"
    path = tmp_path / "neighbours.pmml"
    low, high = (float(f(DATA["y"])) for f in (np.min, np.max))
    path.write_text(PMML.format(low=low, high=high, model=model))
    found = audited(path, data=DATA)
    kept = next(f for f in found if f.title.startswith("Row keeps records"))
    assert kept.severity == "high"
    assert all(any(where.endswith(f".row.{n}") for where in kept.where) for n in names)
    assert any("leftMargin" in where for f in found if f.severity == "medium" for where in f.where)
    assert "private column" in f"{kept.title}{kept.summary}"


def test_pmml_of_a_tree_holds_leaves_and_of_a_regression_estimates(tmp_path):
    node = '<Node score="{}" recordCount="1"><SimplePredicate field="x" operator="lessThan" value="{}"/></Node>'
    tree = f"<TreeModel><Node>{''.join(node.format(y, y / 3) for y in DATA['y'][:5])}</Node></TreeModel>"
    slope = '<NumericPredictor name="x" coefficient="-0.75"/>'
    table = f'<RegressionModel><RegressionTable intercept="1.25">{slope}</RegressionTable></RegressionModel>'
    roles = {}
    for name, model in (("tree", tree), ("line", table)):
        path = tmp_path / f"{name}.pmml"
        path.write_text(PMML.format(low=0.0, high=1.0, model=model))
        roles[name] = {where.rpartition(".")[2]: part.role for where, part in entries(path).items()}
    assert (roles["tree"]["score"], roles["tree"]["value"]) == ("leaf", "cut")
    assert (roles["line"]["intercept"], roles["line"]["coefficient"]) == ("estimate", "estimate")


def test_trees_of_onnx_hold_their_leaves():
    found = audited(OTHERS / "tree.onnx", data=DATA)
    (leaves,) = [f for f in found if f.kind == "leaves"]
    assert "graph/TreeEnsembleRegressor.target_weights is the private column 'y'" in leaves.summary
    assert leaves.severity == "high"


def test_an_attribute_that_nobody_knows_is_a_finding(save, tmp_path):
    """A model whose owner hung something on it, by mistake or not."""
    import joblib

    model = saving.OBJECTS["ridge.joblib"][2]()
    model.remark, model.table = "Ann Miller was ill in May", np.array([41.73, 17.25, 63.5, 28.125, 35.25, 52.5])
    model.mail, model.rows = "ann@example.org", [{"age": 41.73, "name": "Ann"}]
    path = tmp_path / "hung.joblib"
    joblib.dump(model, path)
    found = audited(path)
    assert {"remark", "table", "rows/0/name"} <= set(found.unrecognised)
    assert any("mail" in f.where and f.severity == "high" for f in found)


def test_records_one_by_one_are_no_settings(tmp_path):
    """A list of dictionaries, numbered attributes, a dictionary by people: numbers of three digits all."""
    import pickle

    ages = [41.7, 17.2, 63.5, 28.1, 35.2, 52.9, 44.4, 61.3, 19.8, 33.6]
    rows = [{"age": age, "visits": k} for k, age in enumerate(ages)]
    by_people = dict(
        zip(["ann", "bob", "cleo", "dora", "emil", "fritz", "gina", "hans", "ida", "jan"], ages, strict=True)
    )
    for value in (rows, {f"age{k}": age for k, age in enumerate(ages)}, by_people):
        path = tmp_path / "rows.pkl"
        path.write_bytes(pickle.dumps(value))
        assert audited(path).severity == "medium" or audited(path).unrecognised
    path.write_bytes(pickle.dumps(rows))
    found = audited(path, data={"age": np.array(ages)})
    assert found.severity == "high"
    assert any("*/age" in f.where and "private column 'age'" in f.title for f in found)


@pytest.mark.slow
def test_on_the_command_line(save, run):
    shown = run("audit", str(save("ols_removed.pickle")), "--no-remedies", "--json")
    assert shown.code == 0
    document = json.loads(shown.out)
    assert document["severity"] == "high"
    assert document["format"] == "saved object (pickle)"
    failed = run("audit", str(save("ridge.joblib")), "--fix", "clean.npz")
    assert failed.code == 2
    assert run("recover", str(save("ols.pickle")), "--json").code == 0


def test_frames_of_an_old_pandas_and_of_this_one(tmp_path):
    """Blocks are written in two ways; the fixtures of others are of pandas 2."""
    import pickle

    frame = pd.DataFrame(
        {
            "a": [1.5, 2.5, 3.5],
            "b": pd.Categorical(["x", "y", "x"]),
            "c": pd.array([1, 2, 3], dtype="Int64"),
            "d": pd.to_datetime(["2024-02-29", "2024-03-01", "2024-03-02"]),
            "e": ["Ann", None, "Bob"],
        },
        index=pd.MultiIndex.from_tuples([("p", 1), ("p", 2), ("q", 1)]),
    )
    path = tmp_path / "frame.pkl"
    path.write_bytes(pickle.dumps(frame))
    parts = entries(path)
    assert parts["a"].values.tolist() == [1.5, 2.5, 3.5]
    assert list(parts["b"].values) == ["x", "y", "x"]
    assert parts["c"].values.tolist() == [1, 2, 3]
    assert parts["d"].values[0].startswith("2024-02-29")
    assert list(parts["e"].values) == ["Ann", "", "Bob"]
    assert list(parts["(index)"].values) == ["p 1", "p 2", "q 1"]


def test_sparse_matrices_are_written_out(tmp_path):
    import pickle

    from scipy.sparse import csc_matrix, csr_array

    dense = np.array([[0.0, 1.5, 0.0], [2.5, 0.0, 0.0]])
    path = tmp_path / "sparse.pkl"
    path.write_bytes(pickle.dumps({"rows": csr_array(dense), "columns": csc_matrix(dense)}))
    parts = entries(path)
    np.testing.assert_array_equal(parts["rows"].values, dense)
    np.testing.assert_array_equal(parts["columns"].values, dense)


@pytest.mark.slow
def test_from_statsmodels_after_remove_data():
    import statsmodels.formula.api as smf

    table = pd.DataFrame({"x": np.arange(12.0), "y": np.arange(12.0) ** 1.1})
    removed = smf.ols("y ~ x", table).fit()
    removed.remove_data()
    refused("ask for result.scale before result.remove_data", from_statsmodels, removed)
    kept = smf.ols("y ~ x", table).fit()
    assert kept.scale > 0
    kept.remove_data()
    assert bayesrecon.recover(kept)["n"].estimate == pytest.approx(12, abs=1e-6)
    through_a_constant = smf.ols("y ~ 0 + w + x", table.assign(w=2.0)).fit()
    assert through_a_constant.scale > 0
    through_a_constant.remove_data()
    with pytest.raises(BayesreconError, match="unknown whether its constant column is all ones"):
        from_statsmodels(through_a_constant)


@pytest.mark.parametrize("kind", ["OLS", "Logit"])
def test_a_saved_result_with_a_robust_covariance_keeps_the_inverse_hessian(kind, tmp_path):
    design = sm.add_constant(saving.X[["age", "bmi"]])
    response = saving.Y if kind == "OLS" else saving.Z
    for name, how in (("plain", "nonrobust"), ("robust", "HC1")):
        fit = getattr(sm, kind)(response, design).fit(cov_type=how, **({} if kind == "OLS" else {"disp": 0}))
        assert getattr(fit, "scale", 1.0) > 0  # which a result computes once it is asked
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(fit))
    plain, robust = (release_of(tmp_path / f"{name}.pickle") for name in ("plain", "robust"))
    np.testing.assert_allclose(robust.theta, plain.theta, rtol=1e-10)


def test_a_dictionary_of_arrays_is_draws_of_the_model_that_is_given(tmp_path):
    """As `pickle.dump(mcmc.get_samples())` writes it, with arrays of JAX; no code is called."""
    rng = np.random.default_rng(0)
    samples = {"beta": rng.normal([26, 0.6], [6, 0.06], (80, 2)), "sigma": rng.gamma(9.0, 2.0, 80)}
    for name, values in (("numpy", samples), ("jax", {k: jnp.asarray(v) for k, v in samples.items()})):
        path = tmp_path / f"{name}.pkl"
        path.write_bytes(pickle.dumps(values))
        assert release_of(path, "kidscore_momiq").size == 80
        assert [n.attack for n in audited(path).not_run] == ["draws or records?"]
        assert audited(path).findings == ()
