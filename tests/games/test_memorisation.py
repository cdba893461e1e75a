"""Memorisation, labels alone, and what membership attacks are worth by themselves."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier
from written import refused

from bayesrecon.games import (
    Game,
    Law,
    LeastSquares,
    Logistic,
    LossChange,
    LossThreshold,
    Neighbours,
    ShadowModels,
    TwoNormals,
    play,
)
from bayesrecon.games.adversaries import LabelOnly
from bayesrecon.games.answers import loss_of
from bayesrecon.games.data import Records
from bayesrecon.games.inference import MembershipGame
from bayesrecon.games.learners import Labels
from bayesrecon.games.memorisation import memorisation

NORMALS = Law("two normals", TwoNormals(3, 1.0), classes=2, size=40, outside=60)
RNG = np.random.default_rng(5)
DATA = Records(*TwoNormals(3, 1.0)(RNG, 40))


def test_the_score_is_the_mean_rise_of_the_zero_one_loss():
    found, learner = memorisation(Neighbours(1), DATA, 2), Neighbours(1)
    whole = learner.fit(DATA, 2, 0)
    for i in range(40):
        left = learner.without(whole, DATA, np.array([i]), 2, 0)
        one = DATA.rows([i])
        rise = loss_of("zero-one", "probabilities", left(one.x), one.y)
        assert found.scores[i] == rise[0] - loss_of("zero-one", "probabilities", whole(one.x), one.y)[0]
    assert found.limits is None
    assert (found.trained == 1).all()
    assert 0.1 < found.scores.mean() < 0.9


@pytest.mark.slow
def test_scores_of_random_training_have_limits():
    tree = DecisionTreeClassifier(splitter="random", max_depth=3)
    found = memorisation(tree, DATA, 2, rows=[0, 7], trainings=60, seed=2)
    assert found.rows.tolist() == [0, 7]
    assert ((found.limits[:, 0] <= found.scores) & (found.scores <= found.limits[:, 1])).all()
    assert (np.diff(found.limits, axis=1) < 0.6).all()
    again = memorisation(tree, DATA, 2, rows=[0, 7], trainings=200, seed=3)
    assert ((found.limits[:, 0] <= again.scores) & (again.scores <= found.limits[:, 1])).all()
    refused("at least 2 classes", memorisation, LeastSquares(), DATA, 0)
    refused("between 0 and 39", memorisation, Neighbours(1), DATA, 2, rows=[40])


def test_labels_around_an_instance_tell_more_than_labels_at_it():
    game = Game(NORMALS, Labels(Neighbours(1)), (LossChange("zero-one"), LabelOnly()), auxiliary=None)
    at, around = play(game, 100, workers=1).rows
    assert around.success.lower > 0.7 > at.success.upper
    assert at.ties > 20
    refused("which are not labels", Labels, LeastSquares())
    answers = Labels(Logistic()).fit(DATA, 2, 0)(DATA.x)
    assert set(np.unique(answers)) == {0, 1}
    np.testing.assert_array_equal(answers.argmax(1), Logistic().fit(DATA, 2, 0)(DATA.x).argmax(1))


@pytest.mark.slow
def test_membership_by_itself():
    """The nearest neighbour is right about every member, and errs about some of the others."""
    game = MembershipGame(NORMALS, Neighbours(1), (LossThreshold(), ShadowModels(2)), records=10)
    never, shadows = play(game, 40, workers=1).rows
    # No loss lies below a mean loss of zero.
    assert (never.wins, never.losses) == (400, 400)
    assert shadows.success.lower > 0.5
    (guessing,) = play(MembershipGame(NORMALS, Logistic(1e-6), LossThreshold(), records=10), 80, workers=1).rows
    assert guessing.success.upper < 0.6  # it has the share of its classes from its records, and nothing else
    few = Law("few", TwoNormals(), classes=2, size=30, outside=12)
    with pytest.raises(Exception, match="too few records for 10 members"):
        play(MembershipGame(few, Logistic(), ShadowModels(2), records=10, auxiliary=5), 1, workers=1)
    refused("needs membership attacks", MembershipGame, NORMALS, Logistic(), ())
