"""Policies for training jobs that report their progress. Knows core and forecast."""
