"""Decisions on a real Kubernetes: watch, cache, decide, bind. Knows core, kube, plug-ins and boards; no simulation."""
