"""Kernels of many known features are solved in these: the same numbers as in a basis of records."""

import conjugate
import numpy as np
import pytest

import bayesrecon
from bayesrecon.divergence.adaptive import embedding_of
from bayesrecon.divergence.mean_embedding import Basis
from bayesrecon.estimation import basis, solve
from bayesrecon.estimation.kinds.draws import drawn_alone
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.precision import x64

WIDTH, RECORDS = 3, 200  # 11 features


def regression(draws, seed=0):
    """Exact draws of a conjugate regression without an intercept, of whose features all show."""

    rng = np.random.default_rng(seed)
    x = rng.normal(2.0, 1.0, size=(RECORDS, WIDTH))
    y = x @ rng.normal(size=WIDTH) + rng.normal(size=RECORDS)
    return conjugate.through_the_origin(x, y, draws, rng)


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """As if so few features were many."""
    for module in (basis, solve):
        monkeypatch.setattr(module, "LARGER_POOL", 8)


@pytest.fixture
def without(monkeypatch):
    """Does work as where features are not known."""

    def made(work):
        with monkeypatch.context() as patched:
            patched.setattr(solve, "_feature_fit", lambda *_: None)
            return work()

    return made


# With 300 draws the sums of stretches are kept apart for the jackknife, with 4,000 they are not.
@pytest.mark.parametrize(
    "draws, options",
    [
        pytest.param(300, {}, id="stretches"),
        pytest.param(4000, {"total": RECORDS}, id="known", marks=pytest.mark.slow),
        pytest.param(4000, {"statistics": {"cube": lambda z: z["y"] ** 3}}, id="not seen", marks=pytest.mark.slow),
    ],
)
def test_rows_are_the_same(draws, options, without):
    release = regression(draws)
    found = bayesrecon.recover(release, **options)
    other = without(lambda: bayesrecon.recover(release, **options))
    assert (found.rank, found.gap, found.failures, found.warnings) == (11, True, other.failures, other.warnings)
    np.testing.assert_allclose(found.spectrum, other.spectrum, atol=1e-9)
    for row, same in zip(found.rows, other.rows, strict=True):
        assert (row.name, row.verdict) == (same.name, same.verdict)
        for name in ("estimate", "se", "floor", "visibility", "lower", "upper"):
            expected = getattr(same, name)
            exact = 1e-6 if name in ("lower", "upper") else 1e-9
            expected = None if expected is None else pytest.approx(expected, rel=exact, abs=exact)
            assert getattr(row, name) == expected, (row.name, name)


@pytest.mark.slow
def test_pseudo_data_have_the_totals(without):
    release, totals = regression(1000), []
    for found in (bayesrecon.recover(release).pseudo, without(lambda: bayesrecon.recover(release)).pseudo):
        w, z = np.asarray(found.weights), found.records
        totals.append([w.sum(), w @ z["y"] ** 2, *(w * z["y"]) @ z["x"], *(w @ z["x"] ** 2)])
    np.testing.assert_allclose(*totals, rtol=1e-8)


@pytest.mark.slow
def test_other_draws_have_other_features():
    """A basis of features is one of records to draws that it is not made of, and to a model without features."""
    with x64():
        problem = solve_release(regression(500))
        solved = problem.solved
        assert isinstance(solved, solve.FeatureFit)
        plain = Basis(solved.basis.records, solved.basis.coefficients)
        half = problem.release.take(np.arange(0, 500, 2))
        b = np.eye(solved.basis.size)[:, :3]
        for embedding in (problem.embedding, embedding_of(half, "covariance"), problem.embedding.dense):
            one, other = (embedding.moments(basis, stretches=3) for basis in (solved.basis, plain))
            pairs = [(one.gram, other.gram), (one.target, other.target), (one.value, other.value)]
            pairs.append((one.stretches[1].gram, other.stretches[1].gram))
            for work in (
                lambda basis, e=embedding: e.cross(basis, solved.probes),
                lambda basis, e=embedding: e.noise(basis, solved.y),
                lambda basis, e=embedding: e.normal_noise(basis),
                lambda basis, e=embedding: e.influence(basis, solved.y, b)[0],
                lambda basis, e=embedding: e.influence(basis, solved.y, b)[1],
            ):
                pairs.append((work(solved.basis), work(plain)))
            for found, expected in pairs:
                found, expected = np.asarray(found), np.asarray(expected)
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
        np.testing.assert_allclose(
            solved.functions, problem.embedding.cross(plain, solved.probes), rtol=1e-6, atol=1e-6
        )


@pytest.mark.slow
def test_halves_of_the_draws_are_the_same(without):
    with x64():
        problem = solve_release(regression(1000))
        others = without(lambda: drawn_alone(solve_release(regression(1000))))
        found = drawn_alone(problem)
    assert len(found) == len(others) == 2
    for one, other in zip(found, others, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-8 * np.abs(other.scores).max())


@pytest.mark.slow
def test_diagnosis_is_the_same(without):
    release = regression(1000)
    found, other = bayesrecon.diagnose(release), without(lambda: bayesrecon.diagnose(release))
    np.testing.assert_allclose(found.spectrum, other.spectrum, rtol=1e-6)
    np.testing.assert_allclose(found.noise, other.noise, rtol=1e-6)


@pytest.mark.slow
def test_digits_that_are_lost_leave_the_records(monkeypatch):
    """Where features taken to records and back are others, or a kernel has no factor, a basis of records is found."""
    release = regression(300)
    whole = bayesrecon.recover(release)
    for name, less in (("_ROUND_TRIP_ERROR", 0.0), ("solver", lambda _: None)):
        with monkeypatch.context() as patched, x64():
            patched.setattr(solve, name, less)
            assert not isinstance(solve_release(release).solved, solve.FeatureFit)
            assert bayesrecon.recover(release)["n"].estimate == pytest.approx(whole["n"].estimate, rel=1e-9)
