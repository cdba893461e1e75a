"""Learners with their names."""
