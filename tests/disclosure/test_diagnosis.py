"""`diagnose` against what is known of the models, pooled releases, and the same on the command line."""

import dataclasses
import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from command import document
from conjugate import normal_mean_model, sample_normal_mean
from matplotlib.text import Text

import bayesrecon
from bayesrecon import Estimator
from bayesrecon.cli.inputs import open_releases
from bayesrecon.disclosure.diagnosis import Diagnosis, Eigenfunction, Feature
from bayesrecon.models import from_numpyro
from bayesrecon.models.gaussian_linear import MODELS
from bayesrecon.plots import plot_diagnosis, plot_diagnosis_spectrum, plot_visibility
from bayesrecon.posteriors import dirac, from_draws, from_posteriordb

KIDIQ = "kidiq-kidscore_momiq"
KIDIQ_POSTERIORS = [
    "kidiq-kidscore_momhs",
    "kidiq-kidscore_momiq",
    "kidiq-kidscore_momhsiq",
    "kidiq-kidscore_interaction",
    "kidiq_with_mom_work-kidscore_interaction_c",
    "kidiq_with_mom_work-kidscore_interaction_c2",
    "kidiq_with_mom_work-kidscore_interaction_z",
    "kidiq_with_mom_work-kidscore_mom_work",
]


def chains_of(release, numbers):
    """The release's draws of these chains alone."""
    own = np.isin(np.asarray(release.chain), numbers)
    weights = np.asarray(release.weights)[own]
    log_density = None if release.log_density is None else np.asarray(release.log_density)[own]
    return dataclasses.replace(
        release,
        theta=np.asarray(release.theta)[own],
        weights=weights / weights.sum(),
        chain=np.asarray(release.chain)[own],
        log_density=log_density,
    )


# A linear regression


@pytest.fixture(scope="module")
def kidiq(database):
    return from_posteriordb(KIDIQ, draws=4000)


@pytest.fixture(scope="module")
def diagnosis(kidiq):
    return bayesrecon.diagnose(kidiq)


def test_a_regression_shows_its_second_moments_and_nothing_else(diagnosis):
    assert (diagnosis.rank, diagnosis.gap, diagnosis.resolved, diagnosis.draws) == (6, True, 6, 4000)
    assert diagnosis.index == pytest.approx(6, abs=0.01)
    assert len(diagnosis.features) == 10
    for feature in diagnosis.features:
        if feature.order < 3:
            assert feature.visibility > 0.999, feature
            assert feature.seen > 0.999
            assert feature.verdict == "determined"
            assert feature.residual < 1e-6
            assert 0.5 < feature.se / feature.floor < 2
        else:
            assert feature.visibility < 0.05, feature
            assert (feature.verdict, feature.se, feature.floor) == ("undetermined", None, None)
    assert [f.name for f in diagnosis.features][:4] == ["1", "mom_iq", "kid_score", "mom_iq^2"]


def test_the_spectrum_and_its_functions(diagnosis):
    assert diagnosis.spectrum.shape == diagnosis.noise.shape == (6,)
    assert diagnosis.spectrum[0] == 1
    assert (np.diff(diagnosis.spectrum) <= 0).all()
    assert (diagnosis.noise > 0).all()
    assert len(diagnosis.eigenfunctions) == 6
    for k, function in enumerate(diagnosis.eigenfunctions):
        assert function.eigenvalue == pytest.approx(diagnosis.spectrum[k])
        shares = [share for _, share in function.loads]
        assert shares == sorted(shares, reverse=True)
        assert 0.05 < sum(shares) <= 1 + 1e-9
        # The kernel of rank six is spanned by monomials up to degree two.
        assert all(diagnosis[name].order < 3 for name, _ in function.loads)


def visibilities(diagnosis):
    return [feature.visibility for feature in diagnosis.features]


@pytest.mark.parametrize("key", [1, 2])
def test_generic_records_do_not_matter(kidiq, diagnosis, key):
    other = bayesrecon.diagnose(kidiq, key=key)
    np.testing.assert_allclose(visibilities(other), visibilities(diagnosis), atol=1e-6)
    assert other.rank == 6


@pytest.mark.parametrize("shift", [-2.0, 3.0])
def test_where_the_generic_records_lie_does_not_matter(kidiq, diagnosis, monkeypatch, shift):
    from bayesrecon.estimation import problem

    locate = problem.locate

    def elsewhere(*arguments):
        reference, rank = locate(*arguments)
        centre = {k: v + shift * reference.scale[k] for k, v in reference.centre.items()}
        return reference.recentred(centre, {k: 1.5 * v for k, v in reference.scale.items()}), rank

    monkeypatch.setattr(problem, "locate", elsewhere)
    moved = bayesrecon.diagnose(kidiq)
    np.testing.assert_allclose(visibilities(moved), visibilities(diagnosis), atol=1e-6)
    assert moved["mom_iq"].se != diagnosis["mom_iq"].se


