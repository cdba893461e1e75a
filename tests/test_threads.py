"""Threads of BLAS: one inside a verb, those of before after it."""

import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401
from threadpoolctl import ThreadpoolController, threadpool_limits

import bayesrecon
from bayesrecon.estimation import solve
from bayesrecon.models import load
from bayesrecon.posteriors import from_draws
from bayesrecon.running import threads


def used():
    """Threads of every BLAS of this process."""
    return [one["num_threads"] for one in ThreadpoolController().info() if one["user_api"] == "blas"]


@pytest.fixture
def three():
    """Three threads, whatever the machine has."""
    with threadpool_limits(3, user_api="blas"):
        yield [3] * len(used())


def test_one_thread_and_those_of_before(three):
    one = [1] * len(three)
    with threads.one_thread():
        assert used() == one
        with threads.one_thread():
            assert used() == one
        assert used() == one
    assert used() == three


def test_an_error_restores_them(three):
    with pytest.raises(ZeroDivisionError), threads.one_thread():
        _ = 1 / 0
    assert used() == three


def test_verbs_at_once_leave_what_was_set(three):
    """Whichever ends first, no thread is left with one for good."""
    inside, leave = threading.Event(), threading.Event()

    def other():
        with threads.one_thread():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with threads.one_thread():
        thread.start()
        inside.wait()
        assert used() == [1] * len(three)
    assert used() == three
    leave.set()
    thread.join()
    with threads.one_thread():
        assert used() == [1] * len(three)
    assert used() == three


def test_libraries_are_looked_for_once(monkeypatch):
    made = []

    class Counted(ThreadpoolController):
        def __init__(self):
            made.append(1)
            super().__init__()

    monkeypatch.setattr("threadpoolctl.ThreadpoolController", Counted)
    monkeypatch.setattr(threads, "_THREADS", threads._Threads())
    for _ in range(3):
        with threads.one_thread():
            pass
    assert len(made) == 1


@pytest.mark.slow
def test_a_verb_solves_on_one(three, monkeypatch):
    seen, plain = [], solve.solution

    def looked(gram, target):
        seen.extend(used())
        return plain(gram, target)

    monkeypatch.setattr(solve, "solution", looked)
    rng = np.random.default_rng(0)
    values = {"coef": rng.normal(2, 0.1, (2, 200, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 200, 1))}
    bayesrecon.recover(from_draws(values, load("linear_predictor")))
    assert set(seen) == {1}
    assert used() == three
