"""What is done to a real cluster: binds, volumes, evictions. Knows the cache and the API."""
