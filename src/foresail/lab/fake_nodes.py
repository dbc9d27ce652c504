"""Nodes that only exist in the API: KWOK keeps them Ready and plays the life of their pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foresail.kube.api.kinds import NODE
from foresail.lab import components
from foresail.lab.settings import LabSettings
from foresail.lab.site import Site

DURATION_S = "foresail.dev/duration-s"
"""Annotation: a pod on a fake node succeeds this many seconds after it started; without it, it runs until deleted."""
FAKE = "kwok.x-k8s.io/node"
"""Annotation: KWOK plays every node that carries it with the value "fake", whoever made the node."""
_LEASE_S = 80
"""KWOK renews a lease when a quarter of it is over."""

_NODE_STATUS = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
addresses:
- type: InternalIP
  address: {{ NodeIP | Quote }}
- type: Hostname
  address: {{ .metadata.name | Quote }}
daemonEndpoints:
  kubeletEndpoint:
    Port: {{ NodePort }}
phase: Running
"""
_STARTED = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
{{ range $type := list "PodReadyToStartContainers" "Initialized" "ContainersReady" "Ready" }}
- type: {{ $type | Quote }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
{{ with NodeIPWith .spec.nodeName }}
hostIP: {{ . | Quote }}
hostIPs:
- ip: {{ . | Quote }}
{{ end }}
{{ with .spec.initContainers }}
initContainerStatuses:
{{ range . }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  restartCount: 0
  {{ if eq (default "" .restartPolicy) "Always" }}
  started: true
  state:
    running:
      startedAt: {{ $now | Quote }}
  {{ else }}
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
  {{ end }}
{{ end }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
"""
_SUCCEEDED = """
{{ $now := Now }}
{{ $started := .status.startTime }}
phase: Succeeded
conditions:
{{ range $type := list "ContainersReady" "Ready" }}
- type: {{ $type | Quote }}
  status: "False"
  reason: PodCompleted
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $started | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
"""
_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'
_DELETED = ".metadata.deletionTimestamp"
_DURATION = f'.metadata.annotations["{DURATION_S}"]'


def start(site: Site) -> None:
    """Start KWOK and make the nodes that are not there yet."""
    config = site.folder / "kwok.yaml"
    config.write_text("\n---\n".join(json.dumps(stage, indent=1) for stage in stages()), encoding="utf-8")
    site.start("kwok", _kwok(site, config))
    settings = site.settings
    if settings.fake_nodes:
        site.show(f"making {settings.fake_nodes} fake nodes")
    with site.api() as api:
        there = {found["metadata"]["name"] for found in api.items(NODE.path)}
        for index in range(settings.fake_nodes):
            made = node(index, settings)
            if made["metadata"]["name"] not in there:
                api.create(NODE.path, made)


def node(index: int, settings: LabSettings) -> dict[str, Any]:
    """A node object that KWOK plays."""
    name = f"fake-{index:05}"
    capacity = {"cpu": settings.fake_cpu, "memory": settings.fake_memory, "pods": str(settings.fake_pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE: "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
            },
        },
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": f"v{components.KUBERNETES_VERSION}",
                "containerRuntimeVersion": f"kwok://{components.KWOK_VERSION}",
                **dict.fromkeys(
                    ("bootID", "kernelVersion", "kubeProxyVersion", "machineID", "osImage", "systemUUID"), ""
                ),
            },
        },
    }


def stages() -> list[dict[str, Any]]:
    """The lives that KWOK plays, as its Stage objects."""
    return [
        _stage("node-ready", "Node", [_is(_READY, "NotIn", "True")], {"statusTemplate": _NODE_STATUS}),
        _stage(
            "pod-start",
            "Pod",
            [_is(_DELETED, "DoesNotExist"), _is(".status.phase", "In", "Pending")],
            {"statusTemplate": _STARTED},
        ),
        _stage(
            "pod-succeed",
            "Pod",
            [_is(_DELETED, "DoesNotExist"), _is(".status.phase", "In", "Running"), _is(_DURATION, "Exists")],
            {"statusTemplate": _SUCCEEDED},
            delay={"durationFrom": {"expressionFrom": f'{_DURATION} + "s"'}},
        ),
        _stage("pod-delete", "Pod", [_is(_DELETED, "Exists")], {"finalizers": {"empty": True}, "delete": True}),
    ]


def _stage(
    name: str, kind: str, matching: list[dict[str, Any]], then: dict[str, Any], delay: dict[str, Any] | None = None
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": matching},
        "next": then,
    }
    if delay is not None:
        spec["delay"] = delay
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _is(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _kwok(site: Site, config: Path) -> list[str | Path]:
    port, certificates = site.state.ports["kwok"], site.certificates
    return [
        components.need("kwok"),
        f"--kubeconfig={site.kubeconfig('kwok')}",
        f"--config={config}",
        f"--manage-nodes-with-annotation-selector={FAKE}=fake",
        # The lease, renewed by KWOK, is what keeps a node Ready for the controller manager.
        f"--node-lease-duration-seconds={_LEASE_S}",
        # At INFO it writes a line for every lease and every pod.
        "--v=WARN",
        "--node-ip=127.0.0.1",
        f"--node-port={port}",
        f"--server-address=127.0.0.1:{port}",
        f"--tls-cert-file={certificates.certificate('kwok')}",
        f"--tls-private-key-file={certificates.key('kwok')}",
    ]
