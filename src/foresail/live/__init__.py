"""Decisions on a real Kubernetes: watch, cache, bind; as a second scheduler or behind kube-scheduler."""
