"""The one decision path, queue, control and journal of every world. Knows numpy and the standard library alone."""
