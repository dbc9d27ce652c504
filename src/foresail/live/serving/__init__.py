"""Ports of our own: health, metrics, TLS, an orderly end. Knows nothing of scheduling."""
