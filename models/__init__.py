"""Models: NumPyro programs, one family per file, and what makes a `Model` of a program, a PyMC model, a Stan
program, a density or a loss."""

import lazy_loader

from bayesrecon.moved import moved, now_in

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_MOVED = now_in(
    __name__,
    {
        "entry": ("Shipped",),
    },
)
__getattr__ = moved(__name__, _MOVED, _loaded)
