"""Starts from the measure that the gradients determine."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesrecon
from bayesrecon import GradientMatching
from bayesrecon.attacks.matching import gradient
from bayesrecon.attacks.matching.descent import descend
from bayesrecon.evaluate import match
from bayesrecon.models import from_loss
from bayesrecon.posteriors import train_network
from bayesrecon.precision import x64


def two_layers(width, entries, size, seed=0, towards_start=True):
    """A trained tanh network, its penalty towards the start or towards zero, and its records."""
    rng = np.random.default_rng([width, entries])
    begin = {
        "w": 2 * rng.normal(size=(entries, width)),
        "b": rng.normal(size=width),
        "v": rng.normal(size=width) / width**0.5,
    }
    centre = begin if towards_start else {k: np.zeros_like(v) for k, v in begin.items()}
    model = from_loss(
        lambda p, x: jnp.tanh(x @ p["w"] + p["b"]) @ p["v"],
        lambda out, y: jax.nn.softplus(out) - y * out,
        lambda p: 0.05 * sum(jnp.sum((p[k] - centre[k]) ** 2) for k in p),
        params=begin,
        record={"x": (entries,), "y": ()},
        domain={"x": (-1.0, 1.0), "y": [0, 1]},
    )
    private = np.random.default_rng([seed, size])
    data = {"x": private.uniform(-1, 1, (size, entries)), "y": (np.arange(size) % 3 == 0).astype(int)}
    return train_network(model, begin, data).release, data


@pytest.mark.slow
def test_records_come_back_where_random_starts_fail():
    release, data = two_layers(32, 2, 6)
    attack = GradientMatching(n=6, multipliers="one", restarts=6, steps=200)
    found = bayesrecon.reconstruct(release, attack=attack, key=1)
    assert found.determined.all()
    assert match(data["x"], found.pseudo.records["x"]).cost.max() < 1e-6
    assert sorted(found.pseudo.records["y"]) == sorted(data["y"])
    rng = np.random.default_rng(1)
    with x64():
        equations = attack.equations(release, {})
        ends = [descend(equations, equations.start(rng, 6), 200, lambda _: None) for _ in range(3)]
    assert min(end.residual for end in ends) > 1e-3


@pytest.mark.slow
def test_starts_from_a_measure_alone_do_not_determine_a_square_system():
    """Under weight decay the kernel has as low a rank as there are unknowns, and the equations several solutions."""
    release, _ = two_layers(10, 2, 6, towards_start=False)
    attack = GradientMatching(n=6, multipliers="one")
    with x64():
        equations = attack.equations(release, {})
        assert gradient.independent_equations(equations, np.random.default_rng(0), 6) <= 12
    found = bayesrecon.reconstruct(release, attack=replace(attack, restarts=3, steps=200))
    assert not found.determined.any()


@pytest.mark.slow
def test_many_entries_or_an_unknown_sum_leave_random_starts():
    release, _ = two_layers(10, 2, 6)
    with x64():
        free = GradientMatching(n=6)
        assert gradient.pool_size(free.equations(release, {}), 6) == 0
        assert gradient.pool_size(free.equations(release, {"total": 6}), 6) > 0
    wide, _ = two_layers(10, 17, 2)
    with x64():
        equations = GradientMatching(n=2, multipliers="one").equations(wide, {})
        assert gradient.pool_size(equations, 2) == 0
        assert gradient.independent_equations(equations, np.random.default_rng(0), 2) == 0


@pytest.mark.slow
def test_weights_are_not_negative_and_sum_to_the_total():
    release, _ = two_layers(10, 2, 6)
    with x64():
        equations = GradientMatching(n=6, multipliers="one").equations(release, {})
        pool, fixed = equations.start(np.random.default_rng(0), 400)
        weights, strength, left = gradient.weigh(equations, pool, fixed, 6.0)
        empty = ({k: v[:0] for k, v in records.items()} for records in (pool, fixed))
        none, _, infinite = gradient.weigh(equations, *empty, 6.0)
    assert (none.size, infinite) == (0, np.inf)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(6.0, rel=1e-3)
    assert strength == 1.0
    assert left < 0.05


def test_a_measure_is_dealt_out_by_the_largest_remainder():
    rng = np.random.default_rng(0)
    places = np.array([[0.0], [0.01], [1.0], [1.01], [5.0]])
    labels = np.array([[0], [0], [0], [0], [1]])
    weights = np.array([0.5, 0.5, 1.0, 1.1, 0.9])
    chosen, found = gradient.as_records(rng, places, labels, weights, 4)
    assert sorted(labels[chosen, 0]) == [0, 0, 0, 1]
    assert np.sort(found[:, 0]) == pytest.approx([0.005, 1.0, 1.01, 5.0], abs=0.1)
    assert gradient.as_records(rng, places, labels, np.zeros(5), 4)[1].shape == (4, 1)
