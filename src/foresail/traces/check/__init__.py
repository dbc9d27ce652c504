"""What is wrong with a trace, and what to do about it. Knows core."""
