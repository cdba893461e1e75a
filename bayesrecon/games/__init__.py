"""Deletion games: what an outsider learns from a model before and after the deletion of a record, over many rounds.

A game is a data class (`Game`), `play` plays it, and the result has exact intervals. In games, attacks meet the truth:
a round knows which record was deleted, and shows its adversaries what the game grants them.
"""

import lazy_loader

from bayesrecon.moved import moved, now_in

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_MOVED = now_in(
    __name__,
    {
        "membership": ("Membership",),
        "adversary": ("Adversary", "named_adversaries", "named_adversary"),
        "choosing": ("named_choice",),
        "data": ("Records",),
        "learner": ("Learner", "as_learner"),
        "named_games": ("named_learner", "named_learners"),
        "playing": ("GameError", "Playable"),
        "reconstructor": ("Guess",),
        "view": ("Oracles", "View"),
    },
)
_MOVED["Estimator"] = "bayesrecon.games.ScikitLearner"
__getattr__ = moved(__name__, _MOVED, _loaded)
