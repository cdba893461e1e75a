"""Records from their embeddings, and HRec over one."""

import jax.numpy as jnp
import numpy as np
import pytest

import bayesrecon
from bayesrecon import HRec
from bayesrecon.attacks import Improvements
from bayesrecon.attacks.deletion.inversion import embed, feature_metric, inner_product, invert_embedding
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import cosine_similarity
from bayesrecon.models import load
from bayesrecon.posteriors import retrain_without, train

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (600, 6))
W, B = RNG.normal(size=(6, 40)), RNG.uniform(0, 2 * np.pi, 40)


def phi(x):
    return jnp.cos(x @ W + B)


def test_the_metric_is_the_inverse_of_a_regularised_covariance():
    """With every direction kept it is `(Cov + r I)^-1`, computed by brute force."""
    features = embed(phi, X)
    about = features - features.mean(axis=0)
    covariance = about.T @ about / len(about)
    ridge = 0.1 * np.trace(covariance) / 40
    expected = about[:5] @ np.linalg.inv(covariance + ridge * np.eye(40)) @ about[5:10].T
    np.testing.assert_allclose(
        inner_product(about[:5], about[5:10], feature_metric(features)), np.diag(expected), rtol=1e-6
    )


@pytest.mark.slow
def test_exact_embeddings_are_inverted():
    targets = embed(phi, X[:20])
    found = invert_embedding(phi, targets, X[20:])
    assert np.median(found.misfit) < 1e-3
    assert np.median(np.abs(found.x - X[:20]).max(axis=1)) < 0.02
    np.testing.assert_allclose(found.misfit, found.misfits.min(axis=1))
    assert (found.x >= X[20:].min(axis=0)).all()
    assert (found.x <= X[20:].max(axis=0)).all()
    # The multiple that an estimate carries does not matter.
    centre = embed(phi, X[20:]).mean(axis=0)
    again = invert_embedding(phi, centre + 3 * (targets - centre), X[20:])
    np.testing.assert_allclose(again.x, found.x, atol=1e-6)


@pytest.mark.slow
def test_hrec_over_an_embedding_gives_the_record():
    model = load("linear_predictor", loss="squared", features=40, penalty=1.0)
    y = X @ np.arange(6) + RNG.normal(size=600)
    private, public = np.arange(300), np.arange(300, 600)
    data = {"x": embed(phi, X[private]), "y": y[private]}
    before = train(model, data).release
    rows = range(0, 300, 30)
    pairs = [bayesrecon.deletion(before, t.release) for t in retrain_without(before, data, rows)]
    attack = HRec(public={"x": X[public], "y": y[public]}, embedding=phi).prepare(model)
    found = attack.invert([attack(p) for p in pairs])
    truth = X[private][list(rows)]
    nearest = np.stack([X[public][((X[public] - f) ** 2).sum(axis=1).argmin()] for f in truth])
    similar = cosine_similarity(found.x, truth)
    assert np.median(similar) > 0.95
    # Not even the public record that is nearest to the truth comes as close.
    assert np.median(similar) > np.median(cosine_similarity(nearest, truth))
    one = bayesrecon.reconstruct(pairs[0], attack=HRec(public={"x": X[public], "y": y[public]}, embedding=phi))
    np.testing.assert_allclose(one.record["x"], found.x[0], atol=1e-6)


def test_without_an_intercept_the_length_is_that_of_public_records():
    model = load("linear_predictor", loss="logistic", features=6, penalty=1.0, intercept=False)
    x = X + 1
    y = (x @ np.arange(-2, 4) + RNG.logistic(size=600) > 0).astype(int)
    data, public = {"x": x[:300], "y": y[:300]}, {"x": x[300:], "y": y[300:]}
    before = train(model, data).release
    after = retrain_without(before, data, range(20))
    truth, scored = x[:20], {}
    for use in (Improvements.none(), Improvements()):
        attack = HRec(public=public, improvements=use).prepare(model)
        guess = np.stack([attack(bayesrecon.deletion(before, a.release)).x for a in after])
        assert np.median(cosine_similarity(guess, truth)) > 0.95
        scored[use.scale] = np.median(np.abs(np.log(np.linalg.norm(guess, axis=1) / np.linalg.norm(truth, axis=1))))
    assert scored[True] < 0.3 < scored[False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embedding": lambda x: x @ jnp.ones((3, 2))}, "embedding of one record cannot be evaluated"),
        ({"embedding": lambda x: x.sum()}, "expected"),
        ({"embedding": lambda x: x[:3]}, "3 features, the targets 40"),
        ({"embedding": lambda x: jnp.log(x[0] - 5) * jnp.ones(40)}, "missing or infinite"),
        ({"embedding": lambda x: jnp.ones(40) + 0 * x[0]}, "the same embedding"),
        ({"public": X[:1]}, "at least two"),
        ({"starts": 0}, "at least one"),
    ],
)
def test_bad_input(change, message):
    settings = {"embedding": phi, "targets": np.ones((1, 40)), "public": X} | change
    with pytest.raises(BayesreconError, match=message):
        invert_embedding(**settings)


def test_nothing_to_invert():
    model = load("linear_predictor", loss="squared", features=6)
    with pytest.raises(BayesreconError, match="no embedding"):
        HRec(public={"x": X}).prepare(model).invert([])
