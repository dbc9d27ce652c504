"""What a lab is asked to be."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from foresail.errors import OptionError
from foresail.kube.objects.quantity import QuantityError, nano

_MOST_KUBELETS = 200


@dataclass(frozen=True)
class LabSettings:
    """The shape of a lab; two `up`s of one lab must agree on it."""

    fake_nodes: int = 0
    """Nodes that only exist in the API; KWOK keeps them Ready and plays their pods."""
    fake_cpu: str = "32"
    """CPU of a fake node, as Kubernetes writes it."""
    fake_memory: str = "256Gi"
    """Memory of a fake node, as Kubernetes writes it."""
    fake_pods: int = 110
    """Pods that fit a fake node."""
    kubelets: int = 0
    """Real kubelets, each with a containerd of its own; needs root."""
    node_cpu: str = "500m"
    """CPU of a kubelet's node: what it offers, and what its pods get together at most."""
    workload_image: bool = False
    """Whether the kubelets' nodes have the image with Python, numpy, stress-ng and iperf3; 220 MB a node."""
    scheduler: bool = True
    """Whether kube-scheduler runs."""
    controllers: bool = True
    """Whether kube-controller-manager and KWOK run; without them nobody changes what you make but the scheduler."""
    zookeeper: bool = False
    """Whether a ZooKeeper runs beside."""
    apiserver_flags: tuple[str, ...] = ()
    """More flags for kube-apiserver, such as --runtime-config=…"""
    scheduler_flags: tuple[str, ...] = ()
    """More flags for kube-scheduler, such as --vmodule=…"""
    scheduler_config: str = ""
    """A KubeSchedulerConfiguration for kube-scheduler, as YAML or JSON; empty for none."""

    @property
    def node_cpu_milli(self) -> int:
        return cpu_milli(self.node_cpu)

    def check(self) -> None:
        if self.fake_nodes < 0:
            raise OptionError(f"--fake-nodes is {self.fake_nodes}; write 0 or more")
        for option, text in (("--fake-cpu", self.fake_cpu), ("--fake-memory", self.fake_memory)):
            if not _is_amount(text):
                raise OptionError(f'{option} is "{text}"; write an amount as Kubernetes does, such as 32 or 256Gi')
        if not self.controllers and (self.fake_nodes or self.kubelets):
            raise OptionError(
                "a lab without controllers has no nodes that become ready; leave fake nodes and kubelets out"
            )
        if not 0 <= self.kubelets <= _MOST_KUBELETS:
            raise OptionError(f"--kubelets is {self.kubelets}; write 0 to {_MOST_KUBELETS}")
        if self.workload_image and not self.kubelets:
            raise OptionError("--workload-image is for real nodes; add --kubelets 1 or more, or leave it out")
        if self.kubelets:
            machine_milli = 1000 * (os.cpu_count() or 1)
            if not 100 <= self.node_cpu_milli <= machine_milli:
                raise OptionError(
                    f'--node-cpu is "{self.node_cpu}"; write 100m to {machine_milli}m, what this machine has'
                )
            if os.geteuid() != 0:
                raise OptionError("--kubelets needs root (cgroups, mounts, bridges); run as root or leave it out")

    def as_dict(self) -> dict[str, Any]:
        """The settings as JSON gives them back."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def settings_from(stored: dict[str, Any]) -> LabSettings:
    """The settings that a state file holds."""
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    return LabSettings(**fields)


def _is_amount(text: str) -> bool:
    try:
        return nano(text) >= 0
    except QuantityError:
        return False


def cpu_milli(text: str) -> int:
    """A Kubernetes CPU amount ("500m", "0.5", "2") in thousandths of a core."""
    try:
        amount = int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)
    except (ValueError, OverflowError):
        raise OptionError(f'--node-cpu is "{text}"; write cores as 2 or 0.5, or thousandths as 500m') from None
    return amount
