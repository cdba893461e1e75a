"""Passes that cost what records touch: the same numbers as dense ones."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from parts import slow_then_large

from bayesrecon.divergence.adaptive import AdaptiveEmbedding, SparseEmbedding, chunk_of
from bayesrecon.divergence.dense import DenseEmbedding
from bayesrecon.divergence.metrics import fold_factors, in_coordinates, metric_factor
from bayesrecon.divergence.touched import NONE, Touched
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.basis import find_basis
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64
from bayesrecon.running.engine import using

GROUPS = 30


def grouped(rectified):
    def program(group, x, y):
        mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfNormal(2))
        own = numpyro.sample("own", dist.Normal(0, 1).expand((GROUPS,)).to_event(1))[group]
        sigma = numpyro.sample("sigma", dist.HalfNormal(2))
        with numpyro.plate("records", y.shape[0]):
            mean = mu + tau * (jnp.where(own > 0, own, 0.0) if rectified else own)
            numpyro.sample("y", dist.Normal(mean + x, sigma), obs=y)

    return from_numpyro(program, {"group": (), "x": (), "y": ()}, domain={"group": list(range(GROUPS))})


def release(seed=0, rectified=False):
    rng = np.random.default_rng(seed)
    draws = {"mu": rng.normal(size=(2, 300)), "tau": rng.gamma(9.0, 0.1, (2, 300))}
    draws |= {"own": rng.normal(1, 0.7, (2, 300, GROUPS)), "sigma": rng.gamma(9.0, 0.1, (2, 300))}
    found = from_draws(draws, grouped(rectified))
    with x64():
        return in_coordinates(found, "unconstrained")


@pytest.fixture(scope="module")
def both():
    """A dense and a sparse embedding of one release, and a basis."""
    given = release()
    with x64():
        args = given, metric_factor(given, None), None, fold_factors(given, None)
        dense, sparse = DenseEmbedding(*args), AdaptiveEmbedding(*args)
        reference = Reference(given.model.fields).recentred({"x": 0.0, "y": 1.0}, {"x": 1.0, "y": 2.0})
        basis = find_basis(dense, reference, np.random.default_rng(1))[1]
        return dense, sparse, basis, reference.draw(np.random.default_rng(2), 70)


def same(one, other):
    return np.allclose(one, other, rtol=1e-7, atol=1e-9 * np.abs(one).max())


@pytest.mark.slow
def test_a_record_touches_its_own_group_and_what_all_share(both):
    _, sparse, basis, _ = both
    assert sparse.folds is not None
    with x64():
        touched = sparse.sparse.touched(basis.records)
    named = np.array(sparse.release.model.coordinates)[touched.index]
    group = [next(name for name in column if name.startswith("own")) for column in named.T]
    assert group == [f"own[{g + 1}]" for g in basis.records["group"]]
    assert {name for name in named.ravel() if not name.startswith("own")} == {"mu", "tau", "sigma"}


@pytest.mark.slow
def test_sparse_scores_equal_dense_ones(both, monkeypatch):
    dense, sparse, _, probes = both
    monkeypatch.setattr("bayesrecon.divergence.adaptive._LARGE", 0)
    with x64():
        assert same(*(e.scores(probes, np.arange(0, 600, 50)) for e in (dense, sparse)))


@pytest.mark.parametrize(
    "parts, atoms", slow_then_large((4, None), (2, np.arange(5, 600, 7)), (2, None), (4, np.arange(5, 600, 7)), slow=2)
)
def test_moments_and_cross(both, parts, atoms):
    dense, sparse, basis, probes = both
    with x64():
        one, other = (e.moments(basis, atoms, stretches=parts) for e in (dense, sparse))
        assert not np.array_equal(one.gram, other.gram)  # added up in another way
        assert all(same(getattr(one, name), getattr(other, name)) for name in ("gram", "target", "value"))
        assert len(one.stretches) == len(other.stretches) == parts
        for ours, theirs in zip(one.stretches, other.stretches, strict=True):
            assert ours.share == pytest.approx(theirs.share)
            assert same(ours.gram, theirs.gram)
            assert same(ours.target, theirs.target)
        whole = dense.moments(basis, atoms)
        assert same(one.gram, whole.gram)
        assert same(one.target, whole.target)
        if atoms is None:
            alone = dense.moments(basis, np.arange(600 - 600 // parts, 600))
            assert one.stretches[-1].share == pytest.approx(1 / parts)
            assert same(parts * one.stretches[-1].gram, alone.gram)
        assert same(*(e.cross(basis, probes, atoms) for e in (dense, sparse)))


@pytest.mark.slow
def test_records_over_many_orders_of_magnitude_are_summed_densely(both, monkeypatch):
    """There a kernel of combinations of records would lose too many digits."""
    dense, sparse, *_ = both
    with x64():
        basis = find_basis(dense, Reference(dense.release.model.fields), np.random.default_rng(1))[1]
        one, other = (e.moments(basis).gram for e in (dense, sparse))
        assert np.array_equal(one, other)
        monkeypatch.setattr("bayesrecon.divergence.adaptive._CONDITION", np.inf)
        assert not np.array_equal(one, sparse.moments(basis).gram)


@pytest.mark.slow
def test_noise_and_influence(both):
    dense, sparse, basis, _ = both
    rng = np.random.default_rng(3)
    y, b = rng.normal(size=basis.size), rng.normal(size=(basis.size, 4))
    with x64():
        assert same(*(e.noise(basis, y) for e in (dense, sparse)))
        for simulated in (False, True):
            assert same(*(e.normal_noise(basis, simulated=simulated) for e in (dense, sparse)))
        for one, other in zip(*(e.influence(basis, y, b) for e in (dense, sparse)), strict=True):
            assert same(one, other)


@pytest.mark.slow
def test_what_hides_a_missing_parameter_is_found_by_its_slope():
    """A comparison swallows what is not a number; the slope shows the dependence all the same."""
    given = release(rectified=True)
    with x64():
        sparse = SparseEmbedding(given, metric_factor(given, None))
        touched = sparse.touched({"group": np.arange(GROUPS), "x": np.zeros(GROUPS), "y": np.ones(GROUPS)})
    named = np.array(given.model.coordinates)[touched.index]
    shown = [f"own[{g + 1}]" in column for g, column in enumerate(named.T)]
    assert np.mean(shown) == 1


def test_records_that_touch_everything_are_left_dense():
    def program(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand((6,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(x @ b, 1.0), obs=y)

    rng = np.random.default_rng(0)
    given = from_draws({"b": rng.normal(size=(1, 200, 6))}, from_numpyro(program, {"x": (6,), "y": ()}))
    with x64():
        sparse = SparseEmbedding(in_coordinates(given, "unconstrained"), np.eye(6))
        assert sparse.touched({"x": rng.normal(size=(9, 6)), "y": np.zeros(9)}) is None


@pytest.mark.slow
def test_an_engine_takes_the_parts(both, monkeypatch):
    _, adaptive, basis, probes = both
    monkeypatch.setattr("bayesrecon.divergence.adaptive.CHUNK", 2**9)
    y = np.random.default_rng(3).normal(size=basis.size)

    def sums():
        moments, (rows, scores) = adaptive.sparse.moments(basis, stretches=2), adaptive.influence(basis, y, y[:, None])
        noise = adaptive.noise(basis, y), adaptive.normal_noise(basis)
        return moments.gram, moments.target, moments.value, adaptive.cross(basis, probes), *noise, rows, scores

    class Counting(ThreadPoolExecutor):
        asked = 0

        def submit(self, *arguments, **more):
            Counting.asked += 1
            return super().submit(*arguments, **more)

    with x64():
        alone = sums()
        with Counting(2) as pool, using(pool):
            found = sums()
    assert Counting.asked > 20
    for one, other in zip(found, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * np.abs(other).max())


PASSES = {
    "moments": lambda e, basis, probes, y: e.moments(basis, stretches=2),
    "cross": lambda e, basis, probes, y: e.cross(basis, probes),
    "noise": lambda e, basis, probes, y: e.noise(basis, y),
    "normal noise": lambda e, basis, probes, y: e.normal_noise(basis),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_stays_on_the_device(both, monkeypatch, moved, name):
    """What all parts share goes there once, axes and weight of a part with it, atoms and weights of a block when it is
    their turn; sums come back once, and are those of this process. JAX refuses whatever is not asked for."""
    _, adaptive, basis, probes = both
    monkeypatch.setattr("bayesrecon.divergence.adaptive.CHUNK", 2**12)
    sparse, y = adaptive.sparse, np.random.default_rng(3).normal(size=basis.size)

    def sums():
        found = PASSES[name](sparse, basis, probes, y)
        return [found.gram, found.target, found.value] if name == "moments" else [found]

    with x64():
        parts = sparse._parts(chunk_of(sparse.touched(basis.records)), None, 2)
        blocks = sum(-(-len(part.weights) // part.chunk) for part in parts)
        assert blocks > len(parts) > 1
        alone = sums()
        with using(jax.local_devices()[:1]):
            moved.update(there=0, back=0)
            with jax.transfer_guard("disallow"):
                found = sums()
    assert moved["back"] == 1
    if name == "moments":
        assert moved["there"] == 1 + 2 * blocks + 2 * len(parts)
    for one, other in zip(found, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10 * np.abs(other).max())


def test_sums_by_coordinate_are_the_same_there():
    """Also of records that lack a coordinate of some colour."""
    index = np.array([[0, 1, NONE, 0], [2, NONE, 2, NONE]])
    touched, slopes = Touched({}, index, np.zeros((2, 4))), np.random.default_rng(0).normal(size=(2, 5, 4))
    expected = np.zeros((5, 4))
    expected[:, 0], expected[:, 1] = slopes[0, :, 0] + slopes[0, :, 3], slopes[0, :, 1]
    expected[:, 2] = slopes[1, :, 0] + slopes[1, :, 2]
    with x64():
        for found in (touched.gather(slopes), jax.jit(Touched.gather)(touched, slopes)):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


@pytest.mark.slow
def test_series_and_scores_are_worked_on_there(both):
    _, adaptive, basis, probes = both
    sparse, y = adaptive.sparse, np.random.default_rng(3).normal(size=basis.size)

    def series():
        return *sparse.influence(basis, y, y[:, None]), sparse.scores(probes, np.arange(0, 600, 50))

    with x64():
        sparse.touched(probes)
        alone = series()
        with using(jax.local_devices()[:1]), jax.transfer_guard("disallow"):
            found = series()
    for one, other in zip(found, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10 * np.abs(other).max())
