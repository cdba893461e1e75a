"""How work is run: by which processes and devices, on how many threads, with which rows on disk, compiled once."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
