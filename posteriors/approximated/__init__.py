"""Distributions that stand for a posterior: a mode with its covariance, a variational fit, a density."""