def test_predicted_errors_are_those_of_recover(kidiq, diagnosis):
    recovered = bayesrecon.recover(kidiq)
    assert diagnosis["1"].se == pytest.approx(recovered["n"].se / recovered["n"].estimate, rel=1e-6)
    assert diagnosis["1"].floor == pytest.approx(recovered["n"].floor / recovered["n"].estimate, rel=1e-6)
    assert diagnosis.rank == recovered.rank


def test_functions_of_the_user(kidiq):
    functions = {
        "square": lambda z: z["mom_iq"] ** 2,
        "cube": lambda z: (z["mom_iq"] / 100 - 1) ** 3,
        "residual": lambda z: (z["kid_score"] - 26 - 0.6 * z["mom_iq"]) ** 2,
    }
    found = bayesrecon.diagnose(kidiq, order=0, statistics=functions)
    assert [f.name for f in found.features] == ["1", *functions]
    assert found["square"].visibility > 0.999
    assert found["residual"].visibility > 0.999
    # Part of a cube is a line: it is seen, the rest is not.
    assert found["cube"].visibility < 0.95
    assert found["cube"].verdict != "determined"
    with pytest.raises(KeyError):
        _ = found["quartic"]


def test_ways_out(diagnosis):
    found = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert found["rank"] == 6
    assert found["features"][-1]["se"] is None
    assert len(found["spectrum"]) == len(found["noise"]) == 6
    table = diagnosis.to_dataframe()
    assert list(table.index) == [f.name for f in diagnosis.features]
    assert table["se"].notna().sum() == 6
    assert "rank 6" in diagnosis._repr_html_()


# Other models


