"""How long stress-ng's tasks take with so much work and so much CPU. Knows forecast, kube, lab and workloads."""
