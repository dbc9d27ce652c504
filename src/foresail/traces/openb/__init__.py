"""The public openb traces: getting, reading, writing and drawing them. Knows core and the checks."""
