"""Profilers that run real work and write down what it takes. Knows traces and workloads."""
