"""Models: NumPyro programs, one family per file, and what makes a `Model` of a program, a PyMC model, a Stan
program, a density or a loss."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
