"""What bulk-synchronous jobs have to do, superstep by superstep: published matrices, and made-up ones. Knows numpy."""
