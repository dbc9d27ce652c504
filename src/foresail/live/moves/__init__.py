"""Moves of running pods to other nodes, each step written down first. Knows cache, actions and what jobs report."""
