"""`foresail extender`: a policy behind a stock kube-scheduler. Knows the cache and `decide`."""
