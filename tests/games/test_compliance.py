"""Success held against a promised epsilon: what is flagged, what is not, and what cannot be promised."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, SGDRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVR

from bayesrecon import load_result
from bayesrecon.errors import BayesreconError
from bayesrecon.games import (
    Functions,
    Game,
    Law,
    Likelihood,
    Logistic,
    LossChange,
    ObjectivePerturbation,
    OutputChange,
    OutputPerturbation,
    PosteriorDraw,
    ReconstructionGame,
    Retrain,
    ScikitLearner,
    TwoNormals,
    play,
    table,
)
from bayesrecon.games.adversary import Adversary
from bayesrecon.games.learner import as_learner
from bayesrecon.games.named_games import own_table
from bayesrecon.games.reconstructor import DeletedLabel


def unanimous(rng, n):
    """Everybody alike: what the canaries are outvoted by."""
    return np.tile([1.0, 0.0], (n, 1)), np.ones(n, int)


VOTERS = Law("unanimous records", unanimous, classes=2, size=400, outside=2)
ASIDE = np.array([[0.5, 0.75**0.5], [0.5, -(0.75**0.5)]]), np.array([0, 0])
NORMALS = Law("two normals", TwoNormals(2, 1.0), classes=2, size=30, outside=20)
OUTPUT = OutputPerturbation(1.0, 1.0, False)


def against(learner, *players, **flags):
    """A game of the two canaries."""
    players = players or (LossChange(), OutputChange(), Likelihood())
    return Game(VOTERS, learner, players, canaries=ASIDE, others=True, **flags)


@dataclass(frozen=True)
class TenTimesTooLittle(OutputPerturbation):
    """Its noise, that is."""

    def sensitivity(self, count):
        return super().sensitivity(count) / 10


def test_too_little_noise_is_flagged(tmp_path):
    result = play(against(TenTimesTooLittle(1.0, 1.0, False)), n=60, seed=1, workers=1)
    assert result["likelihood ratio"].simultaneous.lower > result.bound == pytest.approx(expit(1.0))
    assert any(line.startswith("likelihood ratio: success ") for line in result.failures)
    assert not result.consistent
    assert repr(result).startswith("ERROR: logistic regression, output perturbation (epsilon 1) is not 1-private")
    assert result.to_dict()["failures"] == list(result.failures)
    result.save(tmp_path / "game.npz")
    assert load_result(tmp_path / "game.npz").failures == result.failures
    ax = result.plot()
    assert "bound of epsilon 1" in ax.get_legend_handles_labels()[1]


def test_enough_noise_is_not_flagged():
    result = play(against(OUTPUT), n=60, seed=1, workers=1)
    assert result.failures == ()
    assert (result.notice, result.claimed_epsilon, result.consistent) == ("", 1.0, True)
    assert result.to_dataframe()["bound"].tolist() == [pytest.approx(expit(1.0))] * 3


def test_without_a_promise_there_is_no_bound():
    result = play(Game(NORMALS, Logistic(), LossChange()), n=3, workers=1)
    assert (result.claimed_epsilon, result.bound, result.failures) == (None, None, ())
    assert "bound" not in result.to_dataframe()


# A learner that reaches its bound: it tells whether the first canary is there, and lies with probability 1 - p.


@dataclass(frozen=True)
class Tells:
    epsilon: float

    def train(self, x, y, seed):
        there = bool((x == ASIDE[0][0]).all(axis=1).any())
        return there == (np.random.default_rng(seed).random() < expit(self.epsilon))

    @staticmethod
    def predict(says, x):
        return np.full((len(x), 2), 0.5) if says else np.tile([0.4, 0.6], (len(x), 1))

    def claiming(self, epsilon):
        return Functions("tells", self.train, self.predict, "probabilities", epsilon)


class Believes(Adversary):
    """What h' says."""

    name = "believes"

    def scores(self, view):
        says = view.ask.after(view.features)[0, 0] == 0.5
        first = (view.features == ASIDE[0][0]).all(axis=1)
        return np.where(first, 0.0, 1.0) if says else np.where(first, 1.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_learner_at_its_bound(epsilon):
    """The adversary's success is the bound; the check is wrong in 1 of 40 such games, and right of half the epsilon."""
    honest = play(against(Tells(epsilon).claiming(epsilon), Believes()), n=1000, seed=2, workers=1)
    (row,) = honest.rows
    assert row.success.lower < honest.bound < row.success.upper
    assert honest.failures == ()
    assert row.epsilon < epsilon
    liar = play(against(Tells(epsilon).claiming(epsilon / 2), Believes()), n=1000, seed=2, workers=1)
    assert len(liar.failures) == 1
    assert "implies epsilon" in liar.failures[0]


def test_the_best_of_several_pays_for_the_choice():
    result = play(against(OUTPUT), n=50, seed=3, workers=1)
    alone = play(against(OUTPUT, LossChange()), n=50, seed=3, workers=1)
    row = result["Del-Inf-Exm"]
    assert row.success == alone["Del-Inf-Exm"].success == alone["Del-Inf-Exm"].simultaneous
    assert row.simultaneous.lower < row.success.lower < row.success.upper < row.simultaneous.upper
    assert row.simultaneous_epsilon <= row.epsilon
    assert result.best.success.estimate == max(r.success.estimate for r in result.rows)


# Promises


def test_the_same_noise_twice_is_refused():
    for learner in (OUTPUT, ObjectivePerturbation(), PosteriorDraw(), Tells(1.0).claiming(1.0)):
        with pytest.raises(BayesreconError, match="uses the same noise twice, which cancels out"):
            against(learner, LossChange(), deletion=Retrain(fresh=False))
    with pytest.raises(BayesreconError, match="uses the same noise twice"):
        ReconstructionGame(VOTERS, OUTPUT, DeletedLabel(), deletion=Retrain(fresh=False))


@pytest.mark.parametrize("learner", [OUTPUT, ObjectivePerturbation(), PosteriorDraw()])
def test_a_retrained_model_has_noise_of_its_own(learner):
    """That of its seed alone, and nothing of the model before."""
    private, _ = NORMALS.draw(np.random.default_rng(0))
    rows = np.array([3])
    before, other = learner.fit(private, 2, 1), learner.fit(private, 2, 2)
    assert not np.array_equal(before.theta, other.theta)
    again = [learner.without(fitted, private, rows, 2, 5).theta for fitted in (before, other)]
    np.testing.assert_array_equal(again[0], again[1])
    np.testing.assert_array_equal(again[0], learner.fit(private.without(rows), 2, 5).theta)


def test_another_deletion_has_no_bound():
    def forget(learner, fitted, records, rows, classes, seeds):
        return fitted

    result = play(against(OUTPUT, LossChange(), deletion=forget), n=2, workers=1)
    assert result.bound is None
    assert "for this deletion mechanism no bound is known" in result.warnings[0]


def test_users_promise_by_an_attribute():
    class Theirs(LogisticRegression):
        epsilon = 0.7

    assert as_learner(Theirs(), 2).epsilon == 0.7
    assert ScikitLearner("theirs", LogisticRegression(), "probabilities", epsilon=0.2).epsilon == 0.2
    for settings, classes in ((SVR(epsilon=0.3), 0), (SGDRegressor(), 0), (MLPClassifier(), 2)):
        assert as_learner(settings, classes).epsilon is None

    class Tube(SVR):
        """Its epsilon is that of scikit-learn."""

    assert as_learner(Tube(), 0).epsilon is None
    for wrong in (0.0, -1.0, float("inf"), "1"):
        with pytest.raises(BayesreconError, match=r"epsilon=.*: expected a positive number"):
            Game(NORMALS, ScikitLearner("theirs", LogisticRegression(), "probabilities", epsilon=wrong), LossChange())


def test_a_private_scale_is_said():
    x, y = NORMALS.sample(np.random.default_rng(0), 40)
    for standardised in (True, False):
        data = table(x, y, standardised=standardised)
        warned = play(Game(data, OUTPUT, LossChange()), n=2, workers=1).warnings
        assert [w.startswith("columns were standardised over the whole table") for w in warned] == [True] * standardised


def test_public_bounds_scale_a_table():
    columns = {"age": np.array([20, 50, 90, 35]), "town": np.array(list("abab")), "left": np.array([0, 1, 1, 0])}
    found = own_table(columns, "left", domain={"age": (20, 80)})
    np.testing.assert_allclose(found.x, [[-1, -1], [0, 1], [1, -1], [-0.5, 1]])
    assert not found.standardised
    for bounds, message in (
        ({}, "column age needs public bounds"),
        ({"age": (3.0, 3.0)}, "column age needs public bounds low < high"),
        ({"age": (0.0, float("inf"))}, "column age needs public bounds"),
        ({"agee": (0, 1)}, "no numeric column 'agee' to learn from; did you mean age"),
    ):
        with pytest.raises(BayesreconError, match=message):
            own_table(columns, "left", domain=bounds)


# Canaries, and the likelihood ratio


def test_canaries_are_the_challenges():
    seen = []

    class Looks(OutputChange):
        def scores(self, view):
            seen.append((view.features, view.total, len(view.others.y)))
            return np.zeros(2)

    play(against(Logistic(), Looks()), n=3, workers=1)
    for x, total, others in seen:
        assert sorted(x[:, 1]) == sorted(ASIDE[0][:, 1])
        assert (total, others) == (402, 400)


@pytest.mark.parametrize(
    ("canaries", "flags", "message"),
    [
        ((np.zeros((1, 2)), [0]), {}, r"expected features \(c, p\) and responses \(c,\), c 2 or more"),
        ((np.zeros((2, 2)), [0, 1, 1]), {}, r"canaries of shapes \(2, 2\) and \(3,\)"),
        ((np.zeros((2, 2)), [0, 2]), {}, "classes lie between 0 and 1"),
        (ASIDE, {"outside": True}, "exclude each other"),
        (ASIDE, {"deletions": 2}, "c 4 or more"),
    ],
)
def test_canaries_that_are_refused(canaries, flags, message):
    with pytest.raises(BayesreconError, match=message):
        Game(VOTERS, OUTPUT, LossChange(), canaries=canaries, **flags)
    with pytest.raises(BayesreconError, match="canaries have 3 features, and unanimous records has 2"):
        play(Game(VOTERS, OUTPUT, LossChange(), canaries=(np.zeros((2, 3)), [0, 1])), n=1, workers=1)


@pytest.mark.parametrize("outside", [False, True])
def test_the_likelihood_ratio_is_exact(outside):
    """With hardly any noise it is always right, also where the other challenge lies outside."""
    game = Game(NORMALS, OutputPerturbation(1e9), Likelihood(), others=True, outside=outside)
    assert play(game, n=20, workers=1).rows[0].wins == 20


def test_the_likelihood_ratio_needs_to_know():
    for flags, message in (({}, "needs the other private records"), ({"deletions": 2, "others": True}, "there are 4")):
        with pytest.raises(BayesreconError, match=message):
            play(Game(NORMALS, OUTPUT, Likelihood(), **flags), n=1, workers=1)
    with pytest.raises(BayesreconError, match="needs the density of the released model, which logistic"):
        Game(NORMALS, Logistic(), Likelihood(), others=True)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("learner", [OUTPUT, ObjectivePerturbation(1.0, 1.0, False), PosteriorDraw(1.0, 1.0, False)])
def test_success_stays_below_the_bound(learner, epsilon):
    """A game in 40 would be flagged if an adversary reached the bound; none of these comes near it."""
    result = play(against(replace(learner, epsilon=epsilon)), n=1000, seed=6)
    assert result.failures == ()
