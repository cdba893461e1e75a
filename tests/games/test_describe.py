"""What identifies a game: equal for equal games, other for others, and the same in another process."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from bayesrecon.games import Game, Law, LeastSquares, LinearLaw, LossChange, OutputChange
from bayesrecon.games.playing import described


def scaled(x, by):
    return x * by


class Own:
    def __init__(self, depth):
        self.depth = depth

    def fit(self, x, y):
        return self


def factory(factor):
    return lambda x: x * factor


@pytest.mark.parametrize(
    "make",
    [
        lambda k: np.arange(k),
        lambda k: {"a": [k, (None, 2.5)]},
        lambda k: partial(scaled, by=k),
        lambda k: factory(k),
        lambda k: (lambda x: x * 2) if k == 3 else (lambda x: x * 3),
        lambda k: RandomForestClassifier(k),
        lambda k: Own(k),
        lambda k: Own(k).fit,
        lambda k: {k, 7},
        lambda k: np.exp if k == 3 else np.log,
        lambda k: int if k == 3 else float,
        lambda k: np.float64(k),
        lambda k: Game(Law("law", LinearLaw(k)), LeastSquares(), OutputChange()),
        lambda k: Game(Law("law", LinearLaw()), LeastSquares(), (LossChange(), OutputChange())[: k - 2]),
    ],
)
def test_equal_values_are_described_alike_and_others_otherwise(make):
    one, same, other = (json.dumps(described(make(k))) for k in (3, 3, 4))
    assert one == same
    assert one != other


@pytest.mark.slow
def test_another_process_says_the_same():
    code = (
        "import json; from bayesrecon.games import load; from bayesrecon.games.playing import described; "
        "print(json.dumps(described(load('iris-forest'))))"
    )
    said = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout]
    from bayesrecon.games import load

    assert json.loads(said[0]) == json.loads(json.dumps(described(load("iris-forest"))))
