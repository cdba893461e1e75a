"""Plain copies of the data in a file, and private data that do not fit."""

import json

import fits
import numpy as np
import pytest
import xarray as xr
from audited import HOSTILE, arviz_tree
from kidscore import DATA, DRAWS, MODEL

import bayesrecon
from bayesrecon.auditing.channel import examine
from bayesrecon.auditing.look import Look
from bayesrecon.digits import round_to
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.contents import Contents


def test_copies_are_found():
    tree = arviz_tree(
        source="/home/alice/study/kids.csv",
        contact="alice@example.org",
        rows=json.dumps(DATA["mom_iq"].tolist()),
        author="Alice",
        seed=7,
        created_at="2024-01-01",
    )
    private = {**DATA, "name": np.array([f"{HOSTILE} Ölaf {i}" for i in range(fits.SIZE)])}
    found = bayesrecon.audit(tree, data=private)
    told = {f.title: f for f in found}
    assert told["observed_data/kid_score holds data as they are"].severity == "high"
    assert "private column 'kid_score'" in told["observed_data/kid_score holds data as they are"].summary
    assert told["posterior/x_used is the same in every draw"].severity == "high"
    assert told["the coordinate 'child' holds the private column 'name'"].severity == "high"
    assert told["the attribute 'rows' holds the private column 'mom_iq' (inside a text)"].severity == "high"
    assert told["the attribute 'contact' holds an e-mail address"].severity == "high"
    assert told["the attribute 'author' holds a name"].severity == "medium"
    assert told["the attribute 'source' holds a path on the machine that made it"].severity == "low"
    assert any("random seed" in title for title in told)
    assert "warm-up draws are in the file" in told
    assert not any("created_at" in title for title in told)


def test_a_file_without_copies_holds_draws_alone():
    found = bayesrecon.audit(DRAWS, rows="draws")
    assert [(f.kind, f.severity) for f in found] == [("draws", "low")]
    assert found.verdict == "incomplete"


def test_comments_of_cmdstan(tmp_path):
    comments = ["model = kids", "data", "  file = /home/alice/kids.json", "  seed = 4711"]
    paths = fits.write_cmdstan(tmp_path, fits.scalar_columns(**DRAWS), comments)
    told = {f.title: f.summary for f in bayesrecon.audit(paths)}
    assert "/home/alice/kids.json" in told["the comment header holds file names of the machine it was made on"]
    assert "4711" in told["the comment header holds the random seed"]
    assert "30.1" in told["the comments hold step size and mass matrix of the warm-up"]


def test_only_data_groups():
    tree = xr.DataTree.from_dict({"observed_data": xr.Dataset({"y": ("i", np.arange(4.0))})})
    found = bayesrecon.audit(tree, MODEL)
    assert found.severity == "high"
    assert any("no draws" in w for w in found.warnings)


def test_a_file_without_anything_is_no_clean_file():
    tree = xr.DataTree.from_dict({"prior": xr.Dataset({"y": (("chain", "draw"), np.zeros((1, 4)))})})
    with pytest.raises(BayesreconError, match="no group 'posterior'"):
        bayesrecon.audit(tree)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"mom_iq": [1.0]}, "no column 'kid_score'"),
        ({"mom_iq": [1.0, np.nan], "kid_score": [1.0, 2.0]}, "missing values"),
        ({"mom_iq": [1.0, 3.0], "kid_score": [1.0]}, "different lengths"),
        (5, "expected columns or the path"),
    ],
)
def test_private_data_that_do_not_fit(data, words):
    with pytest.raises(BayesreconError, match=words):
        bayesrecon.audit(DRAWS, MODEL, data=data)


BIG = "9" * 400


@pytest.mark.parametrize(
    "value", [f"[1, 2, 3, {BIG}]", f'{{"a": [1, {BIG}]}}', int(BIG), [[1, 2], [3]], [1, 2, 3, int(BIG)]]
)
def test_attributes_of_any_kind(value):
    """Numbers that no float holds, and lists that are no array."""
    examine(Look(Contents("a", "object", attributes={"posterior/note": value})))


