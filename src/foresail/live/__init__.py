"""Decisions on a real Kubernetes: watch, cache, decide, bind. Knows core, kube and plug-ins; nothing of simulation."""
