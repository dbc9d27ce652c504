"""The command line, one file a verb. Knows everything below, and loads it only when a verb runs."""
