"""Planners whose choices are trained networks'. Knows the other planners and numpy, nothing of how training goes."""
