"""Record what a real API server tells about a busy little cluster: python tests/live/record.py

Writes streams/busy.jsonl: a line with the list of each watch, then its events in their order, then a line with what an
all-new list says in the end. Fields that placing pods never looks at are left out to keep the file small.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.errors import ApiError
from foresail.kube.api.kinds import KINDS
from foresail.lab import Lab

STREAM = Path(__file__).parent / "streams" / "busy.jsonl"
GANGS_ON = (
    "--feature-gates=GenericWorkload=true",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)
PODS = "/api/v1/namespaces/default/pods"
NOISE = {
    "metadata": ("managedFields", "selfLink"),
    "status": ("nodeInfo", "addresses", "hostIPs", "podIPs", "daemonEndpoints", "runtimeHandlers"),
    "spec": ("securityContext", "dnsPolicy", "enableServiceLinks", "template", "podCIDR", "podCIDRs"),
}


def record() -> None:
    lines: list[dict[str, Any]] = []
    with Lab(fake_nodes=4, fake_cpu="4", apiserver_flags=GANGS_ON) as lab, lab.api() as api:
        since = {}
        for name, kind in KINDS.items():
            try:
                found = api.get(kind.path)
            except ApiError:
                if not kind.optional:
                    raise
                continue
            since[name] = found["metadata"]["resourceVersion"]
            lines.append({"watch": name, "list": [trimmed(value) for value in found["items"]]})
        live_through(api)
        for name, version in since.items():
            text = api.text(f"{KINDS[name].path}?watch=1&resourceVersion={version}&timeoutSeconds=3")
            for line in text.splitlines():
                event = json.loads(line)
                lines.append({"watch": name, "event": event["type"], "object": trimmed(event["object"])})
        # Leases aside, nothing changes by itself any more; a node's heartbeat does not matter to the comparison.
        lines += [
            {"watch": name, "truth": [trimmed(value) for value in api.items(KINDS[name].path)]}
            for name in ("Node", "Pod")
        ]
    STREAM.parent.mkdir(exist_ok=True)
    STREAM.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
    print(f"{STREAM}: {len(lines)} lines, {STREAM.stat().st_size} bytes")


def trimmed(value: dict[str, Any]) -> dict[str, Any]:
    return {
        part: {name: inner for name, inner in inside.items() if name not in NOISE.get(part, ())}
        if isinstance(inside, dict)
        else inside
        for part, inside in value.items()
        if part not in {"apiVersion", "kind"}
    }


def live_through(api: BlockingClient) -> None:
    """A deployment that grows and shrinks, a gang, new labels, a cordon, a node that goes and one that changes."""
    api.create("/apis/apps/v1/namespaces/default/deployments", deployment("web", 6))
    wait_for(api, 6)
    api.create(
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {"metadata": {"name": "web"}, "spec": {"minAvailable": 4, "selector": {"matchLabels": {"app": "web"}}}},
    )
    api.create(
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
    )
    api.create(
        "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups",
        {"metadata": {"name": "train"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}},
    )
    for number in range(2):
        spec = {"schedulingGroup": {"podGroupName": "train"}, "schedulerName": "foresail", "containers": containers()}
        api.create(PODS, {"metadata": {"name": f"train-{number}"}, "spec": spec})
    nodes = [node["metadata"]["name"] for node in api.items("/api/v1/nodes")]
    api.patch(f"/api/v1/nodes/{nodes[1]}", {"spec": {"unschedulable": True}, "metadata": {"labels": {"disk": "ssd"}}})
    bind(api, "train-0", nodes[0], {"foresail.dev/gpu-devices": "0"})
    web = next(pod["metadata"]["name"] for pod in api.items(PODS) if pod["metadata"]["name"].startswith("web"))
    api.patch(f"{PODS}/{web}", {"metadata": {"labels": {"canary": "yes"}}})
    api.create(PODS, {"metadata": {"name": "huge"}, "spec": {"containers": containers("64")}})
    api.patch("/apis/apps/v1/namespaces/default/deployments/web", {"spec": {"replicas": 3}})
    wait_for(api, 3)
    api.delete(f"/api/v1/nodes/{nodes[3]}")
    api.delete(f"{PODS}/train-1")


def bind(api: BlockingClient, name: str, node: str, annotations: dict[str, str]) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": annotations}}
    api.create(f"{PODS}/{name}/binding", {**body, "target": target})


def wait_for(api: BlockingClient, count: int) -> None:
    api.wait(
        "/apis/apps/v1/namespaces/default/deployments/web",
        lambda found: (
            found.get("status", {}).get("readyReplicas") == count and found["status"].get("replicas") == count
        ),
    )


def containers(cpu: str = "500m") -> list[dict[str, Any]]:
    return [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]


def deployment(name: str, replicas: int) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers()}},
        },
    }


if __name__ == "__main__":
    record()
