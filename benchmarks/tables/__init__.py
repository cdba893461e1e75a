"""Printed tables of regressions."""
