"""Playing: rounds by number, in any order and in any process, kept in a folder, and honest about what failed."""

import json

import numpy as np
import pytest

from bayesrecon import load_result
from bayesrecon.errors import BayesreconError
from bayesrecon.games import Game, Law, LeastSquares, LinearLaw, LossChange, OutputChange, play
from bayesrecon.games.playing import GameError, Store

DATA = Law("linear law", LinearLaw(3), size=20, outside=5)
GAME = Game(DATA, LeastSquares(), (LossChange("absolute"), OutputChange()), name="small")


def same(one, other):
    np.testing.assert_array_equal(one.numbers, other.numbers)
    np.testing.assert_array_equal(one.outcomes, other.outcomes)
    assert (one.rows, one.warnings) == (other.rows, other.warnings)


@pytest.fixture(scope="module")
def whole():
    return play(GAME, n=60, seed=5)


def test_counts_add_up(whole):
    assert whole.outcomes.shape == (60, 2, 4)
    assert (whole.outcomes[:, :, :3].sum(axis=2) == 1).all()
    for row in whole.rows:
        assert row.wins + row.ties + row.losses == 60
        assert row.success.lower <= row.success.estimate <= row.success.upper
        assert row.advantage.estimate == pytest.approx(2 * row.success.estimate - 1)
        assert row.epsilon == pytest.approx(np.log(row.success.lower / (1 - row.success.lower)))
    assert not np.array_equal(play(GAME, n=60, seed=6).outcomes, whole.outcomes)


def test_who_else_plays_changes_nothing(whole):
    alone = play(Game(DATA, LeastSquares(), OutputChange()), n=60, seed=5)
    np.testing.assert_array_equal(alone.outcomes[:, 0], whole.outcomes[:, 1])


def test_threads_of_the_callers_backend_play_the_same(whole):
    from joblib import parallel_config

    with parallel_config(backend="threading", n_jobs=2):
        same(play(GAME, n=60, seed=5), whole)


@pytest.mark.slow
def test_processes_play_the_same(whole):
    same(play(GAME, n=60, seed=5, workers=2), whole)


@pytest.mark.slow
def test_a_dask_cluster_plays_the_same(whole):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    from joblib import parallel_config

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "processes": False}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster), parallel_config(backend="dask"):
        same(play(GAME, n=60, seed=5), whole)


class Killed(BaseException):
    """What a kill looks like from inside: nothing after it runs."""


def test_a_killed_run_resumes_to_the_same_result(whole, tmp_path):
    calls = []

    def kill(label, done):
        calls.append(done)
        if done > 0.4:
            raise Killed

    with pytest.raises(Killed):
        play(GAME, n=60, seed=5, folder=tmp_path / "rounds", progress=kill)
    kept = len(Store(tmp_path / "rounds", GAME, 5).read())
    assert 24 <= kept < 60
    (tmp_path / "rounds" / ".rounds-00000030.npz.bayesrecon-abcdefgh.npz").write_bytes(b"half a file")
    calls.clear()
    same(play(GAME, n=60, seed=5, folder=tmp_path / "rounds", progress=lambda _, done: calls.append(done)), whole)
    assert len(calls) == 60 - kept
    assert calls[-1] == 1.0
    assert len(play(GAME, n=30, seed=5, folder=tmp_path / "rounds").numbers) == 30


def test_a_folder_of_another_game_is_refused(tmp_path):
    play(GAME, n=3, seed=5, folder=tmp_path)
    with pytest.raises(BayesreconError, match="contains rounds of another game; name another folder"):
        play(Game(DATA, LeastSquares(2.0), OutputChange()), n=3, seed=5, folder=tmp_path)
    with pytest.raises(BayesreconError, match=r"with another seed \(5\)"):
        play(GAME, n=3, seed=6, folder=tmp_path)
    chunk = min(tmp_path.glob("rounds-*.npz"))
    chunk.write_bytes(chunk.read_bytes()[:40])
    with pytest.raises(BayesreconError, match="damaged; remove it, and its rounds are played again"):
        play(GAME, n=3, seed=5, folder=tmp_path)
    (tmp_path / "game.json").write_text(json.dumps({"seed": 5}))
    with pytest.raises(BayesreconError, match=r"game\.json is damaged"):
        play(GAME, n=3, seed=5, folder=tmp_path)
    (tmp_path / "game.json").unlink()
    with pytest.raises(BayesreconError, match="rounds of an unknown game"):
        play(GAME, n=3, seed=5, folder=tmp_path)


class Fails(LeastSquares):
    """Cannot learn from round 41's data set."""

    def fit(self, records, classes, seed):
        if len(forbidden := FORBIDDEN) and np.any(np.isin(records.y, forbidden)):
            raise ValueError("no such luck\nand a second line")
        return super().fit(records, classes, seed)


FORBIDDEN = np.zeros(0)


def test_a_learner_that_raises_is_named_by_its_round(whole, tmp_path, monkeypatch):
    from bayesrecon.games.outcome import generator

    private, _ = DATA.draw(generator(5, 41))
    game = Game(DATA, Fails(), (LossChange("absolute"), OutputChange()), name="small")
    monkeypatch.setitem(globals(), "FORBIDDEN", private.y)
    with pytest.raises(GameError, match=r"^round 41 \(seed 5\) failed: ValueError: no such luck; 1 failed") as caught:
        play(game, n=60, seed=5, folder=tmp_path)
    kept = caught.value.result
    assert 41 not in kept.numbers
    np.testing.assert_array_equal(kept.outcomes, np.delete(whole.outcomes, 41, axis=0))
    monkeypatch.setitem(globals(), "FORBIDDEN", np.zeros(0))
    calls = []
    again = play(game, n=60, seed=5, folder=tmp_path, progress=lambda *_: calls.append(1))
    assert len(calls) == 1
    same(again, whole)


def test_a_learner_that_always_raises_is_given_up():
    game = Game(DATA, (lambda x, y, seed: 1 / 0, lambda model, x: x[:, 0]), OutputChange())
    with pytest.raises(
        GameError, match=r"round 0 \(seed 0\) failed: ZeroDivisionError.* 0 of 500 were played"
    ) as caught:
        play(game, n=500, workers=1)
    assert caught.value.result is None


def test_what_rounds_warn_of_is_told_once():
    from sklearn.neural_network import MLPRegressor

    learner = MLPRegressor(hidden_layer_sizes=(2,), solver="lbfgs", max_iter=2)
    result = play(Game(DATA, learner, OutputChange()), n=3, workers=1)
    (note,) = result.warnings
    assert note.startswith("training stopped before it converged")
    assert note.endswith("(3 rounds)")


@pytest.mark.parametrize("wrong", [{"n": 0}, {"seed": -1}])
def test_nothing_to_play_is_refused(wrong):
    with pytest.raises(BayesreconError, match="expected one round or more"):
        play(GAME, **wrong)


@pytest.mark.parametrize("suffix", [".npz", ".json", ".csv"])
def test_results_are_written(whole, tmp_path, suffix):
    path = whole.save(tmp_path / f"game{suffix}")
    if suffix == ".npz":
        same(load_result(path), whole)
    elif suffix == ".json":
        assert json.loads(path.read_text())["adversaries"][1]["wins"] == whole.rows[1].wins
    else:
        assert path.read_text().startswith("adversary,sees,success,lower,upper,ties")


def test_results_are_drawn(whole, tmp_path):
    whole.plot(path=tmp_path / "game.png")
    assert (tmp_path / "game.png").stat().st_size > 1000
    assert "guessing scores 0.5" in repr(whole)
    assert whole["Del-Inf-Ins"] is whole.rows[1]
