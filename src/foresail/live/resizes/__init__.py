"""Resizes of running pods in place, node by node, with a way back. Knows cache and actions, and no controller."""
