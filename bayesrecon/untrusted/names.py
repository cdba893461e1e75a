"""Largest number of names in a file, since each takes time."""

MAX_NAMES = 50_000
"""Names of parameters, or of columns; each may have any number of entries."""
