"""Simulation: feeds the core from traces and acts on its decisions in virtual time. Knows results and traces."""
