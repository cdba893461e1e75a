"""Games of deletions: what an outsider learns from a model before and after a record was deleted, over many rounds.

A game is data (`Game`), `play` plays it, and the result counts with exact intervals. Here attacks meet the truth: a
round knows what was deleted, and shows its adversaries what the game grants them.
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