def polynomial(degree):
    def program(x, y):
        b = numpyro.sample("b", dist.Normal(0, 10).expand((degree + 1,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(sum(b[k] * x**k for k in range(degree + 1)), 1.0), obs=y)

    return from_numpyro(program, {"x": (), "y": ()})


def gaussian(design, y, draws, rng):
    """Exact draws of coefficients with prior Normal(0, 10) and unit noise."""
    precision = design.T @ design + np.eye(design.shape[1]) / 100
    mean = np.linalg.solve(precision, design.T @ y)
    return mean + rng.normal(size=(1, draws, len(mean))) @ np.linalg.inv(np.linalg.cholesky(precision))


@pytest.fixture(scope="module")
def polynomials():
    rng, found = np.random.default_rng(6), {}
    x = rng.normal(size=80)
    for degree in (1, 2, 3):
        design = np.vander(x, degree + 1, increasing=True)
        y = design @ np.array([1, -1, 0.5, 0.2])[: degree + 1] + rng.normal(size=80)
        release = from_draws({"b": gaussian(design, y, 2000, rng)}, polynomial(degree))
        found[degree] = bayesrecon.diagnose(release, order=2 * degree + 1)
    return found


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_a_polynomial_shows_twice_its_degree(polynomials, degree):
    """W, Example 3.3: moments of x up to order 2 p and of y x^k up to k = p; with known noise nothing of y^2."""
    found = polynomials[degree]
    # 2 p + 1 moments of x, p + 1 with y.
    assert (found.rank, found.gap) == (3 * degree + 2, True)
    names = ["1", "x", *(f"x^{k}" for k in range(2, 2 * degree + 1))]
    names += ["y", "x*y", "x^2*y", "x^3*y"][: degree + 1]
    for name in names:
        assert found[name].visibility > 0.999, name
    for feature in found.features:
        if feature.name not in names:
            # Over finitely many probes other monomials overlap with what is seen.
            assert feature.visibility < 0.3, feature
            assert feature.verdict == "undetermined"


def test_a_gaussian_mean_shows_count_and_sum():
    rng = np.random.default_rng(3)
    release = from_draws(sample_normal_mean(rng.normal(2, 1, 50), 2000, rng), normal_mean_model())
    found = bayesrecon.diagnose(release)
    assert (found.rank, found.resolved) == (2, 2)
    assert [f.name for f in found.features if f.verdict == "determined"] == ["1", "y"]
    assert found["y^2"].visibility < 0.05
    assert found["y^3"].visibility < 0.05


def test_a_trained_parameter_has_no_noise():
    rng = np.random.default_rng(5)
    y = rng.normal(2, 1, 30)
    found = bayesrecon.diagnose(dirac(normal_mean_model(), {"theta": y.sum() / (30 + 0.01)}), order=1)
    assert not found.noise.any()
    assert found.resolved == found.rank == 1
    json.dumps(found.to_dict(), allow_nan=False)
    plot_diagnosis(found)[1].figure.canvas.draw()
    plt.close("all")


def groups(count):
    def program(g, y):
        mu = numpyro.sample("mu", dist.Normal(0, 10).expand((count,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mu[g.astype(int)], 1.0), obs=y)

    return from_numpyro(program, {"g": (), "y": ()}, domain={"g": list(range(count))})


def test_the_index_grows_with_what_a_model_sees(polynomials):
    index = [polynomials[degree].index for degree in (1, 2, 3)]
    assert index == pytest.approx([5, 8, 11], abs=0.5)
    rng, found = np.random.default_rng(7), []
    for count in (2, 4, 8):
        g = np.arange(120) % count
        draws = gaussian(np.eye(count)[g], rng.normal(g, 1.0), 2000, rng)
        found.append(bayesrecon.diagnose(from_draws({"mu": draws}, groups(count)), order=1))
    # A count and a sum for each group.
    assert [d.rank for d in found] == [4, 8, 16]
    assert [d.index for d in found] == pytest.approx([4, 8, 16], abs=0.5)


# Several releases of one data set


def test_halves_pool_to_the_whole(kidiq):
    whole = bayesrecon.recover(kidiq)
    numbers = np.unique(np.asarray(kidiq.chain))
    assert len(numbers) >= 4
    half = len(numbers) // 2
    pooled = bayesrecon.recover([chains_of(kidiq, numbers[:half]), chains_of(kidiq, numbers[half:])])
    assert pooled.draws == whole.draws == 4000
    assert [row.name for row in pooled] == [row.name for row in whole]
    for one, other in zip(whole, pooled, strict=True):
        assert abs(one.estimate - other.estimate) < 0.25 * one.se, one.name
        assert other.se == pytest.approx(one.se, rel=0.1)
        assert other.floor == pytest.approx(one.floor, rel=0.1)
        assert other.lower < other.estimate < other.upper


def test_targets_add(kidiq):
    """In one fixed metric, the sum of the embeddings of two parts of a file is the embedding of the file."""
    numbers = np.unique(np.asarray(kidiq.chain))
    whole = bayesrecon.recover(kidiq, estimator=Estimator("identity"))
    parts = [chains_of(kidiq, numbers[:1]), chains_of(kidiq, numbers[1:])]
    for one, other in zip(whole, bayesrecon.recover(parts, estimator=Estimator("identity")), strict=True):
        assert other.estimate == pytest.approx(one.estimate, rel=1e-7)
        assert other.floor == pytest.approx(one.floor, rel=0.01)


def test_releases_determine_together_what_neither_does_alone():
    """One model sees the total of a, the other that of b, with common knowledge of nothing but their fields."""

    def seeing(name):
        def program(a, b):
            mu = numpyro.sample("mu", dist.Normal(0, 10))
            with numpyro.plate("records", a.shape[0]):
                numpyro.sample("seen", dist.Normal(mu, 1.0), obs={"a": a, "b": b}[name])

        return from_numpyro(program, {"a": (), "b": ()}, name=f"sees_{name}")

    rng = np.random.default_rng(11)
    data = {"a": rng.normal(2, 1, 40), "b": rng.normal(-1, 1, 40)}
    releases = [
        from_draws({"mu": gaussian(np.ones((40, 1)), data[k], 4000, rng)[..., 0]}, seeing(k)) for k in ("a", "b")
    ]
    either = {"both": lambda record: record["a"] + record["b"]}
    for release in releases:
        assert bayesrecon.recover(release, statistics=either)["total(both)"].verdict != "determined"
    both = bayesrecon.recover(releases, statistics=either)["total(both)"]
    assert both.verdict == "determined"
    assert abs(both.estimate - (data["a"] + data["b"]).sum()) < 4.5 * both.se


def test_releases_of_different_data_contradict_each_other():
    rng, model = np.random.default_rng(1), normal_mean_model()
    releases = [from_draws(sample_normal_mean(rng.normal(2, 1, n), 2000, rng), model) for n in (50, 500)]
    with pytest.raises(bayesrecon.BayesreconError, match="the releases contradict each other on n: "):
        bayesrecon.recover(releases)
    with pytest.raises(bayesrecon.BayesreconError, match="at least two"):
        bayesrecon.recover(releases[:1])


def test_several_names_are_pooled(run, database):
    names = KIDIQ_POSTERIORS[:2]
    found = document(run("recover", *names, "--draws", 1000, "--json"))
    expected = bayesrecon.recover([from_posteriordb(name, draws=1000) for name in names]).to_dict()
    assert {k: v for k, v in found.items() if k != "seconds"} == {k: v for k, v in expected.items() if k != "seconds"}
    assert (found["draws"], found["release"]) == (2000, " + ".join(names))


@pytest.mark.slow
def test_eight_releases_of_one_survey(run, database):
    found = document(run("recover", *KIDIQ_POSTERIORS, "--json"))
    rows = {row["name"]: row for row in found["statistics"]}
    assert rows["n"]["estimate"] == pytest.approx(434.4, abs=0.05)
    assert rows["n"]["se"] == pytest.approx(1.3, abs=0.05)
    assert found["draws"] == 80_000
    assert found["release"].split(" + ") == KIDIQ_POSTERIORS


# The command line


def test_diagnose_as_json(run, database, tmp_path):
    table, figure = tmp_path / "features.csv", tmp_path / "diagnosis.svg"
    options = ("--draws", 1000, "--order", 2, "--seed", 3, "--out", table, "--plot", figure, "--json")
    found = document(run("diagnose", KIDIQ, *options))
    expected = bayesrecon.diagnose(from_posteriordb(KIDIQ, draws=1000), order=2, key=3)
    wanted = json.loads(json.dumps(expected.to_dict()))
    assert {k: v for k, v in found.items() if k != "seconds"} == {k: v for k, v in wanted.items() if k != "seconds"}
    assert found["rank"] == 6
    assert all(np.isfinite([f["visibility"], f["seen"], f["residual"]]).all() for f in found["features"])
    assert list(pd.read_csv(table)["name"]) == [f.name for f in expected.features]
    ET.parse(figure)
    assert sorted(tmp_path.iterdir()) == [figure, table]


def test_diagnose_in_words(run, database):
    code, out, err = run("diagnose", KIDIQ, "--draws", 1000)
    assert (code, err) == (0, "")
    assert "kidiq-kidscore_momiq: rank 6 (finite), 6 resolved by 1000 draws, index 6.0" in out
    assert "mom_iq*kid_score" in out
    assert "undetermined" in out
    assert "% constant" in out


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (("diagnose", KIDIQ, "--out", "a.nc"), "--out a.nc: the name must end in .json or .csv"),
        (("diagnose", KIDIQ, "--plot", "a.bmp"), "--plot a.bmp: the name must end in"),
        (("diagnose", KIDIQ, "--order", -1), "--order -1: expected 0 or more"),
        (("diagnose", KIDIQ, "--metric", "euclid"), "metric"),
        (("recover", KIDIQ, KIDIQ), "is given twice"),
    ],
)
def test_diagnose_refuses(run, database, arguments, problem):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("bayesrecon: ")
    assert problem in err


def test_several_files(tmp_path, database):
    """Archives are releases of their own; CmdStan files are the chains of one."""
    draws = {"beta": np.random.default_rng(0).normal(size=(1, 50, 2)), "sigma": np.ones((1, 50))}
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", **draws)
        columns = {f"beta.{i + 1}": draws["beta"][0, :, i] for i in range(2)} | {"sigma": draws["sigma"][0]}
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False)
    archives, tables = ([str(tmp_path / f"{name}.{suffix}") for name in "ab"] for suffix in ("npz", "csv"))
    found = open_releases(archives, model="kidscore_momiq")
    assert [release.size for release in found] == [50, 50]
    (found,) = open_releases(tables, model="kidscore_momiq")
    assert (found.size, len(np.unique(np.asarray(found.chain)))) == (100, 2)
    with pytest.raises(bayesrecon.BayesreconError, match="CmdStan chains"):
        open_releases([archives[0], tables[0]], model="kidscore_momiq")


