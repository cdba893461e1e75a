"""Classify every item of a file by its values. Items of unknown meaning are "unrecognised"."""