def drawn(**arrays):
    shaped = {name: values.reshape(2, -1, *values.shape[1:]) for name, values in arrays.items()}
    return {f.where: f for f in bayesrecon.audit(shaped, rows="draws", remedies=False) if f.kind != "draws"}


@pytest.mark.slow
def test_functions_of_the_draws_are_records_where_their_gradients_differ():
    """No list of links: also of two parameters at once, and one scalar for each record."""
    rng = np.random.default_rng(1)
    ages, values = rng.normal(size=(2, 30))
    a, b = rng.multivariate_normal([0.3, 1], [[0.04, 0.01], [0.01, 0.05]], 500).T
    sd, level = np.exp(rng.normal(0, 0.1, 500)), a[:, None] + b[:, None] * ages
    effects = rng.normal(size=(500, 8))
    for records in (
        np.logaddexp(0, level),
        np.exp(-2 * np.exp(level)),
        np.exp(-(((values - level) / sd[:, None]) ** 2) / 2) / sd[:, None],
        np.sqrt(1 + level**2) * sd[:, None],
    ):
        assert drawn(a=a, b=b, sd=sd, q=records)["posterior/q",].severity == "high"
    (finding,) = drawn(a=a, b=b, **{f"q{k}": np.arctan(level[:, k]) for k in range(8)}).values()
    assert (finding.severity, len(finding.where)) == ("high", 8)
    grid = np.logaddexp(0, a[:, None] + b[:, None] * np.linspace(-2, 2, 30))
    shares = np.exp(effects) / np.exp(effects).sum(axis=1, keepdims=True)
    noise = level + sd[:, None] * rng.normal(size=level.shape)
    for harmless in (
        {"a": a, "b": b, "curve": grid},
        {"effects": effects, "shares": shares},
        {"a": a, "sd": sd, "effects": a[:, None] + sd[:, None] * effects},
        {"a": a, "b": b, "sd": sd, "predicted": noise},
        {"a": a - 2000 * b, "b": b},
        {"a": a, "b": b, "variance": sd**2, "sd": sd, "ratio": a / b},
    ):
        assert all(f.severity == "info" for f in drawn(**harmless).values()), list(harmless)


@pytest.mark.parametrize("digits", [4, 8])
def test_loadings_have_the_digits_that_rounded_draws_determine(digits):
    """Plain functions of a few draws are no data, and rows of a design stay data."""
    rng = np.random.default_rng(4)
    a, sd, tau = rng.normal(85, 2, 300), rng.gamma(40, 0.2, 300), rng.gamma(30, 0.1, 300)
    effects, ages = rng.normal(size=(300, 6)), rng.integers(18, 80, 12)
    parameters = {"a": a, "sd": sd, "tau": tau, "effects": effects}
    plain = {"v": sd**2, "total": sd**2 + tau**2, "w": 1 / sd, "scaled": sd[:, None] * effects, "e": np.log(tau)}
    for name, values in (plain | {"rows": a[:, None] + tau[:, None] * ages}).items():
        found = drawn(**{k: round_to(v, digits) for k, v in {**parameters, name: values}.items()})
        severity = {f.severity for where, f in found.items() if f"posterior/{name}" in where}
        assert severity == ({"high"} if name == "rows" else {"info"}), name


def test_ratios_of_densities_of_consecutive_draws_are_log_densities():
    rng = np.random.default_rng(2)
    a, b = rng.multivariate_normal([0.3, 1], [[0.04, 0.01], [0.01, 0.05]], 400).T.reshape(2, 2, 200)
    density = -((a[..., None] + b[..., None] * rng.normal(size=40) - 1) ** 2).sum(axis=-1)
    ratio = np.exp(np.diff(density, axis=1, prepend=density[:, :1]))
    stats = {"accept": (("chain", "draw"), ratio), "noise": (("chain", "draw"), rng.gamma(3.0, size=(2, 200)))}
    posterior = {"a": (("chain", "draw"), a), "b": (("chain", "draw"), b)}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(posterior), "sample_stats": xr.Dataset(stats)})
    found = [f.where for f in bayesrecon.audit(tree, remedies=False) if f.kind == "log-density"]
    assert found == [("sample_stats/accept",)]
