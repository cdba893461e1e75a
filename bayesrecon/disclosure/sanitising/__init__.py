"""Draws of the posterior of data that were altered at random, once: what they hide, what they cost, and how
they are made."""