# Plots

HOSTILE = ["$x^", "<b>&amp;", "two\nlines\x00", "漢字", "_{^", "", "x" * 500]


def drawn(features, rank=4, **changes):
    made = Diagnosis(
        release="some-release",
        model="some-model",
        draws=4000,
        rank=rank,
        gap=False,
        resolved=2,
        index=2.25,
        spectrum=np.logspace(0, -9, rank),
        noise=np.full(rank, 1e-5),
        features=tuple(features),
        eigenfunctions=(Eigenfunction(1.0, 1e-5, (("1", 0.9),)),),
    )
    return dataclasses.replace(made, **changes)


def feature(name, visibility=1.0, seen=0.6, verdict="determined"):
    return Feature(name, 1, visibility, seen, 0.1, 0.1, 0.0, verdict)


FEATURES = [feature("a"), feature("b", 0.95, 0.95, "partly"), feature("c", 0.1, 0.05, "undetermined")]


@pytest.fixture
def figures():
    """Leaves pyplot without figures and with the backend it had."""
    backend = plt.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(backend)


def test_plot_of_visibility(figures):
    ax = plot_visibility(drawn(FEATURES))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["determined (1)", "partly (1)", "undetermined (1)", "with more draws only"]
    assert {patch.get_width() for patch in ax.patches} >= {0.6, 0.4, 0.95}
    assert len({patch.get_facecolor()[:3] for patch in ax.patches}) == 3
    many = plot_visibility(drawn([feature(f"f{i}") for i in range(60)]))
    assert many.get_yticklabels()[-1].get_text() == "and 20 more"


