"""How the CPU of a bulk-synchronous job is split among its tasks, one file an idea. Knows forecasts, no world."""
