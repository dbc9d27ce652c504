"""Real nodes on one machine: each kubelet with a containerd, bridge, subnet and control group of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foresail.errors import OptionError
from foresail.lab import cgroups, components, images, network, packages, workload_image
from foresail.lab.certificates import Identity
from foresail.lab.errors import LabError
from foresail.lab.ports import free_network, free_ports
from foresail.lab.site import Site
from foresail.lab.state import all_labs, locked

_LONGEST_SOCKET = 100
"""Linux allows 107 bytes; containerd appends to its own."""
_IMPORTED_S = 300.0
"""A large image on a slow disk, with other nodes importing it too."""
OUTSIDE = ("/var/lib/kubelet", "/var/lib/cni", "/run/containerd", "/etc/cni", "/var/log/containers")
"""Folders that kubelet, containerd and CNI make whatever their flags say."""
KERNEL_SETTINGS = tuple(
    f"/proc/sys/{name}"
    for name in (
        "net/ipv4/ip_forward",  # CNI, for every bridge that is a gateway
        "vm/overcommit_memory",  # this and the next: kubelet, at every start
        "vm/panic_on_oom",
        "kernel/panic",
        "kernel/panic_on_oops",
        "kernel/keys/root_maxkeys",
        "kernel/keys/root_maxbytes",
    )
)


@dataclass(frozen=True)
class KubeletNode:
    """Where one of the lab's real nodes keeps its things."""

    site: Site
    index: int

    @property
    def name(self) -> str:
        return f"{self.site.state.name}-kubelet-{self.index}"

    @property
    def folder(self) -> Path:
        return self.site.folder / "nodes" / str(self.index)

    @property
    def cgroup(self) -> str:
        return f"/foresail-{self.site.state.lab_id}/{self.index}"

    @property
    def bridge(self) -> str:
        return network.bridge_name(self.site.state.lab_id, self.index)

    @property
    def containerd(self) -> str:
        """Component name of its containerd."""
        return f"containerd-{self.index}"

    @property
    def kubelet(self) -> str:
        """Component name of its kubelet."""
        return f"kubelet-{self.index}"

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    @property
    def address(self) -> str:
        return str(network.gateway(self.site.state.network, self.index).ip)


def nodes_of(site: Site) -> list[KubeletNode]:
    return [KubeletNode(site, index) for index in range(site.settings.kubelets)]


def start(site: Site) -> None:
    """Start every node's containerd and kubelet."""
    nodes = nodes_of(site)
    if len(str(nodes[-1].socket)) > _LONGEST_SOCKET:
        raise OptionError(f"{site.folder} is too long a path for sockets below it; name a shorter one with --dir")
    with locked(site.folder.parent, "all labs", wait=True):
        _reserve(site, nodes)
    for node in nodes:
        network.make_bridge(node.bridge, network.gateway(site.state.network, node.index))
        cgroups.make(node.cgroup, cpu_limit_milli=site.settings.node_cpu_milli)
        _write_files(node)
    archive = site.folder / "images.tar"
    if not archive.is_file():
        images.write_archive(archive, images.find_busybox())
    archives = {images.BASE_IMAGE: archive, images.PAUSE_IMAGE: archive}
    if site.settings.workload_image:
        archives[workload_image.WORKLOAD_IMAGE] = workload_image.make(lambda step, _done, _total: site.show(step))
    for node in nodes:
        site.start(node.containerd, [components.need("containerd"), "--config", node.folder / "containerd.toml"])
    for node in nodes:
        site.wait("containerd answered", lambda node=node: _answers(node), node.containerd)  # type: ignore[misc]  # mypy cannot type a lambda's default
        _import(node, archives)
        site.start(node.kubelet, _kubelet(node))


def _reserve(site: Site, nodes: Sequence[KubeletNode]) -> None:
    """Choose what no other lab uses and write it down before any of it is made."""
    state, base = site.state, site.folder.parent
    if not state.network:
        others = [other for name, other in all_labs(base).items() if name != state.name]
        taken = [other.network for other in others if other.network]
        state.network = str(free_network([*network.routes(), *taken]))
        state.ports |= dict(zip((f"healthz-{node.index}" for node in nodes), free_ports(len(nodes)), strict=True))
        # What another lab made goes with the last lab that needs it.
        theirs = {path for other in others for path in other.made_paths}
        state.made_paths = [path for path in OUTSIDE if path in theirs or not Path(path).exists()]
        earlier = [other.kernel_settings_were for other in others if other.kernel_settings_were]
        state.kernel_settings_were = (earlier or [_kernel_settings()])[0]
    state.bridges = [node.bridge for node in nodes]
    state.cgroups = [f"/foresail-{state.lab_id}"]
    site.record()


def _kernel_settings() -> dict[str, str]:
    return {path: Path(path).read_text(encoding="ascii").strip() for path in KERNEL_SETTINGS if Path(path).is_file()}


