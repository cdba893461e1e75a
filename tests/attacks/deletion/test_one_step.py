"""Pairs that a single step made: its record comes back, and what was no such step is said."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from predictors import CASES, X, make
from written import refused

import bayesrecon
from bayesrecon import HRec
from bayesrecon.attacks import Improvements, OneStep
from bayesrecon.models import from_loss
from bayesrecon.posteriors import (
    dirac,
    gradient_step_without,
    newton_step_without,
    retrain_without,
    train,
)


def trained(loss):
    outputs, y, below, _ = CASES[loss]
    data = {"x": X[:200], "y": y[:200]}
    return data, train(make(loss, outputs, intercept_penalty=below), data, tolerance=1e-11).release


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_a_gradient_step_shows_its_record(loss):
    data, before = trained(loss)
    for row, after in zip((3, 8), gradient_step_without(before, data, [3, 8], rate=0.05), strict=True):
        found = bayesrecon.reconstruct(bayesrecon.deletion(before, after), attack=OneStep())
        np.testing.assert_allclose(found.record["x"], data["x"][row], rtol=1e-6)
        if loss != "squared":
            assert int(found.record["y"]) == data["y"][row]
        if loss == "softmax":  # which the attack on retraining says, too
            said = bayesrecon.reconstruct(bayesrecon.deletion(before, after), attack=HRec(public=data)).doubts
            assert any("use OneStep" in doubt for doubt in said)
        assert bool(found.doubts) == (loss != "softmax")  # one output cannot show that it was one step


def test_other_changes_are_reported_as_no_step():
    data, before = trained("softmax")
    after = retrain_without(before, data, [3])[0].release
    (doubt,) = bayesrecon.reconstruct(bayesrecon.deletion(before, after), attack=OneStep()).doubts
    assert "not one gradient step" in doubt
    moved = before.theta[0] * (1 + 1e-13)
    near = dirac(before.model, before.model.split(moved))
    refused(
        "differ by rounding: nothing can be said",
        bayesrecon.reconstruct,
        bayesrecon.deletion(before, near),
        attack=OneStep(),
    )


@pytest.mark.slow
def test_newton_steps_are_retraining_of_least_squares_and_near_it_else():
    for loss, tolerance in (("squared", 1e-9), ("softmax", 0.1)):
        data, before = trained(loss)
        (step,) = newton_step_without(before, data, [5])
        exact = retrain_without(before, data, [5], tolerance=1e-10)[0].release
        moved = np.linalg.norm(exact.theta - before.theta)
        assert np.linalg.norm(step.theta - exact.theta) < tolerance * moved
        if loss == "softmax":  # with the private records as public ones, the step tells its record
            public = {k: np.delete(v, 5, axis=0) for k, v in data.items()}
            attack = HRec(public=public, improvements=replace(Improvements.none(), regulariser=True))
            found = bayesrecon.reconstruct(bayesrecon.deletion(before, step), attack=attack, total=199)
            assert np.abs(found.record["x"] - data["x"][5]).max() < 0.02


def test_bad_steps_are_refused():
    data, before = trained("softmax")
    refused("rows must lie between 0 and 199", newton_step_without, before, data, [200])
    refused("rate=0: expected a number above 0", gradient_step_without, before, data, [1], rate=0)
    refused("the records lack field y", gradient_step_without, before, {"x": data["x"]}, [1], rate=1.0)
    model = from_loss(
        lambda p, x: jnp.tanh(x @ p["w"]),
        lambda out, y: jax.nn.logsumexp(out) - out[y],
        lambda p: 0.5 * jnp.sum(p["w"] ** 2),
        params={"w": np.zeros((3, 2))},
        record={"x": (3,), "y": ()},
        domain={"y": [0, 1]},
    )
    pair = bayesrecon.deletion(*(dirac(model, {"w": np.full((3, 2), v)}) for v in (0.1, 0.2)))
    refused("has no linear predictor", bayesrecon.reconstruct, pair, attack=OneStep())
