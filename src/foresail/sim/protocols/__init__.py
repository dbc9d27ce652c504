"""One file a protocol: what happens in a simulated run, and what is measured. Knows the simulated cluster."""
