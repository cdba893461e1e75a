"""Saved Python objects, read without unpickling: what a file says is described, and nothing of it is done."""
