"""Plots of results, with matplotlib.

* Recovery: the statistics with their errors, recovered against true values, the kernel's spectrum.
* Diagnosis: the spectrum with its noise, and the visibility of features.
* Reconstruction: its records, its gap and its traces.
* Further results: audits, bounds, deletions, games, plans, records and witnesses.

Every function draws into the given `ax`, or else into a new pyplot figure, and returns the Axes. No function shows a
figure, selects a backend or changes a global setting. Matplotlib is imported on first use.
"""

import lazy_loader

from bayesrecon.moved import moved, now_in

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_MOVED = now_in(
    __name__,
    {
        "audit": ("plot_audit",),
        "bounds": ("plot_bounds",),
        "deletion": ("plot_deleted",),
        "diagnosis": ("plot_diagnosis_spectrum", "plot_visibility"),
        "forest": ("plot_recovery",),
        "game": ("plot_game",),
        "input_image": ("plot_input",),
        "matched": ("plot_matched",),
        "planner": ("plot_plan",),
        "reconstruction": ("plot_reconstruction",),
        "records": ("plot_records",),
        "report": ("audit_page",),
        "spectrum": ("plot_spectrum",),
        "witness": ("plot_witness",),
    },
)
__getattr__ = moved(__name__, _MOVED, _loaded)
