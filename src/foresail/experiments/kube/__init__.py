"""Runs of an experiment on a real cluster, told in the tables of a simulated one. Knows live and the experiments."""
