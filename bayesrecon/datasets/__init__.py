"""Public data sets from files that the user has: a folder is named, and nothing is downloaded."""

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
