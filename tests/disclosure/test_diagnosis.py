"""`diagnose` against what is known of the models."""

import json
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from chains import chains_of, gaussian
from conjugate import normal_mean_model, sample_normal_mean
from linear_posteriors import LINEAR

import bayesrecon
from bayesrecon.models import from_numpyro
from bayesrecon.plots import plot_diagnosis
from bayesrecon.posteriors import dirac, from_draws, from_posteriordb


@pytest.fixture(scope="module")
def diagnosis(kidiq):
    return bayesrecon.diagnose(kidiq)


def test_degrees_that_are_left_out_are_named(kidiq, diagnosis, monkeypatch):
    assert diagnosis.warnings == ()
    monkeypatch.setattr("bayesrecon.disclosure.diagnosis._MOST_FEATURES", 8)
    found = bayesrecon.diagnose(kidiq, order=4)
    assert (len(found.features), max(feature.order for feature in found.features)) == (6, 2)
    assert found.warnings == ("monomials of degrees 3 to 4 were not tried: there are more than 8 of them",)


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
    from bayesrecon.estimation import recovered

    locate = recovered.locate

    def elsewhere(*arguments):
        reference, rank = locate(*arguments)
        centre = {k: v + shift * reference.scale[k] for k, v in reference.centre.items()}
        return reference.recentred(centre, {k: 1.5 * v for k, v in reference.scale.items()}), rank

    monkeypatch.setattr(recovered, "locate", elsewhere)
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


def polynomial(degree):
    def program(x, y):
        b = numpyro.sample("b", dist.Normal(0, 10).expand((degree + 1,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(sum(b[k] * x**k for k in range(degree + 1)), 1.0), obs=y)

    return from_numpyro(program, {"x": (), "y": ()})


@cache
def polynomial_diagnosis(degree):
    rng = np.random.default_rng(6)
    design = np.vander(rng.normal(size=80), degree + 1, increasing=True)
    y = design @ np.array([1, -1, 0.5, 0.2])[: degree + 1] + rng.normal(size=80)
    release = from_draws({"b": gaussian(design, y, 2000, rng)}, polynomial(degree))
    return bayesrecon.diagnose(release, order=2 * degree + 1)


@pytest.mark.parametrize("degree", [2, *(pytest.param(p, marks=pytest.mark.slow) for p in (1, 3))])
def test_a_polynomial_shows_twice_its_degree(degree):
    """W, Example 3.3: moments of x up to order 2 p and of y x^k up to k = p; with known noise nothing of y^2."""
    found = polynomial_diagnosis(degree)
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_index_grows_with_what_a_model_sees():
    index = [polynomial_diagnosis(degree).index for degree in (1, 2, 3)]
    assert index == pytest.approx([5, 8, 11], abs=0.5)
    rng, found = np.random.default_rng(7), []
    for count in (2, 4, 8):
        g = np.arange(120) % count
        draws = gaussian(np.eye(count)[g], rng.normal(g, 1.0), 2000, rng)
        found.append(bayesrecon.diagnose(from_draws({"mu": draws}, groups(count)), order=1))
    # A count and a sum for each group.
    assert [d.rank for d in found] == [4, 8, 16]
    assert [d.index for d in found] == pytest.approx([4, 8, 16], abs=0.5)


@pytest.mark.slow
@pytest.mark.large
def test_standard_errors_are_the_scatter_between_chains(database):
    """Ten chains of every third linear posterior with draws, recovered separately: no truth is needed.

    Errors that are stated a sixth too small or too large would be found.
    """
    deviations, count = [], 0
    for name in LINEAR[::3]:
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
    assert count >= 10
    assert 0.88 <= np.sqrt(np.mean(z**2)) <= 1.12
