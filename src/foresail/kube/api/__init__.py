"""Requests to an API server: connecting, asking, watching, leasing. Knows nothing of what is asked for."""
