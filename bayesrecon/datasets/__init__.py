"""Loaders for public data sets. They read files in a folder that you name, and download nothing."""

import lazy_loader

from bayesrecon.moved import moved, now_in

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_MOVED = now_in(
    __name__,
    {
        "labelled": ("LabelledData",),
    },
)
__getattr__ = moved(__name__, _MOVED, _loaded)
