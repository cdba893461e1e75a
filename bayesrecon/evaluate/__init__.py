"""Comparison with the truth. Nothing that attacks a release imports this package."""

import lazy_loader

from bayesrecon.moved import moved, now_in

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_MOVED = now_in(
    __name__,
    {
        "matching": ("Matching",),
        "record_scores": ("calibration_error",),
        "rate_intervals": ("Interval", "bounded_mean", "true_positive_rate"),
    },
)
__getattr__ = moved(__name__, _MOVED, _loaded)
