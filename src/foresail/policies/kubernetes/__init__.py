"""kube-scheduler's default filters and scores, a file each, and their profile. Knows core and plain policies."""

from __future__ import annotations

import re
from typing import Any

from foresail.errors import OptionError

FILTERS = (
    "kube-pre-filter",
    "kube-node-unschedulable",
    "kube-taint-toleration",
    "kube-node-affinity",
    "kube-node-ports",
    "kube-resources-fit",
    "kube-volume-restrictions",
    "kube-volume-limits",
    "kube-volume-binding",
    "kube-volume-zone",
    "kube-topology-spread",
    "kube-inter-pod-affinity",
    "kube-declared-features",
)
"""In kube-scheduler's order: a node counts under the first filter that refuses it."""
SCORES = {
    "kube-taint-toleration": 3,
    "kube-node-affinity": 2,
    "kube-topology-spread": 2,
    "kube-inter-pod-affinity": 2,
    "kube-resources-fit": 1,
    "balanced": 1,
    "kube-image-locality": 1,
}
"""Scores with kube-scheduler's default weights."""
PLUGIN_OF_SCORE = {
    "kube-taint-toleration": "TaintToleration",
    "kube-node-affinity": "NodeAffinity",
    "kube-topology-spread": "PodTopologySpread",
    "kube-inter-pod-affinity": "InterPodAffinity",
    "kube-resources-fit": "NodeResourcesFit",
    "balanced": "NodeResourcesBalancedAllocation",
    "kube-image-locality": "ImageLocality",
}
"""What kube-scheduler calls them."""

_BALANCED_SINCE = {36: "1.36", 22: "1.22", 0: "1.21"}
_DECLARED_FEATURES_SINCE = 36


def kubernetes_profile(version: str = "1.36") -> dict[str, Any]:
    """kube-scheduler's default profile as plain data; `version` picks what has changed between releases."""
    matched = re.fullmatch(r"v?1\.(\d+)(\.\d+)?", version)
    if matched is None:
        raise OptionError(f'kubernetes: version is "{version}"; write a Kubernetes version such as 1.36')
    minor = int(matched[1])
    formula = next(formula for since, formula in _BALANCED_SINCE.items() if minor >= since)
    return {
        "name": "kubernetes",
        "filters": [name for name in FILTERS if name != "kube-declared-features" or minor >= _DECLARED_FEATURES_SINCE],
        "scores": [
            {"policy": name, "weight": weight, **({"version": formula} if name == "balanced" else {})}
            for name, weight in SCORES.items()
        ],
    }
