"""Reconstructors, one file each."""
