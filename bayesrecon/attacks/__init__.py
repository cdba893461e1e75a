"""Attacks, one folder each, and the components of their options."""

import lazy_loader

from bayesrecon.moved import moved, now_in

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_MOVED = now_in(
    __name__,
    {
        "matching.held_out": ("held_out_residual",),
    },
)
__getattr__ = moved(__name__, _MOVED, _loaded)
