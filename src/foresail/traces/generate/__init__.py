"""Traces that are made up, by seed. Knows core."""
