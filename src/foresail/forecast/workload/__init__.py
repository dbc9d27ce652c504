"""What a job's tasks will have to do in the next supersteps. Knows series, numpy and numba; no clock, no cluster."""
