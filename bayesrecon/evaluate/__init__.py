"""Comparison with the truth. Nothing that attacks a release imports this package."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
