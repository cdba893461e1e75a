"""How many names one file may hold: each costs time."""

MAX_NAMES = 50_000
"""Names of parameters, or of columns; each may have any number of entries."""
