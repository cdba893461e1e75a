"""Adversaries, one file each."""
