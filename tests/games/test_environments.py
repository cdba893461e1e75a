"""Compliance as a game: which worlds there are, what environments may do, and what is left of a deletion."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from written import refused

from bayesrecon.games import (
    Functions,
    Law,
    LeastSquares,
    LinearLaw,
    Logistic,
    OutputPerturbation,
    Retrain,
    TwoNormals,
    play,
)
from bayesrecon.games.approximate import NewtonStep
from bayesrecon.games.compliance import Clearing, Comparing, ComplianceGame, Environment, Watching
from bayesrecon.games.data import Records
from bayesrecon.games.playing import GameError

LINE = Law("linear law", LinearLaw(3), size=40, outside=0)
NORMALS = Law("two normals", TwoNormals(3, 1.0), classes=2, size=40, outside=0)
COUNTING = Functions("counting", lambda x, y, seed: float(len(y)), lambda n, x: np.full(len(x), n), "values")


@dataclass(frozen=True)
class Counting(Environment):
    """Writes down how many records each model was trained on."""

    seen: list = field(default_factory=list)

    @property
    def name(self):
        return "counting"

    def score(self, collector):
        counts = [collector.ask(collector.challenges.x)[0]]
        collector.delete([0, 3])
        counts.append(collector.ask(collector.challenges.x)[0])
        collector.leave()
        counts.append(collector.ask(collector.challenges.x)[0])
        self.seen.append((len(collector.others.y), len(collector.challenges.y), *map(int, counts)))
        return 0.0


def test_the_worlds():
    weak, strong = Counting(), Counting()
    play(ComplianceGame(LINE, COUNTING, weak, deletions=2), 10, workers=1)
    assert set(weak.seen) == {(38, 2, 40, 38, 37)}
    play(ComplianceGame(LINE, COUNTING, strong, notion="strong", deletions=2), 20, workers=1)
    assert set(strong.seen) == {(39, 1, 39, 37, 37), (39, 1, 40, 38, 37)}  # never stored, or stored and deleted


@dataclass(frozen=True)
class Asking(Environment):
    rows: tuple = ()
    leaves: int = 1

    @property
    def name(self):
        return "asking"

    def score(self, collector):
        collector.delete(list(self.rows))
        for _ in range(self.leaves):
            collector.leave()
        return 0.0


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (Asking((0, 1, 2)), "may delete at most 2 of its records"),
        (Asking((38,)), "can delete only its own records"),
        (Asking((1, 1)), "can delete only its own records"),
        (Asking(leaves=2), "the user's record was already deleted"),
    ],
)
def test_what_an_environment_may_not_do(environment, said):
    with pytest.raises(GameError, match=said):
        play(ComplianceGame(LINE, COUNTING, environment, deletions=2), 2, workers=1)


def test_exact_deletion_is_told_by_watching_and_leaves_nothing_behind():
    (row,) = play(ComplianceGame(LINE, LeastSquares(), Watching("absolute")), 100, workers=1).rows
    assert row.success.lower > 0.8
    watching, comparing = play(
        ComplianceGame(LINE, LeastSquares(), (Watching(), Comparing()), notion="strong"), 60, workers=1
    ).rows
    assert (watching.wins, comparing.ties) == (60, 60)


def test_other_deletions_hide_one():
    game = ComplianceGame(LINE, LeastSquares(), (Watching("absolute"), Watching("absolute", 12)), deletions=12)
    alone, among = play(game, 100, workers=1).rows
    assert among.success.upper < alone.success.lower


@pytest.mark.slow
def test_a_newton_step_leaves_traces_that_the_next_ones_wipe_out():
    game = ComplianceGame(
        NORMALS, Logistic(), (Comparing(), Comparing(4)), notion="strong", deletion=NewtonStep(), deletions=4
    )
    at_once, later = play(game, 40, workers=1).rows
    assert at_once.wins > 35
    assert later.ties > 35
    exact = play(ComplianceGame(NORMALS, Logistic(), Comparing(), notion="strong"), 20, workers=1)
    assert exact.rows[0].ties == 20


def test_clearing_deletes_the_nearest():
    @dataclass(frozen=True)
    class Seen(Clearing):
        kept: list = field(default_factory=list)

        def score(self, collector):
            found = super().score(collector)
            scale = collector.others.x.std(axis=0)
            far = (((collector.others.x[:, None] - collector.challenges.x) / scale) ** 2).sum(axis=2).min(axis=1)
            left = np.isin(np.arange(len(far)), collector._present)
            self.kept.append((far[~left].mean(), far[left].mean(), int((~left).sum())))
            return found

    seen = Seen(count=6, requests=3, loss="log")
    play(ComplianceGame(NORMALS, Logistic(), seen, deletions=6), 10, workers=1)
    assert all(gone < left for gone, left, _ in seen.kept)
    assert {count for *_, count in seen.kept} == {6}


@pytest.mark.slow
def test_a_promised_epsilon_is_held_against_the_weak_notion_alone():
    private = OutputPerturbation(epsilon=1.0)
    weak = play(ComplianceGame(NORMALS, private, (Watching("log"), Comparing())), 20, workers=1)
    assert weak.claimed_epsilon == 1.0
    assert (
        play(ComplianceGame(NORMALS, private, Watching("log"), notion="strong"), 5, workers=1).claimed_epsilon is None
    )
    newton = ComplianceGame(NORMALS, Logistic(), Watching("log"), deletion=NewtonStep(noise=0.1))
    assert play(newton, 5, workers=1).claimed_epsilon is None
    refused(
        "trainings with independent noise",
        play,
        ComplianceGame(NORMALS, private, Watching("log"), Retrain(False)),
        1,
    )


def test_games_that_do_not_go_together_are_refused():
    refused("expected 'weak' or 'strong'", ComplianceGame, LINE, LeastSquares(), Watching(), notion="strict")
    refused("needs environments", ComplianceGame, LINE, LeastSquares(), ())
    refused("plays the weak notion alone", ComplianceGame, NORMALS, Logistic(), Clearing(), notion="strong")
    refused("expected 1 <= requests <= count", Clearing, count=2, requests=3)
    x = np.zeros((4, 1))
    refused(
        "needs logistic or softmax",
        NewtonStep(),
        LeastSquares(),
        None,
        Records(x, x[:, 0]),
        np.array([0]),
        0,
        (0, 1),
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_a_newton_step_is_nearly_retraining(classes):
    """Its error is of second order: a record of ten times less influence leaves a hundredth."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 2))
    data = Records(x, rng.integers(classes, size=60))
    errors = []
    for copies in (1, 10):
        many = Records(np.tile(x, (copies, 1)), np.tile(data.y, copies))
        learner = Logistic(C=1.0 / copies)
        before, rows = learner.fit(many, classes, 0), np.array([5])
        exact = learner.without(before, many, rows, classes, 0)(x)
        near = NewtonStep()(learner, before, many, rows, classes, (0, 1))(x)
        errors.append(np.abs(near - exact).max())
    assert errors[1] < errors[0] / 50
    noisy = NewtonStep(noise=0.5)(learner, before, many, rows, classes, (0, 1))
    assert np.abs(noisy(x) - exact).max() > 0.01
