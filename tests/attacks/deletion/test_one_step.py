"""Pairs that a single step made: its record comes back, and what was no such step is said."""

import numpy as np
import pytest
from predictors import CASES, X, make

import bayesrecon
from bayesrecon import HRec
from bayesrecon.attacks import OneStep
from bayesrecon.posteriors import (
    dirac,
    gradient_step_without,
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
    found = bayesrecon.reconstruct(bayesrecon.deletion(before, near), attack=OneStep())
    assert not found.record
    assert "differ by rounding: nothing can be said" in repr(found)
