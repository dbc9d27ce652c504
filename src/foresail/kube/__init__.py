"""Kubernetes as it speaks: its objects and its API. Knows core alone."""