def _write_files(node: KubeletNode) -> None:
    site, folder = node.site, node.folder
    for name in ("kubelet", "pod-logs", "plugins", "cni", "containerd", "run"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    site.certificates.make(
        Identity(node.name, f"system:node:{node.name}", ("system:nodes",), (f"IP:{node.address}", f"DNS:{node.name}"))
    )
    cni = network.cni_config(node.bridge, site.state.network, node.index, site.settings.kubelets, folder / "addresses")
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(cni, indent=1), encoding="utf-8")
    (folder / "containerd.toml").write_text(containerd_config(folder, node.socket), encoding="utf-8")
    (folder / "kubelet.json").write_text(json.dumps(kubelet_config(node), indent=1), encoding="utf-8")
    # Pods ask no name server: none outside may be asked, and the lab runs none.
    (folder / "resolv.conf").write_text("", encoding="utf-8")


def containerd_config(folder: Path, socket: Path) -> str:
    """A containerd that shares nothing with another one."""
    # JSON strings are TOML strings.
    text = {name: json.dumps(str(folder / name)) for name in ("containerd", "run", "cni", "opt", "runc")}
    cni_programs = packages.cni_folder() or packages.CNI_FOLDERS[0]
    return f"""version = 2
root = {text["containerd"]}
state = {text["run"]}
oom_score = 0
disabled_plugins = ["io.containerd.internal.v1.restart", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = {json.dumps(str(socket))}
[ttrpc]
address = {json.dumps(f"{socket}.ttrpc")}
[plugins."io.containerd.internal.v1.opt"]
path = {text["opt"]}
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = {json.dumps(images.PAUSE_IMAGE)}
# Without CAP_SYS_RESOURCE runc cannot lower a score and dies with a misleading message.
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
# Below the lab's folder, where `down` looks, instead of /run/netns.
netns_mounts_under_state_dir = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {json.dumps(str(cni_programs))}
conf_dir = {text["cni"]}
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = {text["runc"]}
SystemdCgroup = false
"""


def kubelet_config(node: KubeletNode) -> dict[str, Any]:
    """A KubeletConfiguration for one of several kubelets of a machine."""
    site, folder = node.site, node.folder
    certificates = site.certificates
    machine_milli = 1000 * (os.cpu_count() or 1)
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "port": 10250,
        "readOnlyPort": 0,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": site.state.ports[f"healthz-{node.index}"],
        "tlsCertFile": str(certificates.certificate(node.name)),
        "tlsPrivateKeyFile": str(certificates.key(node.name)),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(certificates.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": node.cgroup,
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": False,
        "podLogsDir": str(folder / "pod-logs"),
        "volumePluginDir": str(folder / "plugins"),
        "resolvConf": str(folder / "resolv.conf"),
        # The disk is the machine's, not the node's: only a disk that is all but full may evict.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        # A kubelet reports the whole machine; the rest of it is not the node's.
        "systemReserved": {"cpu": f"{machine_milli - site.settings.node_cpu_milli}m"},
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "nodeStatusUpdateFrequency": "5s",
    }
    if not cgroups.hierarchies()[0].v2:
        config["failCgroupV1"] = False
    return config


def _kubelet(node: KubeletNode) -> list[str | Path]:
    return [
        components.need("kubelet"),
        f"--config={node.folder / 'kubelet.json'}",
        f"--kubeconfig={node.site.kubeconfig(node.name)}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        f"--root-dir={node.folder / 'kubelet'}",
        f"--cert-dir={node.folder / 'kubelet' / 'pki'}",
        f"--node-labels=foresail.dev/lab={node.site.state.name}",
    ]


def _answers(node: KubeletNode) -> bool:
    with suppress(LabError):
        ctr(node, "version")
        return True
    return False


def _import(node: KubeletNode, archives: Mapping[str, Path]) -> None:
    """Bring in the images, by name, that the node has not got yet."""
    there = set(ctr(node, "-n", "k8s.io", "images", "list", "-q").split())
    for archive in sorted({archive for name, archive in archives.items() if name not in there}):
        ctr(node, "-n", "k8s.io", "images", "import", str(archive), within_s=_IMPORTED_S)


def ctr(node: KubeletNode, *arguments: str, within_s: float = 60.0) -> str:
    """Ask a node's containerd."""
    command = [str(components.need("ctr")), "--address", str(node.socket), *arguments]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=within_s)  # noqa: S603 - as written here
    except subprocess.TimeoutExpired:
        raise LabError(f"ctr {' '.join(arguments)} took longer than {within_s:g} s") from None
    if ran.returncode:
        raise LabError(f"ctr {' '.join(arguments)} failed: {ran.stderr.strip()[-500:]}")
    return ran.stdout
