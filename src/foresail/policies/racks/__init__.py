"""Policies that look at racks and servers. Knows core."""
