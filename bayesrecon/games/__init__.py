"""Games of deletions: what an outsider learns from a model before and after a record was deleted, over many rounds.

A game is data (`Game`), `play` plays it, and the result counts with exact intervals. Here attacks meet the truth: a
round knows what was deleted, and shows its adversaries what the game grants them.
"""

import lazy_loader

from bayesrecon.moved import moved

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = moved(__name__, {"Estimator": "bayesrecon.games.ScikitLearner"}, _loaded)
