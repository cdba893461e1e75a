"""Challenges that the adversary chooses: from S, before the coin, and from nothing that the game withholds."""

import numpy as np
import pytest

from bayesrecon.errors import BayesreconError
from bayesrecon.games import (
    Candidates,
    Game,
    Law,
    LeastSquares,
    LinearLaw,
    LossChange,
    Outlying,
    OutputChange,
    WhiteBox,
    play,
    table,
)
from bayesrecon.games.playing import GameError

RNG = np.random.default_rng(0)
DATA = Law("linear law", LinearLaw(3), size=30, outside=5)


def recording(seen, pair=(4, 2)):
    def choose(candidates):
        seen.append(candidates)
        return pair

    return choose


class Watching(OutputChange):
    """Remembers the challenges that it was shown."""

    def scores(self, view):
        SHOWN.append(view.features)
        return super().scores(view)


SHOWN = []


def test_the_chosen_records_are_the_challenges():
    SHOWN.clear()
    seen = []
    play(Game(DATA, LeastSquares(), Watching(), choose=recording(seen)), n=12, seed=3, workers=1)
    assert len(seen) == len(SHOWN) == 12
    for candidates, shown in zip(seen, SHOWN, strict=True):
        assert candidates.x.shape == (30, 3)
        pair = candidates.x[[2, 4]]
        assert np.array_equal(shown, pair) or np.array_equal(shown, pair[::-1])
    first = [np.array_equal(shown[0], c.x[4]) for c, shown in zip(seen, SHOWN, strict=True)]
    assert 0 < sum(first) < 12  # which is listed first says nothing


def test_the_coin_is_fair_whichever_comes_first():
    """An adversary that always names the record of the larger first feature, chosen to be listed first, is right half
    of the time: 400 rounds, false alarm 1e-5."""

    class Larger(OutputChange):
        def scores(self, view):
            return view.features[:, 0]

    order = lambda c: np.argsort(-c.x[:, 0])[:2]  # noqa: E731
    row = play(Game(DATA, LeastSquares(), Larger(), choose=order), n=400, seed=1, workers=1).rows[0]
    assert abs(row.wins - 200) < 4.42 * 10


def test_the_same_rounds_as_without_a_choice():
    """What else is random stays: the same data sets are drawn."""
    SHOWN.clear()
    play(Game(DATA, LeastSquares(), Watching()), n=3, seed=3, workers=1)
    seen = []
    play(Game(DATA, LeastSquares(), OutputChange(), choose=recording(seen)), n=3, seed=3, workers=1)
    for shown, candidates in zip(SHOWN, seen, strict=True):
        assert (candidates.x[:, None] == shown).all(axis=2).any(axis=0).all()


SHOWS = [("records", True, True), ("instances", True, False), ("labels", False, True)]


@pytest.mark.parametrize(("given", "x", "y"), SHOWS, ids=[show for show, _, _ in SHOWS])
@pytest.mark.parametrize("auxiliary", [0, 3])
def test_what_is_withheld_is_not_chosen_from(given, x, y, auxiliary):
    class Coin(OutputChange):
        needs = ()

        def scores(self, view):
            return view.rng.random(2)

    seen = []
    game = Game(DATA, LeastSquares(), Coin(), given=given, auxiliary=auxiliary, choose=recording(seen))
    result = play(game, n=1, workers=1)
    (candidates,) = seen
    assert (candidates.x is not None, candidates.y is not None) == (x, y)
    assert (0 if candidates.public is None else len(candidates.public.y)) == auxiliary
    assert "challenges chosen: by a function" in result.variant


def test_leverage_is_that_of_least_squares():
    x = RNG.normal(size=(40, 3)) * [1, 5, 0.2]
    design = np.column_stack([x, np.ones(40)])
    hat = np.diag(design @ np.linalg.solve(design.T @ design, design.T))
    pair = Outlying(penalty=0.0)(Candidates(x, None, None, 0, RNG))
    assert set(pair) == set(np.argsort(hat)[-2:])
    wide = np.concatenate([x, np.zeros((40, 60))], axis=1)
    assert len(set(Outlying()(Candidates(wide, None, None, 0, RNG)))) == 2
    with pytest.raises(BayesreconError, match="given='labels' withholds"):
        Outlying()(Candidates(None, x[:, 0], None, 0, RNG))


def heavy(rng, n):
    """Some records lie far out."""
    x = rng.standard_t(2, size=(n, 3))
    return x, x.sum(axis=1) + rng.normal(size=n)


@pytest.mark.slow
def test_choosing_helps():
    """Squared losses tell too little where a record hardly moves its own answer; intervals of 500 rounds lie apart."""
    rates = {}
    for choose in (None, Outlying()):
        game = Game(Law("heavy tails", heavy, size=40, outside=5), LeastSquares(), LossChange(), choose=choose)
        rates[choose] = play(game, n=500, seed=2, workers=1).rows[0].success
    assert rates[Outlying()].lower > rates[None].upper


@pytest.mark.parametrize("flags", [{"single": True, "auxiliary": 5}, {"outside": True}, {"deletions": 2}])
def test_other_games_have_nothing_to_choose(flags):
    with pytest.raises(BayesreconError, match="choose= must be a function"):
        Game(DATA, LeastSquares(), OutputChange(), choose=Outlying(), **flags)


@pytest.mark.parametrize("pair", [(1, 1), (0, 30), (-1, 2), (0,), (0.5, 1), "ab"])
def test_wrong_choices_are_refused(pair):
    with pytest.raises(GameError, match="expected two different positions from 0 to 29"):
        play(Game(DATA, LeastSquares(), OutputChange(), choose=lambda c: pair), n=1, workers=1)


def test_copies_may_not_be_chosen_where_challenges_are_distinct():
    data = table(np.repeat(RNG.normal(size=(10, 2)), 2, axis=0), np.repeat(RNG.normal(size=10), 2), share=1)
    same = lambda c: (0, next(j for j in range(1, 20) if (c.x[j] == c.x[0]).all()))  # noqa: E731
    assert play(Game(data, LeastSquares(), OutputChange(), choose=same), n=4, workers=1).rows[0].ties == 4
    with pytest.raises(GameError, match="no two different challenges"):
        play(Game(data, LeastSquares(), OutputChange(), choose=same, distinct=True), n=1, workers=1)


def test_parameters_and_choices_go_together():
    game = Game(DATA, LeastSquares(), (WhiteBox(), LossChange()), others=True, choose=Outlying())
    result = play(game, n=10, seed=1, workers=1)
    assert result["white box"].wins == 10
    assert "the records with the largest leverage" in result.variant
