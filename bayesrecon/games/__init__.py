"""Deletion games: what an outsider learns from a model before and after the deletion of a record, over many rounds.

A game is a data class (`Game`), `play` plays it, and the result has exact intervals. In games, attacks meet the truth:
a round knows which record was deleted, and shows its adversaries what the game grants them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
