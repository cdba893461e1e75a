"""Loaders for public data sets. They read files in a folder that you name, and download nothing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
