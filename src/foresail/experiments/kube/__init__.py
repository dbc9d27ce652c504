"""Runs of an experiment on a real cluster: the same pods at the same times, told in the same tables."""
