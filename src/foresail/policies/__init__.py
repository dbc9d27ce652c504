"""Where a pod goes: every filter, score and device rule by name. Knows the core's contract, no world and no clock.

Other packages add theirs with an entry point in the group `foresail.policies`.
"""

from __future__ import annotations

from typing import Any

from foresail.plugins.registry import PluginKind, Registry

POLICIES = {
    "balanced": "foresail.policies.plain.balanced:Balanced",
    "best-fit": "foresail.policies.gpu_sharing.best_fit:BestFit",
    "dot-product": "foresail.policies.gpu_sharing.dot_product:DotProduct",
    "fgd": "foresail.policies.gpu_sharing.fgd:Fgd",
    "gpu-clustering": "foresail.policies.gpu_sharing.gpu_clustering:GpuClustering",
    "gpu-packing": "foresail.policies.gpu_sharing.gpu_packing:GpuPacking",
    "kube-image-locality": "foresail.policies.kubernetes.image_locality:KubeImageLocality",
    "kube-inter-pod-affinity": "foresail.policies.kubernetes.inter_pod_affinity:KubeInterPodAffinityScore",
    "kube-node-affinity": "foresail.policies.kubernetes.node_affinity:KubeNodeAffinityScore",
    "kube-resources-fit": "foresail.policies.kubernetes.resources_fit:KubeResourcesFitScore",
    "kube-taint-toleration": "foresail.policies.kubernetes.taint_toleration:KubeTaintTolerationScore",
    "kube-topology-spread": "foresail.policies.kubernetes.topology_spread:KubeTopologySpreadScore",
    "least-allocated": "foresail.policies.plain.least_allocated:LeastAllocated",
    "most-allocated": "foresail.policies.plain.most_allocated:MostAllocated",
    "power": "foresail.policies.gpu_sharing.power:Power",
    "progress": "foresail.policies.training.progress:ProgressPlacement",
    "rack-pack": "foresail.policies.racks.rack_pack:RackPack",
    "rack-spread": "foresail.policies.racks.rack_spread:RackSpread",
    "random": "foresail.policies.plain.random:Random",
    "simon": "foresail.policies.gpu_sharing.simon:Simon",
}
FILTERS = {
    "schedulable": "foresail.policies.plain.fit:Schedulable",
    "taints": "foresail.policies.plain.fit:Taints",
    "node-selector": "foresail.policies.plain.fit:NodeSelector",
    "fit": "foresail.policies.plain.fit:Fit",
    "kube-pre-filter": "foresail.policies.kubernetes.pre_filter:KubePreFilter",
    "kube-node-unschedulable": "foresail.policies.kubernetes.node_unschedulable:KubeNodeUnschedulable",
    "kube-taint-toleration": "foresail.policies.kubernetes.taint_toleration:KubeTaintTolerationFilter",
    "kube-node-affinity": "foresail.policies.kubernetes.node_affinity:KubeNodeAffinityFilter",
    "kube-node-ports": "foresail.policies.kubernetes.node_ports:KubeNodePorts",
    "kube-resources-fit": "foresail.policies.kubernetes.resources_fit:KubeResourcesFitFilter",
    "kube-volume-restrictions": "foresail.policies.kubernetes.volume_restrictions:KubeVolumeRestrictions",
    "kube-volume-limits": "foresail.policies.kubernetes.volume_limits:KubeVolumeLimits",
    "kube-volume-binding": "foresail.policies.kubernetes.volume_binding:KubeVolumeBinding",
    "kube-volume-zone": "foresail.policies.kubernetes.volume_zone:KubeVolumeZone",
    "kube-topology-spread": "foresail.policies.kubernetes.topology_spread:KubeTopologySpreadFilter",
    "kube-inter-pod-affinity": "foresail.policies.kubernetes.inter_pod_affinity:KubeInterPodAffinityFilter",
    "kube-declared-features": "foresail.policies.kubernetes.declared_features:KubeDeclaredFeatures",
}
DEVICE_RULES = {
    "least-sufficient": "foresail.policies.plain.devices:LeastSufficient",
    "most-free": "foresail.policies.plain.devices:MostFree",
    "random": "foresail.policies.plain.devices:RandomDevice",
}

REGISTRY = Registry(
    "foresail.policies",
    "foresail policies",
    [
        PluginKind("policy", POLICIES, ("score",)),
        PluginKind("filter", FILTERS, ("passes", "refuses")),
        PluginKind("device rule", DEVICE_RULES, ("devices",)),
    ],
)


def policy(name: str, **options: Any) -> Any:
    """Make a fresh scoring policy."""
    return REGISTRY.build("policy", name, options)
