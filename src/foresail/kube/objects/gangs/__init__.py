"""Gangs as Kubernetes objects state them, one file a form and `forms` for all of them. Knows core alone."""
