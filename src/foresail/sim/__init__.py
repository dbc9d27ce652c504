"""Simulation: feeds the core from traces and carries its decisions out in virtual time."""
