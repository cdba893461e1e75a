"""Plots of results, with matplotlib.

* Recovery: the statistics with their errors, recovered against true values, the kernel's spectrum.
* Diagnosis: the spectrum with its noise, and the visibility of features.
* Reconstruction: its records, its gap and its traces.
* Further results: audits, bounds, deletions, games, plans, records and witnesses.

Every function draws into the given `ax`, or else into a new pyplot figure, and returns the Axes. No function shows a
figure, selects a backend or changes a global setting. Matplotlib is imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
