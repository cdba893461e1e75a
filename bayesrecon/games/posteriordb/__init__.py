"""Attacks on the posteriors of posteriordb, scored against their data."""
