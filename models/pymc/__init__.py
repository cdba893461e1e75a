"""PyMC and Bambi models, read from their graphs."""

from bayesrecon.models.pymc.program import from_pymc as from_pymc
