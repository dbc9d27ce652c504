"""Policies of the GPU-sharing experiments: fragmentation gradient and its rivals. Knows core and plain policies."""
