"""kube-scheduler's recorded decisions, computed again and compared. Knows the lab and all below, no report."""
