"""Results of the verbs: plain data that can be printed, saved and plotted."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
