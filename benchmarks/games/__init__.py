"""Deletions played many times."""
