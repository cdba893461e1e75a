"""The reconstruction game: what was right, what was wrong, and what was not answered."""

import json

import numpy as np
import pytest

from bayesrecon import load_result
from bayesrecon.errors import BayesreconError
from bayesrecon.games import (
    DeletedLabel,
    KnownInstance,
    Law,
    LeastSquares,
    LinearLaw,
    Logistic,
    Neighbours,
    ReconstructionGame,
    Reconstructor,
    TwoNormals,
    play,
)
from bayesrecon.games.reconstructor import Guess

LINE = Law("linear law", LinearLaw(3), size=60, outside=600)
NORMALS = Law("two normals", TwoNormals(3, 2.0), classes=2, size=60, outside=60)


def test_labels_come_back_from_public_queries():
    game = ReconstructionGame(NORMALS, Logistic(), (DeletedLabel("public"), DeletedLabel("normal", 200)))
    result = play(game, n=60, seed=1, workers=1)
    for row in result.rows:
        assert row.correct.lower > 0.7
        assert (row.rounds, row.unanswered, row.error, row.distance) == (60, 0, None, None)
    assert list(result.to_dataframe().columns) == ["unanswered", "correct", "lower", "upper"]


def test_silence_is_told_apart_and_is_not_right():
    few = ReconstructionGame(NORMALS, Neighbours(1), DeletedLabel("normal", 30))
    (row,) = play(few, n=60, seed=1, workers=1).rows
    assert 0 < row.unanswered < 60
    assert 0 < row.correct.estimate <= 1 - row.unanswered / 60
    (row,) = play(few, n=1, seed=1, workers=1).rows
    assert row.unanswered == 1
    assert row.correct.estimate == 0


def test_responses_come_back_by_the_leverage(tmp_path):
    game = ReconstructionGame(LINE, LeastSquares(), (KnownInstance(), KnownInstance(10.0)), known=True)
    result = play(game, n=80, seed=1)
    own, constant = result.rows
    assert own.relative_error.upper < 0.1 < constant.relative_error.lower
    assert own.error < 0.1 * min(own.error_before, own.error_after)
    again = load_result(result.save(tmp_path / "r.npz"))
    assert again.rows == result.rows
    assert json.loads(result.save(tmp_path / "r.json").read_text())["reconstructors"][0]["unanswered"] == 0
    assert "relative error" in repr(result)


def test_instances_are_scored_by_their_distance():
    class Origin(Reconstructor):
        needs = ()
        name = "the origin"

        def guesses(self, view):
            assert view.x is None
            assert view.y is None
            return [Guess(x=np.zeros(3))]

    (row,) = play(ReconstructionGame(NORMALS, Logistic(), Origin()), n=20, workers=1).rows
    assert row.correct is None
    assert row.distance > 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reconstructors": ()}, "needs reconstructors"),
        ({"reconstructors": KnownInstance()}, "needs the deleted instance; set known=True"),
        ({"auxiliary": 0}, "needs auxiliary records"),
    ],
)
def test_games_that_cannot_be_played(options, message):
    with pytest.raises(BayesreconError, match=message):
        ReconstructionGame(**{"data": NORMALS, "learner": Logistic(), "reconstructors": DeletedLabel(), **options})


@pytest.mark.parametrize(
    ("data", "learner", "player", "message"),
    [
        (LINE, LeastSquares(), DeletedLabel(), "use a learner that answers with probabilities"),
        (NORMALS, Logistic(), KnownInstance(2.0), "for classes use DeletedLabel"),
    ],
)
def test_answers_of_the_other_kind(data, learner, player, message):
    with pytest.raises(BayesreconError, match=message):
        play(ReconstructionGame(data, learner, player, known=True), n=1, workers=1)
