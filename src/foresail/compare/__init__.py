"""Policies × traces × seeds: what to run, where to run it, and what the differences are worth."""
