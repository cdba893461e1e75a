"""Programs that attack many releases: the rows are those of one process, whoever attacks."""

import importlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from parts import slow_then_large

from bayesrecon.running.engine import using


@pytest.fixture
def program():
    """A program of benchmarks by its name."""
    return lambda name: importlib.import_module(f"benchmarks.draws.{name}")


class Counting(ThreadPoolExecutor):
    def __init__(self):
        super().__init__(2)
        self.asked = 0

    def submit(self, *arguments, **more):
        self.asked += 1
        return super().submit(*arguments, **more)


def both(rows, count):
    """Rows without an engine and with one, which is asked so often."""
    alone = list(rows())
    with Counting() as pool, using(pool):
        assert list(rows()) == alone
    assert pool.asked == count
    return alone


@pytest.mark.slow
def test_coverage_studies(program):
    calibration = program("calibration")
    rows = both(lambda: calibration.intervals(6, ["normal_mean"]), 6)
    assert [row["quantity"] for row in rows] == ["n", "mean(y)", "all", "false alarms"]
    assert rows[0]["repetitions"] == "6"


@pytest.mark.parametrize("study, repetitions, count", slow_then_large(("planner", 10, 2), ("bounds", 10, 2)))
def test_other_studies(program, study, repetitions, count):
    both(lambda: program("calibration").STUDIES[study](repetitions), count)


@pytest.mark.slow
def test_workers_count_failed_checks_like_one_process(program):
    checks = program("checks")

    def rows():
        rng = np.random.default_rng(1)
        releases = [checks.in_chains(checks.SIMULATED["normal mean"](rng, 400)[1]) for _ in range(3)]
        move = 5.0 * (releases[0].chain == 1)[:, None]  # of one chain
        far = [checks.dataclasses.replace(r, theta=np.asarray(r.theta) + move) for r in releases]
        return checks.failed(releases), checks.failed(far)

    good, bad = both(rows, 6)
    assert good == [False, False, False]
    assert bad == [True, True, True]
