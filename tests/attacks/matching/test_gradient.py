"""Records that match the gradient of a trained network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from networks import CLASSES, decay_of, output, problem_of, start, trained

import bayesrecon
from bayesrecon import GradientMatching
from bayesrecon.divergence.score import gradients, total_score
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import match, ssim
from bayesrecon.models import from_loss
from bayesrecon.posteriors import dirac, train_network
from bayesrecon.precision import x64


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
    assert sum(r < 1e-9 for r in found.residuals) == 2


@pytest.mark.slow
def test_nothing_is_determined_above_the_floor():
    """4-16-3, six records: as many independent equations as unknowns, and yet no record is near a true one."""
    rng = np.random.default_rng(0)
    begin = {
        "w": 0.5 * rng.normal(size=(4, 16)),
        "b": np.zeros(16),
        "v": 0.5 * rng.normal(size=(16, 3)),
        "c": np.zeros(3),
    }
    model = from_loss(
        output,
        lambda out, y: 0.5 * jnp.sum((out - y) ** 2),
        lambda params: decay_of(params, 0.02),
        params=begin,
        record={"x": (4,), "y": (3,)},
    )
    data = {"x": rng.normal(size=(6, 4)), "y": rng.normal(size=(6, 3))}
    release = train_network(model, begin, data).release
    attack = GradientMatching(n=6, multipliers="one", restarts=2, steps=60)
    found = bayesrecon.reconstruct(release, attack=attack, key=3)
    assert found.equations == found.unknowns == 42
    assert found.residual > 1e-5
    assert match(data["x"], found.pseudo.records["x"]).cost.max() > 0.9
    assert not found.determined.any()
    assert np.isinf(found.error["x"]).all()
    assert any("no record is determined" in w for w in found.warnings)


def test_one_start_confirms_nothing():
    release, _ = trained("events", 5)
    found = bayesrecon.reconstruct(release, attack=GradientMatching(n=5, multipliers="one", steps=200, restarts=1))
    assert found.residual < 1e-8
    assert not found.determined.any()
    assert "a single start of 1 reached the floor" in found.warnings[-1]


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
    attack = GradientMatching(n=12, strength_known=False, steps=400)
    found = bayesrecon.reconstruct(stated, attack=attack, total=4, key=1)
    assert found.residual < 1e-6
    assert found.total == pytest.approx(4)
    with x64():  # the equations hold at the private data with strength two
        each = np.asarray(gradients(half, stated.theta[0], data)).sum(axis=0)
        problem = problem_of(stated, total=4.0, strength_known=False)
        assert np.linalg.norm(each + 2 * problem.base) < 1e-8 * np.linalg.norm(problem.base)


@pytest.mark.slow
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
