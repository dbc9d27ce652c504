"""Policies that look at racks and servers."""
