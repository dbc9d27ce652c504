"""Recorded decisions of kube-scheduler, computed again and compared."""
