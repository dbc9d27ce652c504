"""Bulk-synchronous jobs in virtual time: each superstep waits for its slowest task. Knows planners, forecasts."""
