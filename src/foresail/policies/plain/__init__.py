"""Policies and filters that look at amounts alone. Knows core."""
