"""Profilers that run real work and write down what it takes. Knows kube, traces and workloads."""
