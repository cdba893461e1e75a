"""Draws of posteriors."""
