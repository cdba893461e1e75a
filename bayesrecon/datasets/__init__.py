"""Public data sets from files that the user has: a folder is named, and nothing is downloaded."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
