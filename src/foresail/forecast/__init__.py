"""What policies and controllers look ahead with: plain objects, no clock, no cluster. Knows core, numpy and numba."""
