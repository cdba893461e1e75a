"""What a model answers, its loss at a record, and the distance of two answers."""

from collections.abc import Callable

import numpy as np

from bayesrecon.errors import BayesreconError, near

VALUES, PROBABILITIES, DECISIONS = "values", "probabilities", "decisions"
"""Kinds of answers: numbers `(m,)`, probabilities of classes `(m, K)`, decision values of classes `(m, K)`."""

_TINY = float(np.finfo(float).tiny)


def squared(answers: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (answers - y) ** 2


def absolute(answers: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.abs(answers - y)


def log(answers: np.ndarray, y: np.ndarray) -> np.ndarray:
    rows = np.arange(len(y))
    p, others = answers[rows, y], np.array(answers)
    others[rows, y] = 0.0
    # For a probability near one, the sum of the other classes' probabilities is more precise than the difference.
    complement = np.minimum(others.sum(axis=1), 0.5)
    return np.where(p > 0.5, -np.log1p(-complement), -np.log(np.maximum(p, _TINY)))


def hinge(answers: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(0.0, 1 - margins(answers, y))


def zero_one(answers: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (answers.argmax(axis=1) != y).astype(float)


LOSSES: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], tuple[str, ...]]] = {
    "squared": (squared, (VALUES,)),
    "absolute": (absolute, (VALUES,)),
    "log": (log, (PROBABILITIES,)),
    "hinge": (hinge, (PROBABILITIES, DECISIONS)),
    "zero-one": (zero_one, (PROBABILITIES, DECISIONS)),
}
"""Losses by name, and the kinds of answers that each can be computed from."""

DEFAULT_LOSSES = {VALUES: "squared", PROBABILITIES: "log", DECISIONS: "hinge"}


def loss_of(name: str | None, kind: str, answers: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Losses `(m,)` of answers. For probabilities, the hinge loss uses the log odds as decision values."""
    name = name or DEFAULT_LOSSES[kind]
    if name not in LOSSES:
        raise BayesreconError(f"loss={name!r}: expected {', '.join(LOSSES)}{near(name, LOSSES)}")
    function, kinds = LOSSES[name]
    if kind not in kinds:
        usable = ", ".join(k for k, (_, takes) in LOSSES.items() if kind in takes)
        raise BayesreconError(f"the {name} loss cannot be computed from {kind}; use {usable}")
    if name == "hinge" and kind == PROBABILITIES:
        answers = np.log(np.maximum(answers, _TINY))
    return function(answers, y)


def margins(decisions: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The decision value of the label minus the largest other one, `(m,)`."""
    rows = np.arange(len(y))
    others = np.array(decisions)
    others[rows, y] = -np.inf
    return decisions[rows, y] - others.max(axis=1)


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distances between answers, `(m,)`: absolute differences, summed over classes."""
    difference = np.abs(a - b)
    return difference if difference.ndim == 1 else difference.sum(axis=1)
