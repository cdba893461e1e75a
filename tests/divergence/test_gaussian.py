"""The closed form of linear regressions against the general path, which differentiates the program."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import conjugate
import jax
import numpy as np
import pytest

import bayesrecon
from bayesrecon.divergence import gaussian
from bayesrecon.divergence.adaptive import AdaptiveEmbedding
from bayesrecon.divergence.mean_embedding import Basis, LostDigits
from bayesrecon.divergence.metrics import Metric, fold_factors, in_coordinates, metric_factor
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.basis import find_basis
from bayesrecon.estimation.kinds.draws import slopes_at_every_atom
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws, from_posteriordb
from bayesrecon.precision import x64
from bayesrecon.running.engine import using

CLOSE = 1e-10


@pytest.fixture(autouse=True, scope="module")
def double():
    """As inside a verb."""
    with x64():
        yield


def general(release):
    """The same release of a model that is not known to be a regression."""
    return replace(release, model=replace(release.model, gaussian=None))


def agree(one, other, close=CLOSE):
    """Two recoveries of one release."""
    assert (one.rank, one.warnings) == (other.rank, other.warnings)
    for row, same in zip(one.rows, other.rows, strict=True):
        assert row.verdict == same.verdict
        for name in ("estimate", "se", "floor", "visibility"):
            expected = getattr(same, name)
            expected = None if expected is None else pytest.approx(expected, rel=close)
            assert getattr(row, name) == expected, (row.name, name)


@pytest.fixture(scope="module")
def pairs():
    """Few draws of a regression on two covariates, so that they are summed in folds; both ways, in both coordinates."""
    rng = np.random.default_rng(1)
    x = rng.normal(50, 3, (40, 2))
    y = 1 + x @ [0.5, -2.0] + rng.normal(0, 1.5, 40)
    release = from_draws(conjugate.sample_regression(x, y, 300, rng), conjugate.regression_model(2))
    probes = {"x": rng.normal(50, 10, (7, 2)), "y": rng.normal(0, 80, 7)}
    basis = Basis({"x": rng.normal(50, 5, (12, 2)), "y": rng.normal(-70, 9, 12)}, rng.normal(size=(12, 5)))
    found = {}
    for coordinates in ("unconstrained", "constrained"):
        given = in_coordinates(release, coordinates)
        factors = metric_factor(given, None), fold_factors(given, None)
        assert factors[1] is not None
        ways = [AdaptiveEmbedding(one, factors[0], None, factors[1]) for one in (given, general(given))]
        assert [way.closed is not None for way in ways] == [True, False]
        ways = ways[0].closed, ways[1].dense
        found[coordinates] = ways, basis, probes, rng.normal(size=5), rng.normal(size=(5, 3))
    return found


@pytest.mark.parametrize(
    "quantity",
    [
        lambda e, basis, probes, y, b: e.scores(probes, np.array([0, 17, 299])),
        lambda e, basis, probes, y, b: e.moments(basis).target,
        lambda e, basis, probes, y, b: e.moments(basis).gram,
        lambda e, basis, probes, y, b: e.moments(basis, np.arange(0, 300, 3)).value,
        lambda e, basis, probes, y, b: np.concatenate([s.gram for s in e.moments(basis, stretches=3).stretches]),
        lambda e, basis, probes, y, b: e.cross(basis, probes),
        lambda e, basis, probes, y, b: e.noise(basis, y),
        lambda e, basis, probes, y, b: e.normal_noise(basis),
        lambda e, basis, probes, y, b: e.influence(basis, y, b)[0],
        lambda e, basis, probes, y, b: e.influence(basis, y, b)[1],
    ],
)
@pytest.mark.parametrize("coordinates", ["unconstrained", "constrained"])
def test_closed_form_is_the_general_path(pairs, coordinates, quantity):
    (closed, differentiated), *given = pairs[coordinates]
    one, other = quantity(closed, *given), quantity(differentiated, *given)
    assert one.shape == other.shape
    np.testing.assert_allclose(one, other, rtol=CLOSE, atol=CLOSE * np.abs(other).max())


DEVICE = {
    "moments": lambda e, basis, probes, y, b: np.concatenate([s.gram for s in e.moments(basis, stretches=3).stretches]),
    "values": lambda e, basis, probes, y, b: e.moments(basis).value,
    "scores": lambda e, basis, probes, y, b: e.scores(probes, np.arange(0, 300, 5)),
    "cross": lambda e, basis, probes, y, b: e.cross(basis, probes, np.arange(0, 300, 3)),
    "totals": lambda e, basis, probes, y, b: e.totals(np.arange(0, 300, 2)),
    "noise": lambda e, basis, probes, y, b: e.noise(basis, y),
    "normal noise": lambda e, basis, probes, y, b: e.normal_noise(basis),
    "influence": lambda e, basis, probes, y, b: np.concatenate(e.influence(basis, y, b), axis=1),
}
BACK = {"totals": 2, "influence": 5}  # kernel and target; series come back part by part


@pytest.mark.parametrize("name", [pytest.param(k, marks=() if k == "moments" else pytest.mark.slow) for k in DEVICE])
def test_sums_are_made_on_the_device_and_come_back_once(pairs, moved, name):
    """JAX refuses whatever is not asked for; the sums are those of this process."""
    (closed, _), *given = pairs["unconstrained"]
    gaussian = closed.release.model.gaussian

    def design(beta, records):
        """Of the records alone, before a pass."""
        with jax.transfer_guard("allow"):
            return gaussian.design(beta, records)

    model = replace(closed.release.model, gaussian=replace(gaussian, design=design))
    there = replace(closed, release=replace(closed.release, model=model))
    expected = DEVICE[name](replace(closed), *given)
    with using(jax.local_devices()[:1]):
        _ = there._frame, there.weights, there._normal  # small, and made here
        moved.update(there=0, back=0)
        with jax.transfer_guard("disallow"):
            found = DEVICE[name](there, *given)
    assert moved["back"] == BACK.get(name, 1)
    assert moved["there"] > 0
    np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE * np.abs(expected).max())


def test_features_have_the_inner_products_of_scores(pairs):
    (closed, differentiated), _, probes, *_ = pairs["unconstrained"]
    atoms = np.arange(0, 300, 7)
    columns, scores = closed.coordinates(atoms)(probes), differentiated.scores(probes, atoms)
    assert len(columns) == closed.features < len(scores)
    np.testing.assert_allclose(columns.T @ columns, scores.T @ scores, rtol=CLOSE)
    assert closed.coordinates(atoms[:1]) is None  # which does not tell so many features apart


def test_totals_of_features_solve_the_equations(pairs):
    (closed, _), basis, *_ = pairs["unconstrained"]
    atoms = np.arange(0, 300, 2)
    functions, expected = closed.columns(basis.records) @ basis.coefficients, closed.moments(basis, atoms).target
    found = functions.T @ closed._gram(atoms) @ closed.totals(atoms)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_slopes_of_features_are_those_of_scores(pairs):
    (closed, _), _, probes, *_ = pairs["unconstrained"]
    rng, j = np.random.default_rng(0), np.array([0, 3, 1, 3])
    h = rng.normal(size=(300, 4))
    differentiated = AdaptiveEmbedding(general(closed.release), closed.metric)
    expected = slopes_at_every_atom(differentiated, probes, h, j)
    np.testing.assert_allclose(closed.slopes(probes, h, j), expected, rtol=CLOSE, atol=CLOSE * np.abs(expected).max())


def test_closed_forms_of_many_coefficients_are_of_records_that_have_them():
    import numpyro
    import numpyro.distributions as dist

    def shared(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand((70,)).to_event(1))
        numpyro.sample("y", dist.Normal(x @ b, 1.0), obs=y)

    def own(group, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand((70,)).to_event(1))
        numpyro.sample("y", dist.Normal(b[group], 1.0), obs=y)

    assert from_numpyro(shared, {"x": (70,), "y": ()}).gaussian is not None
    assert from_numpyro(own, {"group": (), "y": ()}, domain={"group": list(range(70))}).gaussian is None


@pytest.mark.slow
def test_functions_that_lose_digits_are_summed_densely(pairs, monkeypatch):
    monkeypatch.setattr(gaussian, "_CONDITION", 1e-3)
    (closed, dense), basis, probes, *_ = pairs["unconstrained"]
    for lost in (lambda: closed.moments(basis), lambda: closed.cross(basis, probes)):
        with pytest.raises(LostDigits):
            lost()
    both = AdaptiveEmbedding(closed.release, closed.metric, None, closed.folds)
    np.testing.assert_array_equal(both.moments(basis).gram, dense.moments(basis).gram)
    np.testing.assert_array_equal(both.cross(basis, probes), dense.cross(basis, probes))


@pytest.mark.slow
def test_many_coefficients(monkeypatch):
    """A basis of the kernel loses no digits, and parts that an engine works on add up to the same."""
    rng, width = np.random.default_rng(2), 12
    x = rng.normal(0, 3, (60, width))
    release = from_draws(conjugate.sample_regression(x, x.sum(axis=1), 300, rng), conjugate.regression_model(width))
    both = AdaptiveEmbedding(release, metric_factor(release, None), None, fold_factors(release, None))
    law = Reference(release.model.fields, centre={"x": np.zeros(width), "y": 0.0}, scale={"x": 3.0, "y": 9.0})
    law = replace(law, most=2 * both.features)
    spectrum, basis, few = find_basis(both, law, rng)
    assert spectrum.rank == both.features - 1  # one is a coefficient's covariate, too
    assert both._cheaper(basis.records) is both.closed
    y, probes = rng.normal(size=basis.size), law.draw(rng, 30)

    def sums(way):
        moments = way.moments(basis, stretches=3)
        parts = [moments.gram, moments.target, moments.value, moments.stretches[1].gram, way.noise(basis, y)]
        return [*parts, way.cross(basis, probes, few), *way.influence(basis, y, np.eye(basis.size)[:, :3])]

    alone = sums(both.closed)
    for one, other in zip(alone, sums(both.dense), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=CLOSE * np.abs(other).max())
    monkeypatch.setattr(gaussian, "_BLOCK", 2**12)
    with ThreadPoolExecutor(3) as pool, using(pool):
        for one, other in zip(sums(both.closed), alone, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * np.abs(other).max())


def test_noise_of_a_normal_law(pairs):
    one, other = (e.normal_noise(pairs["unconstrained"][1], simulated=True) for e in pairs["unconstrained"][0])
    np.testing.assert_allclose(one, other, rtol=CLOSE, atol=CLOSE * np.abs(other).max())


@pytest.mark.slow
def test_known_scales_and_a_mean_alone():
    """Scales that differ between records and are known, and a program without a scale of its own."""
    import numpyro
    import numpyro.distributions as dist

    def program(group, error, y):
        mean = numpyro.sample("mean", dist.Normal(0, 5).expand([3]).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mean[group], error), obs=y)

    domain = {"group": [0, 1, 2], "error": "positive"}
    model = bayesrecon.models.from_numpyro(program, {"group": (), "error": (), "y": ()}, domain=domain)
    assert (model.gaussian.coefficients, model.gaussian.scale) == ((0, 1, 2), None)
    rng = np.random.default_rng(0)
    group, error = rng.integers(3, size=90), rng.uniform(0.5, 2, 90)
    y = np.array([1.0, -2.0, 30.0])[group] + error * rng.normal(size=90)
    precision = np.bincount(group, error**-2) + 5.0**-2
    means = np.bincount(group, y / error**2) / precision + rng.normal(size=(2, 500, 3)) / np.sqrt(precision)
    release = from_draws({"mean": means}, model)
    known = {"group": group, "error": error}
    agree(*(bayesrecon.recover(r, known=known) for r in (release, general(release))))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"metric": Metric(sigma="identity", coordinates="constrained")}, marks=pytest.mark.slow)],
)
def test_a_real_posterior(database, options):
    release = from_posteriordb("kidiq-kidscore_momiq", draws=1000)
    one, other = (bayesrecon.recover(r, **options) for r in (release, general(release)))
    # The unwhitened divergence is worse conditioned: rounding shows in the tenth digit.
    agree(one, other, 1e-9 if options else CLOSE)
