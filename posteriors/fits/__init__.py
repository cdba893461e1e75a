"""Fits of other libraries, in memory or saved."""
