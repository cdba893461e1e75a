"""Approximations that stand for a posterior."""
