"""Kubernetes JSON, read into the model and written from it. Knows core alone."""
