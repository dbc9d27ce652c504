"""Profilers that run real work and write down what it takes. Knows forecast, kube, lab, traces and workloads."""
