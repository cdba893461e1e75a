"""Plots of a recovery: what was recovered and how precisely, against the truth, and the kernel's spectrum.

Plots of a diagnosis: the spectrum beside its noise, and the visibility of features. Plots of a reconstruction: its
records, its gap and its traces.

Every function draws into the `ax` it is given, or into a new pyplot figure, and returns the Axes. Nothing
here shows a figure, chooses a backend or changes a global setting; matplotlib is imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
