"""Draws from a zarr folder that ArviZ wrote."""

from bayesrecon.posteriors.formats.arviz import read_arviz
from bayesrecon.posteriors.formats.arviz_contents import read_arviz_contents
from bayesrecon.posteriors.formats.format import Format

FORMAT = Format("zarr", (".zarr",), read_arviz, read_arviz_contents, directory=True, guarded=True)
