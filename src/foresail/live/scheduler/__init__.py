"""`foresail run`: decisions on a real cluster. Knows the cache and the actions."""
