"""The objects of a job: a pod a task, all of one gang, and the right to meet at the barrier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foresail.core.control import SUPERSTEPS_JOB, SUPERSTEPS_TASK
from foresail.kube.objects.values import GANG, GANG_MIN, Object
from foresail.live.supersteps.job import GangTask
from foresail.live.supersteps.settings import GangSettings

RUN = "foresail.dev/superstep-run"
"""Annotation of a pod: which run of the job it belongs to."""
ACCOUNT = "foresail-supersteps"
"""The service account of tasks that meet on Leases."""
_GRACE_S = 5
_USER = 65532
"""Nobody's number: work needs no rights, and a namespace may allow none."""
_RIGHTS = ("get", "list", "watch", "create", "update", "patch")
_RBAC = "rbac.authorization.k8s.io"


def pod_name(job: str, task: str) -> str:
    """One name a task: of two pods that are made for it, the API server refuses one."""
    return f"{job}-{task}"


def task_pod(
    job: str, run: str, task: GangTask, cpu_milli: int, members: int, board: str, settings: GangSettings
) -> Object:
    """The pod of a task. Request and limit are the same, so that its CPU is exactly what it is given."""
    amounts = {"cpu": f"{cpu_milli}m", "memory": settings.memory}
    uses_leases = board.startswith("lease://")
    arguments = ["--board", board, "--task", task.name, "--run", run, "--method", task.method]
    arguments += ["--modifier", f"{task.modifier:g}", "--workers", str(task.workers)]
    arguments += ["--timeout-s", f"{settings.superstep_within_s + settings.start_within_s:g}"]
    arguments += ["--work-timeout-s", f"{settings.superstep_within_s:g}"]
    if settings.api_server and uses_leases:
        arguments += ["--api-server", settings.api_server]
    spec: Object = {
        "schedulerName": settings.scheduler,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE_S,
        "automountServiceAccountToken": uses_leases,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "task",
                "image": settings.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-m", "foresail.workloads.supersteps.task", *arguments],
                "env": [{"name": "FORESAIL_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
                "resources": {"requests": amounts, "limits": dict(amounts)},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }
    if uses_leases:
        spec["serviceAccountName"] = ACCOUNT
    if settings.host_network:
        spec["hostNetwork"] = True
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(job, task.name),
            "namespace": settings.namespace,
            "labels": {SUPERSTEPS_JOB: job, SUPERSTEPS_TASK: task.name, GANG: job},
            "annotations": {
                SUPERSTEPS_JOB: job,
                SUPERSTEPS_TASK: task.name,
                RUN: run,
                GANG_MIN: str(members),
            },
        },
        "spec": spec,
    }


def lease_rights(namespace: str) -> Iterator[tuple[str, Object]]:
    """Where to make what, so that tasks may read and write Leases of their namespace."""
    about = {"name": ACCOUNT, "namespace": namespace}
    roles = f"/apis/{_RBAC}/v1/namespaces/{namespace}"
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": list(_RIGHTS)}
    yield f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": about}
    yield f"{roles}/roles", {"metadata": about, "rules": [rule]}
    yield (
        f"{roles}/rolebindings",
        {
            "metadata": about,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", **about}],
        },
    )


def cpu_milli_of(pod: Object) -> int:
    """What a task's pod requests."""
    text = str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    return int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)


def why_not_running(pod: Object) -> str:
    """What keeps a pod from working, in its own words; empty if nothing does."""
    status = pod.get("status") or {}
    for one in status.get("containerStatuses") or ():
        state = one.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended:
            said = " ".join(str(ended.get("message") or ended.get("reason") or "").split())
            return f"ended with {ended.get('exitCode')}{f' ({said[-300:]})' if said else ''}"
        if waiting:
            return f"{waiting.get('reason', 'waits')} {waiting.get('message', '')}".strip()
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return f"{one.get('reason', '')} {one.get('message', '')}".strip()
    if status.get("reason"):
        return f"{status['reason']} {status.get('message', '')}".strip()
    return "" if status.get("phase") == "Running" else f"its phase is {status.get('phase', 'unknown')}"


def labelled(job: str) -> str:
    """The selector of a job's pods."""
    return f"{SUPERSTEPS_JOB}={job}"


def by_task(pods: Sequence[Object]) -> dict[str, Object]:
    return {pod["metadata"]["labels"].get(SUPERSTEPS_TASK, ""): pod for pod in pods}
