"""Releases that are made here, by NUTS or by training, and those of posteriordb."""
