"""A Kubernetes scheduler that looks ahead, and that you program in Python."""

__version__ = "0.1.0"
