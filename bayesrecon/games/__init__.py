"""Deletion games: what an outsider learns from a model before and after the deletion of a record, over many rounds.

A game is a data class (`Game`), `play` plays it, and the result has exact intervals. In games, attacks meet the truth:
a round knows which record was deleted, and shows its adversaries what the game grants them.
"""

import lazy_loader

from bayesrecon.moved import moved

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_NOW_IN = {
    "adversary": ("named_adversaries", "named_adversary"),
    "choosing": ("named_choice",),
    "data": ("Records",),
    "learner": ("as_learner",),
    "named": ("named_learner", "named_learners"),
    "playing": ("Playable",),
    "reconstructor": ("Guess",),
    "view": ("Oracles", "View"),
}
_MOVED = {name: f"bayesrecon.games.{place}.{name}" for place, names in _NOW_IN.items() for name in names}
__getattr__ = moved(__name__, {**_MOVED, "Estimator": "bayesrecon.games.ScikitLearner"}, _loaded)
