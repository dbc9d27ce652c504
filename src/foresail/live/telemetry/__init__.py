"""What running pods are measured to do. Knows the API and the cache, and nothing of who reads it."""
