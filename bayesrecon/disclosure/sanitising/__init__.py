"""Sanitised draws, from the posterior of data that were randomly altered once: what they hide and what they cost."""
