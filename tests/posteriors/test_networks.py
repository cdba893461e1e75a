"""Networks trained to a stationary point: what it determines, records that match it, and points that are none."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesrecon
from bayesrecon import GradientMatching
from bayesrecon.attacks.matching.equations import Equations
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import match, ssim
from bayesrecon.kernels.score import gradients, scores, total_score
from bayesrecon.knowledge import check_knowledge
from bayesrecon.models import from_loss
from bayesrecon.plots import plot_matched
from bayesrecon.plots.matched import mosaic
from bayesrecon.posteriors import dirac, train_network
from bayesrecon.precision import x64

WIDTH, CLASSES = 6, 3


def output(params, x):
    return jnp.tanh(x @ params["w"] + params["b"]) @ params["v"] + params["c"]


def decay_of(params, strength):
    return 0.5 * strength * sum(jnp.sum(v**2) for v in jax.tree_util.tree_leaves(params))


def start(rng, outputs=()):
    return {
        k: rng.normal(size=s) for k, s in {"w": (2, WIDTH), "b": WIDTH, "v": (WIDTH, *outputs), "c": outputs}.items()
    }


@functools.cache
def events(strength=0.05):
    """Log intensity of events on a square: every record has the gradient one in the last bias, so n is determined."""
    middle = (np.arange(12) + 0.5) / 6 - 1
    grid = np.stack(np.meshgrid(middle, middle), -1).reshape(-1, 2)

    def regulariser(params):
        return 4 * jnp.mean(jnp.exp(jax.vmap(lambda z: output(params, z))(grid))) + decay_of(params, strength)

    return from_loss(
        lambda params: params,
        lambda params, x: -output(params, x),
        regulariser,
        params=start(np.random.default_rng(0)),
        record={"x": (2,)},
        response="x",
        domain={"x": (-1.0, 1.0)},
        name="events",
    )


@functools.cache
def classifier():
    """Softmax, whose scores have mean zero under the model itself: n is not determined."""
    return from_loss(
        output,
        lambda out, y: jax.nn.logsumexp(out) - out[y],
        lambda params: decay_of(params, 0.1),
        params=start(np.random.default_rng(0), (CLASSES,)),
        record={"x": (2,), "y": ()},
        domain={"x": (-1.0, 1.0), "y": list(range(CLASSES))},
        name="<softmax>",
    )


@functools.cache
def trained(kind, count, seed=0):
    rng = np.random.default_rng(seed)
    data = {"x": np.clip(rng.normal([0.2, -0.3], 0.35, (count, 2)), -0.95, 0.95)}
    if kind == "events":
        found = train_network(events(), start(rng), data)
    else:
        data["y"] = (data["x"][:, 0] > 0.2).astype(int) + (data["x"][:, 1] > -0.3)
        found = train_network(classifier(), start(rng, (CLASSES,)), data)
    assert found.gradient <= 1e-10
    return found.release, data


def test_training_reaches_the_closed_form():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    model = from_loss(
        lambda p, x: x @ p["w"],
        lambda out, y: 0.5 * (out - y) ** 2,
        lambda p: jnp.sum(p["w"] ** 2),
        params={"w": np.zeros(3)},
        record={"x": (3,), "y": ()},
    )
    found = train_network(model, {"w": np.ones(3)}, {"x": x, "y": y})
    np.testing.assert_allclose(found.release.theta[0], np.linalg.solve(x.T @ x + 2 * np.eye(3), x.T @ y), atol=1e-9)
    with pytest.raises(BayesreconError, match="lack field y"):
        train_network(model, {"w": np.ones(3)}, {"x": x})


@pytest.mark.slow
def test_reverse_sweeps_give_the_scores_of_forward_ones():
    release, data = trained("softmax", 12)
    with x64():
        metric = np.linalg.cholesky(np.eye(len(release.theta[0])) + 0.1)
        both = [scores(release.model, metric, release.theta, data, t) for t in (0.0, 1.0)]
    np.testing.assert_allclose(both[0], both[1], atol=1e-12)


@pytest.mark.slow
def test_events_are_counted():
    release, data = trained("events", 25)
    found = bayesrecon.recover(release)
    assert found["n"].visibility > 0.999999
    assert found["n"].verdict == "determined"
    assert found["n"].estimate == pytest.approx(25, abs=1e-6)
    assert found["n"].se is None
    assert not found.warnings
    # The mean is seen but for a little: the interval states how much.
    mean = found["mean(x[1])"]
    assert abs(mean.estimate - data["x"][:, 0].mean()) < 5 * (mean.upper - mean.estimate) + 1e-9


@pytest.mark.slow
def test_a_softmax_network_does_not_count_its_records():
    release, _ = trained("softmax", 12)
    found = bayesrecon.recover(release)
    assert found["n"].visibility < 0.99
    assert found["n"].verdict == "undetermined"
    assert found["n"].estimate is None
    # Scores of all classes add up to zero: once for every hidden unit, once for the bias.
    assert found.rank <= release.theta.shape[1] - (WIDTH + 1)
    assert not found.warnings


@pytest.mark.slow
def test_a_parameter_off_the_stationary_point_is_reported():
    release, _ = trained("softmax", 12)
    rng = np.random.default_rng(0)
    moved = {k: v * (1 + 0.01 * rng.normal(size=v.shape)) for k, v in release.model.constrain(release.theta[0]).items()}
    release = dirac(release.model, {k: np.asarray(v) for k, v in moved.items()})
    assert "not stationary" in bayesrecon.recover(release).warnings[0]
    found = bayesrecon.match_gradient(release, n=24, restarts=2, steps=100)
    assert 0 < found.least <= found.residual
    assert "not stationary: every data set of at most" in found.warnings[0]


@pytest.mark.slow
def test_diagnosis_says_how_many_features():
    found = bayesrecon.diagnose(trained("softmax", 12)[0], order=1)
    assert found.rank == bayesrecon.recover(trained("softmax", 12)[0]).rank
    assert {f.verdict for f in found.features} == {"undetermined"}
    assert bayesrecon.diagnose(trained("events", 25)[0], order=1)["1"].verdict == "determined"


# --- matching -------------------------------------------------------------------------------------------------


def problem_of(release, one=False, total=None, strength_known=True):
    return Equations.of(release, check_knowledge(release.model, total=total), one, strength_known)


@pytest.mark.parametrize(("total", "strength_known"), [(None, True), (7.0, False)])
def test_the_jacobian_is_that_of_the_equations(total, strength_known):
    release, _ = trained("softmax", 12)
    with x64():
        problem = problem_of(release, total=total, strength_known=strength_known)
        x, still = problem.start(np.random.default_rng(3), 4)
        v = problem.flatten(x) + 0.1
        found = problem.jacobian(problem.unflatten(v, x), still)
        step = 1e-6 * np.eye(len(v))
        ends = [[problem.left(problem.unflatten(v + s * e, x), still) for s in (1, -1)] for e in step]
        np.testing.assert_allclose(found, np.array([(a - b) / 2e-6 for a, b in ends]).T, atol=1e-6)


def test_no_measure_falls_below_the_certificate():
    """Duality against random measures of the mass, on a domain where it is not trivial."""
    release, _ = trained("events", 25)
    moved = {k: 0.7 * np.asarray(v) for k, v in release.model.constrain(release.theta[0]).items()}
    release = dirac(release.model, moved)
    rng = np.random.default_rng(0)
    with x64():
        problem = problem_of(release, total=2.0)
        x, still = problem.start(rng, 4)
        least, mass, _ = problem.certify(problem.left(x, still), problem.weights(x), rng)
        assert least > 0
        assert mass == 2
        for _ in range(200):
            records = {"x": rng.uniform(-1, 1, (3, 2))}
            weights = 2 * rng.dirichlet(np.ones(3))
            each = np.asarray(gradients(release.model, problem.theta, records))
            assert np.linalg.norm(weights @ each + problem.base) / np.linalg.norm(problem.base) >= least


def test_events_are_found_one_by_one():
    release, data = trained("events", 5)
    found = bayesrecon.reconstruct(release, attack=GradientMatching(n=5, multipliers="one", steps=200))
    assert found.residual < 1e-8
    assert found.determined.all()
    assert found.equations == found.unknowns == 10
    with x64():
        total = total_score(release.model, release.theta[0], found.pseudo.records, found.pseudo.weights)
        base = total_score(release.model, release.theta[0], found.pseudo.records, np.zeros(5))
    assert np.linalg.norm(total) / np.linalg.norm(base) == pytest.approx(found.residual, rel=1e-3, abs=1e-12)
    pairs = match(data["x"], found.pseudo.records["x"])
    assert pairs.cost.max() < 1e-5
    assert found.error["x"].max() < 1e-5


@pytest.mark.slow
def test_more_events_than_equations_are_not_determined():
    release, _ = trained("events", 25)
    found = bayesrecon.reconstruct(release, attack=GradientMatching(n=25, steps=60), key=1)
    assert found.unknowns == 75
    assert found.equations < 75
    assert found.total == pytest.approx(25, rel=0.02)
    assert not found.determined.all()


@pytest.mark.slow
def test_an_unknown_decay_is_found_where_records_are_determined():
    """The attacker believes in half the regulariser; the count fixes its strength."""
    release, data = trained("softmax", 4)
    half = from_loss(
        output,
        lambda out, y: jax.nn.logsumexp(out) - out[y],
        lambda params: decay_of(params, 0.05),
        params=start(np.random.default_rng(0), (CLASSES,)),
        record={"x": (2,), "y": ()},
        domain={"x": (-1.0, 1.0), "y": list(range(CLASSES))},
    )
    stated = dirac(half, {k: np.asarray(v) for k, v in release.model.constrain(release.theta[0]).items()})
    found = bayesrecon.reconstruct(stated, attack=GradientMatching(n=12, strength_known=False, steps=400), total=4)
    assert found.residual < 1e-6
    assert found.total == pytest.approx(4)
    with x64():  # the equations hold at the private data with strength two
        each = np.asarray(gradients(half, stated.theta[0], data)).sum(axis=0)
        problem = problem_of(stated, total=4.0, strength_known=False)
        assert np.linalg.norm(each + 2 * problem.base) < 1e-8 * np.linalg.norm(problem.base)


def test_a_match_in_every_form(tmp_path):
    release, _ = trained("softmax", 12)
    found = bayesrecon.match_gradient(release, n=6, restarts=1, steps=5)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["n"] == 6
    assert list(found.to_dataframe().columns) == ["weight", "determined", "x[1]", "x[2]", "y"]
    assert len(found.to_dataframe()) == 6
    assert "&lt;softmax&gt;" in found._repr_html_()
    assert plot_matched(found, path=tmp_path / "records.png").get_xlabel() == "x[1]"
    assert (tmp_path / "records.png").stat().st_size > 0
    assert plot_matched(found, shape=(1, 2), path=tmp_path / "images.png").images
    with pytest.raises(BayesreconError, match="no image of 3 by 3"):
        plot_matched(found, shape=(3, 3))


def test_a_mosaic_keeps_the_images_apart():
    whole = mosaic(np.arange(44.0).reshape(11, 4), (2, 2))
    assert whole.shape == (5, 29)
    np.testing.assert_array_equal(whole[3:, :2], [[40, 41], [42, 43]])
    assert np.isnan(whole[2]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"multipliers": "two"}, "'free' or 'one'"),
        ({"multipliers": "one", "total": 7}, "contradicts multipliers"),
        ({"strength_known": False}, "state total="),
        ({"known": {"x": [1.0]}}, "no use for known="),
        ({"steps": 0}, "positive whole numbers"),
    ],
)
def test_bad_matching_is_refused(given, message):
    knows = {k: v for k, v in given.items() if k in ("total", "known")}
    options = {k: v for k, v in given.items() if k not in knows}
    release = trained("softmax", 12)[0]
    with pytest.raises(BayesreconError, match=message):
        bayesrecon.reconstruct(release, attack=GradientMatching(n=6, **options), **knows)


@pytest.mark.slow
def test_digits_come_back():
    """Beside digits that were not used; restarts are chosen by the residual."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x, rng = x / 16, np.random.default_rng(0)
    own = rng.choice(len(x), 6, replace=False)
    shapes = {"w": (64, 10), "b": (10,), "v": (10, 10), "c": (10,)}
    begin = {k: 0.3 * rng.normal(size=s) for k, s in shapes.items()}
    model = from_loss(
        output,
        lambda out, y: jax.nn.logsumexp(out) - out[y],
        lambda params: decay_of(params, 0.1),
        params=begin,
        record={"x": (64,), "y": ()},
        domain={"x": (0.0, 1.0), "y": list(range(10))},
    )
    release = train_network(model, begin, {"x": x[own], "y": y[own]}).release
    found = bayesrecon.reconstruct(release, attack=GradientMatching(n=20, steps=200))
    scores = []
    for chosen in (own, np.setdiff1d(np.arange(len(x)), own)[:6]):
        pairs = match(x[chosen], found.pseudo.records["x"])
        images = (t.reshape(-1, 8, 8) for t in (x[chosen][pairs.truth], found.pseudo.records["x"][pairs.guess]))
        scores.append(np.median(ssim(*images, value_range=1.0)))
    assert scores[0] > scores[1] + 0.2
