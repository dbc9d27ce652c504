"""How long a task takes with so much work and so much CPU, from a measured profile. Knows numpy and numba."""
