"""Training jobs that are made up by seed: models, schedules and the worlds they start in. Knows core."""
