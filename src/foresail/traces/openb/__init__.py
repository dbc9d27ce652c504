"""The public openb traces: getting, reading, writing and drawing them."""
