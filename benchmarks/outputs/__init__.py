"""Answers of a model, and what was asked."""
