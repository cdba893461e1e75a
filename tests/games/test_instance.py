"""Deleted instances: lemma 4.4 by enumeration, the game, and what is refused."""

import itertools

import numpy as np
import pytest

from bayesrecon.attacks.deletion.instance import deleted_instance
from bayesrecon.errors import BayesreconError
from bayesrecon.games import (
    DeletedInstance,
    Game,
    Law,
    LeastSquares,
    LinearLaw,
    Neighbours,
    Reconstructed,
    ReconstructionGame,
    TwoNormals,
    play,
    table,
)
from bayesrecon.games.data import Records

CUBE = np.array(list(itertools.product([0.0, 1.0], repeat=10)))
NORMALS = Law("two normals", TwoNormals(2, 3.0), classes=2, size=40, outside=400)


def nearest(points, x):
    """The index of the nearest record, the first one of ties."""
    return np.abs(points[:, None] - x).sum(axis=2).argmin(axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_lemma_4_4(seed):
    """Binary records of unique labels: in the cell of each every coordinate agrees with it at least half of the time,
    so that no majority is wrong, whatever the deletion."""
    x = np.random.default_rng(seed).integers(0, 2, (20, 10)).astype(float)
    cells = nearest(CUBE, x)
    for i in set(cells):
        agree = (CUBE[cells == i] == x[i]).mean(axis=0)
        assert agree.min() >= 0.5
        others = np.delete(np.arange(20), i)
        after = others[nearest(CUBE, x[others])]
        found = deleted_instance(CUBE, np.eye(20)[cells], np.eye(20)[after])
        assert found.label == i
        assert sorted(found.rows) == sorted(np.flatnonzero(cells == i))
        decided = found.x != 0.5
        assert (found.x[decided] == x[i][decided]).all()
        assert (decided == (agree > 0.5)).all()


def test_a_wrong_cell_would_be_noticed():
    """The lemma is about the deleted record's cell: in others coordinates do disagree."""
    x = np.random.default_rng(0).integers(0, 2, (20, 10)).astype(float)
    cells = nearest(CUBE, x)
    assert min((CUBE[cells == i] == x[(i + 1) % 20]).mean() for i in set(cells)) < 0.5


def test_a_coordinate_is_undecided_where_as_many_agree_as_not():
    points = np.array([[0, 0, 1], [1, 0, 1], [1, 1, 0], [1, 0, 0]])
    before, after = np.eye(2)[[0, 0, 1, 1]], np.eye(2)[[1, 1, 1, 1]]
    assert deleted_instance(points, before, after).x.tolist() == [0.5, 0, 1]


def test_the_middle_of_real_points():
    points = np.array([[0.0], [1.0], [5.0], [9.0]])
    before, after = np.eye(2)[[0, 0, 0, 1]], np.eye(2)[[1, 1, 1, 1]]
    assert deleted_instance(points, before, after).x.tolist() == [1]
    assert deleted_instance(points, before, after, "mean").x.tolist() == [2]


def test_it_says_nothing_where_no_label_changed():
    found = deleted_instance(CUBE[:3], np.eye(2)[[0, 1, 1]], np.eye(2)[[0, 1, 1]])
    assert (found.x, found.label, len(found.rows)) == (None, None, 0)


def test_in_the_game_it_lies_near_and_is_silent_where_nothing_changed():
    players = [DeletedInstance(queries, 600, "mean") for queries in ("public", "box", "local", "normal")]
    result = play(ReconstructionGame(NORMALS, Neighbours(1), players), n=20, seed=1, workers=1)
    answered, far = result.outcomes[:, 1, 0] == 1, result.outcomes[:, 1, 1]
    public, box, *_ = result.rows
    assert 0 < box.unanswered < public.unanswered < 20
    assert box.correct.estimate == pytest.approx(answered.mean())  # the label of the nearest record is its own
    x, _ = TwoNormals(2, 3.0)(np.random.default_rng(0), 400)
    assert np.median(far[answered]) < 0.4 * np.median(np.linalg.norm(x[:200] - x[200:], axis=1))


def test_it_says_on_how_many_points_it_rests():
    seen = []

    class Looks(DeletedInstance):
        def guesses(self, view):
            seen.extend(super().guesses(view))
            return seen[-1:]

    data = table(CUBE[::5], np.arange(205) % 2, share=0.2, name="cube")
    play(ReconstructionGame(data, Neighbours(1), Looks()), n=6, workers=1)
    said = [guess for guess in seen if guess is not None]
    assert said
    for guess in said:
        assert guess.points > 0
        assert set(guess.x) <= {0.0, 0.5, 1.0}


def test_theorem_4_2_names_the_nearer_challenge():
    row = play(
        Game(NORMALS, Neighbours(1), Reconstructed(DeletedInstance("box", 300)), auxiliary=None),
        n=30,
        seed=2,
        workers=1,
    ).rows[0]
    assert row.wins > 10 * row.losses
    assert row.ties


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DeletedInstance("elsewhere"), "expected box, public, normal or local"),
        (lambda: DeletedInstance("box", 0), "a positive count"),
        (lambda: DeletedInstance(centre="mode"), "expected median or mean"),
        (lambda: deleted_instance(CUBE[:3], np.eye(2), np.eye(2)), r"points \(m, p\)"),
        (lambda: deleted_instance(CUBE[:2], np.eye(2), np.eye(2), "mode"), "expected median or mean"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(BayesreconError, match=message):
        make()


def test_numbers_have_no_labels_that_change():
    line = Law("linear law", LinearLaw(3), size=60, outside=60)
    with pytest.raises(BayesreconError, match="use a classifier"):
        play(ReconstructionGame(line, LeastSquares(), DeletedInstance()), n=1, workers=1)


def test_precomputed_distances_give_the_same_answers():
    """As the page of images does it: rows of a table of distances instead of records."""
    from bayesrecon.games.learners import Voters

    rng = np.random.default_rng(0)
    x, y, asked = rng.normal(size=(30, 3)), rng.integers(0, 3, 30), rng.normal(size=(50, 3))
    learner, gone = Neighbours(1), np.array([4])
    fitted = learner.fit(Records(x, y), 3, 0)
    far = np.linalg.norm(asked[:, None] - x, axis=2)
    assert (Voters(None, y, 1, 3)(far) == fitted(asked)).all()
    after = learner.without(fitted, Records(x, y), gone, 3, 0)
    assert (Voters(None, y, 1, 3, gone)(far) == after(asked)).all()
