"""Training of planners of supersteps, on rows before those that jobs are judged on. Knows experiments and planners."""
