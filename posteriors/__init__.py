"""Where releases come from: NUTS, posteriordb, ArviZ, CmdStan, archives of draws, trained parameters."""

import lazy_loader

from bayesrecon.moved import moved, now_in

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_MOVED = now_in(
    __name__,
    {
        "made.fitted": ("Run",),
        "made.nuts": ("save_draws",),
        "made.training": ("Trained",),
        "readers": ("from_npz",),
    },
)
__getattr__ = moved(__name__, _MOVED, _loaded)
