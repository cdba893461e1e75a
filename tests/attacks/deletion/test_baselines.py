"""Baselines of HRec: which public records' predictions change most."""

import jax.numpy as jnp
import numpy as np
import pytest
from predictors import make

import bayesrecon
from bayesrecon import HRec
from bayesrecon.attacks.deletion.prepared import changed_most
from bayesrecon.posteriors import dirac


def pair_of(loss, outputs, features, rng):
    model = make(loss, outputs, features)
    one, two = (
        dirac(model, {"coef": rng.normal(size=(outputs, features)), "intercept": rng.normal(size=outputs)})
        for _ in range(2)
    )
    return bayesrecon.deletion(one, two)


@pytest.mark.parametrize(("loss", "outputs"), [("softmax", 4), ("logistic", 1), ("squared", 3), ("squared_hinge", 1)])
def test_maxdiff_is_the_published_one(loss, outputs):
    """`argmax |(x, 1)' (theta+ - theta-)|`, the Euclidean norm over outputs (Bertran et al. 2024)."""
    rng = np.random.default_rng(0)
    x, pair = rng.normal(size=(200, 3)), pair_of(loss, outputs, 3, rng)
    y = rng.normal(size=(200, outputs)) if loss == "squared" else rng.integers(0, max(outputs, 2), 200)
    found = HRec(public={"x": x, "y": y}).prepare(pair.before.model).baselines(pair)
    before, after = (pair.before.model.split(r.theta[0]) for r in (pair.before, pair.after))
    moved = x @ np.asarray(before["coef"] - after["coef"]).T + np.asarray(before["intercept"] - after["intercept"])
    np.testing.assert_array_equal(found["maxdiff"], x[np.argmax((moved**2).sum(axis=1))])
    np.testing.assert_allclose(found["avg"], x.mean(axis=0))
    assert ("maxdiff_probabilities" in found) == (loss in ("softmax", "logistic"))


def test_probabilities_pass_over_what_the_model_is_sure_of():
    before, after = np.array([[20.0, 0.0], [0.0, 0.0]]), np.array([[15.0, 0.0], [1.0, 0.0]])
    assert changed_most(before, after, classes=True) == {"maxdiff": 0, "maxdiff_probabilities": 1}
    assert changed_most(before[:, :1], after[:, :1], classes=True) == {"maxdiff": 0, "maxdiff_probabilities": 1}
    assert changed_most(before, after, classes=False) == {"maxdiff": 0}


def test_of_an_embedding_they_are_records():
    rng = np.random.default_rng(1)
    w, x, pair = jnp.asarray(rng.normal(size=(2, 6))), rng.normal(size=(50, 2)), pair_of("logistic", 1, 6, rng)
    attack = HRec(public={"x": x, "y": rng.integers(0, 2, 50)}, embedding=lambda one: jnp.cos(one @ w))
    prepared = attack.prepare(pair.before.model)
    found, which = prepared.baselines(pair), prepared.changed_most(pair)
    np.testing.assert_allclose(found["avg"], x.mean(axis=0))
    for name, i in which.items():
        np.testing.assert_array_equal(found[name], x[i])
