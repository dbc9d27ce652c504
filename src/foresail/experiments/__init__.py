"""Policies × traces × seeds: requests, executors, statistics, what-if, explain. Knows both worlds and the report."""
