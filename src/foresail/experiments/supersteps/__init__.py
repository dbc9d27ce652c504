"""Bulk-synchronous jobs by strategy, forecast, start, length and penalty. Knows the simulator and the report."""
