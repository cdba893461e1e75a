"""Draws from a zarr folder that ArviZ wrote."""

from bayesrecon.posteriors.arviz import read_arviz
from bayesrecon.posteriors.arviz_contents import read_arviz_contents
from bayesrecon.posteriors.format import Format

FORMAT = Format("zarr", (".zarr",), read_arviz, read_arviz_contents, directory=True, guarded=True)
