"""Bulk-synchronous jobs on a real cluster: pods, board, splits and what came of them. Knows cache and steering."""
