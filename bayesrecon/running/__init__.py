"""How work is run: processes and devices, threads, rows on disk, and the compile cache."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
