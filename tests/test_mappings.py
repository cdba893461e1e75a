"""Compiled programs make room before a process may map no more memory."""

import jax
import pytest

import bayesrecon
from bayesrecon.posteriors import from_draws
from bayesrecon.running import mappings


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setattr(mappings, "PAUSE", 0.0)
    compiled = jax.jit(lambda x: x + 1.0)
    compiled(1.0)
    assert compiled._cache_size() == 1
    return compiled


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "left"), [(2.0, 0), (float("inf"), 1)])
def test_programs_are_dropped_where_they_take_most_of_what_is_allowed(program, monkeypatch, limit, left):
    monkeypatch.setattr(mappings, "used", lambda: 2)
    monkeypatch.setattr(mappings, "allowed", lambda: limit)
    mappings.make_room()
    assert program._cache_size() == left
    assert program(1.0) == 2.0


@pytest.mark.slow
def test_every_verb_makes_room(program, monkeypatch):
    monkeypatch.setattr(mappings, "used", lambda: 2)
    monkeypatch.setattr(mappings, "allowed", lambda: 2.0)
    with pytest.raises(bayesrecon.BayesreconError):
        bayesrecon.recover(from_draws)
    assert program._cache_size() == 0


def test_a_second_look_waits(program, monkeypatch):
    looks = []
    monkeypatch.setattr(mappings, "used", lambda: looks.append(0) or 2)
    mappings.make_room()
    monkeypatch.setattr(mappings, "PAUSE", 60.0)
    mappings.make_room()
    assert len(looks) == 1
