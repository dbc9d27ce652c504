"""What the tasks of a job will have to do in the next supersteps. Knows numpy and numba, no clock and no cluster."""