def test_plot_of_the_spectrum(figures):
    ax = plot_diagnosis_spectrum(drawn(FEATURES))
    assert ax.get_yscale() == "log"
    assert ax.get_title(loc="left") == "2 of 4 features stand above\nthe noise of 4,000 draws"
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["resolved (2)", "below the noise (2)", "noise"]
    assert drawn(FEATURES).plot_spectrum(ax) is ax
    assert drawn(FEATURES).plot_visibility(plt.figure().subplots()).get_xlim() == (0, 1)


@pytest.mark.parametrize("lines", [0, 3, 60])
def test_plot_of_both(figures, lines):
    axes = plot_diagnosis(drawn([feature(f"f{i}") for i in range(lines)]))
    (figure,) = {ax.figure for ax in axes}
    assert figure.get_suptitle() == "some-release: decaying spectrum, rank 4, index 2.25"
    left, right = (ax.get_tightbbox() for ax in axes)
    assert not left.overlaps(right)


@pytest.mark.parametrize("suffix, start", [("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89PNG")])
def test_saved_plot(figures, tmp_path, suffix, start):
    path = tmp_path / f"diagnosis.{suffix}"
    plot_diagnosis(drawn([feature(name) for name in HOSTILE], release=HOSTILE[0]), path)
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]
    assert not plt.get_fignums()
    with pytest.raises(bayesrecon.BayesreconError, match="must end in"):
        plot_diagnosis(drawn(FEATURES), tmp_path / "diagnosis.exe")


def test_hostile_plots(figures):
    odd = drawn([feature(name, np.nan, 2.0) for name in HOSTILE], spectrum=np.array([1, 0, np.nan, 1e-300]))
    with plt.style.context({"text.usetex": True}):
        axes = plt.figure(figsize=(16, 5), layout="constrained").subplots(1, 2)
        plot_visibility(odd, axes[0])
        plot_diagnosis_spectrum(odd, axes[1])
        assert not any(text.get_usetex() for ax in axes for text in ax.findobj(Text) if text.get_text())
    assert not any("\n" in label.get_text() or len(label.get_text()) > 60 for label in axes[0].get_yticklabels())
    axes[0].figure.canvas.draw()


def test_importing_the_plots_does_not_import_matplotlib():
    code = "import sys, bayesrecon.plots, bayesrecon.disclosure.diagnosis; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Standard errors against the scatter between chains


@pytest.mark.slow
def test_standard_errors_are_the_scatter_between_chains(database):
    """Ten chains of every linear posterior with draws, recovered separately: no truth is needed."""
    deviations, count = [], 0
    for name in (name for entry in MODELS for name in entry.posteriors):
        try:
            release = from_posteriordb(name, build=False)
        except bayesrecon.BayesreconError:
            continue  # a few draw files are missing from some copies of the database
        count += 1
        numbers = np.unique(np.asarray(release.chain))
        tables = [bayesrecon.recover(chains_of(release, [c])).to_dataframe() for c in numbers]
        estimate, se = (np.array([table[column] for table in tables]) for column in ("estimate", "se"))
        assert estimate.shape[0] == 10
        usable = (se > 0).all(axis=0)
        centred = estimate[:, usable] - estimate[:, usable].mean(axis=0)
        deviations.append((centred * np.sqrt(10 / 9) / se[:, usable]).ravel())
    z = np.concatenate(deviations)
    assert count >= 30
    assert 0.9 <= np.sqrt(np.mean(z**2)) <= 1.1
